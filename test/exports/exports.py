"""Models of torch, torchvision and transformers through both of torch's exporters, compiled and compared with ONNX Runtime.

usage: exports.py [--opset N] [--again] [--small] [--only PART,...] [--options "..."]     PART: of NAME-EXPORTER
--small: the networks in little, as test/exports/store.py keeps them for the default tests.
Exported folders are kept in build/exports. Prints a line for each model and "N passed, N failed, N skipped" at the end;
skipped is what torch itself cannot export.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "exports")


def listed():
    """(name, exporter) of everything; importing torch in a child keeps this process small."""
    code = "import export; print(*(f'{n} {e}' for n, s in export.EXPORTS.items() for e in s.exporters), sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    return [line.split() for line in ran.stdout.splitlines()]


def exported(server, name, exporter, opset, folder, again):
    """Whether the folder is there, made now if need be; the reason where it is not."""
    if not again and os.path.exists(os.path.join(folder, "tolerance")):
        return True, ""
    print(name, exporter, opset, folder, file=server.stdin, flush=True)
    code = server.stdout.readline().strip()
    with open(folder + ".log", encoding="utf-8") as f:
        lines = [line for line in f if line.strip()]
    return code == "0", lines[-1].strip()[:200] if lines else f"exit code {code}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opset", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    out = OUT
    if arguments.small:
        os.environ["EXPORTS_SMALL"] = "1"
        out += "-small"
    os.makedirs(out, exist_ok=True)
    server = subprocess.Popen([sys.executable, "-W", "ignore", os.path.join(HERE, "export.py")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, exporter in listed():
        label = f"{name}-{exporter}" + (f"-{arguments.opset}" if arguments.opset else "")
        if arguments.only and not any(part in label for part in arguments.only.split(",")):
            continue
        folder = os.path.join(out, label)
        there, why = exported(server, name, exporter, arguments.opset, folder, arguments.again)
        if not there:
            print(f"{label:30s} not exported: {why}", flush=True)
            counts["skipped"] += 1
            continue
        ran = subprocess.run([sys.executable, os.path.join(HERE, "measure.py"), folder, *arguments.options.split()],
                             capture_output=True, text=True)
        print(ran.stdout.strip() or f"{label}: exit code {ran.returncode} {ran.stderr.strip()[-300:]}", flush=True)
        counts["failed" if ran.returncode else "passed"] += 1
    server.stdin.close()
    server.wait()
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
