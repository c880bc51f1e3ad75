"""Language models of the builder of generative models and of torch's exporters, 64 tokens by greedy search against ONNX Runtime.

usage: decoders.py [--again] [--only PART,...] [OPTION...]     PART: of FAMILY-EXPORT; OPTION: the compiler's
Exports: int4, int8, fp16 and fp32 of onnxruntime-genai's builder; caches that grow, from torch's exporter by tracing (legacy) and the
newer one (dynamo), as optimum writes them; transformers' static cache (static). Each runs with caches that are new in every step, but
for static ones, and with --state. Models are kept in build/decoders. Prints a line for each and
"N passed, N failed, N skipped" at the end; skipped is what a tool cannot export.
"""
import argparse
import os
import subprocess
import sys

from families import modes_of

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "decoders")
BUILDER = ["llama", "mistral", "qwen2", "qwen3", "phi", "phi3", "gemma", "gemma2", "llama3", "granite", "hunyuan", "ernie", "nemotron", "gptoss",
           "lfm2", "lfm2moe"]
EXPORTED = ["llama", "mistral", "qwen2", "qwen3", "phi", "phi3", "gemma", "gemma2", "gpt2", "opt", "neox", "bloom", "mpt", "stablelm",
            "starcoder2", "olmo2", "cohere2", "exaone4", "smollm3", "gemma3", "olmo3", "qwen3moe", "falcon", "gptj", "codegen", "bigcode",
            "gptneo", "mixtral", "qwen2moe", "olmoe", "deepseek3", "cohere", "glm", "glm4", "phi3long", "helium", "persimmon",
            "bitnet", "diffllama", "seedoss", "apertus", "granite", "llama3", "nemotron", "arcee", "dots1", "glm4moe", "phimoe", "vaultgemma",
            "biogpt", "xglm", "ctrl", "gemma3n"]
MORE = ["qwen3-fp16-fuse_qk_norm_gqa=false",  # ONNX Runtime's CPU provider cannot run the other
        "llama-int4-accuracy_level=1", "llama-int4-use_qdq=true", "llama-int4-is_symmetric=false", "qwen2-int4-block_size=16",
        "llama-int4-block_size=128"]


def listed():
    named = [f"{f}-{e}" for e in ("int4", "int8", "fp16", "fp32") for f in BUILDER if (f, e) != ("qwen3", "fp16")]
    named += MORE + [f"{f}-{e}" for e in ("legacy", "dynamo", "static") for f in EXPORTED]
    return named


def made(name, again):
    """(the file, why it is not there)"""
    folder = os.path.join(OUT, name)
    path = os.path.join(folder, "model.onnx")
    if os.path.exists(path) and not again:
        return path, ""
    ran = subprocess.run([sys.executable, "-W", "ignore", os.path.join(HERE, "make.py"), name, folder], capture_output=True, text=True)
    lines = (ran.stdout + ran.stderr).strip().splitlines()
    return path, "" if ran.returncode == 0 else (lines or ["killed"])[-1][:200]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", default="")
    arguments, options = parser.parse_known_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in listed():
        if not any(part in name for part in arguments.only.split(",")):
            continue
        path, why = made(name, arguments.again)
        if why:
            print(f"{name:30s} not made: {why}", flush=True)
            counts["skipped"] += 1
            continue
        for share in modes_of(name):
            mode = ["--share"] if share else []
            ran = subprocess.run([sys.executable, "-W", "ignore", os.path.join(HERE, "greedy.py"), path, *mode, *options],
                                 capture_output=True, text=True)
            line = (ran.stdout.strip() or ran.stderr.strip() or f"exit code {ran.returncode}").splitlines()[-1][:400]
            print(f"{name:30s} {'in place' if share else 'new     '} {line}", flush=True)
            counts["failed" if ran.returncode else "passed"] += 1
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
