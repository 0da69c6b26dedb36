#!/usr/bin/env python3
"""Give the corpus of the fuzzer of ONNX files a small generated model of each operator that none of its files has.

    seeds.py [--seeds 0:1500] [--check]

Operators are those of docs/operators.md that tools/generate makes. `./dev fuzz --minimize` keeps what reaches new code only:
run this after it. --check writes nothing, and fails for an operator without a file. A new file's name is that of the
operators that it is there for."""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/generate"))
import cases  # noqa: E402
import coverage  # noqa: E402
import onnx  # noqa: E402
from compose import model_of  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402
from graph import nodes_of, save  # noqa: E402

CORPUS = ROOT / "tests/fuzz/corpus/onnx"
MOST_BYTES = 6000


def operators(model):
    return {coverage.operator(n) for n in nodes_of(model.graph.node)}


def held():
    """Operators of the files that are models."""
    out = set()
    for file in CORPUS.iterdir():
        try:
            out |= operators(onnx.load_model_from_string(file.read_bytes()))
        except DecodeError:
            continue  # bytes that are no model are seeds too
    return out


def candidates(seeds, lacking):
    """Small models that have one of these operators: (operators, bytes)."""
    out = []
    for seed in seeds:
        model = model_of(seed)[0]
        found = operators(model) & lacking
        data = save(model) if found else b""
        if found and len(data) <= MOST_BYTES:
            out.append((found, data))
    return out


def chosen(models, lacking):
    """Models that have all of them, the one first that has most for its size."""
    left, out = set(lacking), []
    while models:
        found, data = max(models, key=lambda m: (len(m[0] & left) / (len(m[1]) + 500), m[1]))
        if not found & left:
            break
        out.append((found & left, data))
        left -= found
    return out, left


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=cases.span, default=range(1500), metavar="A:B")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    lacking = set(coverage.named(coverage.PAGE.read_text())) - set(coverage.LEFT_OUT) - held()
    left = lacking
    if lacking and not a.check:
        files, left = chosen(candidates(a.seeds, lacking), lacking)
        for found, data in files:
            (CORPUS / "_".join(sorted(found))[:80]).write_bytes(data)
        print(f"{len(files)} files, {sum(len(d) for _, d in files)} bytes")
    for op in sorted(left):
        print(f"{op}: no file of {CORPUS.relative_to(ROOT)} has it; run tools/fuzz/seeds.py, with other --seeds where it says so again")
    print("FAILED" if left else "PASSED")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
