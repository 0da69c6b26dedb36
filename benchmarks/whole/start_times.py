"""What it takes until a program has an engine's first answer: one run in a process of its own, programs in turn.

usage: start_times.py [--rounds N] NAME=PERI,ENGINE...      each program with an engine that it can load; prints a row for each:
least and, in brackets, median of the whole process (wall and processor time), of load and first run as it tells them, of its peak memory
"""
import argparse
import json
import os
import statistics
import subprocess
import time


def once(program, engine):
    """(wall ms, processor ms, load ms, first run ms, peak MiB) of a process."""
    read, write = os.pipe()
    begun = time.monotonic()
    child = subprocess.Popen([program, "bench", engine, "--seconds", "0", "--iterations", "1", "--quiet", "--json", "-"],
                             stdout=write, stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(write)
    with os.fdopen(read) as out:
        said = json.load(out)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{program} {engine}: status {child.returncode}"
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, said["load_ms"], said["first_run_ms"], usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("rows", nargs="+", metavar="NAME=PERI,ENGINE")
    options = parser.parse_args()
    rows = {name: pair.split(",") for name, pair in (row.split("=", 1) for row in options.rows)}
    found = {name: [] for name in rows}
    load = os.getloadavg()[0]
    for k in range(options.rounds + 1):  # the first reads the files
        for name, (program, engine) in rows.items():
            measured = once(program, engine)
            if k > 0:
                found[name].append(measured)
    print(f"load average {load:.1f} to {os.getloadavg()[0]:.1f}, {options.rounds} rounds\n")
    print("| program | wall, ms | processor, ms | load, ms | first run, ms | peak, MiB |\n|---|---:|---:|---:|---:|---:|")
    for name, all_of in found.items():
        cells = [f"{min(column):.3g} ({statistics.median(column):.3g})" for column in zip(*all_of)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
