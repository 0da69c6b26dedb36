#!/usr/bin/env python3
"""Trained models inside published packages, beside ONNX Runtime: right answers, time, memory.

The packages of tools/requirements_packages.txt are fetched at their pinned versions into FOLDER (`./dev setup slow` does so) and
unpacked there; nothing is installed. Each .onnx file runs at two sizes, or with two inputs where its sizes are fixed. An answer
is right within 1e-4 of its range from ONNX Runtime's, or where it is outside that and the float64 reference says that ours is
within its bound. Times: an engine built for the size, in turn with ONNX Runtime, medians of all rounds. Memory: peak resident
bytes of a process that loads the model and runs it once.

  package_models.py build/packages --fetch             # fetch and unpack only
  package_models.py build/packages --check             # right answers only, untuned
  package_models.py build/packages --json FILE         # all; exit code 3: a wrong answer, 4: a bar missed
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from peer_cpu import Failure, cpu_name  # noqa: E402

PINS = ROOT / "tools/requirements_packages.txt"
# What sizes free axes have, by a part of the file's path: shapes of inputs (x: the first input), and inputs that are fixed.
RATE = {"sr": "16000"}
SIZES = {
    "silero_vad_16k_sequence": [{"input": (2, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, {"input": (50, 576), "h": (1, 1, 128), "c": (1, 1, 128)}],
    "silero_vad_v6": [{"input": (2, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, {"input": (50, 576), "h": (1, 1, 128), "c": (1, 1, 128)}],
    "silero_vad_openvino": [{}, {}],
    "silero_vad": [{"input": (1, 576), "state": (2, 1, 128)}, {"input": (4, 576), "state": (2, 4, 128)}],
    "_cls_": [{"x": (1, 3, 48, 192)}, {"x": (6, 3, 48, 192)}],
    "_rec_": [{"x": (1, 3, 48, 320)}, {"x": (4, 3, 48, 160)}],
    "_det_": [{"x": (1, 3, 320, 416)}, {"x": (1, 3, 640, 640)}],
    "aecmos_models": [{"input": (1, 3, 100, 160)}, {"input": (1, 3, 230, 160)}],
    "plcmos_models": [{"degraded_audio": (1, 1, 200, 257)}, {"degraded_audio": (1, 1, 331, 257)}],
    "nudenet": [{"images": (1, 3, 320, 320)}, {"images": (1, 3, 256, 448)}],
    "magika": [{"bytes": (1, 2048)}, {"bytes": (16, 2048)}],
    "basic_pitch": [{"serving_default_input_2:0": (1, 43844, 1)}, {"serving_default_input_2:0": (3, 43844, 1)}],
    "model_v8": [{"input_1": (1, 900, 120)}, {"input_1": (3, 900, 120)}],
    "dnsmos_models/sig_bak": [{"input_1": (1, 144160)}, {"input_1": (2, 144160)}],
    "pdnsmos_models/sig_bak": [{"input_1": (1, 144160)}, {"input_1": (2, 144160)}],
    "dnsmos_models": [{"input_1": (1, 901, 161)}, {"input_1": (2, 901, 161)}],
}
BAR_TIME, BAR_MEAN, ALLOWED = 1.1, 0.75, 1e-4


def fetch(folder):
    """Wheels of the pinned versions, unpacked: package → folder. What cannot be fetched is said and left out."""
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for line in PINS.read_text().splitlines():
        pin = line.partition("#")[0].strip()
        if not pin:
            continue
        name, version = pin.split("==")
        where = folder / f"{name}-{version}"
        if not where.is_dir():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d", scratch, pin],
                                      capture_output=True, text=True)
                wheels = list(pathlib.Path(scratch).glob("*.whl"))
                if done.returncode or not wheels:
                    print(f"{pin}: not fetched: {done.stderr.strip()[-200:]}", file=sys.stderr)
                    continue
                with zipfile.ZipFile(wheels[0]) as wheel:
                    wheel.extractall(where.with_suffix(".part"))
                where.with_suffix(".part").rename(where)
        out[name] = where
    return out


def feeds(session, shapes, seed):
    """Seeded inputs by name; an axis that nothing names is 1."""
    rng = np.random.default_rng(seed)
    out = {}
    for i in session.get_inputs():
        dims = shapes.get(i.name) or [d if isinstance(d, int) else 1 for d in i.shape]
        if i.name in RATE:
            continue
        if "int" in i.type:
            out[i.name] = rng.integers(0, 256, dims).astype(np.int32 if "32" in i.type else np.int64)
        else:
            out[i.name] = rng.standard_normal(dims).astype(np.float16 if "float16" in i.type else np.float32)
    return out


def session_of(path, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def fixed_of(session):
    return {k: np.array(int(v), np.int64) for k, v in RATE.items() if k in {i.name for i in session.get_inputs()}}


def run(command, allowed=(0,)):
    """What it says, and its exit code, which is one of these."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode not in allowed:
        raise Failure(f"{(done.stderr or done.stdout).strip()[-300:]}: exit code {done.returncode} of {' '.join(map(str, command))[:300]}")
    return done.stdout, done.returncode


