"""Suite folders as `peri verify --suite` reads them: NAME/model.onnx, NAME/test_data_set_K/{input,output}_I.pb.

OUT/index.json lists every case with its operators, opset, types and tolerance, and every case that was left out with
the reason. The same arguments give the same bytes; a folder made before is replaced, never mixed with the new one.
"""
import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

MARK = "index.json"


class SuiteError(Exception):
    """An error the user can act on."""


def nodes_of(graph):
    """All nodes of a graph, those of its subgraphs too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for sub in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from nodes_of(sub)


def operators(model):
    """`Op` of the default domain or `domain.Op`; calls of model-local functions count as what is in them."""
    local = {(f.domain, f.name) for f in model.functions}
    nodes = list(nodes_of(model.graph)) + [n for f in model.functions for n in nodes_of(f)]
    names = {(n.domain, n.op_type) for n in nodes if (n.domain, n.op_type) not in local}
    return sorted(op if domain in ("", "ai.onnx") else f"{domain}.{op}" for domain, op in names)


def opset(model):
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)


def dtypes(model):
    """Element types of the model's inputs and outputs, as TensorProto names in lower case."""
    kinds = set()
    for value in list(model.graph.input) + list(model.graph.output):
        kind = value.type
        while not kind.HasField("tensor_type") and kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        kinds.add(TensorProto.DataType.Name(kind.tensor_type.elem_type).lower())
    return sorted(kinds)


def containers(model):
    """The kinds of inputs and outputs that are not plain tensors: `sequence`, `optional`, `sparse_tensor`, `map`."""
    kinds = {v.type.WhichOneof("value") for v in list(model.graph.input) + list(model.graph.output)}
    return sorted(k.removesuffix("_type") for k in kinds if k and k != "tensor_type")


def to_proto(value, info):
    """A value of a test case as the message its declared type asks for."""
    if info.type.HasField("optional_type"):
        proto = onnx.OptionalProto()
        proto.name = info.name
        inner = info.type.optional_type.elem_type
        if value is not None:
            kind = "sequence" if inner.HasField("sequence_type") else "tensor"
            proto.elem_type = onnx.OptionalProto.SEQUENCE if kind == "sequence" else onnx.OptionalProto.TENSOR
            inner_info = onnx.ValueInfoProto(name=info.name, type=inner)
            getattr(proto, f"{kind}_value").CopyFrom(to_proto(value, inner_info))
        return proto
    if info.type.HasField("sequence_type"):
        proto = onnx.SequenceProto()
        proto.name, proto.elem_type = info.name, onnx.SequenceProto.TENSOR
        inner_info = onnx.ValueInfoProto(name="", type=info.type.sequence_type.elem_type)
        proto.tensor_values.extend(to_proto(v, inner_info) for v in value)
        return proto
    tensor = TensorProto()
    tensor.CopyFrom(value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value)))
    tensor.name = info.name
    wanted = info.type.tensor_type.elem_type
    if wanted and tensor.data_type != wanted:
        names = TensorProto.DataType.Name
        raise SuiteError(f"{info.name}: value is {names(tensor.data_type)}, declared {names(wanted)}")
    return tensor


def tensors(value, info):
    """A value as the tensors that stand for it, by name: of a sequence NAME.K for each element, of an optional what it holds."""
    kind = info.type
    if kind.HasField("optional_type"):
        return [] if value is None else tensors(value, onnx.ValueInfoProto(name=info.name, type=kind.optional_type.elem_type))
    if not kind.HasField("sequence_type"):
        return [to_proto(value, info)]
    inner = kind.sequence_type.elem_type
    return [to_proto(v, onnx.ValueInfoProto(name=f"{info.name}.{k}", type=inner)) for k, v in enumerate(value)]


