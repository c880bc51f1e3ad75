"""Activation functions."""
import numpy as np
from contrib_build import Case, floats, maybe, op, pick

SHAPES = ((7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33))


def activation(dice, **attributes):
    return Case([floats(dice, *pick(dice, *SHAPES), scale=3)], attributes)


@op("Gelu")
def gelu(dice):
    return activation(dice)


@op("QuickGelu")
def quick_gelu(dice):
    return activation(dice, **pick(dice, {}, {"alpha": 1.0}, {"alpha": 0.5}))


@op("ScaledSiLU")
def scaled_silu(dice):
    return activation(dice)


@op("FastGelu")
def fast_gelu(dice):
    case = activation(dice)
    case.inputs.append(maybe(dice, floats(dice, case.inputs[0].shape[-1])))
    return case


@op("BiasGelu")
def bias_gelu(dice):
    case = activation(dice)
    case.inputs.append(floats(dice, case.inputs[0].shape[-1]))
    return case
