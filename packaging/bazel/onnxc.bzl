"""Models as libraries:

    load("@onnxc//:onnxc.bzl", "onnxc_model")

    onnxc_model(
        name = "mnist",
        src = "mnist.onnx",
        options = ["--dim", "batch=1"],
    )

    cc_binary(name = "app", srcs = ["main.c"], deps = [":mnist"])     # includes mnist.h
"""

load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")

def onnxc_model(name, src, data = [], options = [], visibility = None, **kwargs):
    """Compiles an ONNX model.

    Args:
      name: of the library, of its header NAME.h and of its C functions
      src: the model
      data: files with its external data, in its folder
      options: of onnxc's command line
      visibility: of the library
      **kwargs: further attributes of all targets, as `tags`
    """
    archive, header = name + ".onnxc.a", name + ".h"
    native.genrule(
        name = name + "_compile",
        srcs = [src] + data,
        outs = [archive, header],
        cmd = "$(location @onnxc_x86_64_linux//:onnxc) --name %s %s $(location %s) -o $(location %s) --header $(location %s)" %
              (name, " ".join(["'%s'" % o for o in options]), src, archive, header),
        tools = ["@onnxc_x86_64_linux//:onnxc", "@onnxc_x86_64_linux//:tree"],
        visibility = ["//visibility:private"],
        **kwargs
    )
    cc_import(
        name = name + "_archive",
        static_library = archive,
        visibility = ["//visibility:private"],
        **kwargs
    )
    cc_library(
        name = name,
        hdrs = [header],
        includes = ["."],
        visibility = visibility,
        deps = [":" + name + "_archive", "@onnxc_x86_64_linux//:runtime"],
        **kwargs
    )
