#!/usr/bin/env python3
"""CPU peers: ONNX Runtime and OpenVINO on complete ONNX files, interleaved with commands of yours, cell by cell.

A cell is a model at a batch. Rounds rotate over all peers, so that a noisy minute hits each of them. Per peer: median,
its 95 % bootstrap interval, minimum; per `--also` command: the ratio of its median to the better peer's, and the
geometric mean of the ratios. OpenVINO is left out of the cell of a model that it refuses, with its words. Needs numpy,
onnxruntime, openvino.

  peer_cpu.py build/models/resnet50.onnx --also 'peri=build/bin/peri bench {model} --dims {dims} --threads {threads} --json -'

`--also LABEL=COMMAND` is started once a round and does its own warm-up. It prints either its latency in ms as the last
word of its last line, or one JSON object with `latency_ms.median` (and `samples`, a list in ms, taken where present).
`--prepare COMMAND` runs once a cell before (to build an engine for the cell). Both know {model} {name} {batch}
{sequence} {threads} {dims}, where {dims} is `batch=8,sequence=128` restricted to symbols the model has.
"""
import argparse
import json
import math
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np

PEERS = ("onnxruntime", "openvino")
UNSTABLE = 5  # `peri bench` where its samples disagree: rounds over all programs, and the interval, tell what that means


class Failure(Exception):
    """An error the user can act on."""


def concrete(shape, batch, sequence):
    return [d if isinstance(d, int) and d > 0 else (batch if i == 0 or d == "batch" else sequence) for i, d in enumerate(shape)]


def symbols(inputs, batch, sequence):
    """The model's free dimensions with the sizes they get, as `batch=8,sequence=128`."""
    found = {}
    for _, shape, _ in inputs:
        for d, size in zip(shape, concrete(shape, batch, sequence)):
            if not isinstance(d, int):
                found[str(d)] = size
    return ",".join(f"{name}={size}" for name, size in found.items())


def feeds(inputs, batch, sequence):
    rng = np.random.default_rng(0)
    out = {}
    for name, shape, kind in inputs:
        dims = concrete(shape, batch, sequence)
        if "int64" in kind:
            same = next((n for word, n in (("mask", 1), ("type", 0)) if word in name), None)
            out[name] = rng.integers(0, 1000, dims) if same is None else np.full(dims, same, np.int64)
        else:
            out[name] = rng.standard_normal(dims).astype(np.float32)
    return out


