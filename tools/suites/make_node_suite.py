#!/usr/bin/env python3
"""Write the ONNX backend node tests of the installed onnx package as a suite folder.

A case whose operators are all claimed is written; the others stand in OUT/index.json with the reason. Tolerances are
the package's own but for attention in 16 bits (ATTENTION_BFLOAT16, ATTENTION_FLOAT16), in the index per case.
"""
import fnmatch
import sys
import warnings

from suite_files import Suite, add_operator_options, ask_operators, containers, dtypes, operators, opset, parser, run

RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}


# The package computes these answers in bfloat16 step by step and expects them to 1e-3, a quarter of that type's spacing:
# they lie up to 0.005 from the float64 answer where the nearest bfloat16 lies within 0.002. Two spacings are 2^-6.
ATTENTION_BFLOAT16 = 2**-6
# Where each node of attention written out rounds rightly to float16, test_attention_4d_causal_fp16_expanded gives 0.468994; float64
# gives 0.469190, the package expects 0.469482 to 1e-3, which is about one spacing. Of test_attention_4d_fp16 a GPU gives 0.180176,
# float64 0.180250, the package 0.180420. Two spacings are 2^-9.
ATTENTION_FLOAT16 = 2**-9


def reason_to_skip(case, claimed, foreign):
    """Why a case is left out, or None."""
    used = operators(case.model)
    if claimed is not None and (missing := [op for op in used if op not in claimed]):
        return f"not claimed: {', '.join(missing)}"
    if random := RANDOM.intersection(used):
        return f"random output: {', '.join(sorted(random))}"
    if "Dropout" in used and case.name.startswith("test_training_dropout") and "zero_ratio" not in case.name:
        return "random output: Dropout in training mode"
    if foreign:
        return None
    if domains := sorted({op.rpartition(".")[0] for op in used if "." in op} - {"ai.onnx.ml"}):
        return f"domain {', '.join(domains)}"
    if any(v is None for inputs, _ in case.data_sets for v in inputs):
        return "an optional input that is left out"
    if kinds := sorted(set(containers(case.model)) - {"sequence", "optional"}):
        return f"inputs or outputs of kind {', '.join(kinds)}"
    return None


def main():
    p = parser(__doc__)
    add_operator_options(p)
    p.add_argument("--all-kinds", action="store_true", help="also other domains (training, preview)")
    p.add_argument("--names", default="*", metavar="PATTERN", help="only cases whose name matches (default *)")
    a = p.parse_args()
    claimed = ask_operators(a.ops, a.ops_from)
    warnings.simplefilter("ignore")  # the package's expected overflows and divisions by zero
    from onnx.backend.test.case.node import collect_testcases

    suite = Suite(a.out, "make_node_suite.py")
    for case in sorted(collect_testcases(), key=lambda c: c.name):
        if not fnmatch.fnmatch(case.name, a.names):
            continue
        facts = {"rtol": case.rtol, "atol": case.atol}
        if case.name.startswith("test_attention") and "bfloat16" in dtypes(case.model):
            facts["rtol"] = max(case.rtol, ATTENTION_BFLOAT16)
        if case.name.startswith("test_attention") and "float16" in dtypes(case.model):
            facts["rtol"] = max(case.rtol, ATTENTION_FLOAT16)
        if case.name in ("test_dft_inverse", "test_dft_inverse_opset19"):
            facts["atol"] = 1e-6  # its answers are numpy's in float32, off by 2e-7 where they are zero
        if reason := reason_to_skip(case, claimed, a.all_kinds):
            suite.skip(case.name, reason, ops=operators(case.model), opset=opset(case.model), dtypes=dtypes(case.model))
        else:
            suite.add(case.name, case.model, case.data_sets, **facts)
    if not suite.close():
        print(f"make_node_suite.py: no case matches --names {a.names} and the claimed operators", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    run(main)
