"""What a decoder (llm_model.py) with two phases takes to start: time to the first token, memory, and the object's size beside its weights.

usage: llm_start.py ONNXC [--folder FOLDER] [--threads N] [--small] [--options "..."] [--rounds 5]

The library has versions for one token and for 2 to 512 (--dim S=1,2:512), which share weights. A start is a new process, with the library's
pages in the cache of the operating system, but not mapped: from before the library is loaded until the logits of one token are there, with
empty caches; the best of the rounds. Memory is that which belongs to no file (RssAnon): what the run added to that of the process, with the
workspace and without the arrays that the caller gave it. Both must stay within what decoders are to take: 50 ms, 20 MB.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import llm
import llm_model
import numpy as np
import onnx
import peers

CAPACITY, MOST_SECONDS, MOST_MEMORY = 2048, 0.05, 20 << 20


def anonymous():
    with open("/proc/self/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon", "RssShmem"))) * 1024


def compile_model(arguments, shape, folder):
    """The bytes of the library beside its constants."""
    path, library = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.so")
    if not os.path.exists(library):
        onnx.save(llm_model.decoder(shape, "int4", capacity=CAPACITY), path)
        states = [f"--state={new}={old}" for old, new in llm.names(shape)]
        subprocess.run([arguments.onnxc, path, "-o", library, "--name", "model", "--threads", str(arguments.threads), f"--dim=capacity={CAPACITY}",
                        f"--dim=total=1:{CAPACITY}", "--dim=S=1,2:512", *states, *arguments.options.split()], check=True)
    sections = subprocess.run(["size", "-A", library], check=True, capture_output=True, text=True).stdout.split()
    return os.path.getsize(library) - sum(int(size) for name, size in zip(sections, sections[1:]) if name in (".rodata", ".lrodata"))


def start(folder, shape):
    """In a process of its own: prints seconds and bytes."""
    graph = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False).graph
    caches = dict(zip([name for pair in llm.names(shape) for name in pair],
                      np.repeat(np.arange(2 * shape.layers), 2)))
    arrays = [np.full((1, shape.kv_heads, CAPACITY, shape.head), 0.5, np.float32) for _ in range(2 * shape.layers)]
    given = {n: arrays[i] for n, i in caches.items()} | llm.feeds(argparse.Namespace(cache="group"), [7], 0, CAPACITY)
    given["logits"] = np.full((1, 1, shape.vocabulary), 0.5, np.float32)
    before, begin = anonymous(), time.perf_counter()
    model = peers.Compiled(None, None, None, [], os.path.join(folder, "model.so"))
    model.prepare([given[i.name] for i in graph.input], [given[o.name] for o in graph.output])
    model.run()
    print(time.perf_counter() - begin, anonymous() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("--folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--options", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = llm_model.SMALL if arguments.small else llm_model.Shape()
    if arguments.child:
        return start(arguments.folder, shape)
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.folder or folder
        more = compile_model(arguments, shape, folder)
        command = [sys.executable, *sys.argv, "--child", "--folder", folder]
        runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(arguments.rounds)]
        seconds, memory = min(float(r[0]) for r in runs), min(int(r[1]) for r in runs)
        print(f"first token {1e3 * seconds:.1f} ms, {memory / 1e6:.2f} MB beside files and caches, library {more / 1e3:.0f} kB beside constants")
        if seconds > MOST_SECONDS or memory > MOST_MEMORY:
            sys.exit("the start takes more than it may")


if __name__ == "__main__":
    main()
