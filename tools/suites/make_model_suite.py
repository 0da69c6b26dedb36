#!/usr/bin/env python3
"""Write inputs and expected outputs of whole models as a suite folder: OUT/NAME/model.onnx (a link), test_data_set_K.

Every model gets batches 1 and 3 and, if it takes sequences, two lengths; each shape gets two different inputs, `a` and
`b`, so that errors can be held against how much the output moves. Attention masks end in padding in some rows. The
expected outputs are ONNX Runtime's. check_agreement.py runs our engines over such a folder.
"""
import argparse
import os
import pathlib
import zlib

import numpy as np
import onnx
from suite_files import Suite, SuiteError, run, to_proto

BATCHES, SEQUENCES, INPUTS = (1, 3), (17, 128), ("a", "b")
LEFT_OUT = {"ssdlite320": "has an If and data-dependent shapes; name it with --names to have it"}


def vocabulary(model, name):
    """Rows of the table an integer input picks from, 1,000 where that is not seen."""
    sizes = {t.name: t.dims[0] for t in model.graph.initializer if len(t.dims) == 2}
    found = [sizes[n.input[0]] for n in model.graph.node if n.op_type == "Gather" and n.input[1] == name and n.input[0] in sizes]
    return min(found, default=1000)


def free_dims(info):
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


def make_inputs(model, infos, batch, sequence, seed):
    rng, out = np.random.default_rng(seed), []
    for info in infos:
        dims = [d if isinstance(d, int) and d > 0 else (batch if i == 0 else sequence) for i, d in enumerate(free_dims(info))]
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
        if kind.kind in "iu" and "mask" in info.name:
            values = np.ones(dims, kind)
            for row in range(dims[0] // 2, dims[0]):  # batch 1: its only row; batch 3: the last two, unequally
                values[row, dims[1] - (row + 1) * dims[1] // (2 * dims[0] + 1) :] = 0
        elif kind.kind in "iu":
            values = rng.integers(0, vocabulary(model, info.name), dims).astype(kind)
        else:
            values = rng.standard_normal(dims).astype(kind)
        out.append(values)
    return out


def shapes(infos):
    """(batch, sequence) pairs a model can take: every batch, and every length where a later dimension is free."""
    dims = [free_dims(i) for i in infos]
    batches = BATCHES if any(d and isinstance(d[0], str) for d in dims) else (1,)
    lengths = SEQUENCES if any(isinstance(x, str) for d in dims for x in d[1:]) else (None,)
    return [(b, s) for b in batches for s in lengths]


def write_set(folder, inputs, outputs):
    folder.mkdir()
    for side, values in (("input", inputs), ("output", outputs)):
        for i, (info, value) in enumerate(values):
            (folder / f"{side}_{i}.pb").write_bytes(to_proto(value, info).SerializeToString(deterministic=True))


def make(suite, path, ort, threads):
    model = onnx.load(path, load_external_data=False)
    inits = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in inits]
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, threads
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name, folder, sets = path.stem, suite.out / path.stem, []
    folder.mkdir()
    (folder / "model.onnx").symlink_to(os.path.relpath(path, folder))
    if (data := path.with_name(path.name + ".data")).exists():
        (folder / data.name).hardlink_to(data)
    for batch, sequence in shapes(infos):
        for which in INPUTS:
            inputs = make_inputs(model, infos, batch, sequence, zlib.crc32(f"{name} {batch} {sequence} {which}".encode()))
            outputs = session.run(None, {i.name: v for i, v in zip(infos, inputs)})
            data = f"test_data_set_{len(sets)}"
            write_set(folder / data, zip(infos, inputs), zip(model.graph.output, outputs))
            sets.append({"data": data, "batch": batch, "sequence": sequence, "input": which})
    suite.cases.append({"name": name, "inputs": [i.name for i in infos], "outputs": [o.name for o in model.graph.output], "sets": sets})
    print(f"{name}: {len(sets)} data sets", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", type=pathlib.Path, nargs="+", metavar="MODELS", help="folders of complete models (models/materialize.py makes build/models), or models")
    p.add_argument("out", type=pathlib.Path, metavar="OUT", help="folder to write; a suite that stands there is replaced")
    p.add_argument("--names", nargs="+", metavar="NAME", help="only these models")
    p.add_argument("--threads", type=int, default=2, help="of ONNX Runtime (default 2)")
    a = p.parse_args()
    import onnxruntime as ort

    known = {path.stem: path.resolve() for given in a.models for path in (sorted(given.glob("*.onnx")) if given.is_dir() else [given])}
    if not known:
        raise SuiteError(f"no .onnx files in {', '.join(map(str, a.models))}: run models/materialize.py")
    if unknown := [n for n in a.names or () if n not in known]:
        raise SuiteError(f"no model {', '.join(unknown)} in {', '.join(map(str, a.models))}; there are {', '.join(known)}")
    suite = Suite(a.out, "make_model_suite.py")
    for name, path in known.items():
        if a.names and name not in a.names:
            continue
        if name in LEFT_OUT and not a.names:
            suite.skip(name, LEFT_OUT[name])
        else:
            make(suite, path, ort, a.threads)
    suite.close()
    return 0


if __name__ == "__main__":
    run(main)
