#!/usr/bin/env python3
"""Rows of networks on a GPU: ours beside PyTorch's best, in turn, round by round; one JSON file with all samples.

Both processes live through all rounds of a row (`peri bench --paced`, peer_torch.py), so that they alternate by seconds
and what disturbs the machine hits both. The peer is the faster of its modes by the median over all rounds. A row is met
when the ratio of the medians is at most its limit, the upper end of its 95 % interval (bootstrap: rounds, then samples
in them) is at most 1.02 x that, and our peak device memory is at most the peer's. Of an engine with an input or an output on the
host our times are of runs with their copies, and the row says so.

  gpu_rows.py resnet50:1,8 bert_base --peri build/bin/peri --models build/models --json benchmarks/results/DATE_gpu_rows.json

Engines are built first (`--build-flags` says how; `--engines DIR` keeps them), while the peer loads its libraries and leaves the
GPU alone. With `--judge` every step of each row's engine is judged at the row's sizes (`peri verify --steps-only`) after all rows
were timed, so that nothing else runs while the peer chooses its algorithms either; a row with a wrong step is missed.
`--judge-only ROWS.json...` does that later to the engines that `--engines` kept, which must be those that were timed (SHA-256).
Clocks, power and temperature are asked of nvidia-smi after each turn, where it is there. `--markdown FILE` writes the table too.
`--dry`: the null device and a peer without torch, to test this file. Exit code 4 when a row is missed.

  gpu_rows.py --judge-only rows_1.json rows_2.json --engines engines
"""
import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Network -> batches, and the ratio to the peer's time that is allowed.
ROWS = {
    "resnet50": ((1, 8, 128), 1.00),
    "deeplabv3_resnet50": ((1, 8, 16), 1.00),
    "unet": ((1, 8, 32), 1.00),
    "bert_base": ((1, 8, 128), 1.00),
    "mobilenet_v3_large": ((1, 8, 128), 1.00),
    "efficientnet_b0": ((1, 8, 128), 1.25),
    "bert_large": ((1, 8, 128), 1.00),
    "gpt2": ((1, 8, 128), 1.25),
    "vit_b_16": ((1, 8, 128), 1.25),
    "ssdlite320": ((1,), 1.00),
}
SEQUENCE, SPREAD, DRAWS = 128, 1.02, 2000
WRONG = 3  # exit code of peri verify
ASKED = "name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active"


class Failure(Exception):
    """An error the user can act on."""