# A child's peak begins with its parent's, and this process is large: one that is small starts it and waits.
LAUNCH = """import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))"""


def peak_of(command):
    """Peak resident memory of a process in MiB."""
    return int(run([sys.executable, "-S", "-c", LAUNCH, *command])[0]) / 1024


class Case:
    """One file at one size, with its inputs as files."""

    def __init__(self, path, name, shapes, seed, scratch, a):
        self.path, self.a, self.name = path, a, name
        session = session_of(path, a.threads)
        self.inputs = feeds(session, shapes, seed)
        self.fixed = fixed_of(session)
        self.flags, self.given = [], []
        for key, value in self.inputs.items():
            file = scratch / f"{len(self.given)}.npy"
            np.save(file, value)
            self.given += ["-i", f"{key}={file}"]
            self.flags += ["--shapes", f"{key}:{'x'.join(map(str, value.shape))}"]
        for key in self.fixed:
            self.flags += ["--fix", f"{key}={RATE[key]}"]
        self.shape = ",".join("x".join(map(str, v.shape)) for v in self.inputs.values())
        self.scratch = scratch

    def fixes(self):
        return self.flags[self.flags.index("--fix"):] if "--fix" in self.flags else []

    def right(self):
        """The verdict in words, and whether it is right."""
        more = [] if not self.a.check else ["--no-tune", "--no-verify"]
        words = [self.a.peri, "verify", self.path, "--threads", self.a.threads, *self.fixes(), *self.given, *more]
        said, code = run([*words, "--onnxruntime", "--max-error", ALLOWED, "--min-cosine", "0.999", "--nan-equal"], (0, 3))
        if code == 0:
            return "as ONNX Runtime", True
        _, code = run([*words, "--nan-equal"], (0, 3))
        return ("float64 says that ONNX Runtime is inexact", True) if code == 0 else (said.strip().splitlines()[-1][-200:], False)

    def times(self):
        """Medians in ms, ours and ONNX Runtime's, in turn; peaks in MiB."""
        engine = self.scratch / "m.engine"
        run([self.a.peri, "build", self.path, "-o", engine, "--threads", self.a.threads, "--quiet", "--force", *self.flags])
        session, everything = session_of(self.path, self.a.threads), self.inputs | self.fixed
        ours, theirs = [], []
        for _ in range(self.a.rounds):
            said, _ = run([self.a.peri, "bench", engine, "--threads", self.a.threads, *self.given, "--seconds", self.a.seconds, "--warm-up", 200, "--tolerance", 1000, "--json", "-"])
            ours.append(json.loads(said)["latency_ms"]["median"])
            session.run(None, everything)
            end, samples = time.perf_counter() + self.a.seconds, []
            while time.perf_counter() < end or len(samples) < 3:
                start = time.perf_counter()
                session.run(None, everything)
                samples.append((time.perf_counter() - start) * 1e3)
            theirs.append(statistics.median(samples))
        peak = peak_of([self.a.peri, "bench", engine, "--threads", self.a.threads, *self.given, "--seconds", 0, "--iterations", 1, "--tolerance", 1000, "--json", "-"])
        np.savez(self.scratch / "feed.npz", **everything)
        peer_peak = peak_of([sys.executable, __file__, "--peer", self.path, self.scratch / "feed.npz", "--threads", self.a.threads])
        layers, _ = run([self.a.peri, "bench", engine, "--threads", self.a.threads, *self.given, "--seconds", 0, "--iterations", 20, "--tolerance", 1000, "--layers"], (0, 5))
        rows = [line.split(None, 2) for line in layers.splitlines() if "%" in line]
        slow = [f"{r[0]} ms {r[1]} {r[2][:90]}" for r in rows if len(r) == 3 and r[1].endswith("%")][:3]
        return statistics.median(ours), statistics.median(theirs), peak, peer_peak, slow


