#!/usr/bin/env python3
"""Writes LICENSES/ of a bundle: one text per third-party part of parts.txt, and README.md with versions and licences."""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def debian(package):
    """(version, licence text) of an installed Debian package."""
    command = ["dpkg-query", "-W", "-f=${Version}", package]
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return version, pathlib.Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8")


def wheel(name, venv):
    """(version, licence text) of an installed wheel: its own licence files, else those its documentation carries."""
    name, _, file = name.partition("/")
    info = sorted(venv.glob(f"lib/python3*/site-packages/{name.replace('-', '_')}-*.dist-info"))[0]
    if file:  # a part of a part: the comment at its top
        text = (info.parent / name / file).read_text(encoding="utf-8")
        return info.name.removesuffix(".dist-info").split("-")[1], text[: text.index("*/") + 2]
    texts = sorted(p for p in info.rglob("*") if p.is_file() and "LICENSE" in p.name.upper())
    texts = texts or [p for p in sorted(venv.glob("share/doc/onednn/*")) if p.name != "README"]
    return info.name.removesuffix(".dist-info").split("-")[1], "\n".join(p.read_text(encoding="utf-8") for p in texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    rows = ["# Third-party parts of this bundle", "", "| part | version | licence | how | text |", "|---|---|---|---|---|"]
    for line in (HERE / "parts.txt").read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        how, name, package, licence = line.split()
        version, text = wheel(package[6:], options.venv) if package.startswith("wheel:") else debian(package)
        if not text.strip():
            sys.exit(f"licenses.py: {package} carries no licence text")
        (options.out / f"{name}.txt").write_text(text, encoding="utf-8")
        rows.append(f"| {name} | {version} | {licence} | {how} | {name}.txt |")
    (options.out / "README.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
