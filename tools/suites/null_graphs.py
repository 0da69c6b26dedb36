#!/usr/bin/env python3
"""Runs the graphs of models/ on the null device, small: weights made from their seeds, pictures and sequences cut down where
the graph takes any size. Every answer is held against ONNX Runtime's.

    null_graphs.py --peri build/bin/peri [NAME ...] [--take N]

Exit code 3 where an answer is wrong, 1 where something does not run."""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
sys.path.insert(0, str(MODELS))
# Name -> height and width of the picture, or the flags of its free sizes; None: as it is.
GRAPHS = {
    "resnet50": 64,
    "mobilenet_v3_large": 64,
    "efficientnet_b0": 64,
    "deeplabv3_resnet50": 64,
    "unet": 64,
    "bert_base": ["--dims", "batch=1,sequence=3"],
    "gpt2": ["--dims", "batch=1,sequence=3"],
    "bert_large": ["--dims", "batch=1,sequence=3"],
    "vit_b_16": None,
}


def write_small(name, pixels, path):
    """The complete model; a picture of `pixels` where that is a number."""
    import materialize
    import onnx

    model = onnx.load(MODELS / f"{name}.stripped.onnx", load_external_data=False)
    materialize.fill(model.graph)
    if isinstance(pixels, int):
        del model.graph.value_info[:]  # sizes of the full picture
        for info in model.graph.input:
            for d in info.type.tensor_type.shape.dim[2:]:
                d.dim_value = pixels
        for info in model.graph.output:
            for k, d in enumerate(info.type.tensor_type.shape.dim):
                if k > 1:
                    d.dim_param = f"out_{k}"
    onnx.save(model, path)


def taken(names, number):
    """As many of the names, by the commit's hash: the models of one commit are always the same."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=MODELS)
    return random.Random(done.stdout.strip() or "no commit").sample(names, min(number, len(names)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(GRAPHS)} (default: all)")
    p.add_argument("--peri", required=True)
    p.add_argument("--take", type=int, metavar="N", help="N of the names, by the commit's hash")
    a = p.parse_args()
    if unknown := [n for n in a.names if n not in GRAPHS]:
        p.error(f"unknown graph {', '.join(unknown)}")
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        names = a.names or list(GRAPHS)
        for name in names if a.take is None else taken(names, a.take):
            start = time.monotonic()
            path = pathlib.Path(scratch) / f"{name}.onnx"
            write_small(name, GRAPHS[name], path)
            flags = GRAPHS[name] if isinstance(GRAPHS[name], list) else ["--dims", "batch=1"]
            words = [a.peri, "verify", path, "--backend", "null", "--onnxruntime", "--no-tune", "--quiet", *flags]
            done = subprocess.run(words, capture_output=True, text=True)
            path.unlink()
            print(f"{name:22} {time.monotonic() - start:6.1f} s  {(done.stderr.strip().splitlines() or ['said nothing'])[-1]}", flush=True)
            worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
