#!/usr/bin/env python3
"""What was chosen on a GPU is still tried: each choice of the locks in tests/whole/locks is among the candidates that a
measuring build for the recorded machine would begin with. A choice that is left out by a rule makes a row slower.

    cuda_lock_tried.py --program build/bin/code_texts [NAME ...]

Exit code 3 where one is not tried, or a planted choice that nobody offers goes unnoticed."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKS = ROOT / "tests" / "whole" / "locks"
sys.path.insert(0, str(ROOT / "models"))


def told(program, model, lock, dims):
    done = subprocess.run([program, model, LOCKS / "h200.json", "--lock", lock, *dims], capture_output=True, text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--program", required=True)
    a = p.parse_args()
    import materialize
    import onnx

    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in a.names or sorted(f.stem for f in LOCKS.glob("*.lock")):
            model, path = onnx.load(ROOT / "models" / f"{name}.stripped.onnx", load_external_data=False), pathlib.Path(scratch) / f"{name}.onnx"
            materialize.fill(model.graph)
            onnx.save(model, path)
            lock = json.loads((LOCKS / f"{name}.lock").read_text())
            dims = [f"{n}={size}" for n, size in lock["dims"].items()]
            right, said = told(a.program, path, LOCKS / f"{name}.lock", dims)
            print(f"{name}: {said}", flush=True)
            # And a choice that nobody offers is noticed.
            planted = pathlib.Path(scratch) / f"{name}.lock"
            lock["regions"][0]["candidate"] = "nobody@1 {}"
            planted.write_text(json.dumps(lock))
            noticed = not told(a.program, path, planted, dims)[0]
            if not noticed:
                print(f"{name}: a choice that nobody offers went unnoticed", flush=True)
            wrong += not right or not noticed
            path.unlink()
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
