#!/usr/bin/env python3
"""Show that two programs give the same bits at the same choices: --old is the program before a change, --peri the one after.

For each model (an ONNX file or a Hugging Face folder) one lock is made that both take: the choices of the old program;
where the new one refuses these, its own; where the old one refuses those, first offers without tuning. An engine of each
program then runs the same seeded inputs at several shapes, and every output is compared byte for byte. A model of which
no lock serves both is told with what each refused: its choices cannot be expressed in both, and nothing is claimed of it.
Exit code 3 when a bit differs, 1 when something does not run.

  .venv/bin/python models/materialize.py --out build/models
  .venv/bin/python tools/suites/same_bits.py --old OLD/peri models/digits_*.onnx build/models/*.onnx
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np
import onnx
from engines import Peri, default_peri
from make_model_suite import make_inputs, shapes
from suite_files import SuiteError, run

TEXTS = (("a short text",), ("two texts", "of unequal length, so that one of them is padded"))
SEED = 7
# Candidates of the old program that have another version since: a lock of one program is converted for the other, and
# the comparison shows whether they give the same bits.
RENAMED = {"pool_f32@1 ": "pool_f32@2 "}


def write_inputs(model, folder):
    """Words of `peri run` for each shape, with the name of the shape."""
    if model.is_dir():
        return [(f"{len(texts)} texts", [w for t in texts for w in ("--text", t)]) for texts in TEXTS]
    graph = onnx.load(model, load_external_data=False)
    inits = {t.name for t in graph.graph.initializer}
    infos = [i for i in graph.graph.input if i.name not in inits]
    out = []
    for batch, sequence in shapes(infos):
        words = []
        for k, (info, values) in enumerate(zip(infos, make_inputs(graph, infos, batch, sequence, SEED))):
            file = folder / f"{batch}_{sequence}_{k}.npy"
            np.save(file, values)
            words += ["--input", f"{info.name}={file}"]
        out.append((f"batch {batch}" + (f", length {sequence}" if sequence else ""), words))
    return out


def common_engines(old, new, model, folder, build):
    """(engine of the old, of the new, whose choices); a SuiteError that says what each refused if there is no such lock."""
    refused = []
    for title, first, second, words in (("the old program's", old, new, build), ("the new program's", new, old, build),
                                        ("first offers", old, new, [*build, "--no-tune"])):
        files = {id(p): folder / f"{i}.engine" for i, p in enumerate((old, new))}
        lock = folder / "choices.lock"
        first.call("build", model, "-o", files[id(first)], "--lock", lock, *words, "--quiet")
        text = lock.read_text()
        for was, now in RENAMED.items():
            text = text.replace(was, now) if first is old else text.replace(now, was)
        converted = folder / "converted.lock"
        converted.write_text(text)
        try:
            second.call("build", model, "-o", files[id(second)], "--locked", converted, "--quiet")
        except SuiteError as e:
            refused.append(f"{title}: {e}")
            continue
        return files[id(old)], files[id(new)], title, json.loads(lock.read_text()), refused
    raise SuiteError("; ".join(refused))


def outputs(peri, engine, words, folder):
    folder.mkdir()
    peri.call("run", engine, *words, "--output-dir", folder, "--quiet")
    return {f.name: np.load(f, allow_pickle=False) for f in sorted(folder.glob("*.npy"))}


def differences(a, b):
    if a.keys() != b.keys():
        return [f"outputs {sorted(a)} and {sorted(b)}"]
    out = []
    for name in a:
        x, y = a[name], b[name]
        if x.dtype != y.dtype or x.shape != y.shape:
            out.append(f"{name}: {x.dtype}{list(x.shape)} and {y.dtype}{list(y.shape)}")
        elif x.tobytes() != y.tobytes():
            unequal = int((x.reshape(-1).view(np.uint8) != y.reshape(-1).view(np.uint8)).sum())
            out.append(f"{name}: {unequal} bytes of {x.nbytes} differ")
    return out


def check(old, new, model, build):
    """A row of the report."""
    with tempfile.TemporaryDirectory(prefix="peri-same-bits-") as scratch:
        folder = pathlib.Path(scratch)
        try:
            one, two, choices, lock, refused = common_engines(old, new, model, folder, build)
        except SuiteError as e:
            return {"model": model.name, "expressible": False, "refused": str(e), "same": None}
        row = {"model": model.name, "expressible": True, "choices": choices, "regions": len(lock["regions"]), "refused": "; ".join(refused),
               "shapes": [], "outputs": 0, "bytes": 0, "differ": []}
        for k, (shape, words) in enumerate(write_inputs(model, folder)):
            a, b = outputs(old, one, words, folder / f"old{k}"), outputs(new, two, words, folder / f"new{k}")
            row["shapes"].append(shape)
            row["outputs"] += len(a)
            row["bytes"] += sum(v.nbytes for v in a.values())
            row["differ"] += [f"{shape}: {d}" for d in differences(a, b)]
        row["same"] = not row["differ"] and row["outputs"] > 0
        return row


def line(row):
    if not row["expressible"]:
        return f"{row['model']}: no choices that both programs take. {row['refused']}"
    head = f"{row['model']}: {row['choices']} choices, {row['regions']} regions, {len(row['shapes'])} shapes"
    said = f"{row['outputs']} outputs, {row['bytes']} bytes, all the same" if row["same"] else "; ".join(row["differ"]) or "no outputs"
    return f"{head}: {said}" + (f" (refused before: {row['refused']})" if row["refused"] else "")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--old", required=True, metavar="FILE", help="the program before the change")
    p.add_argument("--peri", default=default_peri(), metavar="FILE", help="the program after it (default build/bin/peri)")
    p.add_argument("--build-args", default="", metavar="WORDS", help="further words for peri build, in one string")
    p.add_argument("--json", metavar="FILE", help="write the rows as JSON")
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    args = p.parse_args()
    old, new = Peri(args.old), Peri(args.peri)
    rows, code = [], 0
    for model in args.models:
        try:
            rows.append(check(old, new, model, args.build_args.split()))
        except SuiteError as e:
            rows.append({"model": model.name, "expressible": True, "choices": "?", "regions": 0, "shapes": [], "outputs": 0, "bytes": 0,
                         "refused": "", "differ": [str(e)], "same": False})
            code = max(code, 1)
        if rows[-1]["same"] is False and code == 0:
            code = 3
        print(line(rows[-1]), flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    compared = [r for r in rows if r["expressible"]]
    print(f"{sum(bool(r['same']) for r in compared)} of {len(compared)} models compared give the same bits, {len(rows) - len(compared)} have no common choices")
    return code


if __name__ == "__main__":
    run(main)
