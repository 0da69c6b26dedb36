#!/usr/bin/env python3
"""Measures this build and writes the figures, with machine and commit, to benchmarks/results: whole models beside the peers
(benchmarks/peers/peer_cpu.py, an engine built for each cell), and the programs of benchmarks/micro.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
GRAPHS = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "vit_b_16", "deeplabv3_resnet50", "unet", "bert_base", "bert_large", "gpt2")
QUICK = ("mobilenet_v3_large", "resnet50", "bert_base")
# Arguments of a program of benchmarks/micro: usual ones, and those of --quick.
MICRO = {"gemm_bench": ([], ["--only", "gemm 128x768"]), "block_bench": (["--bar", "0"], ["--bar", "0", "--rounds", "3"])}
NUMBER = re.compile(r"(?:(\w+) +)?(-?\d+(?:\.\d+)?) *(GB/s|GF/s|GFLOP/s|us|ms|%)?")


class Failure(Exception):
    """An error the user can act on."""


def arguments():
    p = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", metavar="MODEL", help="names of models/README.md (default: the nine graphs)")
    p.add_argument("--quick", action="store_true", help="three graphs at batch 1, a second each; a part of the kernels")
    p.add_argument("--only", choices=("peers", "micro"), help="leave the other half out")
    p.add_argument("--batch", help="batches, comma-separated (default 1,8; with --quick 1)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: usable CPUs")
    p.add_argument("--openvino-precision", choices=("f32", "bf16"), help="pin OpenVINO's arithmetic (default: its own choice, bf16 where the CPU has it)")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "benchmarks" / "results", metavar="DIR")
    p.add_argument("--list", action="store_true", help="only print the models that would be measured")
    a = p.parse_args()
    known = {f.name.split(".")[0] for f in (ROOT / "models").glob("*.onnx")}
    if unknown := [m for m in a.models if m not in known]:
        p.error(f"no model '{unknown[0]}' in models/: it has {', '.join(sorted(known))}")
    if a.threads < 1:
        p.error(f"--threads {a.threads}: expected 1 or more")
    if a.batch and not re.fullmatch(r"[1-9][0-9]*(,[1-9][0-9]*)*", a.batch):
        p.error(f"--batch {a.batch}: expected numbers from 1, such as 1,8")
    a.precision = f"_{a.openvino_precision}" if a.openvino_precision else ""
    a.suffix = ("_part" if a.models or a.batch else "") + ("_quick" if a.quick else "")
    a.models = [] if a.only == "micro" else a.models or list(QUICK if a.quick else GRAPHS)
    a.batch = a.batch or ("1" if a.quick else "1,8")
    return a


def command(words):
    """Standard output of a command, which must succeed."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise Failure(f"`{' '.join(map(str, words))}` gave exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def commit():
    """Short hash of HEAD, with + where tracked files differ; empty outside a checkout."""
    try:
        dirty = command(["git", "status", "--porcelain", "--untracked-files=no", ":!benchmarks/results"]).strip()
        return command(["git", "rev-parse", "--short", "HEAD"]).strip() + ("+" if dirty else "")
    except (Failure, OSError):
        return ""


def model_file(name):
    """The model made complete, or the one in the tree where it is complete already."""
    made = ROOT / "build" / "models" / f"{name}.onnx"
    return made if made.is_file() else ROOT / "models" / f"{name}.onnx"


def peers(a, folder):
    """What peer_cpu.py measured, its table on the terminal."""
    told = folder / "peers.json"
    build = "build/bin/peri build {model} -o build/bench/{name}.engine --dims {dims} --threads {threads} --quiet"
    bench = "build/bin/peri bench build/bench/{name}.engine --dims {dims} --threads {threads} --seconds 1 --quiet --json -"
    words = [sys.executable, ROOT / "benchmarks" / "peers" / "peer_cpu.py", *map(model_file, a.models), "--batch", a.batch, "--threads", a.threads,
             "--seconds", "1.5" if a.quick else "5", *(("--openvino-precision", a.openvino_precision) if a.openvino_precision else ()), "--prepare", build, "--also", f"peri={bench}", "--json", told]
    done = subprocess.run([str(w) for w in words], cwd=ROOT)
    if done.returncode:
        raise Failure(f"peer_cpu.py gave exit code {done.returncode}")
    return json.loads(told.read_text())


def micro(a):
    """Lines of every program of benchmarks/micro, each with the figures it has."""
    out = []
    for source in sorted((ROOT / "benchmarks" / "micro").glob("*.cpp")):
        usual, quick = MICRO.get(source.stem, ([], []))
        print(f"{source.stem}:", flush=True)
        lines = command([BIN / source.stem, *(quick if a.quick else usual)]).splitlines()
        for line in lines:
            print("  " + line, flush=True)
            figures = [{"value": float(value), "unit": unit} | ({"of": of} if of else {}) for of, value, unit in NUMBER.findall(line) if unit or of == "ratio"]
            out.append({"program": source.stem, "line": line.strip(), "figures": figures})
    return out


def main():
    a = arguments()
    if a.list:
        print(*a.models)
        return 0
    start = time.monotonic()
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    a.out.mkdir(parents=True, exist_ok=True)
    head = {"date": datetime.date.today().isoformat(), "commit": commit(), "program": command([BIN / "peri", "--version"]).strip(),
            "command": "./dev bench " + " ".join(sys.argv[1:]), "doctor": json.loads(command([BIN / "peri", "doctor", "--quiet", "--json", "-"]))}
    written = []
    for name, measure in (("peers", lambda: peers(a, folder)), ("micro", lambda: {"lines": micro(a)})):
        if a.only not in (None, name):
            continue
        path = a.out / f"{head['date']}_cpu_{name}{a.precision if name == 'peers' else ''}{a.suffix}.json"
        path.write_text(json.dumps(head | measure(), indent=1) + "\n")
        written.append(str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path))
    print(f"PASSED bench: {', '.join(written)}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError) as failure:
        print(f"FAILED bench: {failure}", file=sys.stderr)
        sys.exit(1)
