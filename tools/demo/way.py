"""The way of one model: an engine built or used again, its answers held against ONNX Runtime, both timed in turns, and
the steps that take the time."""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "suites"), str(ROOT / "benchmarks" / "peers")]

from check_agreement import compare  # noqa: E402
from engines import Peri  # noqa: E402
from peer_cpu import summary, timed  # noqa: E402
from suite_files import SuiteError  # noqa: E402

ROUNDS, SECONDS = 3, 1
LAYER = re.compile(r"^\s*([\d.]+)\s+([\d.]+)%\s+(.*?)  \[(\S+)\] (?:kernel )?(\S+)")


def say(words):
    print(f"  {words}", file=sys.stderr, flush=True)


def digest(path):
    """Hash of a file, or of the files of a folder with their names."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(path.parent)).encode())
        with open(file, "rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


class Way:
    """`rebuild`: never use an engine again. What is measured is collected in `report`."""

    def __init__(self, name, model, folder, threads, rebuild):
        self.name, self.model, self.folder, self.threads, self.rebuild = name, model, folder, threads, rebuild
        self.peri = Peri(ROOT / "build" / "bin" / "peri", folder)
        self.report = {"name": name, "threads": threads}

    def build(self, dims):
        """Import, optimise, verify and time candidates, save; or the engine of an earlier run of the same model and program.
        An engine is only used again if verify() passed it."""
        self.engine = self.folder / f"{self.name}.engine"
        told, self.stamp = self.folder / f"{self.name}.build.json", self.folder / f"{self.name}.stamp"
        self.want = "\n".join([digest(self.model), digest(self.peri.command), dims, str(self.threads)])
        again = not self.rebuild and self.engine.is_file() and told.is_file() and self.stamp.is_file() and self.stamp.read_text() == self.want
        if not again:
            self.stamp.unlink(missing_ok=True)
            say(f"{self.name}: building for {dims} (import, passes, candidates verified and timed)")
            self.peri.call("build", self.model, "-o", self.engine, "--dims", dims, "--threads", self.threads, "--json", told, "--force")
        built = json.loads(told.read_text())
        steps = built["steps_in_order"]
        names = [s["name"] for s in steps]
        self.steps = {s["name"]: s for s in steps if names.count(s["name"]) == 1}
        kernels = [s for s in steps if s["chosen"] != "reference"]
        self.report["engine"] = {
            "again": again, "dims": dims, "bytes": self.engine.stat().st_size, "steps": len(steps),
            "reference_steps": built["reference_steps"], "verified_steps": sum(float(s["evidence"].get("max_error", -1)) >= 0 for s in kernels),
            **{k: built[k] for k in ("import_seconds", "passes_seconds", "tune_seconds")}}
        say(f"{self.name}: engine {'used again (same model, same program)' if again else 'built'}, {len(steps)} steps")

    def verify(self, feed):
        """The engine's answer for arrays against the float64 reference; once for an engine. False: outside the budget."""
        told = self.folder / f"{self.name}.verify.json"
        if not self.report["engine"]["again"]:
            say(f"{self.name}: verifying against the float64 reference")
            with tempfile.TemporaryDirectory(dir=self.peri.scratch.name) as scratch:
                words = [w for name, path in save(feed, scratch).items() for w in ("--input", f"{name}={path}")]
                done = subprocess.run([self.peri.command, "verify", self.engine, *words, "--json", told, "--force"], capture_output=True, text=True)
            if done.returncode not in (0, 3):
                raise SuiteError(done.stderr.strip().splitlines()[-1])
            if done.returncode == 0:
                self.stamp.write_text(self.want)
        outputs = json.loads(told.read_text())["outputs"]
        self.report["verified"] = {"of_range": max(float(o["relative"]) for o in outputs), "inside": all(o["inside"] for o in outputs)}
        return self.report["verified"]["inside"]

    def run(self, arrays):
        """Outputs by name of one run of the saved engine on arrays."""
        with tempfile.TemporaryDirectory(dir=self.peri.scratch.name) as scratch:
            return self.peri.run(self.engine, save(arrays, scratch))

    def agree(self, ours, session, feeds):
        """Largest figures of `ours` (one array a feed) against ONNX Runtime on the two `feeds`; both are judged."""
        wanted = [session.run(None, feed)[0] for feed in feeds]
        rows = [compare(ours[k], wanted[k], wanted[1 - k]) for k in (0, 1)]
        self.report["agreement"] = {
            "agrees": all(r["agrees"] for r in rows), "why": next((r["why"] for r in rows if "why" in r), ""),
            "of_range": max(r.get("of_range", 0) for r in rows), "cosine": min(r.get("cosine", 0) for r in rows)}
        return self.report["agreement"]["agrees"]

    def time(self, session, feed):
        """Rounds in turn: ONNX Runtime in this process, our engine in its own; the same arrays, the same threads."""
        samples, loads = {"peri": [], "onnxruntime": []}, []
        with tempfile.TemporaryDirectory(dir=self.peri.scratch.name) as scratch:
            words = [w for name, path in save(feed, scratch).items() for w in ("--input", f"{name}={path}")]
            for turn in range(ROUNDS):
                say(f"{self.name}: timing, round {turn + 1} of {ROUNDS}")
                samples["onnxruntime"] += timed(lambda: session.run(None, feed), SECONDS)
                told = pathlib.Path(scratch) / "bench.json"
                # On a busy machine the interval is wide, which the page shows; the demo does not end for it.
                shown = self.peri.call("bench", self.engine, *words, "--threads", self.threads, "--seconds", SECONDS,
                                       "--tolerance", 1000, "--json", told, *(["--layers"] if turn + 1 == ROUNDS else []))
                said = json.loads(told.read_text())
                samples["peri"] += said["samples"]
                loads.append(said["load_ms"])
        self.report["time"] = {name: summary(values) for name, values in samples.items()}
        self.report["load_ms"] = float(np.median(loads))
        self.report["shape"] = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
        self.explain(shown)

    def explain(self, shown):
        rows = [m.groups() for m in map(LAYER.match, shown.splitlines()) if m]
        self.report["layers"] = [
            {"ms": float(ms), "share": float(share), "step": step, "kernel": kernel} | self.known(step)
            for ms, share, step, _, kernel in rows[:6]]

    def known(self, step):
        """What the build said of a step, where its name is nobody else's."""
        found = self.steps.get(step)
        return {"nodes": len(found["origins"]), "candidates": len(found["others"]) + (found["chosen"] != "reference")} if found else {}


def save(arrays, folder):
    """name → file of arrays written as .npy."""
    files = {}
    for k, (name, array) in enumerate(arrays.items()):
        files[name] = pathlib.Path(folder) / f"input_{k}.npy"
        np.save(files[name], array)
    return files


def ort_session(model, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
