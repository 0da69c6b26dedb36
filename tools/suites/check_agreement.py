#!/usr/bin/env python3
"""Run our engines over a model suite and hold every output against the expected one.

Each model is built once and serves all its shapes. An output of floats agrees when
  its largest error is at most 1e-4 of the expected output's range (max - min),
  its largest error is at most 1e-3 of the largest change between the two inputs `a` and `b` of the shape, and
  the cosine of the two, each less its mean, is at least 0.9999;
integers and booleans must be equal. With --report the figures stand in DIR/DATE_agreement.json and .md, with the machine
and the commit. Exit code 3 when one does not agree, 1 when something does not run.
"""
import argparse
import json
import pathlib
import shlex
import sys

import numpy as np
from engines import Peri, add_options, load
from report_files import head, table, write
from suite_files import SuiteError, run

OF_RANGE, OF_CHANGE, COSINE = 1e-4, 1e-3, 0.9999


def centred_cosine(a, b):
    a, b = (x.ravel().astype(np.float64) - x.astype(np.float64).mean() for x in (a, b))
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size else float((a == b).all())


def compare(ours, wanted, other):
    """Figures of one output; `other` is the expected output for the shape's other input."""
    if ours.shape != wanted.shape or ours.dtype != wanted.dtype:
        return {"agrees": False, "why": f"{ours.dtype}{list(ours.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"}
    if wanted.dtype.kind != "f":
        wrong = int((ours != wanted).sum())
        return {"agrees": wrong == 0, "unequal": wrong}
    if not wanted.size:
        return {"agrees": True}
    if not np.isfinite(ours).all():
        return {"agrees": False, "why": f"{int((~np.isfinite(ours)).sum())} values are not finite"}
    error = float(np.abs(ours.astype(np.float64) - wanted).max())
    span = float(wanted.max() - wanted.min())
    change = float(np.abs(wanted.astype(np.float64) - other).max()) if other.shape == wanted.shape else float("nan")
    cosine = centred_cosine(ours, wanted)
    agrees = error <= OF_RANGE * span and not error > OF_CHANGE * change and cosine >= COSINE
    return {"agrees": agrees, "max_error": error, "of_range": error / span if span else (0.0 if not error else float("inf")),
            "of_change": error / change if change else (0.0 if not error else float("inf")), "cosine": cosine}


def check(peri, suite, case):
    """All outputs of all data sets of one model."""
    folder = suite / case["name"]
    engine = peri.build(folder / "model.onnx", case["name"])
    wanted = {s["data"]: [load(folder / s["data"] / f"output_{i}.pb") for i in range(len(case["outputs"]))] for s in case["sets"]}
    rows = []
    for s in case["sets"]:
        twin = next(t for t in case["sets"] if (t["batch"], t["sequence"]) == (s["batch"], s["sequence"]) and t["input"] != s["input"])
        got = peri.run(engine, {name: folder / s["data"] / f"input_{i}.pb" for i, name in enumerate(case["inputs"])})
        for i, name in enumerate(case["outputs"]):
            if name not in got:
                raise SuiteError(f"{case['name']}: no output {name} among {', '.join(got)}")
            rows.append(s | {"output": name} | compare(got[name], wanted[s["data"]][i], wanted[twin["data"]][i]))
    return rows


def page(report):
    """The figures as a table, one line for each model and shape."""
    lines = []
    for name, model in report.items():
        if "error" in model:
            lines.append([name, "", "", "does not run", "", "", ""])
        shapes = dict.fromkeys((r["batch"], r["sequence"]) for r in model.get("outputs", ()))
        for batch, sequence in shapes:
            rows = [r for r in model["outputs"] if (r["batch"], r["sequence"]) == (batch, sequence)]
            verdict = "agrees" if all(r["agrees"] for r in rows) else "DIFFERS"
            lines.append([name, batch, sequence or "", f"{worst(rows, 'of_range'):.2e}", f"{worst(rows, 'of_change'):.2e}", f"{worst(rows, 'cosine', min):.9f}", verdict])
    return table(["model", "batch", "sequence", "error of range", "error of change", "cosine", ""], lines)


def worst(rows, key, pick=max):
    return pick((r[key] for r in rows if key in r), default=float("nan"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", type=pathlib.Path, metavar="SUITE", help="a folder make_model_suite.py wrote")
    p.add_argument("--names", nargs="+", metavar="NAME", help="only these models")
    p.add_argument("--report", type=pathlib.Path, metavar="DIR", help="also write DIR/DATE_agreement.json and .md")
    add_options(p)
    a = p.parse_args()
    index = a.suite / "index.json"
    if not index.is_file():
        raise SuiteError(f"{a.suite} is not a suite (no index.json): make_model_suite.py makes one")
    cases = [c for c in json.loads(index.read_text())["cases"] if not a.names or c["name"] in a.names]
    if unknown := set(a.names or ()) - {c["name"] for c in cases}:
        raise SuiteError(f"{', '.join(sorted(unknown))}: not in {a.suite}")
    peri = Peri(a.peri, a.engines, shlex.split(a.build_args), shlex.split(a.run_args))
    terminal, report, failed = sys.stderr if a.json == "-" else sys.stdout, {}, []
    print(f"{'model':22}{'outputs':>8}{'of range':>12}{'of change':>12}{'cosine':>14}  (limits {OF_RANGE:g}, {OF_CHANGE:g}, {COSINE})", file=terminal, flush=True)
    facts = head(a.peri) if a.report else {}  # the commit as it stands now, not at the end
    for case in cases:
        try:
            rows = check(peri, a.suite, case)
        except SuiteError as error:
            failed.append(case["name"])
            report[case["name"]] = {"error": str(error)}
            print(f"{case['name']:22}does not run: {error}", file=terminal, flush=True)
            continue
        good = all(r["agrees"] for r in rows)
        report[case["name"]] = {"agrees": good, "build_s": round(peri.build_s, 2), "outputs": rows}
        print(f"{case['name']:22}{len(rows):8}{worst(rows, 'of_range'):12.2e}{worst(rows, 'of_change'):12.2e}{worst(rows, 'cosine', min):14.9f}  {'agrees' if good else 'DIFFERS'}", file=terminal, flush=True)
        for r in rows:
            if not r["agrees"]:
                print(f"  batch {r['batch']} sequence {r['sequence']} input {r['input']} {r['output']}: {r.get('why') or {k: r[k] for k in ('max_error', 'of_range', 'of_change', 'cosine', 'unequal') if k in r}}", file=terminal)
    if a.report:
        limits = {"of_range": OF_RANGE, "of_change": OF_CHANGE, "cosine": COSINE}
        words = f"Engines against ONNX Runtime, one engine a model. Largest error allowed: {OF_RANGE:g} of the output's range, {OF_CHANGE:g} of the change between two inputs; least cosine, means subtracted: {COSINE}."
        write(a.report, "agreement", facts | {"limits": limits, "models": report}, words, page(report))
    if a.json == "-":
        print(json.dumps(report))
    elif a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    differ = [n for n, r in report.items() if r.get("agrees") is False]
    print(f"{'FAILED' if failed or differ else 'PASSED'}: {len(report) - len(failed) - len(differ)} of {len(report)} models agree", file=sys.stderr)
    return 1 if failed else 3 if differ else 0


if __name__ == "__main__":
    run(main)
