"""The decoder: grouped attention with rotary positions, SwiGLU, a tied embedding. Its matrices are kept in blocks of 32 integers of
four bits and an f32 scale, and the end of the training computes with these."""
import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, INNER, CONTEXT = 2048, 256, 4, 8, 4, 704, 256
SIZE = WIDTH // HEADS
BLOCK = 32


def quantised(weight):
    """Integers [rows, columns] from -7 to 7 and scales [rows, columns / BLOCK]."""
    blocks = weight.view(weight.shape[0], -1, BLOCK)
    scale = blocks.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 7
    return (blocks / scale).round().view_as(weight), scale[..., 0]


class Matrix(nn.Module):
    def __init__(self, outputs, inputs, spread):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * spread)
        self.rounded = False

    def values(self):
        if not self.rounded:
            return self.weight
        integers, scale = quantised(self.weight.detach())
        near = (integers.view(*scale.shape, BLOCK) * scale[..., None]).view_as(integers)
        return self.weight + (near - self.weight).detach()  # gradients pass through the rounding

    def forward(self, x):
        return functional.linear(x, self.values())


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        spread, back = WIDTH ** -0.5, (2 * LAYERS) ** -0.5
        self.norm, self.inner_norm = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.q, self.o = Matrix(WIDTH, WIDTH, spread), Matrix(WIDTH, WIDTH, spread * back)
        self.k, self.v = (Matrix(KV_HEADS * SIZE, WIDTH, spread) for _ in range(2))
        self.gate, self.up = (Matrix(INNER, WIDTH, spread) for _ in range(2))
        self.down = Matrix(WIDTH, INNER, INNER ** -0.5 * back)


def normal(x, weight):
    return functional.rms_norm(x, (WIDTH,), weight, 1e-5)


def turned(x, cosine, sine):
    """Rotary positions: x [batch, heads, rows, SIZE]."""
    left, right = x.chunk(2, -1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Matrix(VOCABULARY, WIDTH, 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))
        angles = torch.arange(CONTEXT)[:, None] * 10000.0 ** (torch.arange(SIZE // 2) / (-SIZE // 2))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens, attend):
        """attend(i, q, k, v) is the attention of layer i: q [batch, HEADS, rows, SIZE], k and v of KV_HEADS."""
        x = functional.embedding(tokens, self.embedding.values())
        batch, rows = tokens.shape
        for i, layer in enumerate(self.layers):
            y = normal(x, layer.norm)
            q, k, v = (m(y).view(batch, rows, -1, SIZE).transpose(1, 2) for m in (layer.q, layer.k, layer.v))
            x = x + layer.o(attend(i, q, k, v).transpose(1, 2).reshape(batch, rows, WIDTH))
            y = normal(x, layer.inner_norm)
            x = x + layer.down(functional.silu(layer.gate(y)) * layer.up(y))
        return self.embedding(normal(x, self.norm))
