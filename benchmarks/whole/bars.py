#!/usr/bin/env python3
"""The bars of one lowering, one judge, one runtime, taken model by model, each with its verdict. Both programs build their
own engines; runs of the old and the new one go in turn, each round with the next of their builds. For a machine that does nothing else.

  times    steady times: geometric mean of new over old within 1.00 +- 0.02, no model above 1.05
  start    load, first run and peak memory of fresh processes: geometric means of new over old at most 1.02
  build    wall time of a build with an empty cache: no model above 1.25; resnet50 at most 12 s
  bits     at choices that both programs take, every output has the same bytes (tools/suites/same_bits.py)
  shapes   64 lengths in random order: mean at most 1.05 of prepared runs; a new length takes at most 3 ms more (MiniLM 1)
  narrow   a model in float16 on the CPU: at most 1.1 of its time in float32, at most 0.52 of its file (from 4 MiB on)
  tests    ./dev test from a fresh clone of what is committed: at most 10 minutes on two processors

  .venv/bin/python models/materialize.py --out build/models
  ninja -C build benchmarks
  benchmarks/whole/bars.py --old OLD/peri $(ls build/models/*.onnx | grep -v ssdlite320) [--minilm FOLDER] [--only times,build] [--quick]

OLD is the program of d258d53, which takes no If and so no ssdlite320. All bars take about an hour and a half on two processors;
with --lanes N models are measured beside each other, each on processors of its own (a machine with processors to spare; not
`tests`). With --minutes M nothing begins after M minutes, and what was left out is told. Exit code 4 where a bar is missed, 1
where something does not run or was left out."""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import queue
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_MODELS = ("build", "times", "start", "bits", "shapes", "narrow")
BARS = (*OF_MODELS, "tests")


class Trouble(Exception):
    pass


UNSTABLE = 5  # the exit code of a measurement that is told with its reason not to trust it


def call(words, environment=None, taken=(0,)):
    """Standard output, seconds and peak MiB of a process, whose exit code must be one of those taken. The peak counts what this
    process holds when it starts the other: nothing large may be read here."""
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


def size_of(model):
    return sum(f.stat().st_size for f in ([model] if model.is_file() else model.rglob("*")) if f.is_file())


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def processors_of_lanes(lanes, threads):
    """Sets of usable processors, one a lane. As long as there are enough, each is of a core of its own; else cores stay whole."""
    cores = collections.defaultdict(list)
    for p in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{p}/topology/thread_siblings_list")
        cores[siblings.read_text() if siblings.is_file() else str(p)].append(p)
    order = [c[0] for c in cores.values()] if lanes * threads <= len(cores) else [p for c in cores.values() for p in c]
    if lanes * threads > len(order):
        raise Trouble(f"{lanes} lanes of {threads} processors, but {len(order)} are usable")
    return [set(order[k * threads:(k + 1) * threads]) for k in range(lanes)]


