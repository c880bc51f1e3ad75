"""The stage `speaker`: the sample that speaks gives the tokens of torch and of ONNX Runtime, here and on aarch64 in an emulator; its
tokenizer gives those of the one in Python."""
import importlib.util
import os
import random
import shutil
import subprocess

from harness import BUILD, ONNXC, ROOT, run

SAMPLE = os.path.join(ROOT, "samples", "llm")
COUNT = 100


def expected():
    """A prompt, and torch's greedy tokens after it."""
    with open(os.path.join(SAMPLE, "expected.txt"), encoding="utf-8") as f:
        prompt, tokens = f.read().splitlines()
    return prompt, [int(t) for t in tokens.split()]


def spoken(kind, place, prompt):
    return run(["make", "-s", "-C", SAMPLE, kind, f"B={place}", f"ONNXC={ONNXC}", f"SPEAK=-t 0 -n {COUNT} -o numbers", f"PROMPT={prompt}"],
               timeout=600)


def runtime_tokens(prompt):
    """Those of ONNX Runtime, whose int4 kernels would round activations too, unless told not to."""
    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(os.path.join(SAMPLE, "speaker.onnx"), options, providers=["CPUExecutionProvider"])
    caches = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()[2:]}
    given, position, made = prompt, 0, []
    while len(made) < COUNT:
        logits, *new = session.run(None, {"tokens": np.array([given]), "position": np.array([position]), **caches})
        caches = dict(zip(caches, new))
        position += len(given)
        given = [int(logits[0, -1].argmax())]
        made += given
    return made


def tokens_module():
    spec = importlib.util.spec_from_file_location("tokens", os.path.join(SAMPLE, "tokens.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def merges_of():
    with open(os.path.join(SAMPLE, "merges.h"), encoding="utf-8") as f:
        pairs = f.read().split("merges[][2] = {")[1].replace("{", " ").replace("}", " ").replace(",", " ").split(";")[0].split()
    return [(int(a), int(b)) for a, b in zip(pairs[::2], pairs[1::2])]


def lines():
    """Text, and bytes that are none."""
    with open(os.path.join(ROOT, "README.md"), "rb") as f:
        yield from f.read().splitlines()
    yield from ["def f(x):  return  1234567", "  \t two  spaces ", "", "größer – “quoted” 日本語", "a" * 100, " " * 70 + "x"]
    dice = random.Random(7)
    for _ in range(100):
        yield bytes(dice.choice([32, 9, 46, 48, 97, 101, 116, dice.randrange(1, 256)]) for _ in range(dice.randrange(90))).replace(b"\n", b"")


def text(results):
    """Tokenizer and sampler under sanitizers, with both compilers."""
    module, merges = tokens_module(), merges_of()
    given = [line if isinstance(line, bytes) else line.encode() for line in lines()]
    right = [module.encode(line, merges) for line in given]
    for compiler in ("gcc", "clang-19"):
        program = os.path.join(BUILD, "test-llm", f"text-{compiler}")
        made = run([compiler, "-O1", "-g", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=address,undefined",
                    "-fno-sanitize-recover=all", f"-I{SAMPLE}", os.path.join(ROOT, "test", "llm", "text.c"),
                    *(os.path.join(SAMPLE, n) for n in ("tokenizer.c", "sampler.c")), "-o", program, "-lm"], timeout=120)
        if not results.check(made.code == 0, f"text.c with {compiler}", made.why()):
            continue
        ran = subprocess.run([program], input=b"\n".join(given) + b"\n", capture_output=True, check=False)
        got = [[int(t) for t in line.split()] for line in ran.stdout.decode().splitlines()]
        results.check(ran.returncode == 0, f"tokenizer and sampler with {compiler}", ran.stderr.decode()[:500])
        wrong = next((line for line, a, b in zip(given, got, right) if a != b), None)
        results.check(len(got) == len(right) and wrong is None, f"tokens with {compiler}", f"other tokens than in Python for {wrong!r}")


def speaker(results):
    place = os.path.join(BUILD, "test-llm")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    text(results)
    prompt, right = expected()
    given = tokens_module().encode(prompt.encode(), merges_of())
    for kind in ("host", "aarch64"):
        if kind == "aarch64" and not shutil.which("qemu-aarch64"):
            results.skip(kind, "there is no qemu-aarch64")
            continue
        ran = spoken(kind, place, prompt)
        got = [int(t) for t in ran.out.split()] if ran.code == 0 else ran.why()
        results.check(got == given + right, f"{kind}: torch's tokens", str(got))
    results.check(runtime_tokens(given) == right, "ONNX Runtime's tokens", "other tokens than torch's")
