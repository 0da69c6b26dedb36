#!/usr/bin/env python3
"""Keeps the table of docs/operators.md what `peri inspect --operators` says; --check only says whether it is."""
import argparse
import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operators.md"
MARK = "<!-- from here on: tools/docs/operators.py -->\n"


def generated(peri):
    done = subprocess.run([peri, "inspect", "--operators", "--quiet", "--json", "-"], check=True, capture_output=True, text=True)
    operators = json.loads(done.stdout)["operators"]
    rows = [f"| `{o['name']}` | {', '.join(map(str, o['versions']))} | {' '.join(o['types'])} | {o['gpu']} |" for o in operators]
    return "\n".join([MARK, f"{len(operators)} operators.", "", "| operator | versions | types of its first input | on a GPU |", "|---|---|---|---|", *rows]) + "\n"


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
        print("docs/operators.md differs from peri inspect --operators: run tools/docs/operators.py --peri build/bin/peri", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