class Bars:
    def __init__(self, a, work):
        self.a, self.work, self.rows, self.doubts, self.left_out = a, work, [], [], []
        self.programs = {"old": a.old, "new": a.peri}
        self.all = a.models + ([a.minilm] if a.minilm else [])
        self.seconds, self.rounds, self.builds = (0.2, 2, 1) if a.quick else (1.5, 9, 3)
        self.engines, self.ratios = collections.defaultdict(list), collections.defaultdict(dict)
        self.printing, self.end = threading.Lock(), time.monotonic() + 60 * a.minutes if a.minutes else math.inf

    def say(self, bar, what, value, limit, held):
        """A verdict; held is None where nothing is claimed."""
        with self.printing:
            self.rows.append({"bar": bar, "what": what, "value": value, "limit": limit, "held": held})
            print(f"{ {True: 'held  ', False: 'MISSED', None: '      '}[held]} {bar:7} {what:48} {value:9.4g} ({limit})", flush=True)

    def built(self, which, model):
        """The engines of one program, each made with an empty cache."""
        while len(self.engines[which, model]) < self.builds:
            self.build(which, model)
        return self.engines[which, model]

    def build(self, which, model):
        made = self.engines[which, model]
        engine = self.work / f"{name_of(model)}.{which}.{len(made)}.engine"
        with tempfile.TemporaryDirectory(dir=self.work) as cache:
            flags = ["--no-tune"] if self.a.no_tune else []
            words = [self.programs[which], "build", model, "-o", engine, "--threads", self.a.threads, "--quiet", *flags]
            seconds = call(words, {"PERI_CACHE": cache})[1]
        made.append(engine)
        return seconds

    def bench(self, which, model, k, *more):
        engines = self.built(which, model)
        words = [self.programs[which], "bench", engines[k % len(engines)], "--threads", self.a.threads, "--quiet", "--json", "-", *more]
        out, _, mib = call(words, {"PERI_CACHE": str(self.work / which)}, (0, UNSTABLE))
        report = json.loads(out)
        self.doubts += [reason for reason in (report.get("unstable"), *report.get("disturbed", [])) if reason]
        return {"ms": report["latency_ms"]["median"], "load": report["load_ms"], "first": report["first_run_ms"], "memory": mib}

    def in_turn(self, model, *more):
        """Samples of both programs, the first of each round by turns."""
        found = {"old": [], "new": []}
        for k in range(self.rounds):
            for which in ("old", "new") if k % 2 else ("new", "old"):
                found[which].append(self.bench(which, model, k, *more))
        return found

    def build_time(self, m):
        taken = {"old": [], "new": []}
        for k in range(self.builds):
            for which in ("old", "new") if k % 2 else ("new", "old"):
                taken[which].append(self.build(which, m))
        ratio = min(taken["new"]) / min(taken["old"])
        self.say("build", name_of(m), ratio, "at most 1.25", ratio <= 1.25)
        if name_of(m) == "resnet50":
            self.say("build", "resnet50, seconds", min(taken["new"]), "at most 12", min(taken["new"]) <= 12)

    def times(self, m):
        found = self.in_turn(m, "--seconds", self.seconds)
        pairs = sorted(n["ms"] / o["ms"] for o, n in zip(found["old"], found["new"]))
        ratio = statistics.median(pairs)
        self.ratios["times"][m] = ratio
        old = statistics.median(o["ms"] for o in found["old"])
        self.say("times", f"{name_of(m)} (old {old:.4g} ms, {pairs[0]:.3f}-{pairs[-1]:.3f})", ratio, "at most 1.05", ratio <= 1.05)

    def start(self, m):
        found = self.in_turn(m, "--seconds", 0, "--iterations", 1)
        for key in ("load", "first", "memory"):
            ratio = min(f[key] for f in found["new"]) / min(f[key] for f in found["old"])
            self.ratios[key][m] = ratio
            self.say("start", f"{name_of(m)}, {key}", ratio, "counts in the mean", None)

    def bits(self, m):
        with tempfile.NamedTemporaryFile(dir=self.work) as file:
            words = [sys.executable, ROOT / "tools/suites/same_bits.py", "--old", self.a.old, "--peri", self.a.peri, "--json", file.name,
                     "--build-args", f"--threads {self.a.threads}" + (" --no-tune" if self.a.no_tune else ""), m]
            said, *_ = call(words, {"PERI_CACHE": str(self.work / f"{name_of(m)}.bits")}, (0, 3))
            row = json.loads(pathlib.Path(file.name).read_text())[0]
        if not row["expressible"]:
            self.say("bits", f"{name_of(m)}: no choices that both take", 0, row["refused"].replace(f"{ROOT}/", "")[:300], None)
        else:
            self.say("bits", f"{name_of(m)}, choices of {row['choices']}, bytes", row["bytes"], "; ".join(row["differ"]) or "all the same", row["same"])

    def shapes(self, m):
        if not (m == self.a.minilm or name_of(m) == "bert_base"):
            return
        limit = 1.0 if m == self.a.minilm else 3.0
        words = [self.a.bin / "new_shapes", self.built("new", m)[0], "--threads", self.a.threads]
        said, *_ = call(words + (["--lengths", 6, "--longest", 32] if self.a.quick else ["--rounds", 3]))
        ratio = float(re.search(r"ratio of the means ([\d.]+)", said)[1])
        more = float(re.search(r"the new length takes more +mean +-?[\d.]+ +median +(-?[\d.]+)", said)[1])
        # a run of MiniLM takes so little that the bar of a new length, 1 ms, is more than a twentieth of it
        held = None if m == self.a.minilm else ratio <= 1.05
        self.say("shapes", f"{name_of(m)}, mean over prepared runs", ratio, "at most 1.05" + ", of bert_base" * (held is None), held)
        self.say("shapes", f"{name_of(m)}, a new length takes more, ms", more, f"at most {limit:g}", more <= limit)

    def narrow(self, m):
        if m == self.a.minilm:
            return
        small = self.work / f"{name_of(m)}_f16.onnx"
        call([sys.executable, ROOT / "tools/to_narrow.py", m, small])
        self.build("new", small)
        said, *_ = call([self.a.bin / "two_engines", self.built("new", m)[0], self.engines["new", small][0], "--threads", self.a.threads,
                         *(["--rounds", 5] if self.a.quick else [])])
        ratio = float(re.search(r"of the second over the first ([\d.]+) \(", said)[1])
        size = float(re.search(r"file of the second over the first ([\d.]+)", said)[1])
        self.say("narrow", f"{name_of(m)}, time", ratio, "at most 1.1", ratio <= 1.1)
        little = size_of(m) < 4 << 20  # the program itself, which is the same in both, is more than 2 % of such a file
        self.say("narrow", f"{name_of(m)}, file", size, "at most 0.52" + ", of files from 4 MiB on" * little, None if little else size <= 0.52)

    def model(self, m, wanted, free):
        """The bars of one model, in a lane that is free; its files go when it ends."""
        lane = free.get()
        try:
            if lane:
                os.sched_setaffinity(0, lane)  # of this thread, and of what it starts
            for bar in wanted:
                if time.monotonic() > self.end:
                    self.left_out.append(f"{bar} of {name_of(m)}")
                else:
                    (self.build_time if bar == "build" else getattr(self, bar))(m)
        except Trouble as trouble:
            print(f"bars: {name_of(m)}: {trouble}", file=sys.stderr, flush=True)
            self.left_out.append(f"what followed of {name_of(m)}")
        finally:
            for file in self.work.glob(f"{name_of(m)}[._]*"):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
            free.put(lane)

    def models(self, wanted):
        """Those that take longest first."""
        free = queue.SimpleQueue()
        for lane in processors_of_lanes(self.a.lanes, self.a.threads) if self.a.lanes else [None]:
            free.put(lane)
        with concurrent.futures.ThreadPoolExecutor(max(1, self.a.lanes)) as pool:
            for done in [pool.submit(self.model, m, wanted, free) for m in sorted(self.all, key=size_of, reverse=True)]:
                done.result()
        for key, ratios in self.ratios.items():
            mean = geometric(ratios.values())
            bar = "times" if key == "times" else "start"
            what = f"geometric mean{'' if key == 'times' else f' of {key}'} of {len(ratios)} models"
            self.say(bar, what, mean, "0.98 to 1.02; below is better" if key == "times" else "at most 1.02", mean <= 1.02)

    def tests(self):
        tree = self.work / "clone"
        call(["git", "clone", "--quiet", ROOT, tree])
        _, seconds, _ = call([tree / "dev", "--help"] if self.a.quick else [tree / "dev", "test"], {"CCACHE_DISABLE": "1"})
        self.say("tests", "./dev test from a fresh clone, minutes", seconds / 60, "at most 10", seconds <= 600)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path)
    p.add_argument("--old", type=pathlib.Path, help="the program before the change")
    p.add_argument("--peri", type=pathlib.Path, default=ROOT / "build/bin/peri")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where new_shapes and two_engines are")
    p.add_argument("--minilm", type=pathlib.Path, metavar="FOLDER", help="all-MiniLM-L6-v2: for all bars but narrow")
    p.add_argument("--only", default=",".join(BARS), metavar="BAR,...")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--lanes", type=int, default=0, metavar="N", help="so many models beside each other, each on processors of its own")
    p.add_argument("--minutes", type=float, metavar="M", help="begin nothing after so many minutes")
    p.add_argument("--quick", action="store_true", help="few and short runs: shows that the bars can be taken, not how they stand")
    p.add_argument("--no-tune", action="store_true", help="engines of first offers")
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    a.only = a.only.split(",")
    if unknown := set(a.only) - set(BARS):
        p.error(f"unknown bar {', '.join(sorted(unknown))}; they are {', '.join(BARS)}")
    if not a.old and set(a.only) & {"times", "start", "build", "bits"}:
        p.error("times, start, build and bits need --old, the program before the change")
    if a.lanes and "tests" in a.only:
        p.error("tests takes a whole machine: --only without it where there are --lanes")
    if a.lanes < 0 or a.threads < 1:
        p.error("--lanes takes a number from 0 on, --threads one from 1 on")
    return a


def main():
    a = arguments()
    work = pathlib.Path(tempfile.mkdtemp(prefix="peri_bars_"))
    bars = Bars(a, work)
    try:
        bars.models([b for b in OF_MODELS if b in a.only])
        if "tests" in a.only:
            bars.tests()
    except Trouble as trouble:
        print(f"bars: {trouble}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    missed = sum(r["held"] is False for r in bars.rows)
    for reason, times in collections.Counter(bars.doubts).most_common(5):
        print(f"       doubtful {times} x: {reason}")
    for what in bars.left_out:
        print(f"       left out: {what}")
    verdicts = sum(r["held"] is not None for r in bars.rows)
    print(f"bars: {verdicts} verdicts, {missed} missed{' (quick: says nothing of the bars)' if a.quick else ''}")
    if a.json:
        a.json.write_text(json.dumps({"quick": a.quick, "threads": a.threads, "lanes": a.lanes, "rows": bars.rows, "doubts": bars.doubts,
                                      "left_out": bars.left_out}, indent=1) + "\n")
    return 1 if bars.left_out else 4 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
