"""The hostile corpus being written: files by class, what each must get, and raw protobuf bytes no library would make.

`must` is `refuse` (exit code 1 or 2 with a message that names the file and holds one of the words), `load` (exit code 0),
or `survive` (either, where the definition leaves it open: no crash, no hang, nothing written). `by` says which command
must have refused at the latest: inspect, build or run.
"""
import json
import os
import pathlib
import shutil
import struct

INDEX = "index.json"


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def tag(field, wire):
    return varint(field << 3 | wire)


def num(field, value):
    """A varint field."""
    return tag(field, 0) + varint(value)


def msg(field, *parts):
    """A length-delimited field: text, bytes, or messages put one after the other."""
    body = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return tag(field, 2) + varint(len(body)) + body


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def i64(*values):
    return struct.pack(f"<{len(values)}q", *values)


FLOAT, INT64, STRING = 1, 7, 8


def tensor(name, dims, raw=None, kind=FLOAT, *more):
    """TensorProto; `raw` None leaves raw_data out."""
    return b"".join(num(1, d) for d in dims) + num(2, kind) + msg(8, name) + (msg(9, raw) if raw is not None else b"") + b"".join(more)


def external(name, dims, *pairs, kind=FLOAT):
    """TensorProto whose data stands outside: (key, value) pairs."""
    return tensor(name, dims, None, kind, *(msg(13, msg(1, k), msg(2, v)) for k, v in pairs), num(14, 1))


def dim(size):
    return msg(1, num(1, size)) if isinstance(size, int) else msg(1, msg(2, size))


def value(name, dims, kind=FLOAT):
    """ValueInfoProto of a tensor; dims None gives no shape."""
    shape = b"" if dims is None else msg(2, *(dim(d) for d in dims))
    return msg(1, name) + msg(2, msg(1, num(1, kind), shape))


def attr(name, v):
    """AttributeProto by Python type: int, float, str, bytes (a tensor), lists of int, float, str."""
    head = msg(1, name)
    if isinstance(v, bytes):
        return head + msg(5, v) + num(20, 4)
    if isinstance(v, int):
        return head + num(3, v) + num(20, 2)
    if isinstance(v, float):
        return head + tag(2, 5) + f32(v) + num(20, 1)
    if isinstance(v, str):
        return head + msg(4, v) + num(20, 3)
    if v and isinstance(v[0], float):
        return head + b"".join(tag(7, 5) + f32(x) for x in v) + num(20, 6)
    if v and isinstance(v[0], str):
        return head + b"".join(msg(9, x) for x in v) + num(20, 8)
    return head + b"".join(num(8, x) for x in v) + num(20, 7)


def subgraph(name, graph):
    return msg(1, name) + msg(6, graph) + num(20, 5)


def node(op, inputs, outputs, *, domain="", name=None, attributes=(), **attrs):
    made = [attr(k, v) for k, v in attrs.items()] + list(attributes)
    parts = [msg(1, i) for i in inputs] + [msg(2, o) for o in outputs] + [msg(3, name or f"{op}_node"), msg(4, op)]
    return b"".join(parts) + b"".join(msg(5, a) for a in made) + (msg(7, domain) if domain else b"")


def graph(nodes=(), inputs=(), outputs=(), tensors=(), *more):
    parts = [msg(1, n) for n in nodes] + [msg(2, "g")] + [msg(5, t) for t in tensors] + [msg(11, i) for i in inputs] + [msg(12, o) for o in outputs]
    return b"".join(parts) + b"".join(more)


def model(g, opset=17, ir=8, *more):
    return num(1, ir) + msg(2, "hostile") + msg(7, g) + (msg(8, msg(1, ""), num(2, opset)) if opset is not None else b"") + b"".join(more)


