#!/usr/bin/env python3
"""Models written in the manner of real ones (tools/suites/written_nets.py and the files it names) beside ONNX Runtime.

For each model an engine is built for the first setting of its sizes. Its answers at both settings are held against ONNX
Runtime's (largest error of the output's range), then rounds go over both programs on the same inputs at the first. A row
holds medians, the median of the rounds' ratios (below 1: peri is faster), the peak resident memory of a process that loads and
runs once (ONNX Runtime's by package_models.py --peer), and what runs on the reference.

  written_models.py --json build/written.json --markdown build/written.md
  written_models.py --only keyword,denoise
"""
import argparse
import json
import math
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from operator_peers import peri, peri_answers
from package_models import peak_of
from peer_cpu import Failure, cpu_name, timed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/suites"))
import written_later  # noqa: E402,F401: add their models to NETS
import written_more  # noqa: E402,F401
from written_nets import NETS, build  # noqa: E402

OF_RANGE = 1e-4


def words_of(sizes):
    return ["--dims", ",".join(f"{k}={v}" for k, v in sizes.items())] if sizes else []


def save(feed, folder):
    for old in folder.glob("x*.npy"):
        old.unlink()
    for name, value in feed.items():
        np.save(folder / f"x_{name}.npy", value)
    return [word for name in feed for word in ("--input", f"{name}={folder / f'x_{name}.npy'}")]


def difference(session, feed, a, engine, folder):
    """The largest error of any output, of that output's range; None where a shape, a type or an integer differs."""
    answers, worst = peri_answers(a, engine, folder, save(feed, folder)), 0.0
    for info, right in zip(session.get_outputs(), session.run(None, feed)):
        ours = answers.get(info.name)
        if ours is None or ours.shape != right.shape or ours.dtype != right.dtype:
            return None
        if right.dtype.kind != "f":
            if (ours != right).any():
                return None
            continue
        span = float(right.max() - right.min()) or float(np.abs(right).max()) or 1.0
        worst = max(worst, float(np.abs(ours.astype(np.float64) - right).max()) / span)
    return worst


def measure(name, a, ort, folder):
    net, sizes = build(name)
    path, engine = folder / "model.onnx", folder / "model.engine"
    onnx.save(net.model(), path)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = a.threads, 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    built = peri(a, "build", path, "-o", engine, "--force", "--threads", a.threads, *words_of(sizes[0]))
    if "steps_in_order" not in built:
        raise Failure(str(built.get("error", built))[:600])
    errors = [difference(session, net.feed(s, k), a, engine, folder) for k, s in enumerate(sizes)]
    feed = net.feed(sizes[0], 0)
    given, ours, theirs, ratios = save(feed, folder), [], [], []
    for _ in range(a.rounds):
        theirs.append(float(np.median(timed(lambda: session.run(None, feed), a.seconds))))
        report = peri(a, "bench", engine, "--seconds", a.seconds, "--threads", a.threads, *given)
        if "samples" not in report:
            raise Failure(str(report.get("error", report))[:600])
        ours.append(float(np.median(report["samples"])))
        ratios.append(ours[-1] / theirs[-1])
    peak = peak_of([a.peri, "bench", engine, *given, "--threads", a.threads, "--seconds", 0, "--iterations", 1, "--tolerance", 1000, "--json", "-"])
    np.savez(folder / "feed.npz", **feed)
    peer_peak = peak_of([sys.executable, pathlib.Path(__file__).with_name("package_models.py"), "--peer", path, folder / "feed.npz", "--threads", a.threads])
    on_reference = sorted({s.get("name", "") for s in built["steps_in_order"] if s["chosen"].startswith("reference")})
    return {"sizes": sizes, "errors": errors, "right": all(e is not None and e <= OF_RANGE for e in errors), "peri_ms": float(np.median(ours)),
            "onnxruntime_ms": float(np.median(theirs)), "ratio": round(float(np.median(ratios)), 3), "ratios": [round(r, 3) for r in ratios],
            "peri_peak_mib": round(peak, 1), "onnxruntime_peak_mib": round(peer_peak, 1),
            "steps": len(built["steps_in_order"]), "reference_steps": built["reference_steps"], "on_reference": on_reference}


