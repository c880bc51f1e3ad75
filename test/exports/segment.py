"""Detectors and segmenters of transformers: queries that attend to an image, points, boxes and masks."""
import torch
import transformers
from torch import nn

from spec import image, lively, model, sized
from text import Part

WIDE, SIDE = sized(128, 32), sized(256, 64)
BATCH = {0: "batch"}
IMAGES = [{"batch": 1, "height": SIDE, "width": SIDE}, {"batch": 2, "height": SIDE, "width": SIDE}]
NEAR = {"encoder_layers": sized(2, 1), "decoder_layers": sized(2, 1), "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": WIDE, "decoder_ffn_dim": WIDE, "d_model": WIDE, "num_queries": sized(50, 9)}


def backbone():
    return transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, WIDE], depths=[1, 1, 1, 1], layer_type="basic",
                                     out_features=["stage2", "stage3", "stage4"])


def detector(name, kind, suffix="ForObjectDetection", outputs=("logits", "pred_boxes"), fixed=True, **options):
    """For any batch, with masks of pixels that are all set, and for one image."""
    for ending, dynamic in (("", {"image": BATCH}), ("_fixed", {}))[:2 if fixed else 1]:
        @model(name + ending, image, IMAGES if dynamic else IMAGES[:1], ["image"], list(outputs), dynamic=dynamic, rtol=2e-3)
        def build():
            config = getattr(transformers, kind + "Config")(**options)
            return Part(lively(getattr(transformers, kind + suffix)(config)), ("pixel_values",), outputs)


RESNET = {"backbone_config": backbone(), "use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}
ONE = {**RESNET, "backbone_config": transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, WIDE], depths=[1, 1, 1, 1],
                                                               layer_type="basic", out_features=["stage4"])}
detector("detr", "Detr", **NEAR, **ONE)
detector("conditional_detr", "ConditionalDetr", **NEAR, **ONE, fixed=False)
detector("deformable_detr", "DeformableDetr", **NEAR, **RESNET, num_feature_levels=4)
detector("deformable_detr_refined", "DeformableDetr", **NEAR, **RESNET, num_feature_levels=4, with_box_refine=True, two_stage=True,
         two_stage_num_proposals=sized(50, 9), fixed=False)
RT = {"encoder_hidden_dim": WIDE, "encoder_ffn_dim": WIDE, "d_model": WIDE, "num_queries": sized(50, 9), "decoder_layers": 2,
      "decoder_attention_heads": 4, "decoder_ffn_dim": WIDE, "encoder_attention_heads": 4, "anchor_image_size": None,
      "decoder_in_channels": [WIDE] * 3, "encoder_in_channels": [32, 64, WIDE], "hidden_expansion": 0.5,
      "backbone_config": transformers.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, WIDE], depths=[1, 1, 1, 1],
                                                         layer_type="basic", out_features=["stage2", "stage3", "stage4"])}
detector("rt_detr", "RTDetr", **RT)
detector("rt_detr_v2", "RTDetrV2", **RT, fixed=False)
VIT = {"hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": WIDE, "image_size": SIDE}
detector("yolos", "Yolos", **{**VIT, "image_size": [SIDE, SIDE]}, num_detection_tokens=9, fixed=False)
detector("segformer", "Segformer", "ForSemanticSegmentation", ("logits",), depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64],
         decoder_hidden_size=64, fixed=False)
detector("mask2former", "Mask2Former", "ForUniversalSegmentation", ("class_queries_logits", "masks_queries_logits"), fixed=False,
         feature_size=WIDE, mask_feature_size=WIDE, hidden_dim=WIDE, encoder_feedforward_dim=WIDE, dim_feedforward=WIDE, encoder_layers=2,
         decoder_layers=3, num_attention_heads=4, num_queries=9,
         backbone_config=transformers.SwinConfig(image_size=SIDE, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
                                                 out_features=["stage1", "stage2", "stage3", "stage4"]))
detector("maskformer", "MaskFormer", "ForInstanceSegmentation", ("class_queries_logits", "masks_queries_logits"), fixed=False,
         fpn_feature_size=WIDE, mask_feature_size=WIDE,
         backbone_config=transformers.SwinConfig(image_size=SIDE, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
                                                 out_features=["stage1", "stage2", "stage3", "stage4"]),
         decoder_config=transformers.DetrConfig(d_model=WIDE, decoder_layers=1, encoder_layers=1, decoder_ffn_dim=WIDE,
                                                encoder_ffn_dim=WIDE, num_queries=9, decoder_attention_heads=4))
