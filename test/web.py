"""The stages `web` and `web-long`: official cases as ES modules in Node.js, some or all of them, and the page of samples/web in Node.js and in a browser."""
import functools
import glob
import http.server
import json
import os
import re
import shutil
import threading

import browser
import foreign
from harness import BUILD, ONNXC, ROOT, expected_file, parallel, run

CASES_IN_PROCESS = 100
PAGE_BYTES = 60000
# What ES modules do not pass is refused when they are made; ImageDecoder needs libraries of the system.
REFUSED = re.compile(r"JavaScript passes tensors only")
UNSUPPORTED = re.compile(r"test_image_decoder_decode_(jpeg|png|tiff|webp)")


def make_module(runtime, folder, case):
    """The path of the case's module, and why there is none."""
    path = os.path.join(folder, os.path.basename(os.path.dirname(case)) + "-" + os.path.basename(case) + ".mjs")
    weights = [f"--weights={path}.weights"] if "/light/" in case else []  # of up to 140 MB
    ran = run([ONNXC, os.path.join(case, "model.onnx"), f"--runtime={runtime}", *weights, "-o", path], timeout=120)
    return (path, None) if ran.code == 0 else (None, ran.text)


def run_modules(folder, jobs, number):
    """{case: what is wrong} of some of them, in one process."""
    some, listed = jobs[number:number + CASES_IN_PROCESS], os.path.join(folder, f"list{number}")
    with open(listed, "w", encoding="utf-8") as f:
        f.writelines(f"{case} {path}\n" for case, path in some)
    ran = run(["node", os.path.join(ROOT, "test", "web", "cases.mjs"), listed], timeout=300)
    found = dict(json.loads(line) for line in ran.out.splitlines() if line.startswith("["))
    return {case: found.get(case, f"no answer: {ran.why()}") for case, _ in some}


def all_cases():
    return sorted(os.path.dirname(path) for path in glob.glob(os.path.join(BUILD, "cases", "*", "*", "model.onnx")))


def official_cases(results, cases):
    folder = os.path.join(BUILD, "test-web")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    runtime = foreign.runtime_for(results, "wasm32-wasi")
    if not runtime:
        return
    made = parallel(functools.partial(make_module, runtime, folder), cases)
    with open(expected_file("web"), encoding="utf-8") as f:
        expected = {line.split()[0] for line in f}
    jobs, refused = [], 0
    for case, (path, why) in zip(cases, made):
        if path:
            jobs.append((case, path))
        elif REFUSED.search(why):
            refused += 1
        else:
            results.fail(os.path.basename(case), why)
    if refused:
        results.skip("cases", f"{refused} have inputs or outputs that are not tensors")
    for some in parallel(functools.partial(run_modules, folder, jobs), range(0, len(jobs), CASES_IN_PROCESS)):
        for case, wrong in some.items():
            fails = "/".join(case.split("/")[-2:]) in expected or bool(UNSUPPORTED.search(case))
            results.check(bool(wrong) == fails, os.path.basename(case), wrong or "passes, but is expected to fail")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def draw(page, points):
    """Strokes of the mouse on the paper."""
    left, top = page.js("(r => [r.left, r.top])(document.getElementById('paper').getBoundingClientRect())")
    for stroke in points:
        for i, (x, y) in enumerate(stroke):
            kind = "mouseMoved" if i else "mousePressed"
            page.call("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, button="left", buttons=1, clickCount=1)
        page.call("Input.dispatchMouseEvent", type="mouseReleased", x=left + stroke[-1][0], y=top + stroke[-1][1], button="left", clickCount=1)
    page.settle()


def sample(results):
    place = os.path.join(BUILD, "test-web-page")
    shutil.rmtree(place, ignore_errors=True)
    ran = run(["make", "-s", "-C", os.path.join(ROOT, "samples", "web"), "check", f"ONNXC={ONNXC}", f"B={place}"], timeout=120)
    if not results.check(ran.code == 0 and "10 of 10 right" in ran.out, "samples/web in Node.js", ran.text):
        return
    size = sum(os.path.getsize(os.path.join(place, name)) for name in ("index.html", "strokes.js", "digits.js"))
    results.check(size < PAGE_BYTES, "size of the page", f"{size} bytes")
    if not browser.NAME:
        results.skip("samples/web in a browser", "Chromium is not installed")
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=place))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browser.Browser(place) as page:
        page.open(f"http://127.0.0.1:{server.server_port}/index.html")
        answer, clear = "document.getElementById('answer').value", "document.getElementById('clear').click()"
        one, four = [[(90, 70), (120, 30), (120, 220)]], [[(130, 30), (60, 150), (190, 150)], [(142, 110), (134, 220)]]
        for digit, strokes in (("1", one), ("4", four), ("1", one)):
            draw(page, strokes)
            got = page.js(answer)
            results.check(got == digit, f"a drawn {digit} in a browser", f"read as {got!r}")
            page.js(clear)
            results.check(page.js(answer) == "", "the page is cleared", page.js(answer))
        for width, dark in (1400, False), (500, True), (320, False):
            page.open(f"http://127.0.0.1:{server.server_port}/index.html", width=width, dark=dark)
            draw(page, one)
            paper = page.js("[paper.clientWidth, paper.clientHeight]")
            results.check(paper == [256, 256], f"ink is under the pointer, {width} px", paper)
            colour = page.js("getComputedStyle(document.body).color")
            results.check(colour == ("rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)"), "the text has the colour of the theme", colour)
            results.check(page.js("document.documentElement.scrollWidth <= innerWidth"), f"the page fits, {width} px")
        own = [u for u in page.requests if not u.startswith(f"http://127.0.0.1:{server.server_port}/")]
        results.check(not page.console and not own, "the page is silent and alone", page.console + own)
    server.shutdown()


def web(results, cases):
    official_cases(results, cases)
    sample(results)
