"""Classifiers of timm with random weights, in turns from both exporters."""
import functools

import timm

from spec import SMALL, EXPORTS, Export, image, lively, sized

BATCHES = [{"batch": 1}, {"batch": 2}]
NAMES = """bat_resnext26ts botnet26t_256 caformer_s18 coat_tiny coatnet_nano_rw_224 convit_tiny convmixer_768_32 convnextv2_atto
    crossvit_9_240 cspdarknet53 davit_tiny deit3_small_patch16_224 dla34 dm_nfnet_f0 dpn68 edgenext_xx_small efficientformer_l1
    efficientformerv2_s0 efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw fastvit_t8 gernet_s ghostnetv2_100
    gmixer_24_224 gmlp_ti16_224 hardcorenas_a hgnetv2_b0 hrnet_w18_small inception_next_tiny inception_v4 lambda_resnet26t lcnet_050
    levit_128s mambaout_femto mixer_s16_224 mixnet_s mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny
    nest_tiny pit_ti_224 poolformer_s12 poolformerv2_s12 regnetx_002 regnety_002 repvgg_a0 repvit_m0_9 res2net50_26w_4s
    shvit_s1 skresnet18 starnet_s1 swiftformer_xs swinv2_cr_tiny_224 tinynet_e tnt_s_patch16_224 twins_pcpvt_small
    visformer_tiny volo_d1_224 xcit_nano_12_p16_224""".split()
# What the stand-ins of the default tests have for arguments instead of the published sizes.
LITTLE = {
    "mambaout_femto": {"dims": (16, 24, 32, 40), "depths": (1, 1, 1, 1)},
    "efficientformerv2_s0": {"img_size": 64, "embed_dims": (16, 24, 32, 48), "depths": (1, 1, 2, 2), "num_vit": 1},
}


def classifier(name, exporter):
    def build():
        return lively(timm.create_model(name, pretrained=False, num_classes=10, **(LITTLE[name] if SMALL else {})))
    size = sized(timm.get_pretrained_cfg(name).input_size[1], 64)
    EXPORTS["timm_" + name] = Export(build, functools.partial(image, height=size, width=size), BATCHES, ["image"], ["scores"],
                                     {"image": {0: "batch"}}, exporters=(exporter,))


for number, one in enumerate(NAMES):
    if not SMALL or one in LITTLE:
        classifier(one, ("legacy", "dynamo")[number % 2])
