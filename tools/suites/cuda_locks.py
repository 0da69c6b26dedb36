#!/usr/bin/env python3
"""Builds networks for a recorded GPU, on a machine without one, by locks that were made on it: the engine has to be the one
of the table, byte for byte, with no more steps and launches a run than it allows, all on the device.

    cuda_locks.py --program build/bin/locked_build [--run | --launches] [NAME ...]

tests/whole/locks/launches.json is the one table of launches: for each network the bar, the most that its lock may take
("of_lock") and the most by what kernels expect to take ("guessed"). A step is a kernel of the plan; its launches are those
that its instance states, a call of a library or a copy counts as one.
--launches: instead, networks in float16 by what kernels expect to take there, without a lock.
--run: each engine runs on the null device too, every step by the float64 reference. A lock is made by
    peri build MODEL -o ENGINE --backend cuda --dtype f16 --lock tests/whole/locks/NAME.lock
on the GPU of tests/whole/locks/h200.json; the hashes in tests/whole/locks/engines.json and the launches "of_lock" follow with --renew.
Exit code 3 where an engine is another one, 1 where one cannot be built."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKS = ROOT / "tests" / "whole" / "locks"
sys.path.insert(0, str(ROOT / "models"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    launches = "--launches" in sys.argv
    counts = json.loads((LOCKS / "launches.json").read_text())
    table = counts if launches else json.loads((LOCKS / "engines.json").read_text())
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(table)} (default: all)")
    p.add_argument("--launches", action="store_true")
    p.add_argument("--program", required=True)
    p.add_argument("--run", action="store_true")
    p.add_argument("--renew", action="store_true")
    a = p.parse_args()
    if unknown := [n for n in a.names if n not in table]:
        p.error(f"no lock of {', '.join(unknown)}")
    import materialize
    import onnx

    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in a.names or list(table):
            row = table[name]
            path = pathlib.Path(scratch) / f"{name}.onnx"
            model = onnx.load(ROOT / "models" / f"{name}.stripped.onnx", load_external_data=False)
            materialize.fill(model.graph)
            onnx.save(model, path)
            words = [a.program, path, "-" if launches else LOCKS / f"{name}.lock", LOCKS / "h200.json", path.with_suffix(".engine")]
            done = subprocess.run(words + (row["dims"] if launches else row["run"] if a.run else []), capture_output=True, text=True)
            path.unlink()
            if done.returncode:
                print(f"{name}: {done.stderr.strip()}", flush=True)
                worst = max(worst, 1)
                continue
            listed = done.stdout.splitlines()
            engine, steps, away, count = listed[0].split()
            if a.renew and not launches:
                row["engine"] = engine
                counts[name]["of_lock"] = int(count)
            wanted = engine if launches else row["engine"]
            most, bar = counts[name]["guessed" if launches else "of_lock"], counts[name]["bar"]
            right = engine == wanted and int(steps) <= row["most_steps"] and int(count) <= most and steps == away
            limits = f"at most {row['most_steps']} steps and {most} launches"
            above = f", above the bar of {bar}" if int(count) > bar else ""
            said = "" if right else f", expected {wanted} with {limits}, all on the device"
            if launches and not right:
                print("\n".join(listed[1:]))
            print(f"{name}: engine {engine}, {steps} steps, {away} on the device, {count} launches{above}{said}{', ran' if a.run else ''}", flush=True)
            worst = worst if right else 3
    if a.renew and not launches:
        (LOCKS / "engines.json").write_text(json.dumps(table, indent=1) + "\n")
        rows = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in counts.items()]
        (LOCKS / "launches.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
    return worst


if __name__ == "__main__":
    sys.exit(main())
