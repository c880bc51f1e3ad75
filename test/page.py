"""The HTML report in a headless Chromium: it loads without an error or a request, shows what the model has, finds nodes, and
treats names as text whatever they are. Boxes and edges keep apart, text can be read in light and dark at any width, and
mouse, touch and keys move about. usage: page.py ONNXC [MODEL...]: further models to look at"""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

import browser
import numpy
import onnx
from harness import Results
from onnx import TensorProto, helper, numpy_helper

ONNXC = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FAULTS = open(os.path.join(ROOT, "test", "page_faults.js"), encoding="utf-8").read()
RESULTS = Results("page")
check = RESULTS.check
HOSTILE = ["</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "a\"b'c&amp;<b>",
           "${document.title='owned'}", "]]>--><!--<script>", "new\nline\u2028 \u202e sep", "\\u003cscript\\u003e", "javascript:alert(1)"]


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


def scoped_model(folder):
    """Layers by scopes of names, with skip edges, as an exporter of PyTorch writes them."""
    nodes, last, constants = [], "x", []
    for layer in range(10):
        scope = f"/encoder/layers.{layer}/"
        for part, op in (("self_attn/query_projection_with_a_long_name/", "MatMul"), ("self_attn/", "Softmax"), ("norm/", "Tanh")):
            name = scope + part + op
            inputs = [last if op == "MatMul" else nodes[-1].output[0]]
            if op == "MatMul":
                constants.append(numpy_helper.from_array(numpy.random.default_rng(layer).normal(size=(8, 8)).astype(numpy.float32), f"encoder.layers.{layer}.weight"))
                inputs.append(constants[-1].name)
            nodes.append(helper.make_node(op, inputs, [name + "_output"], name=name))
        nodes.append(helper.make_node("Add", [last, nodes[-1].output[0]], [f"sum{layer}"], name=scope + "Add"))
        last = f"sum{layer}"
    nodes.append(helper.make_node("Concat", [last, "sum0", "sum2", "x"], ["y"], name="/head/Concat", axis=1))
    save(f"{folder}/scoped.onnx", "scoped", nodes, [tensor("x", 2, 8)], [tensor("y", 2, 32)], constants)


def deep_model(folder):
    """More layers than one level of the page shows."""
    nodes = []
    for i in range(160):
        for op in "Tanh", "Sigmoid":
            nodes.append(helper.make_node(op, [f"t{len(nodes)}"], [f"t{len(nodes) + 1}"], name=f"/encoder/layer.{i}/attention/self/{op}"))
    save(f"{folder}/deep.onnx", "deep", nodes, [tensor("t0", 2, 8)], [tensor(f"t{len(nodes)}", 2, 8)], [])


def repeated_model(folder):
    """Twelve equal blocks without scopes, each with a skip edge."""
    nodes, last = [], "x"
    for i in range(12):
        for op, more in (("MatMul", ["w"]), ("Relu", []), ("MatMul", ["w"])):
            nodes.append(helper.make_node(op, [nodes[-1].output[0] if nodes and op != "MatMul" or more and nodes and nodes[-1].op_type == "Relu" else last, *more],
                                          [f"t{len(nodes)}"]))
        nodes.append(helper.make_node("Add", [last, nodes[-1].output[0]], [f"t{len(nodes)}"]))
        last = nodes[-1].output[0]
    save(f"{folder}/repeated.onnx", "repeated", nodes, [tensor("x", 2, 8)], [tensor(last, 2, 8)], [weights("w", 8, 8)])


