#!/usr/bin/env python3
"""Checks that the programs and libraries below a folder run on x86-64 Linux from Ubuntu 22.04's libraries on: no symbol of a
newer version, no library but those and the folder's own, no place of this machine.   usage: symbols.py FOLDER
"""
import pathlib
import re
import subprocess
import sys

# The most that manylinux_2_35 has, by the name before the underscore.
MOST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0), "ZLIB": (1, 2, 9)}
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1",
          "ld-linux-x86-64.so.2"}  # fmt: skip


def readelf(flag, path):
    return subprocess.run(["readelf", "-W", flag, path], check=True, capture_output=True, text=True, env={"LC_ALL": "C"}).stdout


def needs(text):
    """Versions that a file needs, of the section .gnu.version_r in readelf's words."""
    section = re.search(r"Version needs section.*?(?=\n\S|\Z)", text, re.S)
    return re.findall(r"Name: ([A-Z]+)_([0-9.]+)\b", section[0] if section else "")


def faults(path, own):
    """What keeps a file from running elsewhere."""
    for name, version in needs(readelf("-V", path)):
        if name in MOST and tuple(map(int, version.split("."))) > MOST[name]:
            yield f"needs {name}_{version}, at most {'.'.join(map(str, MOST[name]))}"
    dynamic = readelf("-d", path)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if library not in SYSTEM | own:
            yield f"needs {library}, which is neither there nor of every system"
    for places in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        if not all(p.startswith("$ORIGIN") for p in places.split(":")):
            yield f"looks for libraries in {places}"


def main():
    folder = pathlib.Path(sys.argv[1])
    elves = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink() and p.open("rb").read(4) == b"\x7fELF"]
    own = {p.name for p in folder.rglob("*.so*")}
    found = [f"{path}: {fault}" for path in elves for fault in faults(path, own)]
    print("\n".join(found + [f"symbols: {len(elves)} files, {len(found)} faults"]))
    return 1 if found or not elves else 0


if __name__ == "__main__":
    sys.exit(main())
