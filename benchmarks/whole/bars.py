#!/usr/bin/env python3
"""The bars of one lowering, one judge, one runtime, taken one after another, each with its verdict. Both programs build their
own engines; runs of the old and the new one go in turn. For a machine that does nothing else.

  times    steady times: geometric mean of new over old within 1.00 +- 0.02, no model above 1.05
  start    load, first run and peak memory of fresh processes: geometric means of new over old at most 1.02
  build    wall time of a build with an empty cache: no model above 1.25; resnet50 at most 12 s
  shapes   64 lengths in random order: mean at most 1.05 of prepared runs; a new length takes at most 3 ms more (MiniLM 1)
  narrow   a model in float16 on the CPU: at most 1.1 of its time in float32, at most 0.52 of its file
  tests    ./dev test from a fresh clone of what is committed: at most 10 minutes on two processors

  .venv/bin/python models/materialize.py --out build/models
  ninja -C build benchmarks
  benchmarks/whole/bars.py --old OLD/peri $(ls build/models/*.onnx | grep -v ssdlite320) [--minilm FOLDER] [--only times,build] [--quick]

OLD is the program of d258d53, which takes no If and so no ssdlite320. All bars take about an hour and a half. Exit code 4 where a bar is missed, 1 where something does not run."""
import argparse
import collections
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BARS = ("times", "start", "build", "shapes", "narrow", "tests")


class Trouble(Exception):
    pass


UNSTABLE = 5  # the exit code of a measurement that is told with its reason not to trust it


