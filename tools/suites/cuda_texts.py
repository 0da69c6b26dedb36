#!/usr/bin/env python3
"""Of what builds of the locked networks would have NVRTC compile for the recorded machine, a part that the commit's hash takes is
compiled: no text's threads spill, or have memory of their own, beyond what is stated here.

    cuda_texts.py --program build/bin/code_texts [--share N] [NAME ...]

TEST_SEED=N takes the texts of a run again; --share 1: all. Exit code 3 where one does, 77 without NVRTC."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Bytes of a thread that are known: of 128 registers, which as many threads leave each, one to eight are too few. And sinf and cosf
# reduce a large angle in an array of seven words, which nothing spills. Tiles of 128 by 128 hold 64 sums in each thread.
LARGE_TILE, OF_LARGE_TILE = re.compile(r"cuda_\w+ \{tm=128 tn=128 split="), 64
# A row of bfloat16 by one warp each is compiled for 48 registers, two to four too few.
STATED = {"cuda_squeeze {each=128}": 64, "cuda_attention_mma {queries=128}": 16, "cuda_elementwise {}": 32, "cuda_gemv {each=1 share=1}": 16}
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKS = ROOT / "tests" / "whole" / "locks"
sys.path.insert(0, str(ROOT / "models"))


def seed_of():
    if given := os.environ.get("TEST_SEED"):
        return given
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    return str(int(head[:8] or "1", 16))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--program", required=True)
    p.add_argument("--share", type=int, default=24)
    a = p.parse_args()
    import materialize
    import onnx

    seed, wrong = seed_of(), 0
    print(f"a part of the texts: TEST_SEED={seed} takes them again", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in a.names or sorted(f.stem for f in LOCKS.glob("*.lock")):
            model, path = onnx.load(ROOT / "models" / f"{name}.stripped.onnx", load_external_data=False), pathlib.Path(scratch) / f"{name}.onnx"
            materialize.fill(model.graph)
            onnx.save(model, path)
            dims = [f"{n}={size}" for n, size in json.loads((LOCKS / f"{name}.lock").read_text())["dims"].items()]
            done = subprocess.run([a.program, path, LOCKS / "h200.json", "--compile", "--share", str(a.share), seed, *dims], capture_output=True, text=True)
            if "NVRTC" in done.stderr and "not found" in done.stderr:
                print(done.stderr.strip())
                return 77
            said = (done.stdout + done.stderr).strip().splitlines()
            print(f"{name}: {said[-1] if done.returncode == 0 else chr(10).join(said)}", flush=True)
            compiled = [line for line in said if line.startswith("all ")]
            if done.returncode or not compiled or int(compiled[0].split()[3]) == 0:
                wrong += 1
            for line in said:
                if own := re.match(r"own memory: (\d+) bytes of (.*)", line):
                    stated = OF_LARGE_TILE if LARGE_TILE.match(own[2]) else STATED.get(own[2], 0)
                    print(f"  {own[1]} bytes of {own[2]}, {stated} are stated", flush=True)
                    wrong += int(own[1]) > stated
            path.unlink()
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
