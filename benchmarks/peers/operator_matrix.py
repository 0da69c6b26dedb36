#!/usr/bin/env python3
"""Every operator beside ONNX Runtime: three sizes as networks have them, in turn, on the same inputs.

For each row of operator_cases.py and operator_cases_rest.py a model of one node is written, an engine built, and rounds
go over both programs in one process, a process for each row and size. A time is the least of the rounds' medians: other
work on the machine makes rounds longer, never shorter. Each program is called through its nearest interface: peri by its
own bench, ONNX Runtime by I/O binding, so that neither side pays for dictionaries of Python. Texts go through `peri bench`
and `InferenceSession.run`.

A row holds both times, their ratio (below 1: peri is faster), the least and most of the rounds' own ratios, and what ran
it: the kernels, "reference", or "sized". Rows above 1.5 get the line of operator_reasons.py that says why.

  operator_matrix.py --state build/matrix.jsonl --markdown build/matrix.md
  operator_matrix.py --only Pad,TopK --sizes usual

--state keeps each cell as it is done: the same command goes on where the last one ended, and several shards' files, one
after the other, are one state. --budget is the time to tune a
cell for; 0 takes each kernel's first offer. Needs numpy, onnx, onnxruntime, and peri's package (build/python).
"""
import argparse
import json
import math
import multiprocessing
import pathlib
import sys
import tempfile
import time

from operator_cases import SIZES, Given, rows
from operator_cases_rest import WITHOUT_PEER
from operator_peers import Failure, measure
from operator_reasons import reason
from peer_cpu import cpu_name

ABOVE = 1.5


def in_child(pipe, row, case, a):
    try:
        with tempfile.TemporaryDirectory() as folder:
            pipe.send(measure(row, case, a, pathlib.Path(folder)))
    except Exception as error:  # noqa: BLE001: a row that fails is a finding, and the rest goes on
        pipe.send({"failed": " ".join(str(error).split())[:400] or type(error).__name__})


def cell(row, case, a):
    """A row at a size, in a process of its own: what dies or hangs there costs this cell and no other."""
    head = {"operator": row.full_name(), "row": row.name(), "size": SIZES[case], "arguments": row.described(case)}
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(theirs, row, case, a))
    child.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(a.limit) else {"failed": f"took more than {a.limit:g} s"}
    except EOFError:
        found = {"failed": "the process died"}
    child.kill()
    child.join()
    if "no_peer" in found:
        found["no_peer"] = WITHOUT_PEER.get(row.full_name(), found["no_peer"])
    return head | found


def agrees(c):
    """Whether the two answers are alike; a difference here is a finding, not a verdict: `peri verify` gives that."""
    return c.get("difference") is not None and c["difference"] <= 1e-3


def why(c):
    return reason(c) if c.get("ratio", 0) > ABOVE else ""


def said(c):
    if "no_peer" in c:
        return f"no peer: {c['no_peer'][:120]}"
    if "ratio" not in c:
        return f"failed: {c['failed'][:160]}"
    return (f"{c['ratio']:7.2f} [{c['rounds'][0]:.2f}, {c['rounds'][1]:.2f}]  {c['peri_ms']:10.4f} ms  {c['onnxruntime_ms']:10.4f} ms  "
            f"{', '.join(c['kernels'])}{'' if agrees(c) else ' DIFFERS'}{'  why: ' + why(c) if why(c) else ''}")


def table(cells, with_why):
    head = ["operator", "size", "peri ms", "ONNX Runtime ms", "ratio", "of rounds", "ran by"] + ["why"] * with_why
    lines = ["| " + " | ".join(head) + " |", "| --- | --- | ---: | ---: | ---: | --- | --- |" + " --- |" * with_why]
    for c in sorted(cells, key=lambda c: -c["ratio"]):
        row = [c["row"], c["size"], f"{c['peri_ms']:.4g}", f"{c['onnxruntime_ms']:.4g}", f"{c['ratio']:.2f}",
               f"{c['rounds'][0]:.2f} to {c['rounds'][1]:.2f}", ", ".join(c["kernels"]) + ("" if agrees(c) else ", DIFFERS")]
        lines.append("| " + " | ".join(row + [why(c)] * with_why) + " |")
    return lines


