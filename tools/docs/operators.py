#!/usr/bin/env python3
"""Keeps the table of docs/operators.md what `peri inspect --operators` says; --check only says whether it is.

The newest benchmarks/results/*_gpu_nodes.json, or --gpu-report FILE, is the report of a suite on a GPU
(peri verify --suite DIR --backend cuda --json FILE): how many cases of an operator passed with every step there."""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operators.md"
MARK = "<!-- from here on: tools/docs/operators.py -->\n"


def node_cases(report):
    """By operator, "12 of 15": cases that passed with every step on the GPU, of those that passed."""
    if report is None:
        return None
    counts = json.loads(pathlib.Path(report).read_text())["operators"]
    return {name: f"{c['passed_wholly_on_device']} of {c['passed']}" for name, c in counts.items()}


def generated(peri, cases):
    done = subprocess.run([peri, "inspect", "--operators", "--quiet", "--json", "-"], check=True, capture_output=True, text=True)
    operators = json.loads(done.stdout)["operators"]
    head, line = "| operator | versions | types of its first input | on a GPU |", "|---|---|---|---|"
    if cases is not None:
        head, line = head + " node cases there |", line + "---|"
    rows = [head, line]
    for o in operators:
        row = f"| `{o['name']}` | {', '.join(map(str, o['versions']))} | {' '.join(o['types'])} | {o['gpu']} |"
        rows.append(row if cases is None else f"{row} {cases.get(o['name'], '')} |")
    return "\n".join([MARK, f"{len(operators)} operators.", "", *rows]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true")
    p.add_argument("--peri", default="peri", metavar="FILE", help="the program (default: the one in PATH)")
    p.add_argument("--gpu-report", metavar="FILE", default=max(ROOT.glob("benchmarks/results/*_gpu_nodes.json"), default=None))
    options = p.parse_args()
    text = PAGE.read_text()
    wanted = text[: text.index(MARK)] + generated(options.peri, node_cases(options.gpu_report))
    if text == wanted:
        return 0
    if options.check:
        print("docs/operators.md differs from peri inspect --operators: run tools/docs/operators.py --peri build/bin/peri", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
