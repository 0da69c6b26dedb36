#!/usr/bin/env python3
"""What builds, loads and first runs of networks take on this machine, each in a process of its own, beside their bars.

    times.py NAME ... [--backend cuda] [--bits RUNS] [--answers f16,bf16,f32 [--seeds 4] [--also-batch N]] [--own] [--json FILE] [--dry]

For each network in float16 at batch 1: a build with empty caches (ours and the driver's lie in a fresh folder), the same
again, `peri run` of the engine from exec to exit twice, whose answers have the same bits, and first runs of other batches
or lengths in one process (engine_runs; from the second on with inputs and outputs on the device). Counted: trials of candidates, texts that NVRTC compiled (files that came to the
cache), sizes at which it compiled. The second run of a size beside later ones: the median over fresh sessions. Of the same
engine: --bits: so many runs give the same bits. --answers: answers.py judges it, and engines of the other types, which
are built without tuning; so is one for a batch of N. --own: beside it one of our own kernels alone (--provider peri), which may take 3 times as long,
and whether all steps of that provider are on the device in three types. --dry: bars are printed, not held. Models are made
whole from $MODELS; $WORK is for scratch. Exit code 4 where a bar is missed, 77 without numpy and onnx.
"""
import argparse
import filecmp
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# Seconds: a build with empty caches, again, `peri run`; the first run of a size in ms, and the second as a share of later ones.
COLD = {"resnet50": 20, "bert_large": 45}
CACHED, ANSWER, FIRST_MS, SECOND, OWN = 3, 2, 500, 1.05, 3
RUNS, SESSIONS = 12, 9  # of engine_runs
IMAGES, TEXTS = ["{b}=2", "{b}=8", "{b}=3"], ["{b}=1,{s}=64", "{b}=1,{s}=100", "{b}=4,{s}=128", "{b}=1,{s}=17"]


def call(words, environment=None):
    start = time.monotonic()
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=environment)
    took = time.monotonic() - start
    if done.returncode:
        sys.exit(f"{' '.join(str(w) for w in words)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-800:].strip()}")
    return took, done.stdout


def first_object(text):
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


class Phases:
    """Prints each part as it ends, so that the output of a test that ran out of time says what the time went into."""

    def __init__(self, name):
        self.name, self.start = name, time.monotonic()

    def ended(self, part):
        now = time.monotonic()
        print(f"{self.name}: {part} {now - self.start:.1f} s", flush=True)
        self.start = now


class Network:
    def __init__(self, a, name, scratch):
        self.a, self.name, self.folder = a, name, pathlib.Path(scratch)
        sources = pathlib.Path(os.environ.get("MODELS", pathlib.Path(__file__).resolve().parents[2] / "models"))
        call([sys.executable, sources / "materialize.py", "--out", self.folder, name])
        self.model = self.folder / f"{name}.onnx"
        # The driver keeps compiled PTX in a folder of its own.
        self.cache = self.folder / "cache"
        self.environment = {**os.environ, "PERI_CACHE": str(self.cache), "CUDA_CACHE_PATH": str(self.folder / "driver"), "XDG_CACHE_HOME": str(self.folder / "home")}

    def inputs(self):
        import onnx

        graph = onnx.load(self.model, load_external_data=False).graph
        return [i.name for i in graph.input if i.name not in {t.name for t in graph.initializer}]

    def texts(self):
        return sum(1 for p in self.cache.rglob("*") if p.is_file() and "cubin" in p.parts)

    def build(self, engine, *flags):
        before = self.texts()
        took, said = call([self.a.peri, "build", self.model, "-o", engine, "--backend", self.a.backend, "--json", "-", "--quiet", *flags], self.environment)
        report = first_object(said)
        return {"seconds": took, "trials": report["timed_now"], "texts": self.texts() - before, "judged": report["engine_judged"], "on_host": len(report["on_host"]), "steps": report["steps"], "tune_seconds": report["tune_seconds"]}


