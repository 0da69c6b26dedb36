#!/usr/bin/env python3
"""A folder for each seed: model.onnx, case.json (seed, family, symbols, sizes) and the inputs at each size, SIZE/K.npy.

    cases.py --seeds 0:20 --out DIR [--family NAME] [--check]

--check runs every model through onnx.checker and ONNX Runtime, optimisations off, at all sizes."""
import argparse
import json
import pathlib
import sys
import zlib

import numpy as np
import onnx
from compose import FAMILIES, model_of
from graph import MICROSOFT, NUMPY, SIZES, VERSION, nodes_of, save


def values(spec, dims, seed):
    """The seeded content of an input: uniform floats of a deviation, integers of a range, booleans of a share."""
    rng = np.random.Generator(np.random.PCG64(seed))
    kind = spec["dtype"]
    if kind in ("f32", "f64", "f16"):
        return np.asarray((rng.random(dims) - 0.5) * (np.sqrt(12) * spec.get("std", 1.0)) + spec.get("mean", 0.0), NUMPY[kind])
    low, high = spec.get("low", 0), spec.get("high", 8)
    out = rng.random(dims) < spec.get("share", 0.5) if kind == "bool" else low + np.floor(rng.random(dims) * (high - low))
    out = np.asarray(out, NUMPY[kind])
    if spec.get("seen"):  # no row of a mask is empty
        out[..., 0] = 1
    return out


def inputs_of(facts, k):
    """The inputs at size k, in the graph's order."""
    bound = {n: v[k] for n, v in facts["symbols"].items()}
    out = []
    for i, spec in enumerate(facts["inputs"]):
        dims = [bound[d] if isinstance(d, str) else d for d in spec["shape"]]
        out.append(values(spec, dims, zlib.crc32(f"{facts['seed']} {i} {k}".encode())))
    return out


def write(folder, model, facts):
    """The folder that judge_models reads. A model without free sizes has one size."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(save(model))
    names = SIZES if facts["symbols"] else SIZES[:1]
    case = facts | {"name": folder.name, "version": VERSION, "dims": {n: v[0] for n, v in facts["symbols"].items()}, "sizes": list(names)}
    (folder / "case.json").write_text(json.dumps(case) + "\n")
    for k, name in enumerate(names):
        (folder / name).mkdir(exist_ok=True)
        for i, array in enumerate(inputs_of(facts, k)):
            np.save(folder / name / f"{i}.npy", array)
    return case


def name_of(seed):
    return f"g{seed:07d}"


def make(seed, out, family=None):
    model, facts = model_of(seed, family)
    return write(pathlib.Path(out) / name_of(seed), model, facts)


def check(folder):
    """Trouble of one folder with the ONNX rules or ONNX Runtime, as text; empty if there is none."""
    import witness
    case = json.loads((folder / "case.json").read_text())
    try:
        model = onnx.load(folder / "model.onnx")
        if not any(n.domain == MICROSOFT or n.op_type == "SimplifiedLayerNormalization" for n in nodes_of(model.graph.node)):  # which ONNX does not know
            onnx.checker.check_model(model, full_check=True)
        session = witness.session(model)
        for size in case["sizes"]:
            arrays, bound = witness.inputs(folder, case, size), {n: v[case["sizes"].index(size)] for n, v in case["symbols"].items()}
            for o, got in zip(session.get_outputs(), session.run(None, arrays)):
                if any(bound.get(d, d) not in (n, None) and not str(d).startswith("unk__") for d, n in zip(o.shape, got.shape)):
                    return f"{size}: {o.name} is stated as {o.shape}, and is {got.shape}"
                if got.dtype.kind == "f" and not np.isfinite(got).all():
                    return f"{size}: {o.name} has values that are not finite"
                if got.dtype.kind == "f" and got.size and np.abs(got).max() > 1e6:
                    return f"{size}: {o.name} has values up to {np.abs(got).max():.3g}"
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return ""


def span(text):
    low, _, high = text.partition(":")
    return range(int(low), int(high or int(low) + 1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=span, default=range(20), metavar="A:B")
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    p.add_argument("--family", choices=sorted(FAMILIES))
    p.add_argument("--check", action="store_true", help="run onnx.checker and ONNX Runtime on each")
    a = p.parse_args()
    bad = 0
    for seed in a.seeds:
        make(seed, a.out, a.family)
        if a.check and (trouble := check(a.out / name_of(seed))):
            bad += 1
            print(f"{seed}: {trouble}"[:400], flush=True)
    print(f"{len(a.seeds)} models in {a.out}" + (f", {bad} of them invalid" if a.check else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
