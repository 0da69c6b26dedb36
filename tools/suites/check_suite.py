#!/usr/bin/env python3
"""Run a suite folder through ONNX Runtime and compare with its expected outputs: a check of the suite, not of us.

With --peri it is us, one `peri run` a data set: slower than `peri verify --suite`, and a comparison not of our own
making. Prints each case that differs and a count of the refused (ONNX Runtime lacks some operators and types). Exit
code 1 when a case differs; sequences and optionals are not compared.
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import sys

import numpy as np
import onnx
from engines import Peri
from onnx import numpy_helper
from suite_files import SuiteError, run


def load(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor.name, numpy_helper.to_array(tensor)


def differs(ours, wanted, case):
    """What differs, or None: exact for strings, bool and integers, rtol/atol else, NaN equal to NaN."""
    if ours.shape != wanted.shape:
        return f"shape {ours.shape}, wanted {wanted.shape}"
    if wanted.dtype.kind in "OSU":
        decode = np.vectorize(lambda s: s.decode() if isinstance(s, bytes) else str(s), otypes=[object])
        return None if ours.size == 0 or (decode(ours) == decode(wanted)).all() else "strings differ"
    if ours.dtype != wanted.dtype and ours.dtype.itemsize == wanted.dtype.itemsize and ours.dtype.kind in "uV":
        ours = ours.view(wanted.dtype)  # types numpy does not know arrive as bytes
    if ours.dtype != wanted.dtype:
        return f"type {ours.dtype}, wanted {wanted.dtype}"
    if wanted.dtype.kind in "biu":
        return None if (ours == wanted).all() else "values differ"
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    ours, wanted = ours.astype(wide), wanted.astype(wide)
    if np.allclose(ours, wanted, rtol=case.get("rtol", 1e-3), atol=case.get("atol", 1e-7), equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"max difference {np.nanmax(np.abs(ours - wanted)):.3g}"


def onnxruntime_runner():
    """model file, {input: file} → {output: array}, by ONNX Runtime without its own rewriting."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def answer(model, files):
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(None, {n: load(f)[1] for n, f in files.items()})))

    return answer, f"ONNX Runtime {ort.__version__}"


def check(suite, case, answer):
    folder = suite / case["name"]
    for data in sorted(folder.glob("test_data_set_*")):
        ours = answer(folder / "model.onnx", {load(p)[0]: p for p in data.glob("input_*.pb")})
        for file in sorted(data.glob("output_*.pb")):
            name, expected = load(file)
            if name not in ours:
                return f"{data.name}: no output {name}"
            if problem := differs(np.asarray(ours[name]), expected, case):
                return f"{data.name} {name}: {problem}"
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", type=pathlib.Path, metavar="SUITE")
    p.add_argument("--refusals", action="store_true", help="print the refused cases too")
    p.add_argument("--peri", metavar="FILE", help="run this command instead of ONNX Runtime")
    p.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth case")
    p.add_argument("--names", default="*", metavar="PATTERN", help="only cases whose name matches")
    a = p.parse_args()
    if not (a.suite / "index.json").is_file():
        raise SuiteError(f"{a.suite} is not a suite: it has no index.json")
    answer, who = (Peri(a.peri).run, "peri") if a.peri else onnxruntime_runner()
    counts = collections.Counter()
    cases = [c for c in json.loads((a.suite / "index.json").read_text())["cases"] if fnmatch.fnmatch(c["name"], a.names)]
    for case in cases[:: a.every]:
        try:
            problem = check(a.suite, case, answer)
        except Exception as error:  # ONNX Runtime raises a class of its own per status, and protobuf's for containers
            counts["refused"] += 1
            if a.refusals:
                print(f"refused  {case['name']}: {str(error).splitlines()[0][:150]}")
            continue
        counts["differ" if problem else "agree"] += 1
        if problem:
            print(f"differs  {case['name']}: {problem}")
    print(f"{a.suite}: {counts['agree']} agree, {counts['differ']} differ, {counts['refused']} refused by {who}")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    run(main)
