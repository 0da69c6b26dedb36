#!/usr/bin/env python3
"""Start and memory beside ONNX Runtime: load plus first run, and the peak resident memory of whole processes.

Each figure is of a fresh process that loads a model, runs it once on seeded inputs and ends; ours loads an engine file
that was built before. Start: the time to load plus that of the first run, held against 1.3 x the steady latency + 50 ms.
Memory: ru_maxrss of the process by wait4, held against ONNX Runtime's for the same model. `fresh`: the first process with
an empty cache, which packs weights and keeps them; `kept`: the median of those after it, which are judged.
Exit code 4 when a limit is missed. Needs numpy, onnxruntime.

  peer_start.py build/models/*.onnx --peri build/bin/peri --json benchmarks/results/DATE_start.json
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from peer_cpu import Failure, cpu_name, feeds, symbols  # noqa: E402

LIMIT_RATIO, LIMIT_MS = 1.3, 50.0


def process(command, environment):
    """Standard output and peak memory in MiB of a process that must succeed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if child.returncode:
            raise Failure(f"`{' '.join(map(str, command))}` gave exit code {child.returncode}: {err.read().decode()[-400:]}")
        return out.read().decode(), usage.ru_maxrss / 1024


def peer(path, threads, batch, sequence):
    """What the ONNX Runtime process does: this file with --peer."""
    import time

    start = time.perf_counter()
    import onnxruntime as ort

    imported = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    inputs = [(i.name, i.shape, i.type) for i in session.get_inputs()]
    feed = feeds(inputs, batch, sequence)
    fed = time.perf_counter()
    session.run(None, feed)
    done = time.perf_counter()
    print(json.dumps({"inputs": inputs, "version": ort.__version__, "import_ms": (imported - start) * 1e3, "load_ms": (loaded - imported) * 1e3, "first_run_ms": (done - fed) * 1e3}))


def median_of(runs):
    return {key: round(statistics.median(r[key] for r in runs), 2) for key in runs[0]}


def measure_peer(path, a):
    """Medians, and what the model's inputs are; this process stays small, since a child's peak begins with its parent's."""
    runs, inputs = [], []
    for _ in range(a.repeats):
        said, memory = process([sys.executable, __file__, "--peer", path, "--threads", str(a.threads), "--batch", str(a.batch), "--sequence", str(a.sequence)], None)
        figures = json.loads(said)
        inputs, a.version = figures.pop("inputs"), figures.pop("version")
        runs.append(figures | {"start_ms": figures["load_ms"] + figures["first_run_ms"], "peak_mib": memory})
    return median_of(runs), inputs


def measure_peri(engine, dims, a):
    def once(cache, *more):
        command = [a.peri, "bench", engine, "--threads", str(a.threads), "--quiet", "--json", "-", *dims, *more]
        said, memory = process(command, os.environ | {"PERI_CACHE": cache})
        report = json.loads(said)
        figures = {"load_ms": report["load_ms"], "first_run_ms": report["first_run_ms"], "start_ms": report["load_ms"] + report["first_run_ms"], "peak_mib": memory}
        return figures, report["latency_ms"]["median"]

    short = ("--seconds", "0", "--iterations", "1")
    with tempfile.TemporaryDirectory(dir=a.work) as cache:
        fresh = median_of([once(cache, *short)[0]])
        kept = median_of([once(cache, *short)[0] for _ in range(a.repeats)])
        steady = once(cache, "--seconds", str(a.seconds))[1]
    return {"fresh": fresh, "kept": kept, "steady_ms": round(steady, 3)}


def cell(path, a):
    theirs, inputs = measure_peer(path, a)
    dims = symbols(inputs, a.batch, a.sequence)
    flags = ["--dims", dims] if dims else []
    engine = a.work / (pathlib.Path(path).stem + ".engine")
    if not engine.is_file():
        process([a.peri, "build", path, "-o", engine, "--threads", str(a.threads), "--quiet", *flags], None)
    ours = measure_peri(engine, flags, a)
    limit = LIMIT_RATIO * ours["steady_ms"] + LIMIT_MS
    missed = [name for name, bad in (("start", ours["kept"]["start_ms"] > limit), ("memory", ours["kept"]["peak_mib"] > theirs["peak_mib"])) if bad]
    return {"model": pathlib.Path(path).stem, "dims": dims, "peri": ours, "onnxruntime": theirs, "start_limit_ms": round(limit, 2), "missed": missed}


def show(c):
    ours, theirs = c["peri"], c["onnxruntime"]
    print(f"{c['model']:20} start {ours['kept']['start_ms']:8.1f} ms (limit {c['start_limit_ms']:.1f}, fresh {ours['fresh']['start_ms']:.1f}, onnxruntime {theirs['start_ms']:.1f})"
          f"  peak {ours['kept']['peak_mib']:7.1f} MiB (fresh {ours['fresh']['peak_mib']:.1f}, onnxruntime {theirs['peak_mib']:.1f})"
          f"  {'missed: ' + ', '.join(c['missed']) if c['missed'] else 'held'}", flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", metavar="MODEL.onnx")
    p.add_argument("--peer", metavar="MODEL.onnx", help=argparse.SUPPRESS)
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/start"), help="folder of the engines; one that is there is taken (default build/start)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--sequence", type=int, default=128)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--seconds", type=int, default=2, help="of samples for the steady latency (default 2)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    return p.parse_args()


def main():
    a = arguments()
    if a.peer:
        return peer(a.peer, a.threads, a.batch, a.sequence)
    a.work.mkdir(parents=True, exist_ok=True)
    cells = []
    for path in a.models:
        cells.append(cell(path, a))
        show(cells[-1])
    missed = sum(bool(c["missed"]) for c in cells)
    print(f"{missed} of {len(cells)} models beyond a limit")
    if a.json:
        report = {"date": datetime.date.today().isoformat(), "machine": {"cpu": cpu_name(), "threads": a.threads}, "versions": {"onnxruntime": a.version},
                  "limits": {"start": f"{LIMIT_RATIO} x steady + {LIMIT_MS:.0f} ms", "memory": "ONNX Runtime's"}, "repeats": a.repeats, "cells": cells}
        a.json.write_text(json.dumps(report, indent=1) + "\n")
    return 4 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"peer_start.py: {failure}")