def good():
    """A small sound model: x f32[batch,4] → MatMul with a weight → Add → Relu → y."""
    weight = tensor("weight", [4, 3], f32(*[0.25 * i - 1 for i in range(12)]))
    nodes = [node("MatMul", ["x", "weight"], ["a"]), node("Add", ["a", "bias"], ["b"]), node("Relu", ["b"], ["y"])]
    return model(graph(nodes, [value("x", ["batch", 4])], [value("y", ["batch", 3])], [weight, tensor("bias", [3], f32(1, 0, -1))]))


def one(op, inputs, outputs=1, tensors=(), opset=17, kinds=(), **attrs):
    """A model of one node: `inputs` are (name, dims) or (name, dims, kind); `tensors` become initializers after them."""
    infos = [value(*i) for i in inputs]
    names = [i[0] for i in inputs] + [t[0] for t in tensors]
    outs = [f"y{i}" for i in range(outputs)]
    kinds = list(kinds) + [FLOAT] * (outputs - len(kinds))
    return model(graph([node(op, names, outs, **attrs)], infos, [value(o, None, k) for o, k in zip(outs, kinds)], [t[1] for t in tensors]), opset)


def ints(name, *values):
    """(name, tensor) of int64 values, as `one` takes it."""
    return name, tensor(name, [len(values)], i64(*values), INT64)


def floats(name, dims, fill=0.5):
    count = 1
    for d in dims:
        count *= d
    return name, tensor(name, dims, f32(*[fill] * count))


class Corpus:
    """Files and folders under OUT/CLASS/, and their index."""

    def __init__(self, out):
        self.out, self.entries, self.skipped = pathlib.Path(out), [], []
        if self.out.exists() and any(self.out.iterdir()):
            if not (self.out / INDEX).is_file():
                raise ValueError(f"{self.out} is not empty and not a corpus (it has no {INDEX}): name another folder")
            shutil.rmtree(self.out)
        self.outside = self.out / "outside"  # nothing in here may ever be opened
        self.outside.mkdir(parents=True)
        (self.outside / "secret.bin").write_bytes(f32(*[0.5] * 64))
        (self.out / INDEX).write_text('{"unfinished": true}\n')

    def entry(self, path, kind, must, words=(), by="build", **facts):
        path = pathlib.Path(path)
        self.entries.append({"file": os.fsencode(path.relative_to(self.out)).decode("latin-1"), "class": kind, "must": must, "by": by, "expect": list(words), **facts})

    def file(self, kind, name, data, must="refuse", *words, by="build", **facts):
        """One model file. `words`: one of them must be in the message. Sizes no machine has may wait for the run."""
        if must == "refuse" and by == "build" and kind in ("operators", "large") and any(w in os.fsdecode(name) for w in ("exabyte", "terabyte", "wrap", "huge", "double")):
            by = "run"
        folder = self.out / kind
        folder.mkdir(exist_ok=True)
        name = os.fsdecode(name)
        path = folder / (name if "." in name else name + ".onnx")
        path.write_bytes(data)
        self.entry(path, kind, must, words, by, **facts)
        return path

    def folder(self, kind, name):
        path = self.out / kind / name
        path.mkdir(parents=True)
        return path

    def skip(self, kind, name, reason):
        self.skipped.append({"name": name, "class": kind, "reason": reason})

    def name_inputs(self):
        """Write into entries that are run what their graph inputs are called, as far as onnx can read them."""
        import onnx

        for e in self.entries:
            path = self.out / os.fsdecode(e["file"].encode("latin-1"))
            if (e.get("run") or e["by"] == "run") and path.is_file() and path.stat().st_size < 1 << 24:
                try:
                    g = onnx.load(path, load_external_data=False).graph
                except Exception:  # what it cannot read has no names to give
                    continue
                given = {t.name for t in g.initializer}
                e["inputs"] = [i.name for i in g.input if i.name not in given]

    def close(self, seed):
        self.name_inputs()
        names = [e["file"] for e in self.entries]
        assert len(set(names)) == len(names), "two entries name one file"
        (self.out / INDEX).write_text(json.dumps({"seed": seed, "outside": "outside", "files": self.entries, "skipped": self.skipped}, indent=1) + "\n")
