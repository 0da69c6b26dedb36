#!/usr/bin/env python3
"""Every operator beside ONNX Runtime: three sizes as networks have them, in turn, on the same inputs.

For each row of operator_cases.py a model of one node is written, an engine built, and rounds go over both programs. A
row of the table holds both medians, their ratio (below 1: peri is faster) with the 95 % bootstrap interval of the ratio
of medians, and what ran it: the kernels, or "reference".

  operator_matrix.py --json build/matrix.json --markdown build/matrix.md
  operator_matrix.py --only Pad,TopK --quick

--quick takes the usual size, one round, and each kernel's first offer. Needs numpy, onnx, onnxruntime.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper
from operator_cases import SIZES, Given, rows
from peer_cpu import Failure, cpu_name, timed


def model(row, case, rng):
    """The model of one node, and the inputs of a run."""
    arguments, attributes = row.cases[case]
    names, inputs, held, feed = [], [], [], {}
    for k, argument in enumerate(arguments):
        names.append(f"x{k}")
        value = argument.make(rng)
        if isinstance(argument, Given):
            feed[names[-1]] = value
            inputs.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape)))
        else:
            held.append(numpy_helper.from_array(value, names[-1]))
    outputs = [f"y{k}" for k in range(row.outputs)]
    node = helper.make_node(row.op, names, outputs, domain=row.domain, **attributes)
    graph = helper.make_graph([node], row.op, inputs, [onnx.ValueInfoProto(name=name) for name in outputs], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(row.domain, row.opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made, strict_mode=True), feed


def peri(a, *words):
    """The JSON object that a command of the program prints."""
    done = subprocess.run([a.peri, *map(str, words), "--quiet", "--json", "-"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Failure((done.stderr or done.stdout).strip()[-600:] or f"exit code {done.returncode}") from error


def ratio_interval(ours, theirs, resamples=500):
    rng = np.random.default_rng(0)
    medians = [[np.median(v[rng.integers(0, len(v), len(v))]) for _ in range(resamples)] for v in map(np.asarray, (ours, theirs))]
    low, high = np.percentile(np.divide(*medians), [2.5, 97.5])
    return [round(float(low), 3), round(float(high), 3)]


def check(session, feed, a, engine, folder):
    """The largest difference between the two answers, over the largest magnitude; None where shapes or types differ."""
    answers = peri_answers(a, engine, folder)
    worst = 0.0
    for info, right in zip(session.get_outputs(), session.run(None, feed)):
        ours = answers.get(info.name)
        if ours is None or ours.shape != right.shape or ours.dtype != right.dtype:
            return None
        if right.size:
            left, right = ours.astype(np.float64), right.astype(np.float64)
            top = np.max(np.abs(right[np.isfinite(right)]), initial=1e-30)
            worst = max(worst, float(np.max(np.where(left == right, 0, np.nan_to_num(np.abs(left - right), nan=0 if np.isnan(left).any() else np.inf)))) / top)
    return worst


def peri_answers(a, engine, folder, given=None):
    """Outputs by name of one run; `given`: words that name the inputs, else the files x*.npy of the folder."""
    given = given or [word for path in sorted(folder.glob("x*.npy")) for word in ("--input", f"{path.stem}={path}")]
    found = {}
    wanted = folder / "answers"
    done = subprocess.run([a.peri, "run", str(engine), *given, "--output-dir", str(wanted), "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise Failure((done.stderr or done.stdout).strip()[-600:])
    for path in wanted.glob("*.npy"):
        found[path.stem] = np.load(path)
    return found


def measure(row, case, a, ort, folder):
    made, feed = model(row, case, np.random.default_rng(7))
    path, engine = folder / "model.onnx", folder / "model.engine"
    onnx.save(made, path)
    for name, value in feed.items():
        np.save(folder / f"{name}.npy", value)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = a.threads, 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    session.run(None, feed)
    built = peri(a, "build", path, "-o", engine, "--force", "--threads", a.threads, *(["--no-tune", "--no-verify"] if a.quick else []))
    if "steps_in_order" not in built:
        raise Failure(str(built.get("error", built))[:600])
    given = [word for name in feed for word in ("--input", f"{name}={folder / name}.npy")]
    difference = check(session, feed, a, engine, folder)
    ours, theirs = [], []
    for _ in range(a.rounds):
        theirs += timed(lambda: session.run(None, feed), a.seconds)
        report = peri(a, "bench", engine, "--seconds", a.seconds, "--threads", a.threads, *given)
        if "samples" not in report:
            raise Failure(str(report.get("error", report))[:600])
        ours += report["samples"]
    kernels = sorted({step["chosen"].split()[0] for step in built["steps_in_order"]})
    return {"peri_ms": round(float(np.median(ours)), 5), "onnxruntime_ms": round(float(np.median(theirs)), 5),
            "ratio": round(float(np.median(ours) / np.median(theirs)), 3), "interval": ratio_interval(ours, theirs),
            "difference": difference, "reference_steps": built["reference_steps"], "kernels": kernels}


def cell(row, case, a, ort):
    head = {"operator": row.op, "row": row.name(), "size": SIZES[case],
            "arguments": [list(x.dims) if isinstance(x, Given) else "constant" for x in row.cases[case][0]]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            return head | measure(row, case, a, ort, pathlib.Path(folder))
        except Exception as error:  # noqa: BLE001: a row that fails is a finding, and the rest goes on
            return head | {"failed": str(error).strip()[:600]}


def agrees(c):
    """Whether the two answers are alike; a difference here is a finding, not a verdict: `peri verify` gives that."""
    return c["difference"] is not None and c["difference"] <= 1e-3


def markdown(report):
    cells = sorted((c for c in report["cells"] if "ratio" in c), key=lambda c: -c["ratio"])
    lines = ["| operator | size | peri ms | ONNX Runtime ms | ratio | interval | ran by |", "| --- | --- | ---: | ---: | ---: | --- | --- |"]
    for c in cells:
        lines.append(f"| {c['row']} | {c['size']} | {c['peri_ms']:.4g} | {c['onnxruntime_ms']:.4g} | {c['ratio']:.2f} |"
                     f" {c['interval'][0]:.2f} to {c['interval'][1]:.2f} | {', '.join(c['kernels'])}{'' if agrees(c) else ', DIFFERS'} |")
    lines += ["", f"{report['summary']}", f"{report['machine']}, {report['threads']} threads, ONNX Runtime {report['onnxruntime']}."]
    failed = [c for c in report["cells"] if "failed" in c]
    if failed:
        lines += ["", "Did not run:", ""] + [f"- {c['row']}, {c['size']}: {' '.join(c['failed'].split())[:200]}" for c in failed]
    return "\n".join(lines) + "\n"


def summarise(cells):
    ratios = [c["ratio"] for c in cells if "ratio" in c]
    if not ratios:
        return "nothing ran"
    over = sum(r > 1.5 for r in ratios)
    return (f"{len(ratios)} rows: geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, worst {max(ratios):.2f}, "
            f"{over} above 1.5 ({100 * over / len(ratios):.1f} %), {sum(bool(c.get('reference_steps')) for c in cells)} on the reference")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--only", default="", metavar="OP,...", help="these operators alone")
    p.add_argument("--quick", action="store_true", help="the usual size, one round, first offers")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3, help="time for each program, row and round (default 0.3)")
    p.add_argument("--json", metavar="FILE", help="write all figures as one JSON object")
    p.add_argument("--markdown", metavar="FILE", help="write the table")
    a = p.parse_args()
    if a.quick:
        a.rounds, a.seconds = 1, min(a.seconds, 0.1)
    return a


def main():
    a = arguments()
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    wanted, cells = [w for w in a.only.split(",") if w], []
    for row in rows():
        if wanted and row.op not in wanted:
            continue
        for case in [1] if a.quick else range(len(row.cases)):
            cells.append(cell(row, case, a, ort))
            c = cells[-1]
            said = (f"{c['ratio']:7.2f} [{c['interval'][0]:.2f}, {c['interval'][1]:.2f}]  {c['peri_ms']:10.4f} ms  {c['onnxruntime_ms']:10.4f} ms  "
                    f"{', '.join(c['kernels'])}{'' if agrees(c) else ' DIFFERS'}" if "ratio" in c else f"failed: {' '.join(c['failed'].split())[:160]}")
            print(f"{c['row']:34} {c['size']:6} {said}", flush=True)
    if not cells:
        raise Failure(f"no such operator: {a.only}")
    report = {"machine": cpu_name(), "threads": a.threads, "rounds": a.rounds, "seconds": a.seconds, "quick": a.quick,
              "onnxruntime": ort.__version__, "summary": summarise(cells), "cells": cells}
    print(report["summary"])
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    if a.markdown:
        pathlib.Path(a.markdown).write_text(markdown(report))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, ImportError) as failure:
        print(f"operator_matrix.py: {failure}", file=sys.stderr)
        sys.exit(1)
