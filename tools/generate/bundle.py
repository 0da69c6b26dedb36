#!/usr/bin/env python3
"""Packs a folder that runs campaigns on a machine with Python, numpy, onnx and onnxruntime only: the driver, the shared
libraries it needs beyond the C library, the scripts, the corpus.

    bundle.py --driver build/bin/judge_models --out DIR [--archive]
    DIR/run --seeds 0:1000 --out RESULTS       (there; takes what campaign.py takes)"""
import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread", "libdl", "librt")
RUN = """#!/bin/sh
# Generated models through the packed driver: run --seeds A:B --out DIR, and whatever else campaign.py takes.
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "${PYTHON:-python3}" "$here/generate/campaign.py" --driver "$here/judge_models" "$@"
"""


def libraries(program):
    """Paths of the shared libraries to carry."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = [line.split(" => ")[1].split(" (")[0] for line in said.splitlines() if " => /" in line]
    return [pathlib.Path(p) for p in found if not pathlib.Path(p).name.startswith(SYSTEM)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--driver", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    p.add_argument("--archive", action="store_true", help="write DIR.tar.xz too")
    a = p.parse_args()
    (a.out / "lib").mkdir(parents=True, exist_ok=True)
    shutil.copy2(a.driver, a.out / "judge_models")
    if shutil.which("strip"):
        subprocess.run(["strip", a.out / "judge_models"], check=True)
    for library in libraries(a.driver):
        shutil.copy2(library, a.out / "lib" / library.name)
        print(f"lib/{library.name}  {library.stat().st_size / 2**20:.1f} MiB")
    shutil.copytree(HERE, a.out / "generate", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copytree(HERE.parents[1] / "tests" / "generated" / "corpus", a.out / "corpus", dirs_exist_ok=True)
    (a.out / "run").write_text(RUN)
    (a.out / "run").chmod(0o755)
    size = sum(f.stat().st_size for f in a.out.rglob("*") if f.is_file()) / 2**20
    print(f"{a.out}: {size:.0f} MiB; needs Python 3.9 or newer with numpy, onnx, onnxruntime, and the system's C library")
    if a.archive:
        print(shutil.make_archive(str(a.out), "xztar", a.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