def ask_operators(path, command):
    """The claimed operators, or None for all: from a text file (a name a word, # comments), a JSON file, or a command's JSON."""
    if not path and not command:
        return None
    if command:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True)
        if done.returncode:
            raise SuiteError(f"`{command}` gave exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        text, origin = done.stdout, command
    else:
        text, origin = pathlib.Path(path).read_text(), path
    names = None
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            found = next((found[k] for k in ("operators", "ops") if k in found), found)
        names = [f["name"] if isinstance(f, dict) else f for f in found]
    except ValueError:
        if not command:
            names = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    except (TypeError, KeyError):
        pass
    if not names or not all(isinstance(n, str) for n in names):
        raise SuiteError(f"no operator names in {origin}: wanted words, a JSON list, or a JSON object with `operators`")
    return set(names)


class Suite:
    """One suite folder being written; `close` writes its index."""

    def __init__(self, out, made_by):
        self.out, self.made_by, self.cases, self.skipped = pathlib.Path(out), made_by, [], []
        if self.out.exists() and any(self.out.iterdir()):
            if not (self.out / MARK).is_file():
                raise SuiteError(f"{self.out} is not empty and not a suite (it has no {MARK}): name another folder")
            shutil.rmtree(self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).write_text('{"unfinished": true}\n')

    def skip(self, name, reason, **facts):
        self.skipped.append({"name": name, "reason": reason, **facts})

    def add(self, name, model, data_sets, **facts):
        """Write a case. data_sets: [(inputs, outputs)], in the order of the graph's; an input None of tensor type is left out."""
        inits = {t.name for t in model.graph.initializer}
        wanted = [v for v in model.graph.input if v.name not in inits] or list(model.graph.input)
        sets = []
        for inputs, outputs in data_sets:
            infos = list(model.graph.input) if len(inputs) == len(model.graph.input) else wanted
            if len(inputs) != len(infos) or len(outputs) != len(model.graph.output):
                raise SuiteError(f"{name}: {len(inputs)} inputs and {len(outputs)} outputs for a graph with {len(infos)} and {len(model.graph.output)}")
            sets.append(tuple([t for v, i in zip(values, ports) for t in tensors(v, i)] for values, ports in ((inputs, infos), (outputs, model.graph.output))))
        folder = self.out / name
        folder.mkdir()
        (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        for k, (inputs, outputs) in enumerate(sets):
            data = folder / f"test_data_set_{k}"
            data.mkdir()
            for side, protos in (("input", inputs), ("output", outputs)):
                for i, proto in enumerate(protos):
                    (data / f"{side}_{i}.pb").write_bytes(proto.SerializeToString(deterministic=True))
        self.cases.append({"name": name, "ops": operators(model), "opset": opset(model), "dtypes": dtypes(model), **facts})

    def close(self):
        """Write the index, print one line, and give its counts."""
        versions = {"onnx": onnx.__version__, "numpy": np.__version__}
        cases, skipped = (sorted(x, key=lambda c: c["name"]) for x in (self.cases, self.skipped))
        index = {"made_by": self.made_by, "versions": versions, "cases": cases, "skipped": skipped}
        (self.out / MARK).write_text(json.dumps(index, indent=1) + "\n")
        size = sum(p.stat().st_size for p in self.out.rglob("*") if p.is_file() and not p.is_symlink())
        print(f"{self.out}: {len(cases)} cases, {len(skipped)} left out (reasons in {MARK}), {size / 1e6:.1f} MB")
        return len(cases)


def parser(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", metavar="OUT", type=pathlib.Path, help="folder to write; a suite that stands there is replaced")
    return p


def add_operator_options(p):
    group = p.add_mutually_exclusive_group()
    group.add_argument("--ops", metavar="FILE", help="claimed operators: words or a JSON list (default: all)")
    group.add_argument("--ops-from", metavar="COMMAND", help="the same from a command that prints JSON")


def run(main):
    """Call main; an error for the user is one line and exit code 1."""
    try:
        sys.exit(main())
    except (SuiteError, OSError) as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(1)
