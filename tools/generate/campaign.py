#!/usr/bin/env python3
"""Generated models through the engine, in batches of one process each; crashes and hangs are outcomes like others.

    campaign.py --driver build/bin/judge_models --seeds 0:300 --out DIR [--modes default+1] [--jobs 2]
    campaign.py --driver build/bin/judge_models --corpus FOLDER --modes all --out DIR

--seeds A:B takes these seeds, --seeds commit:N takes N that the commit gives: the same ones for the same commit, others for
the next. --corpus takes what minimise.py wrote, FOLDER/NAME.onnx with NAME.json.
DIR/results.jsonl grows by one line a model; a run that was stopped goes on from it. DIR/report.md and report.json say what
came out; the folders of failures stay in DIR/failures. ONNX Runtime is the witness: the float64 reference must agree with
it for every model, and where an answer of the engine is wrong it says whose fault that is.
Exit code 3 when an answer is wrong or a model is not served, 1 when something else does not run."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import zlib

import cases
import onnx
import report
import witness
from driver import Driver, DriverError
from graph import Skip, VERSION

MODES = ["default", "no-tune", "peri", "onednn", "reference"]
GOOD = ("right", "left_out", "tie", "doubtful", "unsupported")


def modes_of(words, number):
    """`all`, a comma-separated list, or `default+1`: the default build and one other in turn."""
    if words == "all":
        return MODES
    if words == "default+1":
        return ["default", MODES[1 + number % 4]]
    return words.split(",")


def span(text):
    low, _, high = text.partition(":")
    if low == "commit":
        here = pathlib.Path(__file__).parent
        said = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        first = zlib.crc32((said or "no commit").encode()) % 100_000 * 10_000
        return range(first, first + int(high))
    return range(int(low), int(high or int(low) + 1))


def prepare(job, work):
    """The folder of a job, made from its seed or of a file; None where the generator has nothing."""
    if "seed" in job:
        try:
            cases.make(job["seed"], work, job["family"])
        except Skip:
            return None
        return work / job["name"]
    model = pathlib.Path(job["model"])
    cases.write(work / job["name"], onnx.load(model), json.loads(model.with_suffix(".json").read_text()))
    return work / job["name"]


def witnessed(folder, lines, driver):
    """What ONNX Runtime says: of the reference at the first size, and of each wrong answer. Changes and adds lines."""
    case, out = witness.facts(folder), {}
    try:
        told = witness.Witness(folder, case)
    except Exception as e:
        return {"onnxruntime": f"refused: {str(e)[:300]}"}
    try:
        first = case["sizes"][0]
        if (folder / first / "want_0.npy").exists():
            out["reference_error"] = told.against(first, "want")
            # It computes in float32, too: where the model's bound is wide, so far may it be from the reference; its sums may stand in another order.
            agrees = max([told.agrees] + [2 * line["blind"] for line in lines if line["size"] == first and line["verdict"] == "right"])
            if out["reference_error"] > agrees:
                driver.judge([(["open"], folder)])
                out["reference_error"] = told.against(first, "want")
            if out["reference_error"] > agrees:
                lines.append({"name": case["name"], "mode": "reference_check", "size": first, "verdict": "reference_disagrees",
                              "why": f"ONNX Runtime is {out['reference_error']:.3g} of the range away from the float64 reference", "worst": 0, "blind": 0, "seconds": 0})
        for line in lines:
            if line["verdict"] == "wrong" and (folder / line["size"] / f"got_{line['mode']}_0.npy").exists():
                line["fault"] = told.fault(line["size"], line["mode"])
                line["verdict"] = "left_out" if line["fault"] in ("overflow", "cancelled") else "wrong"
            if line["verdict"] == "doubtful":
                line["fault"] = told.fault(line["size"], line["mode"])
                line["verdict"] = "wrong" if line["fault"] == "engine" else "left_out"
    except Exception as e:
        out["onnxruntime"] = f"{type(e).__name__}: {str(e)[:300]}"
    return out


def batch(jobs, settings):
    """Outcomes of some jobs: [{name, family, lines}]."""
    work = pathlib.Path(settings["out"]) / "work" / f"batch_{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    driver = Driver(settings["driver"], pathlib.Path(settings["out"]) / f"cache/{os.getpid()}", settings["timeout"], settings["plant"], settings["threads"])
    listed = []
    for job in jobs:
        folder = prepare(job, work)
        if folder:
            listed.append((job["modes"], folder))
    lines = driver.judge(listed)
    out = []
    for job, (_, folder) in zip([j for j in jobs if (work / j["name"]).exists()], listed):
        facts = json.loads((folder / "case.json").read_text())
        mine = [r for r in lines if r["name"] == job["name"]]
        seen = witnessed(folder, mine, driver) if not settings["no_witness"] else {}
        verdict = report.worst(r["verdict"] for r in mine)
        if verdict not in GOOD:
            kept = pathlib.Path(settings["out"]) / "failures" / job["name"]
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(exist_ok=True)
            shutil.copytree(folder, kept)
            (kept / "outcome.json").write_text(json.dumps(mine, indent=1) + "\n")
        out.append({"name": job["name"], "seed": facts.get("seed"), "family": facts.get("family", "given"), "verdict": verdict, "lines": mine} | seen)
    shutil.rmtree(work)
    return out


def jobs_of(a):
    if a.corpus:
        models = sorted(m for m in a.corpus.glob("*.onnx") if m.with_suffix(".json").exists())
        if not models:
            raise DriverError(f"{a.corpus} holds no NAME.onnx with NAME.json")
        return [{"name": m.stem, "model": str(m), "modes": modes_of(a.modes, k)} for k, m in enumerate(models)]
    return [{"name": cases.name_of(s), "seed": s, "family": a.family, "modes": modes_of(a.modes, s)} for s in a.seeds]


def state(a):
    """Names that are done, after a check that they were done in the same way."""
    a.out.mkdir(parents=True, exist_ok=True)
    terms = {"generator": VERSION, "modes": a.modes, "family": a.family, "driver": report.digest(a.driver), "plant": a.plant}
    file, results = a.out / "campaign.json", a.out / "results.jsonl"
    if not a.restart and file.exists() and json.loads(file.read_text()) != terms:
        raise DriverError(f"{a.out} holds another campaign (generator, modes or driver differ): name another --out, or give --restart")
    if a.restart:
        for old in ("results.jsonl", "failures", "cache"):
            shutil.rmtree(a.out / old, ignore_errors=True) if (a.out / old).is_dir() else (a.out / old).unlink(missing_ok=True)
    file.write_text(json.dumps(terms) + "\n")
    done = []
    for line in results.read_text().splitlines() if results.exists() else []:
        try:
            done.append(json.loads(line)["name"])
        except ValueError:
            pass  # cut while it was written
    return set(done)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--driver", type=pathlib.Path, required=True, help="the program judge_models")
    p.add_argument("--seeds", type=span, default=range(300), metavar="A:B", help="seeds of the models, or commit:N (default 0:300)")
    p.add_argument("--family", help="only blocks of this family first (cases.py --help names them)")
    p.add_argument("--corpus", type=pathlib.Path, metavar="FOLDER", help="given models, FOLDER/NAME.onnx with NAME.json, instead of seeds")
    p.add_argument("--modes", default="default+1", help="all, default+1 (and one other in turn), or a list of " + ", ".join(MODES) + ", unjudged (without the judge of the engine)")
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at once (default: all processors)")
    p.add_argument("--batch", type=int, default=20, metavar="N", help="models a process (default 20)")
    p.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds one mode of a model may take (default 60)")
    p.add_argument("--threads", type=int, default=1, help="threads of the build (default 1; runs take 1 and 2)")
    p.add_argument("--no-witness", action="store_true", help="leave ONNX Runtime out")
    p.add_argument("--restart", action="store_true", help="forget what another campaign left in DIR")
    p.add_argument("--plant", default="", help="for tests: wrong, crash or hang, or one of them with @NAME")
    a = p.parse_args()
    a.driver = a.driver.resolve()
    if not a.driver.is_file():
        p.error(f"no such program: {a.driver}")
    return a


def main():
    a = arguments()
    done, start = state(a), time.time()
    jobs = [j for j in jobs_of(a) if j["name"] not in done]
    settings = {"driver": str(a.driver), "out": str(a.out), "timeout": a.timeout, "plant": a.plant, "threads": a.threads, "no_witness": a.no_witness}
    source = f"models of {a.corpus}" if a.corpus else f"models, --seeds {a.seeds.start}:{a.seeds.stop}"
    print(f"{len(jobs)} {source} ({len(done)} are done), modes {a.modes}, {a.jobs} processes", flush=True)
    cut = [jobs[k : k + a.batch] for k in range(0, len(jobs), a.batch)]
    with concurrent.futures.ProcessPoolExecutor(a.jobs) as pool, open(a.out / "results.jsonl", "a") as results:
        for future in concurrent.futures.as_completed([pool.submit(batch, c, settings) for c in cut]):
            for outcome in future.result():
                results.write(json.dumps(outcome) + "\n")
                if outcome["verdict"] not in GOOD:
                    print(report.line(outcome), flush=True)
            results.flush()
    shutil.rmtree(a.out / "work", ignore_errors=True)
    summary = report.write(a.out, a.driver, time.time() - start)
    if summary["failures"]:
        print(f"smaller: {pathlib.Path(__file__).parent}/minimise.py --driver {a.driver} --out DIR {a.out}/failures/*")
    print(report.sentence(summary))
    return 3 if summary["failures"] or summary["complaints"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DriverError as error:
        print(f"campaign.py: {error}", file=sys.stderr)
        sys.exit(1)
