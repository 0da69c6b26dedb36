#!/usr/bin/env python3
"""Run the trained digits models over their 500 test images and compare the accuracy with models/README.md, exactly.

One engine a model serves every batch size asked for; the last batch is what is left over. Exit code 3 when a count
differs from the table's, 1 when something does not run.
"""
import argparse
import json
import pathlib
import re
import shlex
import sys
import tempfile

import numpy as np
from engines import Peri, add_options
from suite_files import SuiteError, run

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


def counts(readme):
    """model → (right, of) as the table says: `| digits_cnn.onnx (...) | 98.2 % (491 of 500) |`."""
    found = re.findall(r"^\|\s*(\w+)\.onnx\b.*\((\d+) of (\d+)\)", readme.read_text(), re.M)
    if not found:
        raise SuiteError(f"{readme} has no accuracy table")
    return {name: (int(right), int(of)) for name, right, of in found}


def right_answers(peri, engine, images, labels, batch):
    right = 0
    with tempfile.TemporaryDirectory(dir=peri.scratch.name) as folder:
        file = pathlib.Path(folder) / "image.npy"
        for start in range(0, len(images), batch):
            np.save(file, images[start : start + batch])
            logits = next(iter(peri.run(engine, {peri.input_name: file}).values()))
            right += int((logits.argmax(1) == labels[start : start + batch]).sum())
    return right


def input_name(model):
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    inits = {t.name for t in graph.initializer}
    return next(i.name for i in graph.input if i.name not in inits)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=pathlib.Path, default=MODELS, metavar="DIR", help="folder with the digits models and data (default models/)")
    p.add_argument("--batches", default="128,500", help="batch sizes, comma-separated (default 128,500)")
    add_options(p)
    a = p.parse_args()
    table = counts(a.models / "README.md")
    with np.load(a.models / "digits_data.npz", allow_pickle=False) as data:
        images, labels = data["test_images"], data["test_labels"]
    peri = Peri(a.peri, a.engines, shlex.split(a.build_args), shlex.split(a.run_args))
    out, report, wrong = sys.stderr if a.json == "-" else sys.stdout, [], 0
    for name, (wanted, of) in table.items():
        model = a.models / f"{name}.onnx"
        if of != len(labels):
            raise SuiteError(f"{name}: the table speaks of {of} images, digits_data.npz has {len(labels)}")
        peri.input_name = input_name(model)
        engine = peri.build(model, name)
        for batch in map(int, a.batches.split(",")):
            right = right_answers(peri, engine, images, labels, batch)
            wrong += right != wanted
            report.append({"model": name, "batch": batch, "right": right, "of": of, "wanted": wanted})
            print(f"{name:22} batch {batch:4}  {right} of {of} right, {100 * right / of:.1f} %  {'as in the table' if right == wanted else f'DIFFERS: the table says {wanted}'}", file=out, flush=True)
    if a.json == "-":
        print(json.dumps(report))
    elif a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    return 3 if wrong else 0


if __name__ == "__main__":
    run(main)
