#!/usr/bin/env python3
"""Shrinks failing cases to the few nodes and sizes that fail in the same way, and writes them as NAME.onnx and NAME.json.

    minimise.py --driver build/bin/judge_models --out tests/generated/corpus CASE_FOLDER...

CASE_FOLDER is one that campaign.py left in failures/ (with outcome.json), or any case with --mode. Outputs are dropped, the
graph is cut behind and before the fault (what a cut-off part gave becomes an input of the same magnitude), nodes are left
out, free sizes become numbers, widths become small, as long as the same mode gives the same verdict and ONNX Runtime takes
the model. --most N stops after N different reproducers; equal ones (same ops, same verdict) are written once."""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import cases
import numpy as np
import onnx
import report
import witness
from campaign import witnessed
from driver import Driver
from graph import NUMPY, TYPES, save
from onnx import helper
from shrink import narrowed, pruned, retyped, unconstant, widths


class Subject:
    """A failing model, and the question whether another fails like it."""

    def __init__(self, driver, work, mode, key=None):
        self.driver, self.work, self.mode, self.key, self.tries = driver, work, mode, key, 0

    def outcome(self, folders):
        """The worst line of each folder."""
        mode = "reference" if self.mode == "reference_check" else self.mode
        lines = self.driver.judge([([mode], f) for f in folders])
        out = []
        for f in folders:
            mine = [r for r in lines if r["name"] == f.name]
            if self.key is None or self.key.startswith(("wrong", "reference_disagrees", "left_out")):
                witnessed(f, mine, self.driver)
            mine = [r for r in mine if r["mode"] == self.mode or r["mode"] == "import"]
            out.append(max(mine, key=lambda r: report.ORDER.index(r["verdict"]), default=None))
        return out

    def failing(self, candidates):
        """Which of [(model, facts)] fail in the same way, as a list of numbers."""
        folders, numbers = [], []
        for k, (model, facts) in enumerate(candidates):
            folder = self.work / f"c{self.tries}_{k}"
            try:
                cases.write(folder, model, facts)
                onnx.checker.check_model(model)
                told = witness.session(model)
                for size in json.loads((folder / "case.json").read_text())["sizes"]:
                    told.run(None, witness.inputs(folder, facts, size))
            except Exception:  # not a valid model at these sizes
                shutil.rmtree(folder, ignore_errors=True)
                continue
            folders.append(folder)
            numbers.append(k)
        self.tries += 1
        found = [k for k, r in zip(numbers, self.outcome(folders)) if r is not None and report.group(r) == self.key] if folders else []
        for f in folders:
            shutil.rmtree(f, ignore_errors=True)
        return found


def tensors(model, facts):
    """name → its content at each size, of every value that is computed."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    have = {o.name for o in whole.graph.output}
    names = [o for n in whole.graph.node for o in n.output if o]
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in have)
    told = witness.session(whole)
    listed = [o.name for o in told.get_outputs()]
    out = {n: [] for n in listed}
    for k in range(3 if facts["symbols"] else 1):
        arrays = {s["name"]: a for s, a in zip(facts["inputs"], cases.inputs_of(facts, k))}
        for n, a in zip(listed, told.run(None, arrays)):
            out[n].append(a)
    return {n: arrays for n, arrays in out.items() if kind_of(arrays)}


def kind_of(arrays):
    return next((k for k, t in NUMPY.items() if np.dtype(t) == arrays[0].dtype), None)


def spec_of(name, arrays, symbols):
    """An input like these arrays; may add symbols."""
    kind = kind_of(arrays)
    shape = []
    for sizes in zip(*(a.shape for a in arrays)):
        if len(set(sizes)) == 1:
            shape.append(int(sizes[0]))
            continue
        known = next((n for n, d in symbols.items() if tuple(d) == sizes), None)
        if known is None:
            known = f"d{len(symbols)}"
            symbols[known] = [int(s) for s in sizes]
        shape.append(known)
    flat = np.concatenate([a.ravel().astype(np.float64) for a in arrays])
    if kind == "bool":
        facts = {"share": float(flat.mean()) if flat.size else 0.5}
    elif kind in ("f32", "f64", "f16"):
        finite = flat[np.isfinite(flat)]
        facts = {"std": float(max(finite.std(), 1e-3)) if finite.size else 1.0, "mean": float(finite.mean()) if finite.size else 0.0}
    else:
        facts = {"low": int(flat.min()), "high": int(flat.max()) + 1} if flat.size else {}
    return {"name": name, "dtype": kind, "shape": shape} | facts


def with_outputs(model, facts, names, values):
    """The part of the model that these values need."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    del out.graph.output[:]
    for n in names:
        kind = kind_of(values[n])
        out.graph.output.append(helper.make_tensor_value_info(n, TYPES[kind], [None] * values[n][0].ndim))
    return pruned(out, facts)


