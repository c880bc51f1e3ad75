"""Processor time and size of compiled networks whose height and width are open.

usage: compile.py ONNXC [MODEL...]      MODEL: cls, ssdlite, retinanet, or an .onnx file; all three when none is given

The three come from torchvision with random weights: a MobileNet v3 of 0.5 MB, SSDlite with MobileNet v3, RetinaNet with ResNet-50.
For the CPU levels of the target, without Winograd's algorithm, and for one level (x86-64-v3), prints the processor time of onnxc
(user and system, all threads), the code of the library (.text), and what the library has beside the weights of the model.
needs: torch, torchvision, onnx (test/exports/requirements.txt)
"""
import os
import resource
import subprocess
import sys
import tempfile

import onnx
from onnx import numpy_helper

CHOICES = {"all levels": [], "all levels, -fno-winograd": ["-fno-winograd"], "x86-64-v3": ["--mcpu=x86-64-v3"]}


def export(name, path):
    import torch
    import torchvision.models as m

    torch.manual_seed(0)
    if name == "cls":
        torch.onnx.export(m.mobilenet_v3_small(width_mult=0.25, weights=None, num_classes=2).eval(), (torch.rand(1, 3, 48, 192),), path,
                          opset_version=17, dynamo=False, input_names=["image"], dynamic_axes={"image": {0: "N", 2: "H", 3: "W"}})
        return
    make = {"ssdlite": m.detection.ssdlite320_mobilenet_v3_large, "retinanet": m.detection.retinanet_resnet50_fpn}[name]
    torch.onnx.export(make(weights=None, weights_backbone=None).eval(), ([torch.rand(3, 320, 320)],), path, opset_version=17, dynamo=False,
                      input_names=["image"], dynamic_axes={"image": {1: "H", 2: "W"}})


def text_size(path):
    lines = subprocess.run(["size", "-A", path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(".text"))


def compile_with(onnxc, model, options, out):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([onnxc, model, *options, "-o", out], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    onnxc, names = sys.argv[1], sys.argv[2:] or ["cls", "ssdlite", "retinanet"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = name if name.endswith(".onnx") else os.path.join(folder, name + ".onnx")
            if path != name:
                export(name, path)
            weights = sum(numpy_helper.to_array(i).nbytes for i in onnx.load(path).graph.initializer)
            print(f"{os.path.basename(path)}: {weights / 1e6:.1f} MB of weights")
            for label, options in CHOICES.items():
                out = os.path.join(folder, "model.so")
                seconds = compile_with(onnxc, path, options, out)
                print(f"  {label:26} {seconds:6.1f} s   .text {text_size(out) / 1e3:7.0f} kB   beside the weights "
                      f"{(os.path.getsize(out) - weights) / 1e3:9.0f} kB", flush=True)


if __name__ == "__main__":
    main()