def timed(run, seconds):
    run()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def command_ms(label, command):
    """Latencies in ms of one run of a command (see the file's head for what it may print)."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    said = done.stdout.strip()
    try:
        if done.returncode and not (done.returncode == UNSTABLE and said.startswith("{")):
            raise ValueError(f"exit code {done.returncode}")
        if said.startswith("{"):
            report = json.loads(said)
            latency = report["latency_ms"]
            samples = report.get("samples", latency.get("samples"))
            return list(map(float, samples)) if isinstance(samples, list) and samples else [float(latency["median"])]
        return [float(said.splitlines()[-1].split()[-1])]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        tail = (done.stdout + done.stderr).strip()[-400:]
        raise Failure(f"{label}: no latency from `{command}` ({error}); it said: {tail or 'nothing'}") from error


def summary(values, resamples=1000):
    values = np.asarray(values)
    rng = np.random.default_rng(0)
    medians = [np.median(values[rng.integers(0, len(values), len(values))]) for _ in range(resamples)]
    low, high = np.percentile(medians, [2.5, 97.5])
    return {"median_ms": round(float(np.median(values)), 4), "interval_ms": [round(float(low), 4), round(float(high), 4)],
            "min_ms": round(float(values.min()), 4), "samples": len(values)}


def openvino_run(ov, path, feed, a):
    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(v.shape) for name, v in feed.items()})
    config = {"INFERENCE_NUM_THREADS": a.threads, "PERFORMANCE_HINT": "LATENCY"}
    if a.openvino_precision:
        config["INFERENCE_PRECISION_HINT"] = a.openvino_precision
    compiled = core.compile_model(model, "CPU", config)
    request = compiled.create_infer_request()
    return lambda: request.infer(feed), compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()


def cell(path, session, inputs, batch, a, ov):
    """One cell's figures: peers and commands in rotation."""
    feed = feeds(inputs, batch, a.sequence)
    words = {"model": path, "name": pathlib.Path(path).stem, "batch": batch, "sequence": a.sequence, "threads": a.threads,
             "dims": symbols(inputs, batch, a.sequence)}
    runs, left_out, precision = {"onnxruntime": lambda: session.run(None, feed)}, {}, None
    try:
        runs["openvino"], precision = openvino_run(ov, path, feed, a)
    except RuntimeError as why:  # of a graph that it does not read: the cell has one peer, and says so
        left_out["openvino"] = str(why).strip()[-300:]
    also = [text.partition("=")[::2] for text in a.also]
    for command in a.prepare:
        done = subprocess.run(command.format(**words), shell=True, capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"--prepare `{command.format(**words)}` gave exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    times = {name: [] for name in runs}
    for _ in range(a.rounds):
        for name, run in runs.items():
            times[name] += timed(run, a.seconds / a.rounds)
        for label, command in also:
            times.setdefault(label, []).extend(command_ms(label, command.format(**words)))
    figures = {name: summary(values) for name, values in times.items()}
    better = min((name for name in PEERS if name in runs), key=lambda name: figures[name]["median_ms"])
    return {"model": words["name"], "batch": batch, "sequence": a.sequence if "sequence" in words["dims"] else None, "threads": a.threads,
            "openvino_precision": precision, "peers": figures, "better_peer": better, "left_out": left_out,
            "ratio": {label: round(figures[label]["median_ms"] / figures[better]["median_ms"], 4) for label, _ in also}}


def means(cells):
    """Geometric mean and worst ratio of each command: over all cells, and by batch."""
    out = {}
    for label in sorted({label for c in cells for label in c["ratio"]}):
        groups = {"all": cells} | {f"batch {b}": [c for c in cells if c["batch"] == b] for b in sorted({c["batch"] for c in cells})}
        out[label] = {}
        for group, members in groups.items():
            ratios = {f"{c['model']} batch {c['batch']}": c["ratio"][label] for c in members}
            worst = max(ratios, key=ratios.get)
            out[label][group] = {"geometric_mean": round(math.exp(sum(map(math.log, ratios.values())) / len(ratios)), 4),
                                 "worst": ratios[worst], "worst_cell": worst, "cells": len(ratios)}
    return out


def cpu_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def show(c, file):
    for name, why in c["left_out"].items():
        print(f"  {name:<14} does not take the model: {why.splitlines()[-1]}", file=file)
    for name, f in c["peers"].items():
        ratio = f"  {c['ratio'][name]:.2f} x {c['better_peer']}" if name in c["ratio"] else ""
        low, high = f["interval_ms"]
        print(f"{c['model']:20} batch {c['batch']:<3} {name:12} {f['median_ms']:10.3f} ms  [{low:.3f}, {high:.3f}]  min {f['min_ms']:.3f}"
              f"  n={f['samples']}{ratio}", file=file, flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.onnx")
    p.add_argument("--batch", default="1,8", help="batches, comma-separated (default 1,8); a model without a free batch runs once")
    p.add_argument("--sequence", type=int, default=128, help="size of the other free dimensions (default 128)")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5, help="time for each peer and cell, over all rounds (default 5)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--also", action="append", default=[], metavar="LABEL=COMMAND")
    p.add_argument("--prepare", action="append", default=[], metavar="COMMAND")
    p.add_argument("--openvino-precision", choices=("f32", "bf16", "f16"), help="pin OpenVINO's arithmetic (default: its own choice)")
    p.add_argument("--json", metavar="FILE", help="write all figures as one JSON object (- = standard output, the table goes to standard error)")
    p.add_argument("--limit-mean", type=float, help="exit 4 when a command's geometric mean is above")
    p.add_argument("--limit-worst", type=float, help="exit 4 when one of a command's ratios is above")
    a = p.parse_args()
    if bad := [x for x in a.also if not x.partition("=")[2]]:
        p.error(f"--also needs LABEL=COMMAND, found {bad[0]!r}")
    if missing := [m for m in a.models if not pathlib.Path(m).is_file()]:
        p.error(f"no such model: {missing[0]} (models/materialize.py makes the project's own under build/models)")
    try:
        a.batches = [int(b) for b in a.batch.split(",")]
    except ValueError:
        p.error(f"--batch needs numbers, found {a.batch!r}")
    return a


def main():
    a = arguments()
    import onnxruntime as ort
    import openvino as ov

    table, cells = sys.stderr if a.json == "-" else sys.stdout, []
    for path in a.models:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = a.threads, 3
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = [(i.name, i.shape, i.type) for i in session.get_inputs()]
        free = any(not isinstance(shape[0], int) or "batch" in shape for _, shape, _ in inputs if shape)
        for batch in a.batches if free else [1]:
            cells.append(cell(path, session, inputs, batch, a, ov))
            show(cells[-1], table)
        del session
    report = {"machine": {"cpu": cpu_name(), "system": platform.platform()}, "threads": a.threads, "rounds": a.rounds, "seconds": a.seconds,
              "versions": {"onnxruntime": ort.__version__, "openvino": ov.__version__, "numpy": np.__version__}, "cells": cells, "ratio": means(cells)}
    code = 0
    for label, groups in report["ratio"].items():
        for group, g in groups.items():
            print(f"{label} to the better peer, {group}: geometric mean {g['geometric_mean']:.2f}, worst {g['worst']:.2f} ({g['worst_cell']}), {g['cells']} cells", file=table)
        g = groups["all"]
        if (a.limit_mean and g["geometric_mean"] > a.limit_mean) or (a.limit_worst and g["worst"] > a.limit_worst):
            code = 4
    if a.json == "-":
        print(json.dumps(report))
    elif a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, ImportError) as failure:
        print(f"peer_cpu.py: {failure}", file=sys.stderr)
        sys.exit(1)