def peer(path, feed, threads):
    session = session_of(path, threads)
    session.run(None, dict(np.load(feed)))


def sizes_of(path, root):
    relative = str(path.relative_to(root))
    return next((sizes for word, sizes in SIZES.items() if word in relative), [{}, {}])


def measure(name, path, root, a):
    rows = []
    for k, shapes in enumerate(sizes_of(path, root)):
        with tempfile.TemporaryDirectory() as scratch:
            row = {"package": name, "model": path.stem, "size": k}
            try:
                case = Case(path, name, shapes, 11 + k, pathlib.Path(scratch), a)
                row["shapes"] = case.shape
                row["verdict"], row["right"] = case.right()
                if not a.check:
                    row["peri_ms"], row["onnxruntime_ms"], row["peri_mib"], row["onnxruntime_mib"], row["slowest"] = case.times()
                    row["ratio"] = row["peri_ms"] / row["onnxruntime_ms"]
            except Failure as error:
                row |= {"verdict": str(error), "right": False}
            rows.append(row)
            figures = f"{row['peri_ms']:9.3f} ms {row['onnxruntime_ms']:9.3f} ms  ratio {row['ratio']:5.2f}  {row['peri_mib']:6.0f} MiB {row['onnxruntime_mib']:6.0f} MiB" if "ratio" in row else ""
            print(f"{name:22} {path.stem[:34]:34} {row.get('shapes', ''):28} {'right' if row['right'] else 'WRONG'} {figures}{'' if row['right'] else '  ' + row['verdict'][:160]}", flush=True)
    return rows


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path, nargs="?", default=pathlib.Path("build/packages"))
    p.add_argument("--fetch", action="store_true", help="fetch and unpack only")
    p.add_argument("--check", action="store_true", help="right answers only, of engines that are not tuned")
    p.add_argument("--only", default="", metavar="TEXT", help="files whose path holds TEXT")
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=int, default=1)
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    p.add_argument("--peer", nargs=2, metavar=("MODEL", "FEED"), help=argparse.SUPPRESS)
    return p.parse_args()


def summary(rows, a):
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    wrong = [r for r in rows if not r["right"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    slow = [r for r in rows if r.get("ratio", 0) > BAR_TIME]
    large = [r for r in rows if "ratio" in r and r["peri_mib"] > r["onnxruntime_mib"]]
    print(f"{len(rows)} cases: {len(wrong)} wrong" + (f", geometric mean {mean:.3f}, {len(slow)} above {BAR_TIME}, {len(large)} take more memory" if ratios else ""))
    for r in sorted(slow, key=lambda r: -r["ratio"]):
        print(f"  {r['ratio']:.2f} {r['model']} {r['shapes']}: " + "; ".join(r["slowest"]))
    if a.json:
        import onnxruntime

        report = {"date": time.strftime("%Y-%m-%d"), "machine": {"cpu": cpu_name(), "threads": a.threads}, "versions": {"onnxruntime": onnxruntime.__version__},
                  "bars": {"each": BAR_TIME, "mean": BAR_MEAN}, "mean": mean, "cells": rows}
        a.json.write_text(json.dumps(report, indent=1) + "\n")
    return 3 if wrong else 4 if ratios and (mean > BAR_MEAN or slow or large) else 0


def main():
    a = arguments()
    if a.peer:
        return peer(*a.peer, a.threads)
    packages = fetch(a.folder)
    if a.fetch:
        return 0
    rows = []
    for name, root in packages.items():
        for path in sorted(root.rglob("*.onnx")):
            if a.only in str(path):
                rows += measure(name, path, root, a)
    if not rows:
        print("no model: nothing was fetched, or --only names none", file=sys.stderr)
        return 77
    return summary(rows, a)


if __name__ == "__main__":
    sys.exit(main())