def markdown(report):
    timed = [c for c in report["cells"] if "ratio" in c]
    lines = [report["summary"], "", f"{report['machine']}, {report['threads']} threads, ONNX Runtime {report['onnxruntime']}, "
             f"{report['rounds']} rounds of {report['seconds']:g} s, tuned for {report['budget']:g} s a cell.", "",
             f"## Above {ABOVE}, and why", ""] + table([c for c in timed if c["ratio"] > ABOVE], True)
    lines += ["", "## The others", ""] + table([c for c in timed if c["ratio"] <= ABOVE], False)
    for head, key in (("ONNX Runtime has none", "no_peer"), ("Did not run", "failed")):
        found = [c for c in report["cells"] if key in c]
        if found:
            lines += ["", f"## {head}", ""] + [f"- {c['row']}, {c['size']}: {c[key][:200]}" for c in found]
    return "\n".join(lines) + "\n"


def summarise(cells):
    ratios = [c["ratio"] for c in cells if "ratio" in c]
    if not ratios:
        return "nothing ran"
    over, alone, failed = sum(r > ABOVE for r in ratios), sum("no_peer" in c for c in cells), sum("failed" in c for c in cells)
    return (f"{len(cells)} cells of {len({c['operator'] for c in cells})} operators: {len(ratios)} beside ONNX Runtime, {alone} that it has not, "
            f"{failed} failed. Geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, worst {max(ratios):.2f}, "
            f"{over} above {ABOVE} ({100 * over / len(ratios):.1f} %), {sum('reference' in c.get('kernels', ()) for c in cells)} with a step on the reference.")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--package", default="build/python", help="the folder that holds peri's Python package")
    p.add_argument("--only", default="", metavar="OP,...", help="these operators alone (names of rows with spaces too)")
    p.add_argument("--sizes", default=",".join(SIZES), help="which of small, usual, large")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.03, help="time for each program, cell and round (default 0.03)")
    p.add_argument("--budget", type=float, default=0.0, help="seconds to tune each cell for (default 0: first offers)")
    p.add_argument("--shard", default="1/1", metavar="K/N", help="the Kth of N parts of the cells: parts may run at once, each on processors of its own")
    p.add_argument("--limit", type=float, default=120, help="seconds that a cell may take (default 120)")
    p.add_argument("--state", metavar="FILE", help="cells as JSON lines; those that are there are not measured again")
    p.add_argument("--json", metavar="FILE", help="write all figures as one JSON object")
    p.add_argument("--markdown", metavar="FILE", help="write the tables")
    return p.parse_args()


def wanted_cells(a):
    only, sizes = [w for w in a.only.split(",") if w], a.sizes.split(",")
    part, parts = map(int, a.shard.split("/"))
    found = [(row, case) for row in rows() for case in range(len(row.cases))
             if SIZES[case] in sizes and (not only or row.full_name() in only or row.name() in only)]
    return found[part - 1 :: parts]


def kept(a):
    """The cells of the state file, by row and size; the last line of one that was cut off is dropped."""
    found = {}
    path = pathlib.Path(a.state or "")
    for line in path.read_text().splitlines() if a.state and path.exists() else []:
        try:
            c = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[c["row"], c["size"]] = c
    return found


def main():
    a = arguments()
    sys.path.insert(0, a.package)
    import onnxruntime as ort  # before the cells' processes are forked, which need not load it again

    done, cells, start = kept(a), [], time.monotonic()
    wanted = wanted_cells(a)
    if not wanted:
        raise Failure(f"no such operator: {a.only}")
    for row, case in wanted:
        c = done.get((row.name(), SIZES[case]))
        if c is None:
            c = cell(row, case, a)
            print(f"{c['row']:34} {c['size']:6} {said(c)}", flush=True)
            if a.state:
                with open(a.state, "a") as file:
                    file.write(json.dumps(c) + "\n")
        cells.append(c)
    report = {"machine": cpu_name(), "threads": a.threads, "rounds": a.rounds, "seconds": a.seconds, "budget": a.budget,
              "onnxruntime": ort.__version__, "above": ABOVE, "summary": summarise(cells), "cells": [c | {"why": why(c)} for c in cells]}
    print(report["summary"], f"{time.monotonic() - start:.0f} s.")
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