def summarise(rows):
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if not ratios:
        return "nothing ran"
    return (f"{len(ratios)} of {len(rows)} models ran, {sum(r.get('right', False) for r in rows)} right; geometric mean "
            f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, worst {max(ratios):.2f}, {sum(r > 1.1 for r in ratios)} above 1.1; "
            f"{sum(r.get('peri_peak_mib', 0) > r.get('onnxruntime_peak_mib', 0) for r in rows)} take more memory")


def markdown(report):
    lines = ["| model | peri ms | ONNX Runtime ms | ratio | rounds | error of range | steps | on the reference | MiB | ONNX Runtime's MiB |", "| --- | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: |"]
    for r in sorted((r for r in report["rows"] if "ratio" in r), key=lambda r: -r["ratio"]):
        errors = ", ".join("DIFFERS" if e is None else f"{e:.1e}" for e in r["errors"])
        lines.append(f"| {r['model']} | {r['peri_ms']:.3g} | {r['onnxruntime_ms']:.3g} | {r['ratio']:.2f} | {min(r['ratios']):.2f} to {max(r['ratios']):.2f} |"
                     f" {errors} | {r['steps']} | {r['reference_steps']} | {r['peri_peak_mib']:.0f} | {r['onnxruntime_peak_mib']:.0f} |")
    lines += ["", report["summary"], "", f"{report['machine']}, {report['threads']} threads, ONNX Runtime {report['onnxruntime']}."]
    lines += [f"- {r['model']} did not run: {' '.join(r['failed'].split())[:300]}" for r in report["rows"] if "failed" in r]
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--only", default="", metavar="NAME,...", help="these models alone, of " + ", ".join(NETS))
    p.add_argument("--shard", default="1/1", metavar="K/N", help="the Kth of N parts of the models: parts may run at once, each on processors of its own")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.5, help="time for each program, model and round (default 0.5)")
    p.add_argument("--merge", default="", metavar="FILE,...", help="measure nothing: the rows of these files of --json, of shards")
    p.add_argument("--json", metavar="FILE", help="write all figures as one JSON object")
    p.add_argument("--markdown", metavar="FILE", help="write the table")
    a = p.parse_args()
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    wanted, rows = [w for w in a.only.split(",") if w] or list(NETS), []
    if unknown := [w for w in wanted if w not in NETS]:
        p.error(f"no such model: {', '.join(unknown)}")
    part, parts = map(int, a.shard.split("/"))
    merged = [r for path in a.merge.split(",") if path for r in json.loads(pathlib.Path(path).read_text())["rows"]]
    rows += sorted(merged, key=lambda r: list(NETS).index(r["model"]))
    for name in [] if merged else wanted[part - 1 :: parts]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows.append({"model": name} | measure(name, a, ort, pathlib.Path(folder)))
            except Exception as error:  # noqa: BLE001: a model that fails is a finding, and the rest goes on
                rows.append({"model": name, "failed": str(error).strip()[:600]})
        r = rows[-1]
        print(f"{name:18} {r['ratio']:6.2f}  {r['peri_ms']:9.3f} ms  {r['onnxruntime_ms']:9.3f} ms  errors {r['errors']}  {r['reference_steps']} of {r['steps']} on the reference"
              if "ratio" in r else f"{name:18} failed: {' '.join(r['failed'].split())[:300]}", flush=True)
    report = {"machine": cpu_name(), "threads": a.threads, "rounds": a.rounds, "seconds": a.seconds, "onnxruntime": ort.__version__,
              "summary": summarise(rows), "rows": rows}
    print(report["summary"])
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    if a.markdown:
        pathlib.Path(a.markdown).write_text(markdown(report))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, ImportError) as failure:
        print(f"written_models.py: {failure}", file=sys.stderr)
        sys.exit(1)
