#!/usr/bin/env python3
"""Keeps the second half of docs/command-line.md what `peri COMMAND --help` says; --check only says whether it is."""
import argparse
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
MARK = "<!-- from here on: tools/docs/command_line.py -->\n"


def said(peri, *words):
    return subprocess.run([peri, *words, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()


def generated(peri):
    overview = said(peri)
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", overview, re.M)
    knobs = overview[overview.index("environment:") : overview.rindex("\n\n")]
    return MARK + f"\n## Environment\n\n```console\n{knobs}\n```\n\nAny other variable `PERI_*` is refused, since it is a misspelt one.\n" + "".join(f"\n## peri {c}\n\n```console\n{said(peri, c)}\n```\n" for c in commands)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true")
    p.add_argument("--peri", default="peri", metavar="FILE", help="the program (default: the one in PATH)")
    options = p.parse_args()
    text = PAGE.read_text()
    wanted = text[: text.index(MARK)] + generated(options.peri)
    if text == wanted:
        return 0
    if options.check:
        print("docs/command-line.md differs from peri --help: run tools/docs/command_line.py --peri build/bin/peri", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
