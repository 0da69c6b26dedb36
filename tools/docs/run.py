#!/usr/bin/env python3
"""Runs the commands of README.md and docs/: every line of a ```sh block, in a scratch folder that looks like the root.

A line that starts with `./dev` is not run (tools/tidy checks that it exists); a ```console block is only read. A block
after the comment <!-- label: NAME --> runs only with --label NAME. The first line that fails ends its file.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LABEL = re.compile(r"<!-- label: ([a-z_]+) -->")


def blocks(text):
    """[(line, label or "", [commands])] of the ```sh blocks; a trailing backslash continues a command."""
    found, inside, label = [], None, ""
    for number, line in enumerate(text.split("\n"), 1):
        if inside is not None:
            if line.strip() == "```":
                found.append((inside[0], inside[1], [c for c in "\n".join(inside[2]).replace("\\\n", " ").split("\n") if c.strip()]))
                inside = None
            else:
                inside[2].append(line)
        elif line.strip() == "```sh":
            inside, label = (number, label, []), ""
        elif match := LABEL.search(line):
            label = match[1]
        elif line.strip():
            label = ""
    return found


def scratch_folder(build, label):
    """A folder with links to everything of the root and to the build, where commands may write."""
    folder = build / ("docs-" + label if label else "docs")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(build)
    return folder


def run_file(path, folder, environment, label, limit_s):
    """Number of commands run, or None after a failure."""
    count = 0
    for number, wanted, commands in blocks(path.read_text(encoding="utf-8")):
        if wanted != label:
            continue
        for command in commands:
            if command.lstrip().startswith(("./dev", "#", "sudo ", "git clone", "cd ")):
                continue
            start = time.monotonic()
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, timeout=limit_s,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(f"{path.relative_to(ROOT)}:{number}: {command.strip()} ({time.monotonic() - start:.1f} s)", flush=True)
            if done.returncode != 0:
                print(f"{done.stdout[-4000:]}\nfailed with status {done.returncode}")
                return None
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="default: README.md and docs/**/*.md")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--label", default="")
    parser.add_argument("--limit-s", type=float, default=600, help="for one command")
    options = parser.parse_args()
    files = [f.resolve() for f in options.files] or [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    build = options.build.resolve()
    environment = dict(os.environ, PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    folder = scratch_folder(build, options.label)
    counts = [run_file(path, folder, environment, options.label, options.limit_s) for path in files]
    print(f"{len(files)} files, {sum(c or 0 for c in counts)} commands run, {counts.count(None)} files failed", file=sys.stderr)
    return 1 if None in counts else 0


if __name__ == "__main__":
    sys.exit(main())
