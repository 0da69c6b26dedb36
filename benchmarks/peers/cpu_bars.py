#!/usr/bin/env python3
"""The bars of many threads on another machine: nine graphs in float32 and the quantised models at batch 1, beside ONNX Runtime and
OpenVINO, in so many minutes, from a bundle of ./dev pack and that machine's own python3.

  cpu_bars.py pack CARRY --bundle build/pack/peri-VERSION-linux-x86_64.tar.xz   # here: what travels with the tracked tree
  cpu_bars.py run CARRY WORK --threads 16 --minutes 7.5 --json bars.json        # there
  cpu_bars.py run CARRY WORK --parts quantised --models minilm_static           # some of them

CARRY holds the bundle, MiniLM's graph without its weights (they are seeded there: times are the same, answers are not) and
OpenVINO for --python. WORK takes the models, some 6 GB. There: numpy, onnx, onnxruntime with its quantiser (sympy).
All is made first, by all processors; then each model's engine is built and its cell measured by peer_cpu.py, rounds in turn.
What no time is left for is left out and said; the JSON grows with every model. OpenVINO computes in float32, as the bars say,
unless --openvino-precision default. Exit code 4: a bar is missed; 1: something was left out or failed.
"""
import argparse
import concurrent.futures
import importlib.metadata
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = {"float": ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "unet", "deeplabv3_resnet50", "vit_b_16", "bert_base", "gpt2", "bert_large"),
         "quantised": tuple(f"{n}_{w}" for n in ("mobilenet_v3_large", "resnet50", "minilm", "bert_base") for w in ("static", "dynamic"))}
MEAN = {"float": 0.85}  # of the ratios; each is at most 1.0
WHEELS = ("openvino", "openvino-telemetry")
NOT_CARRIED = ("_gpu_", "_npu_", "tensorflow", "pytorch", "paddle", "jax", "gguf", "cache.json")  # of OpenVINO: no CPU needs them for ONNX files


def strip(model, out):
    """`model` with a mean size and a seed for each large float weight: models/materialize.py fills them in again."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    proto = onnx.load(model)
    for seed, tensor in enumerate(proto.graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size > 64:
            tensor.doc_string = f"seeded std={float(np.sqrt((values.astype(np.float64) ** 2).mean())):.4g} seed={seed}"
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    onnx.save(proto, out)


def pack(a):
    sys.path.insert(0, str(ROOT / "benchmarks/peers"))
    from quantised_models import networks
    a.carry.mkdir(parents=True, exist_ok=True)
    shutil.copy(a.bundle, a.carry)
    strip(networks(a.models_folder, ["minilm"])["minilm"], a.carry / "minilm.stripped.onnx")
    wheels = [f"{n}=={importlib.metadata.version(n)}" for n in WHEELS]
    platforms = [w for p in ("manylinux_2_31_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "any") for w in ("--platform", p)]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", a.python, "--implementation", "cp",
                        *platforms, "-d", scratch, *wheels], check=True)
        site = pathlib.Path(scratch) / "site"
        for wheel in pathlib.Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site, [n for n in archive.namelist() if not any(word in n for word in NOT_CARRIED)])
        subprocess.run(["tar", "-C", scratch, "-cf", a.carry / "site.tar.xz", "-I", "xz -T0 -6", "site"], check=True)
    subprocess.run(["du", "-ah", a.carry])
    return 0


def unpacked(a):
    """The program of the bundle; OpenVINO's folder is on PYTHONPATH from here on."""
    bundle = next(iter(sorted(a.carry.glob("peri-*-linux-x86_64.tar.xz"))), None)
    if bundle is None:
        sys.exit(f"cpu_bars.py: no bundle peri-VERSION-linux-x86_64.tar.xz in {a.carry}: `cpu_bars.py pack` puts it there")
    a.work.mkdir(parents=True, exist_ok=True)
    shutil.unpack_archive(bundle, a.work)
    if (a.carry / "site.tar.xz").exists():
        shutil.unpack_archive(a.carry / "site.tar.xz", a.work)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(a.work / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return a.work / bundle.name.removesuffix(".tar.xz") / "bin/peri"


def fill_minilm(a, out):
    if (out / "minilm.onnx").exists():
        return
    sys.path.insert(0, str(ROOT / "models"))
    import onnx
    from materialize import fill
    proto = onnx.load(a.carry / "minilm.stripped.onnx")
    fill(proto.graph)
    onnx.save(proto, out / "minilm.onnx")


def said(words, log):
    with open(log, "w") as file:
        if subprocess.run(list(map(str, words)), stdout=file, stderr=subprocess.STDOUT).returncode:
            return f"{words[1]} failed: {' '.join(log.read_text().split()[-40:])}"
    return ""


def make(a, chosen):
    """All models, as many at once as there are processors for; name → why there is none."""
    floats, quantised = a.work / "models", a.work / "quantised"
    for folder in (floats, quantised):
        folder.mkdir(exist_ok=True)
    if not (quantised / "float").exists():
        (quantised / "float").symlink_to(floats)
    plain = {n for part, n in chosen if part == "float"} | {n.rpartition("_")[0] for part, n in chosen if part == "quantised"}
    with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2)) as pool:
        jobs = {n: pool.submit(said, [sys.executable, ROOT / "models/materialize.py", "--out", floats, n], a.work / f"{n}.log") for n in sorted(plain - {"minilm"})}
        if "minilm" in plain:
            fill_minilm(a, floats)
        failed = {n: why for n, job in jobs.items() if (why := job.result())}
        jobs = {n: pool.submit(said, [sys.executable, ROOT / "benchmarks/peers/quantised_models.py", quantised, "--make", "--only", n], a.work / f"{n}.log")
                for part, n in chosen if part == "quantised" and n.rpartition("_")[0] not in failed}
        return failed | {n: why for n, job in jobs.items() if (why := job.result())}


