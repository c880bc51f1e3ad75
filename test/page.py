"""The HTML report in a headless Chromium: it loads without an error or a request, shows what the model has, finds nodes, and
treats names as text whatever they are. usage: page.py ONNXC"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ONNXC = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BROWSER = next((b for b in ("chromium-headless-shell", "chromium", "chromium-browser") if shutil.which(b)), None)
COUNTS = {"passed": 0, "failed": 0}
HOSTILE = ["</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "a\"b'c&amp;<b>",
           "${document.title='owned'}", "]]>--><!--<script>", "new\nline\u2028 \u202e sep", "\\u003cscript\\u003e", "javascript:alert(1)"]


def check(good, name, why=""):
    COUNTS["passed" if good else "failed"] += 1
    if not good:
        print(f"FAIL {name}: {why}")
    return good


def run(*command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def tensor(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def weights(name, *shape):
    return numpy_helper.from_array(numpy.ones(shape, numpy.float32), name)


def save(path, name, nodes, inputs, outputs, constants, **more):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, **more)
    helper.set_model_props(model, {h: h for h in HOSTILE})
    onnx.save(model, path)


def make_models(folder):
    node = helper.make_node
    nodes, last = [], "x"
    for i, name in enumerate(HOSTILE):
        nodes.append(node("MatMul", [last, "w"], [f"{name} out"], name=name))
        last = f"{name} out"
    nodes.append(node("Relu", [last], ["y"], name="the last one"))
    save(f"{folder}/hostile.onnx", HOSTILE[0], nodes, [tensor("x", 2, 8)], [tensor("y", 2, 8)], [weights("w", 8, 8)],
         doc_string=HOSTILE[1], producer_name=HOSTILE[2])
    body = helper.make_graph([node("MatMul", ["s", "w"], ["inner product"], name="in the loop"), node("Identity", ["c"], ["d"])], "body",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                              tensor("s", "N", 8)], [helper.make_tensor_value_info("d", TensorProto.BOOL, []), tensor("inner product", "N", 8)])
    save(f"{folder}/loop.onnx", "loop", [node("Loop", ["trips", "", "x"], ["l"], body=body, name="turns"), node("Softmax", ["l"], ["y"], name="soft")],
         [tensor("x", "N", 8)], [tensor("y", "N", 8)], [weights("w", 8, 8), numpy_helper.from_array(numpy.array(3), "trips")])


class Page:
    """What the browser makes of a report."""

    def __init__(self, folder, name, fragment=""):
        ran = run(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--enable-logging=stderr", "--v=0",
                  f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{folder}/{name}#{fragment}", folder=folder)
        self.dom = ran.stdout
        body = re.sub(r"<script.*?</script>", "", self.dom, flags=re.DOTALL)
        self.console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        self.body = body
        self.title = html.unescape((re.search(r"<title>(.*?)</title>", self.dom, re.DOTALL) or [0, ""])[1])

    def text(self, name):
        found = re.search(rf'id="{name}"[^>]*>(.*?)</', self.body, re.DOTALL)
        return html.unescape(found[1]) if found else None

    def count(self, css_class):
        return len(re.findall(rf'class="{css_class}(?: [^"]*)?"', self.body))


def make_page(folder, model, options, out):
    made = run(ONNXC, model, *options, "-o", out, folder=folder)
    report = run(ONNXC, "inspect", model, *options, "--format=json", folder=folder)
    check(made.returncode == 0 and report.returncode == 0, f"{model} {options}", made.stderr + report.stderr)
    text = open(f"{folder}/{out}", encoding="utf-8").read()
    check(not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text.split("</script>", 1)[1]), f"{out} names no address")
    return json.loads(report.stdout)


def check_page(page, name, nodes, kernels):
    check('data-ready="yes"' in page.dom, f"{name} is ready", page.text("error"))
    check(not page.console and page.text("error") == "", f"{name} has no error", "\n".join(page.console))
    check(page.text("counts") == f"{nodes} nodes, {kernels} kernels", f"{name} counts", page.text("counts"))
    check(page.count("node") == nodes, f"{name} draws {nodes} nodes", page.count("node"))
    check(page.count("row") == kernels, f"{name} lists {kernels} kernels", page.count("row"))


def outer_nodes(part):
    return [n for n in part["nodes"] if "inside" not in n]


def check_hostile(folder):
    report = make_page(folder, "hostile.onnx", [], "hostile.html")
    page = Page(folder, "hostile.html", urllib.parse.urlencode({"find": HOSTILE[0]}, quote_via=urllib.parse.quote))
    check_page(page, "hostile.html", len(outer_nodes(report)), len(report["kernels"]))
    check(page.title == HOSTILE[0], "the title is text", page.title)
    check(not re.search(r"<(img|b|script)\b", page.body), "names make no elements")
    check(page.text("status") and page.text("status").startswith("1 of"), "a hostile name is found", page.text("status"))
    check(html.escape(HOSTILE[1], quote=False) in page.body, "documentation is text")


def check_loop(folder):
    """Nodes of regions are found too; versions for several sizes can be chosen; measured times are shown."""
    report = make_page(folder, "loop.onnx", ["--dim", "N=1,4,:"], "loop.html")
    part = report["versions"][-1]
    page = Page(folder, "loop.html", "find=in%20the%20loop")
    check_page(page, "loop.html", len(outer_nodes(part)), len(part["kernels"]))
    check(page.text("status") == "1 of 2", "a node of the loop's body and its kernel are found", page.text("status"))
    check(page.count("node") == 2 and 'class="node hit' in page.body or 'class="node mate hit' in page.body, "its loop is marked")
    check(page.body.count("<option") == 3 + 4, "versions and colours can be chosen", page.body.count("<option"))
    inner = [n for n in part["nodes"] if n["name"] == "in the loop"][0]
    check(inner["kernels"], "its kernel is known")
    measured = run(ONNXC, "bench", "loop.onnx", "--dim", "N=4", "--runs", "3", "--save-times", "times.json", folder=folder)
    check(measured.returncode == 0, "onnxc bench --save-times", measured.stderr)
    report = make_page(folder, "loop.onnx", ["--dim", "N=4", "--times", "times.json"], "timed.html")
    check(all(k["seconds"] >= 0 for k in report["kernels"]), "every kernel has a time")
    page = Page(folder, "timed.html", "kernel=0&colour=time")
    check_page(page, "timed.html", len(outer_nodes(report)), len(report["kernels"]))
    check("GFLOP/s" in page.body and "measured" in page.body, "times are shown")
    check(page.count("peak") == 1 and page.count("place") == len(report["memory"]["places"]), "the memory plan is drawn")


def check_gpu(folder):
    """Launches, and what ptxas counted: as test/shim/nvrtc_double.c makes it up."""
    nvrtc = os.path.join(ROOT, "build", "release", "doubles", "libnvrtc.so.12")
    made = subprocess.run(["make", "-s", os.path.relpath(nvrtc, ROOT)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    check(made.returncode == 0, "make libnvrtc.so.12", made.stderr)
    report = make_page(folder, "loop.onnx", ["--dim", "N=4", "--device=cuda", "--gpu-arch=sm_80,sm_90", "--nvrtc", nvrtc], "gpu.html")
    page = Page(folder, "gpu.html", "kernel=0")
    check_page(page, "gpu.html", len(outer_nodes(report)), len(report["kernels"]))
    check(all(f"{arch} {what}<" in page.body for arch in ("sm_80", "sm_90") for what in ("registers", "shared")), "columns of architectures")
    check("blocks of" in page.body and "11 registers, 1 B shared" in page.body, "a kernel's launch and registers are shown")


def main():
    if not BROWSER:
        print("skip page.py: there is no Chromium (tools/install.sh test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return
    with tempfile.TemporaryDirectory() as folder:
        make_models(folder)
        check_hostile(folder)
        check_loop(folder)
        check_gpu(folder)
    print(f"{COUNTS['passed']} passed, {COUNTS['failed']} failed, 0 skipped")


if __name__ == "__main__":
    main()