def with_input(model, facts, name, values):
    """The model with this value given instead of computed."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    if any(o.name == name for o in out.graph.output):
        return None
    symbols = {k: list(v) for k, v in facts["symbols"].items()}
    spec = spec_of(name, values[name], symbols)
    for node in out.graph.node:
        for k, o in enumerate(node.output):
            if o == name:
                node.output[k] = name + "_unused"
    out.graph.input.append(helper.make_tensor_value_info(name, TYPES[spec["dtype"]], spec["shape"]))
    return pruned(out, facts | {"symbols": symbols, "inputs": facts["inputs"] + [spec]})


def bypassed(model, facts, node, values, inputs):
    """The model without this node: its result is one of its inputs of equal type and shape."""
    result = node.output[0]
    for source in node.input:
        arrays = values.get(source) or inputs.get(source)
        if not arrays or any(a.shape != r.shape or a.dtype != r.dtype for a, r in zip(arrays, values[result])):
            continue
        out = onnx.ModelProto()
        out.CopyFrom(model)
        if any(o.name == result for o in out.graph.output):
            if source not in values:
                return None
            for o in out.graph.output:
                o.name = source if o.name == result else o.name
        for n in out.graph.node:
            for k, name in enumerate(n.input):
                n.input[k] = source if name == result else name
        return pruned(out, facts)
    return None


def cut(subject, model, facts):
    """Fewer outputs, a shorter tail, a shorter head, until nothing goes."""
    values = tensors(model, facts)
    names = [o.name for o in model.graph.output]
    tails = [with_outputs(model, facts, [n], values) for n in values]
    tails += [with_outputs(model, facts, [m for m in names if m != n], values) for n in names if len(names) > 1]
    tails = sorted((t for t in tails if t), key=lambda t: len(t[0].graph.node))
    found = subject.failing(tails)
    if found and len(tails[found[0]][0].graph.node) < len(model.graph.node) or found and len(names) > 1:
        model, facts = tails[found[0]]
    for _ in range(40):
        values = tensors(model, facts)
        inputs = {s["name"]: [cases.inputs_of(facts, k)[i] for k in range(3 if facts["symbols"] else 1)] for i, s in enumerate(facts["inputs"])}
        heads = [with_input(model, facts, o, values) for n in model.graph.node for o in n.output if o in values]
        heads += [bypassed(model, facts, n, values, inputs) for n in model.graph.node if n.output[0] in values]
        heads += [with_outputs(model, facts, [o for o in (x.name for x in model.graph.output) if o != n], values) for n in (x.name for x in model.graph.output) if len(model.graph.output) > 1]
        heads = sorted((h for h in heads if h and len(h[0].graph.node) + len(h[0].graph.output) < len(model.graph.node) + len(model.graph.output)), key=lambda h: len(h[0].graph.node))
        found = subject.failing(heads)
        if not found:
            return model, facts
        model, facts = heads[found[0]]
    return model, facts


def settle(subject, model, facts):
    """Free sizes become numbers where the fault does not need them."""
    for name in [*facts["symbols"]]:
        every = [retyped(model, facts, {name: v}) for v in dict.fromkeys(facts["symbols"][name])]
        found = subject.failing(every)
        if found:
            model, facts = every[found[0]]
    return model, facts


def minimise(subject, model, facts):
    model = unconstant(model)
    if not subject.failing([(model, facts)]):
        return None
    model, facts = cut(subject, model, facts)
    model, facts = settle(subject, model, facts)
    for _ in range(8):
        before = save(model)
        for width in widths(model, facts):
            smaller = [c for w in sorted({1, 2, 3, 4, 8, 16, 17, 32, 48, 64, width // 4, width // 2, width - 1}) if 0 < w < width for c in narrowed(model, facts, width, w)]
            found = subject.failing(smaller)
            if found:
                model, facts = smaller[found[0]]
        model, facts = cut(subject, model, facts)
        if save(model) == before:
            return model, facts
    return model, facts


def signature(model, key):
    return key + " " + " ".join(sorted(n.op_type for n in model.graph.node))


def first_failure(folder):
    """(mode, line) of the worst outcome; the default build first."""
    lines = [r for r in json.loads((folder / "outcome.json").read_text()) if r["verdict"] in report.FAILURES]
    return max(lines, key=lambda r: (report.ORDER.index(r["verdict"]), r["mode"] == "default"))


def write(out, name, model, facts, line):
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.onnx").write_bytes(save(model))
    kept = {k: facts[k] for k in ("seed", "family", "symbols", "inputs")}
    (out / f"{name}.json").write_text(json.dumps(kept | {"found": {"mode": line["mode"], "verdict": line["verdict"], "why": line["why"]}}, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="+", type=pathlib.Path, metavar="CASE_FOLDER")
    p.add_argument("--driver", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    p.add_argument("--mode", help="instead of the mode of outcome.json")
    p.add_argument("--most", type=int, default=10**9, metavar="N")
    p.add_argument("--most-of-kind", type=int, default=10**9, metavar="N", help="at most so many reproducers of equal words")
    p.add_argument("--timeout", type=float, default=20, metavar="S")
    p.add_argument("--plant", default="", help="for tests: as campaign.py has it")
    a = p.parse_args()
    seen, kinds, failed = set(), {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        driver = Driver(a.driver.resolve(), pathlib.Path(scratch) / "cache", a.timeout, a.plant)
        for folder in a.cases:
            facts = witness.facts(folder)
            mode = a.mode or first_failure(folder)["mode"]
            subject = Subject(driver, pathlib.Path(scratch), mode)
            copy = pathlib.Path(scratch) / "first" / folder.name
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            line = subject.outcome([copy])[0]
            if line is None or line["verdict"] not in report.FAILURES:
                print(f"{folder.name}: does not fail in mode {mode}", flush=True)
                failed += 1
                continue
            subject.key = report.group(line)
            if kinds.get(subject.key, 0) >= a.most_of_kind:
                continue
            small = minimise(subject, onnx.load(folder / "model.onnx"), facts)
            if small is None:
                print(f"{folder.name}: fails, but not again", flush=True)
                failed += 1
                continue
            if signature(small[0], subject.key) in seen:
                continue
            seen.add(signature(small[0], subject.key))
            kinds[subject.key] = kinds.get(subject.key, 0) + 1
            write(a.out, f"{line['verdict']}_{folder.name}", *small, line)
            print(f"{folder.name}: {mode}: {subject.key}: {len(small[0].graph.node)} nodes, {len(save(small[0]))} bytes: {' '.join(n.op_type for n in small[0].graph.node)}", flush=True)
            if len(seen) >= a.most:
                break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
