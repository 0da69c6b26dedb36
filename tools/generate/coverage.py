#!/usr/bin/env python3
"""Which operators of docs/operators.md the models of the first seeds have, how often, and which never.

    coverage.py [--seeds 0:3000] [--all]

Exit code 1 when an operator of the page is neither generated nor named in LEFT_OUT, or LEFT_OUT names one that is generated or
not on the page."""
import argparse
import collections
import pathlib
import re
import sys

import cases
from compose import model_of
from graph import nodes_of

PAGE = pathlib.Path(__file__).parents[2] / "docs/operators.md"
WITHOUT_WITNESS = "ONNX Runtime 1.31 takes no opset from 27 on; suites/node has it"
EXPERIMENTAL = "of opsets before 10; tests/typed/exported_typed.py has it"
LEFT_OUT = {
    "ai.onnx.ml.ZipMap": "ONNX Runtime gives lists of maps, which the witness does not hold against tensors; tests/typed/categories_typed.py has it",
    **dict.fromkeys(("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"), EXPERIMENTAL),
    "CausalConvWithState": WITHOUT_WITNESS,
    "LinearAttention": WITHOUT_WITNESS,
    "SwiGLU": WITHOUT_WITNESS,
    "com.microsoft.CDist": "its squares cancel; suites/microsoft has it",
    "com.microsoft.DynamicQuantizeLSTM": "ONNX Runtime rounds inputs and states to 8 bits, the engine to 16: some hundredths apart; suites/microsoft has it",
    "com.microsoft.QLinearReduceMean": "ONNX Runtime has no CPU kernel of it; tests/onnx/microsoft_test.cpp has it",
    "com.microsoft.QLinearSoftmax": "ONNX Runtime sums exponentials as integers, and wraps where 1 passes the last byte; suites/microsoft has it",
    "com.microsoft.Solve": "ONNX Runtime registers no kernel of it; tests/typed/exported_typed.py has it",
}


def named(text):
    """Operators of the table of the page."""
    return re.findall(r"^\| `([A-Za-z0-9_.]+)` \| [0-9]", text, re.M)


def operator(node):
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def found(seeds):
    """In how many models of these seeds each operator is."""
    count = collections.Counter()
    for seed in seeds:
        count.update({operator(n) for n in nodes_of(model_of(seed)[0].graph.node)})
    return count


def troubles(wanted, count, left_out):
    """What the page, the models and the list of what is left out say against each other."""
    out = [f"{op}: no model has it; add a block, or name it in LEFT_OUT of coverage.py with the reason" for op in wanted if not count[op] and op not in left_out]
    out += [f"{op}: models have it, and LEFT_OUT of coverage.py names it; remove it there" for op in left_out if count[op]]
    return out + [f"{op}: LEFT_OUT of coverage.py names it, docs/operators.md does not; remove it there" for op in left_out if op not in wanted]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=cases.span, default=range(3000), metavar="A:B")
    p.add_argument("--all", action="store_true", help="print every operator with the number of its models, not the rarest only")
    a = p.parse_args()
    wanted, count = named(PAGE.read_text()), found(a.seeds)
    rows = sorted((count[op], op) for op in wanted if count[op])
    for n, op in rows if a.all else rows[:12]:
        print(f"{n:6} {op}")
    for op, why in sorted(LEFT_OUT.items()):
        print(f"  none {op}: {why}")
    bad = troubles(wanted, count, LEFT_OUT)
    print("\n".join(bad))
    print(f"{'FAILED' if bad else 'PASSED'}: {len(rows)} of {len(wanted)} operators in {len(a.seeds)} models, {len(LEFT_OUT)} left out, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
