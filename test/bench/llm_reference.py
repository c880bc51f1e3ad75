"""The logits of llm_model.py's decoder with activations quantised in the run (DynamicQuantizeLinear, MatMulInteger), in double
precision, operator by operator as the standard's text has them.

A value that lies between two bytes goes to either when an operator before it rounds its last bit otherwise, and one flipped byte moves all
that follows. So a reference alone decides nothing: `sensitivity` says by how much it moves itself if the quantised values move by two
units in the last place of f32.
"""
import llm_model
import numpy as np

MOVED = 2.0**-22


def quantised(x):
    """DynamicQuantizeLinear: the integers without their zero point, and the step."""
    x = x.astype(np.float32)
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    step = (high - low) / np.float32(255)
    zero = np.clip(np.rint(-low / step), 0, 255)
    return (np.clip(np.rint(x / step) + zero, 0, 255) - zero).astype(np.float64), step


class Reference:
    """Of new rows after `caches` (arrays as in the model's inputs, of which the first `cached` rows count)."""

    def __init__(self, shape, ids, caches, cached):
        self.s, self.w = shape, llm_model.Weights(shape, "int8")
        self.ids, self.caches, self.cached, self.random = ids, caches, cached, None
        half = shape.head // 2
        angle = np.arange(cached, cached + len(ids))[:, None] * 10000.0 ** (-np.arange(half) / half)
        self.cos, self.sin = (f(angle).astype(np.float32).astype(np.float64)[:, None] for f in (np.cos, np.sin))

    def linear(self, x, name, n, k):
        if self.random:
            x = x * (1 + MOVED * self.random.uniform(-1, 1, x.shape))
        q, scale = self.w.quantised(name, n, k)
        x, step = quantised(x)
        return x @ q.T.astype(np.float64) * (step * scale[:, 0].astype(np.float32))

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + llm_model.EPSILON) * self.w.norm(name)

    def rotated(self, x):
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)

    def attention(self, i, h):
        s, at = self.s, f"layer{i}."
        q = self.linear(h, at + "q", s.hidden, s.hidden).reshape(-1, s.heads, s.head)
        k, v = (self.linear(h, at + n, s.kv_heads * s.head, s.hidden).reshape(-1, s.kv_heads, s.head) for n in "kv")
        new = [self.rotated(k), v]
        k, v = (np.concatenate([old[0, :, :self.cached], x.swapaxes(0, 1)], 1)
                for old, x in zip(self.caches[2 * i:2 * i + 2], new))
        hidden = np.arange(k.shape[1]) > np.arange(self.cached, k.shape[1])[:, None]
        y = np.empty_like(q)
        for head, rows in enumerate(self.rotated(q).swapaxes(0, 1)):
            of = head // (s.heads // s.kv_heads)
            scores = np.where(hidden, -np.inf, rows @ k[of].T / s.head ** 0.5)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            y[:, head] = weights / weights.sum(-1, keepdims=True) @ v[of]
        return self.linear(y.reshape(len(y), -1), at + "o", s.hidden, s.hidden)

    def logits(self, seed=None):
        """Of the last row; seed: with values moved by two units in the last place before they are quantised."""
        s, self.random = self.s, None if seed is None else np.random.default_rng(seed)
        x = self.w.embedding()[self.ids].astype(np.float64)
        for i in range(s.layers):
            at = f"layer{i}."
            x = x + self.attention(i, self.norm(x, at + "attention_norm"))
            h = self.norm(x, at + "inner_norm")
            gate, up = (self.linear(h, at + n, s.inner, s.hidden) for n in ("gate", "up"))
            x = x + self.linear(gate / (1 + np.exp(-gate)) * up, at + "down", s.hidden, s.inner)
        return self.linear(self.norm(x, "norm"), "head", s.vocabulary, s.hidden)[-1]

    def sensitivity(self, difference, count=3):
        """The reference, and the largest difference of its moved versions to it."""
        right = self.logits()
        return right, max(difference(self.logits(seed), right) for seed in range(count))
