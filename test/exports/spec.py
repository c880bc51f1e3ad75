"""What is exported: a module, its inputs at several sizes, its dynamic dims. The files of families fill EXPORTS by `model`."""
import dataclasses
import os
import typing

import torch

EXPORTS = {}
SMALL = bool(os.environ.get("EXPORTS_SMALL"))


def sized(full, small):
    """A number of the network as it is used, or of its stand-in in the default tests."""
    return small if SMALL else full


@dataclasses.dataclass
class Export:
    build: typing.Callable  # () -> torch.nn.Module
    inputs: typing.Callable  # (**size) -> the example inputs, in order
    sizes: list  # the sizes at which answers are compared; the first is exported and timed
    input_names: list
    output_names: list
    dynamic: dict = dataclasses.field(default_factory=dict)  # {input name: {axis: dim name}}
    exporters: tuple = ("legacy", "dynamo")
    rtol: float = 1e-3  # of the largest element of an output
    unordered: bool = False  # rows of the outputs are compared as sets: where scores tie, order is luck

    def module(self):
        torch.manual_seed(0)
        return calibrated(self.build().eval(), self.example(0))

    def example(self, number, seed=100):
        torch.manual_seed(seed + number)
        return tuple(self.inputs(**self.sizes[number]))


def model(name, inputs, sizes, input_names, output_names, **more):
    """A decorator of the function that builds the module."""
    def add(build):
        EXPORTS[name] = Export(build, inputs, sizes, input_names, output_names, **more)
        return build
    return add


def image(batch=1, height=sized(224, 64), width=sized(224, 64)):
    return (torch.randn(batch, 3, height, width),)


def lively(module):
    """Random scales and shifts, so that normalisation layers are not the identity, and no head of zeros."""
    for part in module.modules():
        if isinstance(part, torch.nn.Linear) and not part.weight.any():
            torch.nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, torch.nn.BatchNorm2d):
            part.weight.data.uniform_(0.5, 1.5)
            part.bias.data.normal_(0, 0.3)
    return module


def calibrated(module, example):
    """Means and variances as this example has them: with any others a deep network's answer hardly depends on its input."""
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for part in norms:
        part.train()
        part.momentum = 1.0
    if norms:
        with torch.no_grad():
            module(*example)
    return module.eval()
