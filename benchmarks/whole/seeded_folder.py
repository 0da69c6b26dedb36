#!/usr/bin/env python3
"""A Hugging Face folder without its weights, and back with seeded ones of the same names, shapes, means and deviations: times
of a model on a machine that its weights do not reach. Its answers are those of no trained model.

  benchmarks/whole/seeded_folder.py strip FOLDER OUT     OUT: all small files, and weights.json in place of model.safetensors
  benchmarks/whole/seeded_folder.py fill FOLDER OUT      OUT: those files, and a model.safetensors, the same bytes every time
"""
import argparse
import json
import pathlib
import shutil
import struct
import sys

import numpy as np

WEIGHTS, RECIPE = "model.safetensors", "weights.json"
TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def read(path):
    """(name, type, shape, values) of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            if entry["dtype"] not in TYPES:
                sys.exit(f"seeded_folder: {path}: {name} is of type {entry['dtype']}; it takes {', '.join(TYPES)}")
            begin, end = (8 + length + o for o in entry["data_offsets"])
            yield name, entry["dtype"], entry["shape"], np.frombuffer(data[begin:end], TYPES[entry["dtype"]])


def strip(folder, out):
    rows = []
    for name, dtype, shape, values in read(folder / WEIGHTS):
        row = {"name": name, "dtype": dtype, "shape": shape}
        if dtype == "I64":  # positions: their values are what they are for
            row["values"] = values.tolist()
        else:
            row |= {"mean": float(f"{values.mean(dtype=np.float64):.4g}"), "std": float(f"{values.std(dtype=np.float64):.4g}")}
        rows.append(row)
    (out / RECIPE).write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def fill(folder, out):
    header, parts, at = {}, [], 0
    for seed, row in enumerate(json.loads((folder / RECIPE).read_text())):
        if "values" in row:
            values = np.array(row["values"], TYPES[row["dtype"]])
        else:
            rng = np.random.Generator(np.random.PCG64(seed))
            values = rng.standard_normal(int(np.prod(row["shape"])), dtype=np.float32) * np.float32(row["std"]) + np.float32(row["mean"])
        parts.append(values.astype(TYPES[row["dtype"]]).tobytes())
        header[row["name"]] = {"dtype": row["dtype"], "shape": row["shape"], "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (out / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("action", choices=("strip", "fill"))
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    a = p.parse_args()
    shutil.copytree(a.folder, a.out, ignore=shutil.ignore_patterns(WEIGHTS, RECIPE, ".git*"))
    (strip if a.action == "strip" else fill)(a.folder, a.out)


if __name__ == "__main__":
    main()