def dims_of(a, model):
    import onnx

    names = []
    for port in onnx.load(model, load_external_data=False).graph.input:
        names += [d.dim_param for d in port.type.tensor_type.shape.dim if d.dim_param and d.dim_param not in names]
    return names


def built_and_run(network, wrong):
    a, engine, flags, phases = network.a, network.folder / "engine", ["--dtype", a_type(network.a)], Phases(network.name)
    row = {"network": network.name, "cold": network.build(engine, *flags)}
    phases.ended("cold build")
    row["cached"] = network.build(engine, *flags)
    phases.ended("cached build")
    given = [word for name in network.inputs() for word in ("--input", f"{name}=random:1")]
    row["run_s"] = []
    for n in (1, 2):
        took, _ = call([a.peri, "run", engine, *given, "--output-dir", network.folder / f"out{n}", "--quiet"], network.environment)
        row["run_s"].append(took)
    for file in sorted((network.folder / "out1").glob("*.npy")):
        if not filecmp.cmp(file, network.folder / "out2" / file.name, shallow=False):
            wrong.append(f"{network.name}: {file.stem} of two processes are different bits")
    phases.ended("runs")
    dims = dims_of(a, network.model)
    batch = next((d for d in dims if "seq" not in d), None)
    sequence = next((d for d in dims if "seq" in d), None)
    sizes = [s.format(b=batch, s=sequence) for s in (TEXTS if sequence else IMAGES)] if batch else []
    runs = lambda sessions, each, *at: first_object(call([a.engine_runs, engine, "--sessions", sessions, "--runs", each, *at], network.environment)[1])
    # On the device's memory: a run with copies depends on the host's caches too (benchmarks/results/2026-11-24_gpu_shards.md).
    row["first_runs"] = runs(SESSIONS, RUNS, "--resident", *sizes)
    phases.ended("first runs of sizes")
    if a.bits:  # engine_runs ends with status 1 where they are not
        row["same_bits"] = runs(2, (a.bits + 1) // 2)["sizes"][0]["runs"]
        phases.ended(f"{a.bits} runs")
    miss = lambda what, got, bar: wrong.append(f"{network.name}: {what} {got:.3g}, at most {bar:g}") if got > bar else None
    miss("build with empty caches, s", row["cold"]["seconds"], COLD.get(network.name, 1e9))
    miss("cached build, s", row["cached"]["seconds"], CACHED)
    miss("trials of a cached build", row["cached"]["trials"], 0)
    miss("texts compiled by a cached build", row["cached"]["texts"], 0)
    miss("load and first answer, s", max(row["run_s"]), ANSWER)
    for s in row["first_runs"]["sizes"]:
        miss(f"first run at {s['sizes']}, ms", s["first_ms"], FIRST_MS)
        miss(f"texts compiled at {s['sizes']}", s["compiled"], 0)
        miss(f"second run at {s['sizes']} over later ones", second_over_later(s), SECOND)
    if a.answers:
        words = [sys.executable, pathlib.Path(__file__).with_name("answers.py"), network.name, "--dtype", a.answers, "--seeds", a.seeds, "--also-batch", a.also_batch, "--backend", a.backend]
        done = subprocess.run([*map(str, words), "--engine", str(engine), "--build-flags=--no-tune --no-verify", "--peri", a.peri], capture_output=True, text=True, env=network.environment)
        print(done.stdout, end="", flush=True)
        if done.returncode not in (0, 3):
            sys.exit(f"answers.py: exit code {done.returncode}: {done.stderr[-800:].strip()}")
        if done.returncode:
            wrong.append(f"{network.name}: an answer is too far off")
        phases.ended("answers")
    if a.own:
        own_beside_default(network, engine, row, wrong)
        phases.ended("own kernels")
    return row


def second_over_later(size):
    """Compared with later runs, and with the second of two runs of a known size after the host worked as long as the first run: what
    an idle device and cold caches of the host cost is not the size's."""
    return size["second_over_steady"] * min(1, size["steady_ms"] / size["rested_ms"][1])


def a_type(a):
    return "f16" if a.backend == "cuda" else "f32"


def resident_ms(network, engine):
    _, said = call([network.a.peri, "bench", engine, "--json", "-", "--quiet", "--seconds", "1", "--tolerance", "1000"], network.environment)
    report = first_object(said)
    return (report.get("resident_ms") or report.get("with_copies_ms") or report["latency_ms"])["median"]


def own_beside_default(network, default, row, wrong):
    """Finds what was timed for the default engine in its cache."""
    a, own = network.a, network.folder / "own"
    row["own"] = {**network.build(own, "--dtype", a_type(a), "--provider", "peri"), "on_host": {}}
    row["default_ms"], row["own_ms"] = resident_ms(network, default), resident_ms(network, own)
    row["ratio"] = row["own_ms"] / row["default_ms"]
    if row["ratio"] > OWN:
        wrong.append(f"{network.name}: our own kernels take {row['ratio']:.2f} times the default engine, at most {OWN}")
    for dtype in ("f16", "bf16", "f32") if a.backend == "cuda" else ("f32",):
        made = network.build(network.folder / "other", "--dtype", dtype, "--provider", "peri", "--no-tune", "--no-verify")
        row["own"]["on_host"][dtype] = made["on_host"]
        if made["on_host"]:
            wrong.append(f"{network.name} {dtype}: {made['on_host']} steps of our own provider on the host")


def table(report):
    lines = ["| network | cold s | of it tuner | texts | cached s | trials, texts | run s | first of a size, most ms | compiled | second over later behind a rest, most (without one) |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for r in report["rows"]:
        sizes = r["first_runs"]["sizes"]
        lines.append(
            f"| {r['network']} | {r['cold']['seconds']:.1f} | {r['cold']['tune_seconds']:.1f} | {r['cold']['texts']} | {r['cached']['seconds']:.2f} | {r['cached']['trials']}, {r['cached']['texts']} | {max(r['run_s']):.2f} | "
            f"{max(s['first_ms'] for s in sizes):.0f} | {sum(s['compiled'] for s in sizes)} | {max(second_over_later(s) for s in sizes):.3f} ({max(s['second_over_steady'] for s in sizes):.3f}) |"
        )
    if own := [r for r in report["rows"] if "ratio" in r]:
        lines += ["", "| network | default ms | own kernels ms | ratio | steps on the host, by type |", "|---|---:|---:|---:|---|"]
        lines += [f"| {r['network']} | {r['default_ms']:.4f} | {r['own_ms']:.4f} | {r['ratio']:.2f} | {r['own']['on_host']} |" for r in own]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="+", metavar="NAME")
    p.add_argument("--backend", default="cuda")
    p.add_argument("--own", action="store_true")
    p.add_argument("--dry", action="store_true")
    p.add_argument("--bits", type=int, default=0, metavar="RUNS")
    p.add_argument("--answers", metavar="TYPES", help="float16 first")
    p.add_argument("--seeds", type=int, default=4)
    p.add_argument("--also-batch", type=int, default=0, metavar="N")
    p.add_argument("--peri", default="peri")
    p.add_argument("--engine-runs", default="engine_runs")
    p.add_argument("--json")
    a = p.parse_args()
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
    except ImportError as missing:
        print(f"{sys.executable} has no numpy and onnx: {missing}")
        return 77
    report, wrong = {"backend": a.backend, "rows": []}, []
    for name in a.names:
        with tempfile.TemporaryDirectory(dir=os.environ.get("WORK")) as scratch:
            network = Network(a, name, scratch)
            report["rows"].append(built_and_run(network, wrong))
        if a.json:  # a later network that fails loses none
            pathlib.Path(a.json).write_text(json.dumps({**report, "missed": wrong}, indent=1) + "\n")
    print(table(report))
    print("\n".join(wrong) or "every bar is met")
    return 4 if wrong and not a.dry else 0


if __name__ == "__main__":
    sys.exit(main())