class Partner:
    """A process that runs a round for each line it is given and answers with a JSON line."""

    def __init__(self, command, log):
        self.command, self.log = command, log
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def line(self):
        while text := self.process.stdout.readline():
            if text.startswith("{"):
                return json.loads(text)
        self.log.seek(0)
        raise Failure(f"`{shlex.join(map(str, self.command))}` ended: {self.log.read()[-600:].strip()}")

    def round(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # line() says why
        return self.line()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()


def gpu_state():
    """What nvidia-smi says of the GPU that the programs see first; None where there is none."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader,nounits", f"--id={os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')[0]}"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    values = [v.strip() for v in done.stdout.strip().split(",")]
    return dict(zip(ASKED.split(","), values)) if done.returncode == 0 and len(values) == len(ASKED.split(",")) else None


def flat(rounds):
    return [s for samples in rounds for s in samples]


def interval(ours, theirs, draws=DRAWS, seed=0):
    """95 % of the ratio of medians over draws of rounds, the same for both, and of samples in each."""
    rng = random.Random(seed)
    ratios = []
    for _ in range(draws):
        chosen = rng.choices(range(len(ours)), k=len(ours))
        a = flat(rng.choices(ours[k], k=len(ours[k])) for k in chosen)
        b = flat(rng.choices(theirs[k], k=len(theirs[k])) for k in chosen)
        ratios.append(statistics.median(a) / statistics.median(b))
    ratios.sort()
    return [ratios[int(0.025 * draws)], ratios[min(int(0.975 * draws), draws - 1)]]


def judged(row):
    """The row with the faster mode as its peer, the ratio, and what is missed."""
    modes = row["peer"]["rounds"]
    best = min(modes, key=lambda m: statistics.median(flat(modes[m])))
    ours, theirs = row["ours"]["rounds"], modes[best]
    row["peer"]["mode"] = best
    row["ours"]["median_ms"], row["peer"]["median_ms"] = statistics.median(flat(ours)), statistics.median(flat(theirs))
    row["ratio"], row["interval"] = row["ours"]["median_ms"] / row["peer"]["median_ms"], interval(ours, theirs)
    row["peer"]["device_bytes"] = row["peer"]["modes"][best]["device_bytes"]
    row["missed"] = []
    if row["ratio"] > row["limit"]:
        row["missed"].append(f"ratio {row['ratio']:.3f} above {row['limit']:.2f}")
    if row["interval"][1] > SPREAD * row["limit"]:
        row["missed"].append(f"interval reaches {row['interval'][1]:.3f}, allowed is {SPREAD * row['limit']:.3f}")
    if row["ours"]["device_bytes"] > row["peer"]["device_bytes"]:
        row["missed"].append(f"{row['ours']['device_bytes'] / 2**20:.0f} MiB of device memory, the peer takes {row['peer']['device_bytes'] / 2**20:.0f}")
    return row


def dims_of(peri, model, batch):
    """The model's free sizes at this batch, as --dims takes them."""
    done = subprocess.run([peri, "inspect", model, "--json", "-", "--quiet"], capture_output=True, text=True)
    start = done.stdout.find("{")
    if start < 0:
        raise Failure(f"`peri inspect {model}` says {(done.stdout + done.stderr)[-300:].strip()}")
    report, _ = json.JSONDecoder().raw_decode(done.stdout[start:])
    names = {d.strip() for port in report["inputs"] for d in port["type"].partition("[")[2].rstrip("]").split(",") if d.strip().isidentifier()}
    return ",".join(f"{n}={SEQUENCE if 'seq' in n else batch}" for n in sorted(names))


def engine_of(a, name, batch, folder):
    model = pathlib.Path(a.models) / f"{name}.onnx"
    if not model.is_file():
        raise Failure(f"no {model}: models/materialize.py --out {a.models} {name} makes it")
    dims = dims_of(a.peri, model, batch)
    engine = folder / f"{name}-{batch}.engine"
    flags = shlex.split(a.build_flags) + (["--dims", dims] if dims else [])
    done = subprocess.run([a.peri, "build", model, "-o", engine, "--quiet", *flags], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"`peri build {model} {shlex.join(flags)}` gave exit code {done.returncode}: {(done.stdout + done.stderr)[-400:].strip()}")
    return engine, dims


def sha256(file):
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def steps_of(a, engine, dims):
    """What `peri verify --steps-only` finds of the engine at these sizes."""
    words = [a.peri, "verify", engine, "--steps-only", "--quiet", "--json", "-"] + (["--dims", dims] if dims else [])
    start = time.monotonic()
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode not in (0, WRONG):
        raise Failure(f"`{shlex.join(map(str, words))}` gave exit code {done.returncode}: {(done.stdout + done.stderr)[-400:].strip()}")
    steps = json.loads(done.stdout)["bisect"]
    return {
        "steps": len(steps),
        "judged": sum(s["checked"] for s in steps),
        "not_judged": collections.Counter(s["kernel"] for s in steps if not s["checked"]),
        "worst_over_bound": max((s["error_over_bound"] for s in steps if s["checked"]), default=0),
        "wrong": "" if done.returncode == 0 else f"{steps[-1]['name']}: {steps[-1]['why']}",
        "seconds": round(time.monotonic() - start, 1),
    }


def judge(a, row, folder):
    """Judges the engine that was timed; what is wrong is missed."""
    engine = folder / f"{row['network']}-{row['batch']}.engine"
    if not engine.is_file() or sha256(engine) != row["engine_sha256"]:
        raise Failure(f"{engine} is not the engine that was timed as {row['network']} batch {row['batch']}")
    row["steps_alone"] = found = steps_of(a, engine, row["dims"])
    missed = f"a step is wrong: {found['wrong']}" if found["wrong"] else "" if found["judged"] or a.dry else "no step was judged"
    row["missed"] += [missed] if missed else []
    print(f"{row['network']} batch {row['batch']}: {found['judged']} of {found['steps']} steps judged in {found['seconds']} s: {missed or 'right'}", flush=True)


def judge_all(a, rows, folder):
    with concurrent.futures.ThreadPoolExecutor(a.judges) as pool:
        for done in [pool.submit(judge, a, row, folder) for row in rows]:
            done.result()


def measured(a, name, batch, limit, folder):
    """The row. The peer loads its libraries while our engine is built, and gets ready once that is done."""
    modes = "uncaptured" if name == "ssdlite320" else a.modes
    command = [a.python, HERE / "peer_torch.py", name, "--batch", str(batch), "--dtype", a.dtype, "--modes", modes, "--wait"] + (["--dry"] if a.dry else [])
    with tempfile.TemporaryFile("w+") as our_log, tempfile.TemporaryFile("w+") as peer_log:
        peer = Partner(command, peer_log)
        try:
            start = time.monotonic()
            engine, dims = engine_of(a, name, batch, folder)
            took = round(time.monotonic() - start, 2)
            row = {"network": name, "batch": batch, "limit": limit, "dims": dims, "build_seconds": took, "engine_sha256": sha256(engine), "ours": {"rounds": []}, "peer": {"rounds": {}}, "states": []}
            head = peer.round()
            row["peer"].update(modes=head["modes"], errors=head["errors"], versions=head["versions"])
            ours = Partner([a.peri, "bench", engine, "--paced", "--quiet"] + (["--dims", dims] if dims else []), our_log)
            try:
                timed(a, row, ours, peer)
            finally:
                ours.close()
        finally:
            peer.close()
    return judged(row)


def timed(a, row, ours, peer):
    for k in range(a.rounds):
        for side in ("ours", "peer") if k % 2 == 0 else ("peer", "ours"):
            said = (ours if side == "ours" else peer).round()
            row["states"].append({"round": k, "side": side, "gpu": gpu_state()})
            if side == "ours":
                row["ours"]["rounds"].append(said["resident_ms"] or said["with_copies_ms"])
                if said["resident_ms"] is None:
                    row["ours"]["with_copies"] = said["why_not_resident"]
                row["ours"]["device_bytes"] = said["device_bytes"]
                continue
            for mode, samples in said["resident_ms"].items():
                row["peer"]["rounds"].setdefault(mode, []).append(samples)


def table(report):
    lines = ["| network | batch | peri ms | peer ms | mode | ratio [95 %] | at most | peri MiB | peer MiB | |", "|---|---:|---:|---:|---|---|---:|---:|---:|---|"]
    for r in report["rows"]:
        lines.append(
            f"| {r['network']} | {r['batch']} | {r['ours']['median_ms']:.4f} | {r['peer']['median_ms']:.4f} | {r['peer']['mode']} | "
            f"{r['ratio']:.3f} [{r['interval'][0]:.3f}, {r['interval'][1]:.3f}] | {r['limit']:.2f} | {r['ours']['device_bytes'] / 2**20:.0f} | "
            f"{r['peer']['device_bytes'] / 2**20:.0f} | {'; '.join(r['missed']) or 'met'}{', ours with copies' if r['ours'].get('with_copies') else ''} |"
        )
    return "\n".join(lines) + "\n"


def wanted(specs):
    """(network, batch, limit) of `resnet50` or `resnet50:1,8`."""
    for spec in specs:
        name, _, batches = spec.partition(":")
        if name not in ROWS:
            raise Failure(f"no row for '{name}'; rows are {', '.join(ROWS)}")
        for batch in map(int, batches.split(",")) if batches else ROWS[name][0]:
            yield name, batch, ROWS[name][1]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rows", nargs="+", metavar="NETWORK[:BATCH,...]", help="with --judge-only files of rows")
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--models", default="build/models", help="folder of complete models")
    p.add_argument("--build-flags", default="--backend cuda --dtype f16 --io-dtype f16", help="of peri build (default: %(default)s)")
    p.add_argument("--engines", help="keep the engines in this folder")
    p.add_argument("--dtype", default="float16", help="of the peer")
    p.add_argument("--modes", default="eager,default", help="of the peer (default: %(default)s)")
    p.add_argument("--judge", action="store_true", help="judge every step of each engine after all were timed")
    p.add_argument("--judge-only", action="store_true", help="judge the kept engines of rows that were timed")
    p.add_argument("--judges", type=int, default=4, help="engines that are judged at once (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--python", default=sys.executable, help="that has torch")
    p.add_argument("--dry", action="store_true", help="a peer without torch; with --build-flags '--backend null' no GPU is needed")
    p.add_argument("--json")
    p.add_argument("--markdown")
    a = p.parse_args()
    if a.judge_only and not a.engines:
        p.error("--judge-only needs --engines, the folder that has them")
    if not a.judge_only and not a.json:
        p.error("--json says where the rows go")
    return a


def save(file, report):
    pathlib.Path(file).write_text(json.dumps(report, indent=1) + "\n")


def judge_kept(a):
    reports = {file: json.loads(pathlib.Path(file).read_text()) for file in a.rows}
    rows = [r for report in reports.values() for r in report["rows"]]
    judge_all(a, rows, pathlib.Path(a.engines))
    for file, report in reports.items():
        save(file, report)
    return 4 if any(r["missed"] for r in rows) else 0


def main():
    a = arguments()
    if a.judge_only:
        return judge_kept(a)
    report = {"date": datetime.date.today().isoformat(), "machine": platform.platform(), "gpu": gpu_state(), "build_flags": a.build_flags, "dtype": a.dtype, "rounds": a.rounds, "rows": []}
    version = subprocess.run([a.peri, "--version"], capture_output=True, text=True)
    report["peri"] = version.stdout.strip().splitlines()[0] if version.stdout.strip() else ""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(a.engines or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name, batch, limit in wanted(a.rows):
            row = measured(a, name, batch, limit, folder)
            report["rows"].append(row)
            print(f"{name} batch {batch}: {row['ours']['median_ms']:.4f} ms, {row['peer']['mode']} {row['peer']['median_ms']:.4f} ms, ratio {row['ratio']:.3f}: {'; '.join(row['missed']) or 'met'}", flush=True)
            save(a.json, report)  # a later row that fails loses none
        if a.judge:
            judge_all(a, report["rows"], folder)
            save(a.json, report)
    if a.markdown:
        pathlib.Path(a.markdown).write_text(table(report))
    return 4 if any(r["missed"] for r in report["rows"]) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"gpu_rows.py: {failure}", file=sys.stderr)
        sys.exit(1)