def nested_model(folder):
    """An If in a Scan in an If, whose branches read values from outside, and a function."""
    node, graph, boolean = helper.make_node, helper.make_graph, helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    inner = [graph([node("Mul", ["row", "x2"], [f"{branch}_out"], name=f"mul {branch}"), ], branch, [], [tensor(f"{branch}_out", 8)]) for branch in ("then", "else")]
    scan = graph([node("If", ["c"], ["picked"], name="inner if", then_branch=inner[0], else_branch=inner[1]), node("Add", ["state", "picked"], ["next"]), node("Identity", ["next"], ["each"])],
                 "steps", [tensor("state", 8), tensor("row", 8)], [tensor("next", 8), tensor("each", 8)])
    one = graph([node("Scan", ["x2", "x"], ["final", "rows"], name="scan", body=scan, num_scan_inputs=1), node("Exp", ["rows"], ["yes"])], "one", [], [tensor("yes", 3, 8)])
    two = graph([node("Neg", ["x"], ["no"], name="negative")], "two", [], [tensor("no", 3, 8)])
    f = helper.make_function("mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["t"], name="doubled"), node("Tanh", ["t"], ["b"])], [helper.make_opsetid("", 18)])
    nodes = [node("ReduceSum", ["x", "axis"], ["x2"], keepdims=0, name="sum"), node("If", ["c"], ["z"], name="outer if", then_branch=one, else_branch=two),
             node("Twice", ["z"], ["y"], name="call", domain="mine")]
    g = graph(nodes, "nested", [tensor("x", 3, 8), boolean], [tensor("y", 3, 8)], [numpy_helper.from_array(numpy.array([0]), "axis")])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)], functions=[f], ir_version=9), f"{folder}/nested.onnx")


def tangled_model(folder, n):
    """n nodes, each of which reads two earlier ones: no scopes and nothing that repeats."""
    random, nodes, names = numpy.random.default_rng(7), [], ["x"]
    for i in range(n):
        near = names[-min(len(names), 12):]
        inputs = [str(random.choice(near)), str(random.choice(names if random.random() < 0.03 else near))]
        nodes.append(helper.make_node(str(random.choice(["Add", "Mul", "Sub", "Max"])), inputs, [f"v{i}"], name=f"node {i}"))
        names.append(f"v{i}")
    read = {name for node in nodes for name in node.input}
    nodes.append(helper.make_node("Sum", [v for v in names if v not in read], ["y"], name="sum"))
    save(f"{folder}/tangled.onnx", "tangled", nodes, [tensor("x", 4)], [tensor("y", 4)], [])


def make_page(folder, model, options, out):
    made = run(ONNXC, model, *options, "-o", out, folder=folder)
    report = run(ONNXC, "inspect", model, *options, "--format=json", folder=folder)
    check(made.returncode == 0 and report.returncode == 0, f"{model} {options}", made.stderr + report.stderr)
    text = open(f"{folder}/{out}", encoding="utf-8").read()
    check(not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text.split("</script>", 1)[1]), f"{out} names no address")
    return json.loads(report.stdout)


def show(page, folder, name, fragment="", **how):
    page.open(f"file://{folder}/{name}#{fragment}", **how)
    page.js(FAULTS)
    error = page.js("id('error').textContent")
    check(not page.console and error == "", f"{name} has no error", [error, *page.console])
    check(page.requests == [f"file://{folder}/{name}" + (f"#{fragment}" if fragment else "")] or len(page.requests) == 1, f"{name} requests nothing", page.requests)


def check_clean(page, name, what):
    for faults in ("layoutFaults()", "readingFaults()"):
        found = page.js(faults)
        check(found == [], f"{name}, {what}", found)


def check_looks(page, folder, name):
    """In both themes, wide and narrow, as it opens and with all groups open."""
    for width, height, dark in ((1400, 1000, False), (1400, 1000, True), (500, 1000, False), (500, 1000, True)):
        show(page, folder, name, width=width, height=height, dark=dark)
        what = f"{width} px{', dark' if dark else ''}"
        check_clean(page, name, what)
        check(page.js("view.k") == 1 and page.js("document.querySelectorAll('#view .item').length > 0"), f"{name}, {what}: opens at a size that can be read")
        check(width > 500 or page.js("id('graph').clientWidth") == 500, f"{name}: the graph has the whole width", page.js("id('graph').clientWidth"))
        check(page.js("colourOfText(getComputedStyle(document.body).backgroundColor).rgb[0] < 60") == dark, f"{name}, {what}: the theme")
    over = page.js("part.memory && isFixed(part.memory) && part.memory.peak_bytes > part.memory.workspace_bytes")
    check(not over, f"{name}: no more memory is in use than there is")
    page.js("openAll(true)")
    page.settle()
    check_clean(page, name, "all groups open")