def call(words, environment=None, taken=(0,)):
    """Standard output, seconds and peak MiB of a process, whose exit code must be one of those taken."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([str(w) for w in words], stdout=out, stderr=err, env=os.environ | (environment or {}))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode not in taken:
            raise Trouble(f"`{' '.join(map(str, words))}` gave exit code {child.returncode}: {err.read().decode()[-300:].strip()}")
        return out.read().decode(), time.monotonic() - start, usage.ru_maxrss / 1024


def name_of(model):
    return pathlib.Path(model).stem


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


class Bars:
    def __init__(self, a, work):
        self.a, self.work, self.rows, self.doubts = a, work, [], []
        self.programs = {"old": a.old, "new": a.peri}
        self.all = a.models + ([a.minilm] if a.minilm else [])
        self.seconds, self.rounds = (0.2, 2) if a.quick else (1.5, 9)

    def say(self, bar, what, value, limit, held):
        self.rows.append({"bar": bar, "what": what, "value": value, "limit": limit, "held": held})
        print(f"{'held  ' if held else 'MISSED'} {bar:7} {what:48} {value:9.4g} ({limit})", flush=True)

    def built(self, which, model):
        """The engine of one program, made with its own cache; built once."""
        engine = self.work / f"{name_of(model)}.{which}.engine"
        if not engine.is_file():
            self.build(which, model, engine)
        return engine

    def build(self, which, model, engine):
        with tempfile.TemporaryDirectory(dir=self.work) as cache:
            flags = ["--no-tune"] if self.a.no_tune else []
            words = [self.programs[which], "build", model, "-o", engine, "--threads", self.a.threads, "--quiet", *flags]
            return call(words, {"PERI_CACHE": cache})[1]

    def bench(self, which, model, *more):
        words = [self.programs[which], "bench", self.built(which, model), "--threads", self.a.threads, "--quiet", "--json", "-", *more]
        out, _, mib = call(words, {"PERI_CACHE": str(self.work / which)}, (0, UNSTABLE))
        report = json.loads(out)
        self.doubts += [reason for reason in (report.get("unstable"), *report.get("disturbed", [])) if reason]
        return {"ms": report["latency_ms"]["median"], "load": report["load_ms"], "first": report["first_run_ms"], "memory": mib}

    def in_turn(self, model, *more):
        """Samples of both programs, the first of each round by turns."""
        found = {"old": [], "new": []}
        for k in range(self.rounds):
            for which in ("old", "new") if k % 2 else ("new", "old"):
                found[which].append(self.bench(which, model, *more))
        return found

    def times(self):
        ratios = []
        for m in self.all:
            found = self.in_turn(m, "--seconds", self.seconds)
            ratio = statistics.median(n["ms"] / o["ms"] for o, n in zip(found["old"], found["new"]))
            ratios.append(ratio)
            self.say("times", name_of(m), ratio, "at most 1.05", ratio <= 1.05)
        mean = geometric(ratios)
        self.say("times", "geometric mean", mean, "0.98 to 1.02; below is better", mean <= 1.02)

    def start(self):
        ratios = {"load": [], "first": [], "memory": []}
        for m in self.all:
            found = self.in_turn(m, "--seconds", 0, "--iterations", 1)
            for key in ratios:
                ratios[key].append(min(f[key] for f in found["new"]) / min(f[key] for f in found["old"]))
                print(f"       start   {name_of(m) + ', ' + key:48} {ratios[key][-1]:9.4g}", flush=True)
        for key, values in ratios.items():
            self.say("start", f"geometric mean of {key}", geometric(values), "at most 1.02", geometric(values) <= 1.02)

    def build_time(self):
        for m in self.all:
            taken = {"old": [], "new": []}
            for k in range(1 if self.a.quick else 3):
                for which in ("old", "new") if k % 2 else ("new", "old"):
                    taken[which].append(self.build(which, m, self.work / f"{name_of(m)}.{which}.engine"))
            ratio = min(taken["new"]) / min(taken["old"])
            self.say("build", name_of(m), ratio, "at most 1.25", ratio <= 1.25)
            if name_of(m) == "resnet50":
                self.say("build", "resnet50, seconds", min(taken["new"]), "at most 12", min(taken["new"]) <= 12)

    def shapes(self):
        models = [(m, 3.0) for m in self.a.models if name_of(m) == "bert_base"] + ([(self.a.minilm, 1.0)] if self.a.minilm else [])
        if not models:
            print("       shapes  no bert_base among the models and no --minilm: nothing was measured")
        for m, limit in models:
            words = [self.a.bin / "new_shapes", self.built("new", m), "--threads", self.a.threads]
            said, *_ = call(words + (["--lengths", 6, "--longest", 32] if self.a.quick else ["--rounds", 3]))
            ratio = float(re.search(r"ratio of the means ([\d.]+)", said)[1])
            more = float(re.search(r"the new length takes more +mean +-?[\d.]+ +median +(-?[\d.]+)", said)[1])
            self.say("shapes", f"{name_of(m)}, mean over prepared runs", ratio, "at most 1.05", ratio <= 1.05)
            self.say("shapes", f"{name_of(m)}, a new length takes more, ms", more, f"at most {limit:g}", more <= limit)

    def narrow(self):
        for m in self.a.models:
            small = self.work / f"{name_of(m)}_f16.onnx"
            call([sys.executable, ROOT / "tools/to_narrow.py", m, small])
            said, *_ = call([self.a.bin / "two_engines", self.built("new", m), self.built("new", small), "--threads", self.a.threads,
                             *(["--rounds", 5] if self.a.quick else [])])
            ratio = float(re.search(r"of the second over the first ([\d.]+) \(", said)[1])
            size = float(re.search(r"file of the second over the first ([\d.]+)", said)[1])
            self.say("narrow", f"{name_of(m)}, time", ratio, "at most 1.1", ratio <= 1.1)
            self.say("narrow", f"{name_of(m)}, file", size, "at most 0.52", size <= 0.52)

    def tests(self):
        tree = self.work / "clone"
        call(["git", "clone", "--quiet", ROOT, tree])
        _, seconds, _ = call([tree / "dev", "--help"] if self.a.quick else [tree / "dev", "test"], {"CCACHE_DISABLE": "1"})
        self.say("tests", "./dev test from a fresh clone, minutes", seconds / 60, "at most 10", seconds <= 600)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path)
    p.add_argument("--old", type=pathlib.Path, help="the program before the change")
    p.add_argument("--peri", type=pathlib.Path, default=ROOT / "build/bin/peri")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where new_shapes and two_engines are")
    p.add_argument("--minilm", type=pathlib.Path, metavar="FOLDER", help="all-MiniLM-L6-v2: for all bars but narrow")
    p.add_argument("--only", default=",".join(BARS), metavar="BAR,...")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--quick", action="store_true", help="few and short runs: shows that the bars can be taken, not how they stand")
    p.add_argument("--no-tune", action="store_true", help="engines of first offers")
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    wanted = a.only.split(",")
    if unknown := set(wanted) - set(BARS):
        p.error(f"unknown bar {', '.join(sorted(unknown))}; they are {', '.join(BARS)}")
    if not a.old and set(wanted) & {"times", "start", "build"}:
        p.error("times, start and build need --old, the program before the change")
    work = pathlib.Path(tempfile.mkdtemp(prefix="peri_bars_"))
    try:
        bars = Bars(a, work)
        for bar in wanted:
            (bars.build_time if bar == "build" else getattr(bars, bar))()
    except Trouble as trouble:
        print(f"bars: {trouble}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    missed = sum(not r["held"] for r in bars.rows)
    for reason, times in collections.Counter(bars.doubts).most_common(5):
        print(f"       doubtful {times} x: {reason}")
    print(f"bars: {len(bars.rows)} verdicts, {missed} missed{' (quick: says nothing of the bars)' if a.quick else ''}")
    if a.json:
        a.json.write_text(json.dumps({"quick": a.quick, "threads": a.threads, "rows": bars.rows, "doubts": bars.doubts}, indent=1) + "\n")
    return 4 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
