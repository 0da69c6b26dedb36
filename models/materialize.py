#!/usr/bin/env python3
"""Turn the weight-stripped ONNX files of this folder into complete models, the same bytes every time.

A stripped tensor is an initializer of the right name, type and shape with no data whose doc_string is
`seeded std=<float> seed=<int>`; its values are numpy PCG64 normals, float32, in C order, times std. A model whose
output is up to date is skipped: NAME.onnx.stamp holds the hash of its recipe and of its files.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SUFFIX = ".stripped.onnx"
RECIPE = 1  # raise when the same stripped file would give other bytes
PROTOBUF_LIMIT = 2**31 - 2**20


def sources():
    """name → file: stripped graphs, and the complete models of this folder, which are copied."""
    found = {p.name[: -len(SUFFIX)]: p for p in HERE.glob("*" + SUFFIX)}
    found.update({p.name[: -len(".onnx")]: p for p in HERE.glob("*.onnx") if not p.name.endswith(SUFFIX)})
    return dict(sorted(found.items()))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recipe(source):
    return f"{RECIPE}:{digest(source)}"


def up_to_date(out, name, source, check):
    """True when the stamp names this recipe and the files it lists stand there (with `check`: byte for byte)."""
    try:
        stamp = json.loads((out / f"{name}.onnx.stamp").read_text())
        if stamp["recipe"] != recipe(source) or not stamp["files"]:
            return False
        for file, (size, sha256) in stamp["files"].items():
            if (out / file).stat().st_size != size or (check and digest(out / file) != sha256):
                return False
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fill(graph):
    import numpy as np
    from onnx import helper, numpy_helper

    for tensor in graph.initializer:
        if tensor.doc_string.startswith("seeded "):
            words = dict(w.split("=") for w in tensor.doc_string.split()[1:])
            rng = np.random.Generator(np.random.PCG64(int(words["seed"])))
            values = rng.standard_normal(tuple(tensor.dims), dtype=np.float32) * np.float32(words["std"])
            values = values.astype(helper.tensor_dtype_to_np_dtype(tensor.data_type), copy=False)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            for sub in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                fill(sub)


def write(out, name, source):
    """Write NAME.onnx (weights over 2 GiB to NAME.onnx.data beside it), then its stamp; no half file is left."""
    stamp, target, data = (out / f"{name}.onnx{end}" for end in (".stamp", "", ".data"))
    stamp.unlink(missing_ok=True)
    part = out / f"{name}.onnx.part"
    try:
        if source.name.endswith(SUFFIX):
            import onnx

            model = onnx.load(source, load_external_data=False)
            fill(model.graph)
            data.unlink(missing_ok=True)
            if model.ByteSize() > PROTOBUF_LIMIT:
                onnx.external_data_helper.convert_model_to_external_data(model, location=data.name)
                onnx.external_data_helper.write_external_data_tensors(model, str(out))
            part.write_bytes(model.SerializeToString(deterministic=True))
        else:
            part.write_bytes(source.read_bytes())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    files = {p.name: [p.stat().st_size, digest(p)] for p in (target, data) if p.exists()}
    stamp.write_text(json.dumps({"recipe": recipe(source), "files": files}, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help="models to make (default: all)")
    p.add_argument("--out", type=pathlib.Path, default=HERE.parent / "build" / "models", help="folder to write to (default: build/models)")
    p.add_argument("--list", action="store_true", help="print names, sizes and state; write nothing")
    p.add_argument("--check", action="store_true", help="hash the files that are there instead of trusting their sizes")
    a = p.parse_args()
    known = sources()
    if unknown := [n for n in a.names if n not in known]:
        p.error(f"unknown model {', '.join(unknown)}; known are {', '.join(known)}")
    names = a.names or list(known)
    if a.list:
        for name in names:
            target = a.out / f"{name}.onnx"
            state = "up to date" if up_to_date(a.out, name, known[name], a.check) else "to be made"
            size = f"{target.stat().st_size / 1e6:9.1f} MB" if target.exists() else "           -"
            print(f"{name:22}{size}  {state}")
        return 0
    try:
        a.out.mkdir(parents=True, exist_ok=True)
        for name in names:
            fresh = up_to_date(a.out, name, known[name], a.check)
            if not fresh:
                write(a.out, name, known[name])
            print(f"{a.out / name}.onnx{' (up to date)' if fresh else ''}", flush=True)
    except ImportError as error:
        print(f"materialize.py: {error}. It needs numpy and onnx: ./dev setup makes .venv/bin/python with both", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"materialize.py: cannot write {name} to {a.out}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
