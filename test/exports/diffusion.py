"""Diffusion: U-Nets, transformers and autoencoders of diffusers with random weights."""
import diffusers
import torch
from torch import nn

from spec import model, sized

WIDTHS, SIDE = sized((64, 128), (16, 32)), sized(32, 8)
SIZES = [{"batch": 1, "height": SIDE, "width": SIDE}, {"batch": 2, "height": SIDE // 2, "width": SIDE}]
PIXELS = {0: "batch", 2: "height", 3: "width"}


class Sample(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *values):
        return self.inner(*values, return_dict=False)[0]


def conditioned(batch, height, width):
    return torch.randn(batch, 4, height, width), torch.tensor([7] * batch), torch.randn(batch, 9, 32)


@model("diffusion_unet", conditioned, SIZES, ["sample", "timestep", "text"], ["noise"],
       dynamic={"sample": PIXELS, "timestep": {0: "batch"}, "text": {0: "batch"}})
def diffusion_unet():
    return Sample(diffusers.UNet2DConditionModel(sample_size=SIDE, block_out_channels=WIDTHS, layers_per_block=1, cross_attention_dim=32,
                                                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                                 up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), attention_head_dim=sized(4, 2),
                                                 norm_num_groups=8))


@model("diffusion_unet_plain", lambda batch, height, width: (torch.randn(batch, 3, height, width), torch.tensor([7] * batch)), SIZES,
       ["sample", "timestep"], ["noise"], dynamic={"sample": PIXELS, "timestep": {0: "batch"}})
def diffusion_unet_plain():
    return Sample(diffusers.UNet2DModel(block_out_channels=WIDTHS, layers_per_block=1, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                        up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8, attention_head_dim=8))


class Decode(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner.decode(x, return_dict=False)[0]


class Encode(Decode):
    def forward(self, x):
        return self.inner.encode(x).latent_dist.mode()


def autoencoder():
    return diffusers.AutoencoderKL(block_out_channels=WIDTHS, layers_per_block=1, latent_channels=4, norm_num_groups=8,
                                   down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)


@model("vae_decoder", lambda batch, height, width: (torch.randn(batch, 4, height, width),), SIZES, ["latent"], ["image"],
       dynamic={"latent": PIXELS})
def vae_decoder():
    return Decode(autoencoder())


@model("vae_encoder", lambda batch, height, width: (torch.randn(batch, 3, 2 * height, 2 * width),), SIZES, ["image"], ["latent"],
       dynamic={"image": PIXELS})
def vae_encoder():
    return Encode(autoencoder())


@model("vq_decoder", lambda batch, height, width: (torch.randn(batch, 3, height, width),), SIZES, ["image"], ["image_again"],
       dynamic={"image": PIXELS})
def vq_decoder():
    return Sample(diffusers.VQModel(block_out_channels=WIDTHS, layers_per_block=1, norm_num_groups=8, num_vq_embeddings=32,
                                    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2))


@model("diffusion_transformer", lambda batch: (torch.randn(batch, 4, SIDE, SIDE), torch.tensor([7] * batch), torch.tensor([3] * batch)),
       [{"batch": 1}, {"batch": 2}], ["sample", "timestep", "label"], ["noise"],
       dynamic={n: {0: "batch"} for n in ("sample", "timestep", "label")})
def diffusion_transformer():
    inner = diffusers.DiTTransformer2DModel(num_attention_heads=sized(4, 2), attention_head_dim=sized(32, 8), in_channels=4, num_layers=2,
                                            sample_size=SIDE, patch_size=2, num_embeds_ada_norm=10)

    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, sample, timestep, label):
            return self.inner(sample, timestep=timestep, class_labels=label, return_dict=False)[0]
    return Called()


def joint(batch):
    return torch.randn(batch, 4, SIDE, SIDE), torch.randn(batch, 9, 32), torch.randn(batch, 24), torch.tensor([7.0] * batch)


@model("sd3_transformer", joint, [{"batch": 1}, {"batch": 2}], ["sample", "text", "pooled", "timestep"], ["noise"],
       dynamic={n: {0: "batch"} for n in ("sample", "text", "pooled", "timestep")})
def sd3_transformer():
    return Sample(diffusers.SD3Transformer2DModel(sample_size=SIDE, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=sized(32, 8),
                                                  num_attention_heads=sized(4, 2), joint_attention_dim=32,
                                                  caption_projection_dim=sized(128, 16), pooled_projection_dim=24, out_channels=4))


def flux(batch):
    return (torch.randn(batch, 16, 16), torch.randn(batch, 9, 32), torch.randn(batch, 24), torch.tensor([0.7] * batch),
            torch.randint(0, 4, (16, 3)).float(), torch.zeros(9, 3))


@model("flux_transformer", flux, [{"batch": 1}, {"batch": 2}], ["sample", "text", "pooled", "timestep", "image_places", "text_places"],
       ["noise"], dynamic={n: {0: "batch"} for n in ("sample", "text", "pooled", "timestep")})
def flux_transformer():
    return Sample(diffusers.FluxTransformer2DModel(patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                                   num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=24,
                                                   axes_dims_rope=(4, 4, 8)))