def measured(a, peri, part, name, left):
    """peer_cpu.py's cell of a model, or why there is none."""
    model = a.work / ("models" if part == "float" else "quantised") / f"{name}.onnx"
    engine, out = a.work / f"{name}.engine", a.work / f"{name}.json"
    precision = [] if a.openvino_precision == "default" else ["--openvino-precision", a.openvino_precision]
    words = [sys.executable, ROOT / "benchmarks/peers/peer_cpu.py", model, "--batch", 1, "--threads", a.threads, "--seconds", a.seconds, "--rounds", a.rounds, "--json", out, *precision,
             "--prepare", f"{peri} build {{model}} -o {engine} --dims {{dims}} --threads {{threads}} --budget {a.budget} --quiet",
             "--also", f"peri={peri} bench {engine} --dims {{dims}} --threads {{threads}} --seconds {a.seconds / a.rounds} --json -"]
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=left)
    except subprocess.TimeoutExpired:
        return None, "no time was left for it"
    engine.unlink(missing_ok=True)
    if done.returncode:
        return None, (done.stderr or done.stdout).strip()[-300:]
    report = json.loads(out.read_text())
    return report["cells"][0] | {"part": part}, report


def verdict(cells):
    """Part → its ratios in the mean and at worst, and whether the bars hold."""
    out = {}
    for part in PARTS:
        ratios = {c["model"]: c["ratio"]["peri"] for c in cells if c["part"] == part}
        if ratios:
            mean, worst = math.exp(sum(map(math.log, ratios.values())) / len(ratios)), max(ratios, key=ratios.get)
            out[part] = {"models": len(ratios), "geometric_mean": round(mean, 4), "worst": ratios[worst], "worst_model": worst,
                         "holds": ratios[worst] <= 1.0 and mean <= MEAN.get(part, 1.0)}
    return out


def run(a):
    end = time.monotonic() + a.minutes * 60
    chosen = [(part, n) for part in a.parts.split(",") for n in PARTS[part] if not a.models or n in a.models.split(",")]
    peri = unpacked(a)
    doctor = subprocess.run([peri, "doctor", "--json"], capture_output=True, text=True).stdout
    report = {"bundle": peri.parents[1].name, "threads": a.threads, "minutes": a.minutes, "openvino_precision": a.openvino_precision, "cells": [], "left_out": {},
              "doctor": json.loads(doctor) if doctor.startswith("{") else doctor[:400]}
    start = time.monotonic()
    missing = make(a, chosen)
    report["made_in_s"] = round(time.monotonic() - start, 1)
    print(f"{len(chosen) - len(missing)} models in {report['made_in_s']} s", flush=True)
    for part, name in chosen:
        base = name if part == "float" else name.rpartition("_")[0]
        why = missing.get(name) or missing.get(base) or ("no time was left for it" if end - time.monotonic() < 15 else "")
        cell, other = (None, why) if why else measured(a, peri, part, name, end - time.monotonic())
        if cell is None:
            report["left_out"][name] = other
            print(f"{name:28} left out: {other}", flush=True)
        else:
            report |= {"versions": other["versions"], "machine": other["machine"]}
            report["cells"].append(cell)
            times = "  ".join(f"{p} {f['median_ms']:9.3f}" for p, f in cell["peers"].items())
            print(f"{name:28} {times}  {cell['ratio']['peri']:.2f} x {cell['better_peer']}", flush=True)
        report |= {"verdict": verdict(report["cells"]), "load": os.getloadavg()}
        if a.json:
            a.json.write_text(json.dumps(report, indent=1) + "\n")
    for part, v in report["verdict"].items():
        print(f"{part}: {v['models']} models, geometric mean {v['geometric_mean']:.2f}, worst {v['worst']:.2f} ({v['worst_model']}): {'holds' if v['holds'] else 'missed'}")
    return 1 if report["left_out"] else 0 if all(v["holds"] for v in report["verdict"].values()) else 4


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    q = sub.add_parser("pack", help="gather what travels")
    q.add_argument("carry", type=pathlib.Path)
    q.add_argument("--bundle", type=pathlib.Path, required=True)
    q.add_argument("--models-folder", type=pathlib.Path, default=ROOT / "build/models/quantised", help="where MiniLM is made (default build/models/quantised)")
    q.add_argument("--python", default="3.12", help="that machine's python3 (default 3.12)")
    q = sub.add_parser("run", help="make, build and measure")
    q.add_argument("carry", type=pathlib.Path)
    q.add_argument("work", type=pathlib.Path)
    q.add_argument("--parts", default="float,quantised", help="float, quantised or both (default)")
    q.add_argument("--models", default="", help="some models, comma-separated")
    q.add_argument("--threads", type=int, default=16)
    q.add_argument("--minutes", type=float, default=7.5, help="for everything (default 7.5)")
    q.add_argument("--seconds", type=float, default=2.1, help="for each program and model, over all rounds (default 2.1)")
    q.add_argument("--rounds", type=int, default=3)
    q.add_argument("--budget", type=float, default=10, help="seconds of tuning a model (default 10)")
    q.add_argument("--openvino-precision", choices=("f32", "bf16", "default"), default="f32")
    q.add_argument("--json", type=pathlib.Path, help="write all figures here, after every model")
    a = p.parse_args()
    a.carry = a.carry.resolve()
    if a.command == "run":
        a.work = a.work.resolve()
        if bad := set(a.parts.split(",")) - set(PARTS):
            p.error(f"no part {bad.pop()!r}: float, quantised")
    return pack(a) if a.command == "pack" else run(a)


if __name__ == "__main__":
    sys.exit(main())
