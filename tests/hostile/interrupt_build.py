#!/usr/bin/env python3
"""Stop peri build at seeded moments, by SIGINT, SIGTERM and SIGKILL: what stands under the engine's name afterwards is
what stood there before, or a whole engine with its proof; nothing else is left in its folder."""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

KINDS = ([], ["--no-tune"])  # in turn: one that starts a worker and measures, and one that soon writes its files


def whole(peri, engine):
    """Why the engine or its proof is not whole; None if both are."""
    r = subprocess.run([peri, "inspect", engine, "--check"], capture_output=True, text=True)
    if r.returncode:
        return f"inspect --check: {r.stderr.strip()[-200:]}"
    r = subprocess.run([peri, "explain", engine], capture_output=True, text=True)
    return f"explain: {r.stderr.strip()[-200:]}" if r.returncode else None


def stopped(peri, model, folder, how, after, earlier, *words):
    """Problems of one build that gets `how` after so many seconds, over an earlier engine if `earlier` is its bytes."""
    engine = folder / "out.engine"
    child = subprocess.Popen([peri, "build", model, "-o", engine, "--no-cache", "--quiet", *words], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, cwd=folder)
    time.sleep(after)
    child.send_signal(how)
    try:
        said = child.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return [f"still running a minute after {how.name}"]
    problems = []
    if how != signal.SIGKILL and child.returncode not in (0, 130, -how):  # -how: before it could look
        problems.append(f"exit code {child.returncode}: {said.strip()[-200:]}")
    if child.returncode == 0 and not engine.is_file():
        problems.append("passed without an engine")
    there = engine.read_bytes() if engine.is_file() else None
    if there is not None and there != earlier and (why := whole(peri, engine)):
        problems.append(why)
    if earlier is not None and there is None:
        problems.append("the engine that stood there is gone")
    names = sorted(os.listdir(folder))
    if extra := [n for n in names if n not in ("out.engine", "out.engine.proof")]:
        problems.append(f"left {', '.join(extra)}")
    return problems


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("peri", type=pathlib.Path)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--times", type=int, default=24, help="builds to stop (default 24)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seconds", type=float, default=600,
                   help="after so long on a busy machine a sixth of the builds is enough (default 600)")
    a = p.parse_args()
    peri, model, rng = a.peri.resolve(), a.model.resolve(), random.Random(a.seed)
    failed = done = 0
    with tempfile.TemporaryDirectory(prefix="peri-interrupt-") as scratch:
        scratch = pathlib.Path(scratch)
        start, took = time.monotonic(), []
        for words in KINDS:
            begun = time.monotonic()
            subprocess.run([peri, "build", model, "-o", scratch / "whole.engine", "--no-cache", "--quiet", *words], check=True, capture_output=True)
            took.append(time.monotonic() - begun)
        earlier = (scratch / "whole.engine").read_bytes()
        for n in range(a.times):
            if time.monotonic() - start > a.seconds and 6 * n >= a.times:
                break
            how, over = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]), rng.random() < 0.5
            # Most of the moments lie near the end, where files are written.
            after = took[n % 2] * (rng.random() if rng.random() < 0.4 else rng.uniform(0.8, 1.1))
            folder = scratch / f"{n}"
            folder.mkdir()
            if over:
                (folder / "out.engine").write_bytes(earlier)
                (folder / "out.engine.proof").write_bytes((scratch / "whole.engine.proof").read_bytes())
            problems = stopped(peri, model, folder, how, after, earlier if over else None, *KINDS[n % 2])
            done += 1
            if problems:
                failed += 1
                print(f"FAILED {how.name} after {after:.3f} s{', over an engine' if over else ''}: {'; '.join(problems)}")
    print(f"{done} of {a.times} builds stopped (seed {a.seed}), {failed} left something behind")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
