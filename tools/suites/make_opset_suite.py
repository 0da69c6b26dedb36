#!/usr/bin/env python3
"""Write one-node models of every operator at every schema version from opset 7 on, with expected outputs.

The samples stand in the opset_*.py tables beside this file. Each model names its inputs x0, x1, ... and outputs y0, ...;
every third one has symbolic dimensions (s4 where the size is 4). OUT/index.json says per case which oracle answered and
whether the other one agrees, and gives its tolerance; per case left out, the reason.
"""
import dataclasses
import fnmatch
import importlib
import math
import pathlib
import sys
import zlib

import numpy as np
from opset_cases import BFLOAT16, build, onnx_type, versions
from opset_oracles import NoAnswer, expected
from suite_files import Suite, SuiteError, add_operator_options, ask_operators, parser, run

TOLERANCE = {np.dtype(np.float64): (1e-7, 1e-9), np.dtype(np.float32): (1e-4, 1e-5), np.dtype(np.float16): (2**-9, 2**-12), BFLOAT16: (2**-6, 2**-9)}
# Node tests allow 1e-3; one-node models of a few hundred sums need less.
SINGLE = {"Gelu", "HardSwish", "GroupNormalization"}  # the oracles take float32 constants or sums for float64 too
# Operators of long sums → how many terms each has at most. Whatever the order of summation or the algorithm (Winograd's
# too), a float32 sum of K terms is right to about sqrt(K) u sum|terms| (Higham and Mary, SIAM J. Sci. Comput. 41, 2019).
SUMS = {
    "Conv": lambda s: s.inputs[1][:1].size + 1,
    "ConvTranspose": lambda s: s.inputs[1][:, :1].size + 1,
    "Gemm": lambda s: s.inputs[0].shape[0 if s.attrs.get("transA") else 1] + 1,
    "MatMul": lambda s: s.inputs[0].shape[-1],
}


def families():
    """Operator → sample function, from every opset_*.py table beside this file."""
    found = {}
    for path in sorted(pathlib.Path(__file__).parent.glob("opset_*.py")):
        samples = getattr(importlib.import_module(path.stem), "SAMPLES", {})
        if twice := found.keys() & samples.keys():
            raise SuiteError(f"{path.name}: {', '.join(sorted(twice))} stands in another table too")
        found |= samples
    return dict(sorted(found.items()))


def largest(outputs):
    return max((float(np.abs(o).max()) for o in outputs if o.size and o.dtype.kind == "f"), default=0.0)


def magnitudes(v, sample):
    """The largest sum of |terms| of an operator of SUMS: its answer for the magnitudes of all its numbers."""
    attrs = {k: abs(a) if isinstance(a, float) else a for k, a in sample.attrs.items()}
    positive = dataclasses.replace(sample, inputs=[a if a is None else abs(a) for a in sample.inputs], attrs=attrs)
    return largest(expected(v, positive, 1e-4, 1e-5)[0])


def tolerance(v, sample, outputs):
    op, inputs = v.op, sample.inputs
    kinds = {a.dtype for a in (*inputs, *outputs) if a is not None}
    if op in SINGLE and np.dtype(np.float64) in kinds:
        return 1e-5, max(1e-7, 2.0**-22 * largest(outputs))
    if op in SUMS and outputs and kinds == {np.dtype(np.float32)} and outputs[0].size:
        return 1e-4, max(1e-6, math.sqrt(SUMS[op](sample)) * 2.0**-24 * magnitudes(v, sample))
    known = [TOLERANCE[k] for k in kinds if k in TOLERANCE]
    return (max(r for r, _ in known), max(a for _, a in known)) if known else (1e-4, 1e-5)


def case_name(v, sample):
    return f"{v.op.lower()}_v{v.version}_{sample.name.replace('object', 'string')}"  # numpy's word for strings


def add(suite, v, sample):
    """One sample as a case of the suite, or its reason to be left out."""
    name = case_name(v, sample)
    facts = {"op": v.op, "version": v.version, "opset": v.opset}
    rtol, atol = tolerance(v, sample, [])
    try:
        outputs, said = expected(v, sample, rtol, atol)
        symbolic = zlib.crc32(name.encode()) % 3 == 0
        kinds = [(onnx_type(o.dtype), [f"y{i}_{axis}" for axis in range(o.ndim)] if symbolic else o.shape) for i, o in enumerate(outputs)]
        model = build(v, sample, symbolic, name, out_types=kinds)
    except NoAnswer as reason:
        suite.skip(name, str(reason), **facts)
        return
    inputs = [a for i, a in enumerate(sample.inputs) if a is not None and i not in sample.const]
    rtol, atol = tolerance(v, sample, outputs)
    del facts["opset"]
    suite.add(name, model, [(inputs, outputs)], rtol=rtol, atol=atol, symbolic=symbolic, **facts, **said)


def main():
    p = parser(__doc__)
    add_operator_options(p)
    p.add_argument("--names", default="*", metavar="PATTERN", help="only cases whose name matches (default *)")
    p.add_argument("--seed", type=int, default=0, help="of all values (default 0)")
    p.add_argument("--list", action="store_true", help="print the operators of the tables with their versions; write nothing")
    a = p.parse_args()
    tables, claimed = families(), ask_operators(a.ops, a.ops_from)
    if a.list:
        for op in tables:
            print(op, " ".join(str(v.version) for v in versions(op)))
        return 0
    suite = Suite(a.out, "make_opset_suite.py")
    for op, samples in tables.items():
        if claimed is not None and op not in claimed:
            continue
        for v in versions(op, a.seed):
            seen = set()
            for sample in samples(v):
                if sample.name in seen:
                    raise SuiteError(f"{op} version {v.version}: two samples are called {sample.name}")
                seen.add(sample.name)
                if fnmatch.fnmatch(case_name(v, sample), a.names):
                    add(suite, v, sample)
    unknown = sorted((claimed or set()) - tables.keys())
    if unknown:
        print(f"no samples for {len(unknown)} claimed operators: {', '.join(unknown)}", file=sys.stderr)
    suite.close()
    return 0


if __name__ == "__main__":
    run(main)
