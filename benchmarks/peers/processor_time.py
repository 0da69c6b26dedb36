#!/usr/bin/env python3
"""Processor time of a run on one thread, beside ONNX Runtime and OpenVINO: what a loaded machine can still say. Waits for a
processor do not count; caches and clocks that others share do, so rounds alternate and their ratios are told.

  processor_time.py build/models/recurrent/*.onnx --batch 1,32 --peri build/bin/peri

Of peri the time of N + 2 runs of `peri bench` less that of 2, as the kernel accounts its process; of the others that of this
process round N runs. A row holds medians, the ratio to the better peer, and the least and most of the rounds' ratios.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from peer_cpu import Failure, feeds, openvino_run, symbols


def of_children(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 5):  # 5: its samples disagree, which is what the load does
        raise Failure(f"{' '.join(map(str, words))}: {done.stderr.strip()[-300:]}")
    return sum(getattr(after, f) - getattr(before, f) for f in ("ru_utime", "ru_stime"))


def here_ms(run, count):
    start = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - start) / count * 1e3


def measured(a, model, batch):
    import onnxruntime as ort
    import openvino as ov
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = [(i.name, i.shape, i.type) for i in session.get_inputs()]
    feed, dims = feeds(inputs, batch, a.sequence), symbols(inputs, batch, a.sequence)
    a.threads = 1
    runs = {"onnxruntime": lambda: session.run(None, feed), "openvino": openvino_run(ov, model, feed, a)[0]}
    with tempfile.TemporaryDirectory() as scratch:
        engine = pathlib.Path(scratch) / "a.engine"
        words = ["--dims", dims] if dims else []
        of_children([a.peri, "build", model, "-o", engine, "--threads", 1, "--budget", a.budget, "--quiet", *words])
        bench = lambda n: of_children([a.peri, "bench", engine, "--threads", 1, "--iterations", n, "--seconds", 100, "--warm-up", 1, "--json", "-", *words])
        for run in runs.values():
            run()
        count = max(4, min(3000, int(a.seconds * 1e3 / max(here_ms(runs["onnxruntime"], 2), 0.02))))
        rounds = []
        for _ in range(a.rounds):
            times = {name: here_ms(run, count) for name, run in runs.items()}
            times["peri"] = (bench(2 * count + 2) - bench(2)) / (2 * count) * 1e3
            rounds.append(times)
    ratios = sorted(r["peri"] / min(r["onnxruntime"], r["openvino"]) for r in rounds)
    return {"model": pathlib.Path(model).stem, "batch": batch, "ratio": statistics.median(ratios), "rounds": [ratios[0], ratios[-1]]} | \
        {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.onnx")
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--batch", default="1", help="batches, comma-separated (default 1)")
    p.add_argument("--sequence", type=int, default=128, help="size of the other free dimensions (default 128)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3, help="processor time of each program and round (default 0.3)")
    p.add_argument("--budget", type=float, default=8, help="seconds of tuning a model (default 8)")
    p.add_argument("--openvino-precision", default="f32", help="OpenVINO's arithmetic (default f32)")
    p.add_argument("--json", metavar="FILE", type=pathlib.Path)
    a = p.parse_args()
    rows = []
    for model in a.models:
        for batch in map(int, a.batch.split(",")):
            rows.append(measured(a, model, batch))
            r = rows[-1]
            print(f"| {r['model']} | {batch} | {r['peri']:.3f} | {r['onnxruntime']:.3f} | {r['openvino']:.3f} | {r['ratio']:.2f} | {r['rounds'][0]:.2f} to {r['rounds'][1]:.2f} |", flush=True)
            if a.json:
                a.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, ImportError) as failure:
        print(f"processor_time.py: {failure}", file=sys.stderr)
        sys.exit(1)