detector("dpt", "DPT", "ForDepthEstimation", ("predicted_depth",), **{**VIT, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3],
         neck_hidden_sizes=[16, 32, 48, 48], fusion_hidden_size=32, fixed=False)
detector("swin2sr", "Swin2SR", "ForImageSuperResolution", ("reconstruction",), image_size=sized(64, 32), embed_dim=32, depths=[2, 2],
         num_heads=[2, 2], window_size=8, fixed=False)
detector("dinov2", "Dinov2", "Model", ("last_hidden_state",), **{**VIT, "patch_size": 16}, fixed=False)
detector("beit", "Beit", "Model", ("last_hidden_state",), **VIT, use_relative_position_bias=True, fixed=False)
detector("swinv2", "Swinv2", "Model", ("last_hidden_state",), image_size=SIDE, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=8,
         fixed=False)
detector("focalnet", "FocalNet", "Model", ("last_hidden_state",), image_size=SIDE, embed_dim=24, depths=[1, 1, 1, 1], fixed=False)
detector("pvt_v2", "PvtV2", "Model", ("last_hidden_state",), hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1],
         num_attention_heads=[1, 2, 4, 4], fixed=False)


class Segment(nn.Module):
    """SAM: an image and points in it; masks and their quality."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pixels, points, labels):
        made = self.inner(pixel_values=pixels, input_points=points, input_labels=labels, multimask_output=True)
        return made.pred_masks, made.iou_scores


def pointed(batch, points):
    return torch.randn(batch, 3, SIDE, SIDE), torch.rand(batch, 1, points, 2) * SIDE, torch.ones(batch, 1, points, dtype=torch.int64)


@model("sam", pointed, [{"batch": 1, "points": 2}, {"batch": 2, "points": 5}], ["pixels", "points", "labels"], ["masks", "quality"],
       dynamic={"pixels": BATCH, "points": {0: "batch", 2: "points"}, "labels": {0: "batch", 2: "points"}})
def sam():
    vision = {"hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": SIDE, "patch_size": 16, "mlp_dim": WIDE,
              "output_channels": 32, "window_size": 6, "global_attn_indexes": [1], "num_pos_feats": 16}
    prompt = {"hidden_size": 32, "image_size": SIDE, "patch_size": 16, "mask_input_channels": 8}
    mask = {"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 2, "iou_head_hidden_dim": 32}
    return Segment(transformers.SamModel(transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompt,
                                                                mask_decoder_config=mask)))


def clip_inputs(batch, length):
    return torch.randint(1, 60, (batch, length)), torch.randn(batch, 3, SIDE, SIDE), torch.ones(batch, length, dtype=torch.int64)


class Joint(nn.Module):
    def __init__(self, inner, outputs):
        super().__init__()
        self.inner, self.outputs = inner, outputs

    def forward(self, tokens, pixels, mask):
        made = self.inner(input_ids=tokens, pixel_values=pixels, attention_mask=mask)
        return tuple(made[n] for n in self.outputs)


PAIRS = [{"batch": 2, "length": 7}, {"batch": 3, "length": 5}]
TEXT = {"vocab_size": 64, "hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": WIDE,
        "max_position_embeddings": 16}


def pair(name, kind, suffix, outputs, **options):
    @model(name, clip_inputs, PAIRS, ["tokens", "pixels", "mask"], list(outputs),
           dynamic={"tokens": {0: "batch", 1: "length"}, "pixels": BATCH, "mask": {0: "batch", 1: "length"}})
    def build():
        return Joint(getattr(transformers, kind + suffix)(getattr(transformers, kind + "Config")(**options)), outputs)


pair("clip", "CLIP", "Model", ("logits_per_image",), text_config={**TEXT, "eos_token_id": 63}, vision_config={**VIT, "patch_size": 16},
     projection_dim=32)
pair("clipseg", "CLIPSeg", "ForImageSegmentation", ("logits",), text_config={**TEXT, "eos_token_id": 63}, vision_config={**VIT, "patch_size": 16},
     projection_dim=32, extract_layers=[0, 1], reduce_dim=32, decoder_num_attention_heads=4, decoder_intermediate_size=64)
