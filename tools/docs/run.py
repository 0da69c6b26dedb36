#!/usr/bin/env python3
"""Runs what README.md and docs/ show: every line of a ```sh block and every ```python block, in a scratch folder that looks
like the root. The package peri is that of the build, or what the Python of --python has.

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
UNSTABLE = 5  # docs/errors.md: a bench that tells what it measured on a machine too loaded to measure
LABEL = re.compile(r"<!-- label: ([a-z_]+) -->")


class Script(str):
    """A block of Python."""


def command_line(command, python):
    return [python, "-B", "-c", command] if isinstance(command, Script) else ["bash", "-euo", "pipefail", "-c", command]


def blocks(text):
    """[(line, label or "", [commands])] of the ```sh blocks, a trailing backslash continues a command; a ```python block is
    one command."""
    found, inside, label = [], None, ""
    for number, line in enumerate(text.split("\n"), 1):
        if inside is not None:
            if line.strip() == "```":
                script = "\n".join(inside[2])
                commands = [c for c in script.replace("\\\n", " ").split("\n") if c.strip()]
                found.append((inside[0], inside[1], commands if inside[3] == "sh" else [Script(script)]))
                inside = None
            else:
                inside[2].append(line)
        elif line.strip() in ("```sh", "```python"):
            inside, label = (number, label, [], line.strip()[3:]), ""
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


def run_file(path, folder, environment, python, label, limit_s):
    """Number of commands run, or None after a failure."""
    count = 0
    for number, wanted, commands in blocks(path.read_text(encoding="utf-8")):
        if wanted != label:
            continue
        for command in commands:
            if command.lstrip().startswith(("./dev", "#", "sudo ", "git clone", "cd ")) and not isinstance(command, Script):
                continue
            start = time.monotonic()
            done = subprocess.run(command_line(command, python), cwd=folder, env=environment, timeout=limit_s,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(f"{path.relative_to(ROOT)}:{number}: {command.strip().splitlines()[0]} ({time.monotonic() - start:.1f} s)", flush=True)
            if done.returncode == UNSTABLE and "not stable" in done.stdout:
                print("its measurement was not stable on this machine: not a fault of the example", flush=True)
            elif done.returncode != 0:
                print(f"{done.stdout[-4000:]}\nfailed with status {done.returncode}")
                return None
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="default: README.md and docs/**/*.md")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--label", default="")
    parser.add_argument("--python", help="that has the package peri (default: .venv, with the package of the build)")
    parser.add_argument("--limit-s", type=float, default=600, help="for one command")
    parser.add_argument("--list", action="store_true", help="only print the files that have blocks to run")
    options = parser.parse_args()
    files = [f.resolve() for f in options.files] or [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    for file in files:
        if not file.is_file():
            parser.error(f"there is no page '{file}'")
    having = [file for file in files if any(label == options.label for _, label, _ in blocks(file.read_text(encoding="utf-8")))]
    if options.label and not having:
        parser.error(f"no block of these pages has the label '{options.label}'")
    if options.list:
        print(*having)
        return 0
    build = options.build.resolve()
    environment = dict(os.environ, PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    if not options.python:
        environment["PYTHONPATH"] = str(build / "python")
    python = options.python or str(ROOT / ".venv/bin/python")
    folder = scratch_folder(build, "wheel" if options.python else options.label)
    counts = [run_file(path, folder, environment, python, options.label, options.limit_s) for path in files]
    print(f"{len(files)} files, {sum(c or 0 for c in counts)} commands run, {counts.count(None)} files failed", file=sys.stderr)
    if None not in counts:
        shutil.rmtree(folder)  # engines and answers that nobody reads; what a failure left is looked at
    return 1 if None in counts else 0


if __name__ == "__main__":
    sys.exit(main())