def check_counts(page, name, report, part):
    plural = lambda n, word: f"{n:,} {word}{'' if n == 1 else 's'}"
    counts = f"{plural(len(part['nodes']), 'node')}, {plural(len(part['kernels']), 'kernel')}"
    check(page.js("id('counts').textContent") == counts, f"{name} counts", page.js("id('counts').textContent"))
    check(page.js("document.querySelectorAll('#kernels tr.row').length") == min(200, len(part["kernels"])), f"{name} lists its kernels")
    check(page.js("nodesOf(tree.root).length") == len(part["nodes"]), f"{name} has its nodes in groups", page.js("nodesOf(tree.root).length"))


def quoted(**what):
    return urllib.parse.urlencode(what, quote_via=urllib.parse.quote)


def check_hostile(page, folder):
    report = make_page(folder, "hostile.onnx", [], "hostile.html")
    show(page, folder, "hostile.html", quoted(find=HOSTILE[0]))
    check_counts(page, "hostile.html", report, report)
    check(page.js("document.title") == HOSTILE[0], "the title is text", page.js("document.title"))
    check(page.js("document.querySelectorAll('img, b, body script').length") == 2, "names make no elements", page.js("document.querySelectorAll('img, b, body script').length"))
    check(page.js("id('status').textContent").startswith("1 of"), "a hostile name is found", page.js("id('status').textContent"))
    page.js("choose(null)")
    check(HOSTILE[1] in page.js("document.body.innerText"), "documentation is text")
    svg = page.js("exportSvg()")
    check(len(xml.etree.ElementTree.fromstring(svg)) > 1, "the SVG is well-formed")
    picture = page.js("new Promise(done => exportPng(async blob => done(Array.from(new Uint8Array(await blob.slice(0, 4).arrayBuffer())))))")
    check(picture == [0x89, *b"PNG"] and not page.console, "the PNG is one", [picture, *page.console])
    check_looks(page, folder, "hostile.html")


def check_loop(page, folder):
    """Nodes of regions are found too; versions for several sizes can be chosen; measured times are shown."""
    report = make_page(folder, "loop.onnx", ["--dim", "N=1,4,:"], "loop.html")
    part = report["versions"][-1]
    show(page, folder, "loop.html", "find=in%20the%20loop")
    check_counts(page, "loop.html", report, part)
    check(page.js("id('status').textContent").startswith("1 of 2"), "a node of the loop's body and its kernel are found", page.js("id('status').textContent"))
    check(page.js("chosen.node.name === 'in the loop' && scene.at.has(chosen)"), "it is drawn, in the open loop")
    check(page.js("document.querySelectorAll('#part option').length") == 3, "versions can be chosen")
    page.js("openPart(0)")
    check_clean(page, "loop.html", "another version")
    measured = run(ONNXC, "bench", "loop.onnx", "--dim", "N=4", "--runs", "3", "--save-times", "times.json", folder=folder)
    check(measured.returncode == 0, "onnxc bench --save-times", measured.stderr)
    times = json.load(open(f"{folder}/times.json"))
    check(times["peak_flops"] > 1e8 and times["peak_bytes_per_second"] > 1e8, "peaks are measured", times)
    report = make_page(folder, "loop.onnx", ["--dim", "N=4", "--times", "times.json"], "timed.html")
    check(all(k["seconds"] >= 0 for k in report["kernels"]), "every kernel has a time")
    check_looks(page, folder, "timed.html")
    check(page.js("id('colour').value") == "time", "times colour the graph")
    check(page.js("document.querySelectorAll('#roofline circle').length") >= 1 and page.js("document.querySelectorAll('#roofline .roof').length") == 1, "the roofline is drawn")
    check(page.js("document.querySelectorAll('#kernels .fill').length") == len(report["kernels"]), "times have bars")
    check(page.js("document.querySelectorAll('#memory .place').length") == len(report["memory"]["places"]) and page.js("document.querySelectorAll('#memory .grid').length") > 1,
          "the memory plan is drawn, with an axis")
    check(page.js("document.querySelectorAll('.legend .key').length") >= 2, "the memory plan has a legend")


def check_groups(page, folder):
    make_page(folder, "scoped.onnx", [], "scoped.html")
    check_looks(page, folder, "scoped.html")
    show(page, folder, "scoped.html")
    titles = page.js("scene.boxes.filter(b => b.item.kind === 'group').map(b => b.item.title)")
    check(titles == [f"layers.{i}" for i in range(10)], "layers are groups", titles)
    place = page.js("(() => { const r = document.querySelector('#view .group:not(.frame)').getBoundingClientRect(); return [r.x + 60, r.y + 30]; })()")
    page.click(*place)
    check(page.js("scene.frames.length") == 2 and page.js("id('side').textContent").startswith("layers.0"), "a click opens a group")
    names = page.js("[...document.querySelectorAll('#view .item text')].map(t => t.textContent)")
    check(not any("/encoder" in n for n in names), "names leave out the scopes around them", names)
    page.js("choose(null)")
    page.js("id('find').focus()")
    for c in "layers.4/norm":
        page.key(c, c)
    page.key("Enter", "\r")
    check(page.js("chosen && chosen.node.name") == "/encoder/layers.4/norm/Tanh", "search opens the group of a node")
    check(page.js("(() => { const b = scene.at.get(chosen), x = view.x + view.k * b.x, y = view.y + view.k * b.y; return x > 0 && y > 0 && x < size().w && y < size().h; })()"), "and shows it")
    check(page.js("part.weights.length") == 10 and page.js("document.querySelectorAll('#weights .histogram').length") == 10, "weights have histograms")
    w = page.js("part.weights[0]")
    values = numpy.random.default_rng(int(w["name"].split(".")[2])).normal(size=(8, 8)).astype(numpy.float32).astype(float)
    check(abs(w["min"] - values.min()) < 1e-12 and abs(w["mean"] - values.mean()) < 1e-12 and abs(w["std"] - values.std()) < 1e-12, "statistics of weights", w)
    counts = numpy.histogram(values, bins=len(w["bins"]))[0]
    check(w["most"] == counts.max() and w["bins"] == "".join("0123456789abcdefghijklmnopqrstuvwxyz"[-(-35 * c // counts.max())] for c in counts.tolist()), "histograms", w)
    make_page(folder, "repeated.onnx", [], "repeated.html")
    check_looks(page, folder, "repeated.html")
    show(page, folder, "repeated.html")
    groups = page.js("scene.boxes.filter(b => b.item.kind === 'group').map(b => nodesOf(b.item).map(n => n.node.op).join(' '))")
    check(len(groups) >= 11 and len(set(groups)) == 1 and groups[0].split()[-1] == "Add", "equal blocks are groups that end at the skip edge", groups)


def check_deep(page, folder):
    make_page(folder, "deep.onnx", [], "deep.html")
    check_looks(page, folder, "deep.html")
    show(page, folder, "deep.html")
    titles = page.js("scene.boxes.filter(b => b.item.kind === 'group').map(b => b.item.title)")
    check(titles == ["layer.0 to layer.49", "layer.50 to layer.99", "layer.100 to layer.149", "layer.150 to layer.159"], "ranges of layers", titles)


def check_symbolic_sizes(page, folder):
    """Sums of sizes are added, and sizes are in order, with symbols too."""
    make_page(folder, "loop.onnx", [], "symbols.html")
    show(page, folder, "symbols.html")
    for a, b, want in (("256*N", "256*N", "512*N"), ("N", "N*M", "N + N*M"), ("8*N + 64", "N", "9*N + 64"), (0, "4*N", "4*N"), ("min(N, 4)", "N", "min(N, 4) + N"),
                       ("8*a.b*c", 4, "8*a.b*c + 4"), ("N", "1", "N + 1")):
        got = page.js(f"both({json.dumps(a)}, {json.dumps(b)})")
        check(got == want, f"the sum of {a} and {b}", got)
    ordered = page.js("['2*N*M', '1024*N', 0, 'max(N, 2)', '256*N', 700, '256*N + 64'].sort((a, b) => magnitude(a) - magnitude(b))")
    check(ordered == [0, 700, "256*N", "256*N + 64", "1024*N", "2*N*M", "max(N, 2)"], "the order of sizes", ordered)


def check_long_sizes(page, folder):
    """Of long sizes, what they depend on; the whole text is a tooltip."""
    report = make_page(folder, os.path.join(ROOT, "test", "cli", "long_sizes.onnxtxt"), ["--threads=1"], "long.html")
    check_looks(page, folder, "long.html")
    bytes_text = report["memory"]["workspace_bytes"]
    title = page.js("[id('memory-title').textContent, id('memory-title').title]")
    check(title == ["Workspace: f(N) bytes", bytes_text], "long sizes of the workspace", title)
    cells = page.js("[...document.querySelectorAll('#places td.symbolic')].map(c => [c.textContent, c.title])")
    check(["f(N)", report["memory"]["places"][-1]["offset"]] in cells, "long offsets", cells)


def check_nested(page, folder):
    make_page(folder, "nested.onnx", [], "nested.html")
    check_looks(page, folder, "nested.html")
    regions = page.js("scene.frames.filter(f => f.item.kind === 'region').map(f => f.item.title)")
    check(sorted(regions) == ["body", "else_branch", "else_branch", "then_branch", "then_branch"], "regions are graphs in graphs", regions)
    check(page.js("scene.frames.some(f => f.item.title === 'Twice call')"), "a function is a group", page.js("scene.frames.map(f => f.item.title)"))
    check(page.js("[...document.querySelectorAll('#view .item text')].some(t => t.textContent === 'v14')"), "operators have versions")


def check_tangled(page, folder):
    make_page(folder, "tangled.onnx", [], "tangled.html")
    check_looks(page, folder, "tangled.html")
    taken = page.js("(() => { const start = performance.now(); openAll(false); openAll(true); return performance.now() - start; })()")
    check(taken < 5000, "the layout of a large graph takes no more than seconds", taken)
    page.js("openAll(false); fit(); render()")
    check(page.js("view.k * scene.w <= size().w + 1 && view.k * scene.h <= size().h + 1"), "fit shows all of it")


def check_moving(page, folder):
    show(page, folder, "scoped.html")
    before = page.js("view")
    page.drag(300, 400, 340, 300)
    after = page.js("view")
    check(after["x"] - before["x"] == 40 and after["y"] - before["y"] == -100, "the mouse pans", [before, after])
    page.wheel(300, 400, -200)
    check(page.js("view.k") > 1.2, "the wheel zooms", page.js("view.k"))
    page.js("id('fit').click()")
    page.settle()
    check(page.js("view.k") < 1, "a button fits")
    page.js("id('home').click()")
    page.settle()
    check(page.js("view.k") == 1, "a button returns to the first operators")
    page.js("id('graph').focus()")
    for key in ("ArrowDown", "+", "-"):
        page.key(key)
    check(page.js("view.y") != 0, "keys move")
    page.key("Enter")
    first = page.js("chosen && describe(chosen).first")
    page.key("ArrowDown")
    check(first == "x" and page.js("chosen.title") == "layers.0", "keys follow edges", first)
    page.key("Enter")
    check(page.js("chosen.open"), "Enter opens a group")
    page.key("Escape")
    check(page.js("chosen") is None, "Escape chooses nothing")
    order = []
    page.js("id('theme').focus()")
    for _ in range(16):
        order.append(page.js("document.activeElement.id"))
        page.key("Tab")
    wanted = ["theme", "find", "colour", "in", "out", "fit", "home", "open", "close", "svg", "png", "graph", "side"]
    check([i for i in order if i in wanted] == wanted, "Tab goes from the top to the graph and its details", order)
    show(page, folder, "scoped.html", width=500, height=900, touch=True)
    before = page.js("view")
    page.touch("touchStart", (200, 300))
    for y in (310, 340, 380):
        page.touch("touchMove", (200, y))
    page.touch("touchEnd")
    page.settle()
    check(page.js("view.y") - before["y"] == 80, "a finger pans", page.js("view"))
    page.touch("touchStart", (200, 300), (260, 300))
    for x in (280, 300, 320):
        page.touch("touchMove", (200, 300), (x, 300))
    page.touch("touchEnd")
    page.settle()
    check(1.8 < page.js("view.k") < 2.2, "two fingers zoom", page.js("view.k"))
    page.call("Emulation.setEmulatedMedia", media="print")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.settle()
    check(page.js("document.querySelectorAll('#view .item').length === scene.boxes.length + scene.frames.length"), "all of the graph is printed")
    check(page.js("getComputedStyle(id('bar')).display") == "none" and page.js("id('drawing').getBoundingClientRect().height") > 100, "without its buttons")
    page.js("window.dispatchEvent(new Event('afterprint'))")
    page.call("Emulation.setEmulatedMedia", media="")
    page.js("id('theme').click()")
    check(page.js("colourOfText(getComputedStyle(document.body).backgroundColor).rgb[0]") < 60, "a button makes it dark")
    check_clean(page, "scoped.html", "dark by the button")


def check_gpu(page, folder):
    """Launches, and what ptxas counted: as test/shim/nvrtc_double.c makes it up."""
    nvrtc = os.path.join(ROOT, "build", "release", "doubles", "libnvrtc.so.12")
    made = subprocess.run(["make", "-s", os.path.relpath(nvrtc, ROOT)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    check(made.returncode == 0, "make libnvrtc.so.12", made.stderr)
    report = make_page(folder, "loop.onnx", ["--dim", "N=4", "--device=cuda", "--gpu-arch=sm_80,sm_90", "--nvrtc", nvrtc], "gpu.html")
    show(page, folder, "gpu.html", "kernel=0")
    check_counts(page, "gpu.html", report, report)
    heads = page.js("[...document.querySelectorAll('#kernels th')].map(h => h.textContent)")
    check(all(f"{arch} {what}" in heads for arch in ("sm_80", "sm_90") for what in ("registers", "shared")), "columns of architectures", heads)
    details = page.js("id('side').textContent")
    check("1 block of 64 threads" in details and "11 registers, 1 B shared" in details, "a kernel's launch and registers are shown", details)


def check_quantised(page, folder):
    """The report of onnxc quantize: products with their figures first, other nodes on request, at any width."""
    made = run(ONNXC, "quantize", "scoped.onnx", "-o", "scoped_q.onnx", "--report", "quantised.html", folder=folder)
    check(made.returncode == 0, "onnxc quantize --report", made.stderr)
    rows = "[...document.querySelectorAll('tr')].slice(1).filter(r => r.offsetHeight)"
    for width, dark in ((1400, False), (1400, True), (500, False), (500, True)):
        what = f"quantised.html, {width} px{', dark' if dark else ''}"
        page.open(f"file://{folder}/quantised.html", width=width, dark=dark)
        page.js(FAULTS)
        check(not page.console and len(page.requests) == 1, what, [page.console, page.requests])
        check(page.js("readingFaults()") == [], what, page.js("readingFaults()"))
        check(page.js("document.documentElement.scrollWidth") <= width, f"{what}: no wider than the window")
        check(page.js(f"{rows}.every(r => r.innerText.includes('MatMul'))"), f"{what}: products", page.js(f"{rows}.map(r => r.innerText)"))
        check(page.js(f"{rows}.every(r => r.cells[3].getBoundingClientRect().right <= innerWidth)"), f"{what}: the gain is in sight")
    before = page.js(f"{rows}.length")
    page.js("document.getElementById('others').click()")
    check(page.js(f"{rows}.length") > before, "quantised.html: nodes left in float on request")


def check_models(page, folder, models):
    for i, model in enumerate(models):
        make_page(folder, os.path.abspath(model), [], f"model{i}.html")
        print(model)
        check_looks(page, folder, f"model{i}.html")


def main():
    if not browser.NAME:
        print("skip page.py: there is no Chromium (tools/install.sh test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser.Browser(folder) as page:
        make_models(folder)
        scoped_model(folder)
        repeated_model(folder)
        nested_model(folder)
        deep_model(folder)
        tangled_model(folder, 1500)
        for test in (check_hostile, check_loop, check_groups, check_deep, check_symbolic_sizes, check_long_sizes, check_nested, check_tangled, check_moving, check_gpu, check_quantised):
            test(page, folder)
        check_models(page, folder, sys.argv[2:])
    RESULTS.report()


if __name__ == "__main__":
    main()
