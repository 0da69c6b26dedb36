"""Samples of gather, scatter, one-hot and compress."""
import numpy as np
from opset_cases import Sample, f32, i64, values


def gather(v):
    x = values(v.rng(), (4, 5, 3))
    forms = {"axis0": (0, i64(0, 3, 1)), "axis1": (1, i64(4, 4)), "matrix": (0, i64(0, 1, 2, 3).reshape(2, 2)), "scalar": (1, np.array(2, np.int64)), "narrow_index": (2, np.array([0, 2], np.int32)), "none": (0, np.zeros((0,), np.int64)), "last": (2, i64(2, 0))}
    for name, (axis, at) in forms.items():
        yield Sample(name, [x, at], {"axis": axis})
        yield Sample(f"{name}_const", [x, at], {"axis": axis}, const=(1,))
    yield Sample("default", [x, i64(1)])
    yield Sample("embedding", [values(v.rng("e"), (50, 16)), v.rng("ids").integers(0, 50, (2, 7))], const=(0,))
    if v.version >= 11:
        yield Sample("negative", [x, i64(-1, -4, 2)], {"axis": -3})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (4, 3), t), i64(2, 0)], prefer="reference" if t.kind in "OUST" else "onnxruntime")  # ONNX Runtime 1.23 loses strings here


def gather_elements(v):
    x = values(v.rng(), (3, 4))
    yield Sample("axis0", [x, i64(0, 1, 2, 0).reshape(1, 4)], {"axis": 0})
    yield Sample("axis1", [x, i64(0, 3, 1, 1, 2, 2).reshape(3, 2)], {"axis": 1}, const=(1,))
    yield Sample("negative", [x, i64(-1, -4, 0).reshape(3, 1)], {"axis": -1})
    yield Sample("narrow_index", [x, np.array([[1], [0]], np.int32)], {"axis": 1})
    yield Sample("rank3", [values(v.rng("3"), (2, 3, 4)), v.rng("i").integers(-3, 3, (2, 5, 4))], {"axis": 1})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 2), t), i64(0, 2).reshape(1, 2)])


def gather_nd(v):
    x = values(v.rng(), (2, 3, 4))
    for name, at in {"elements": i64(0, 1, 2, 1, 2, 3).reshape(2, 3), "rows": i64(0, 1, 1, 2).reshape(2, 2), "blocks": i64(1, 0).reshape(2, 1), "rank3": i64(0, 1, 1, 0).reshape(2, 1, 2), "negative": i64(-1, -2, -2, -3).reshape(2, 2)}.items():
        yield Sample(name, [x, at], const=(1,) if name == "rows" else (), fixed=(1,))  # its last dimension is a rank
    if v.has("batch_dims"):
        yield Sample("batch1", [x, i64(1, 0).reshape(2, 1)], {"batch_dims": 1}, fixed=(1,))
        yield Sample("batch2", [x, i64(1, 0, 3, 2, 1, 1).reshape(2, 3, 1)], {"batch_dims": 2}, fixed=(1,))
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 2), t), i64(0, 1, 2, 0).reshape(2, 2)], fixed=(1,))


def reductions(v):
    return [] if not v.has("reduction") else ["none", "add", "mul"] + (["max", "min"] if v.version >= 18 else [])


def scatter_elements(v):
    x = values(v.rng(), (3, 4))
    yield Sample("axis0", [x, i64(1, 0, 2, 2).reshape(1, 4), f32(1, 2, 3, 4).reshape(1, 4)], {"axis": 0})
    yield Sample("axis1", [x, i64(3, 0, 1, 2, 2, 0).reshape(3, 2), values(v.rng("u"), (3, 2))], {"axis": 1})
    yield Sample("negative", [x, i64(-1, -4, 0).reshape(3, 1), values(v.rng("n"), (3, 1))], {"axis": -1}, const=(1,))
    yield Sample("none", [x, np.zeros((0, 4), np.int64), np.zeros((0, 4), np.float32)], both=True)
    for mode in reductions(v):
        at = i64(1, 1, 0, 1).reshape(2, 2) if mode != "none" else i64(1, 0, 2, 1).reshape(2, 2)
        yield Sample(f"reduce_{mode}", [x, at, values(v.rng(mode), (2, 2))], {"axis": 1 if mode != "none" else 0, "reduction": mode})
        yield Sample(f"reduce_{mode}_int64", [values(v.rng("x"), (3, 4), np.int64), at, values(v.rng(mode), (2, 2), np.int64)], {"axis": 0, "reduction": mode})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 2), t), i64(0, 2).reshape(1, 2), values(v.rng(t.name + "u"), (1, 2), t)])


def scatter_nd(v):
    x = values(v.rng(), (4, 3, 2))
    yield Sample("elements", [x, i64(0, 1, 1, 3, 2, 0).reshape(2, 3), f32(5, 6)])
    yield Sample("rows", [x, i64(2, 0, 0, 1).reshape(2, 2), values(v.rng("u"), (2, 2))], const=(1,))
    yield Sample("blocks", [x, i64(3, 1).reshape(2, 1), values(v.rng("b"), (2, 3, 2))])
    yield Sample("negative", [x, i64(-1, -3).reshape(2, 1), values(v.rng("n"), (2, 3, 2))])
    for mode in reductions(v):
        at = i64(1, 1, 3).reshape(3, 1) if mode != "none" else i64(1, 0, 3).reshape(3, 1)
        yield Sample(f"reduce_{mode}", [x, at, values(v.rng(mode), (3, 3, 2))], {"reduction": mode})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 2), t), i64(0, 2).reshape(2, 1), values(v.rng(t.name + "u"), (2, 2), t)])


def one_hot(v):
    at, depth, onoff = i64(0, 2, 1, 4), np.array(5, np.int64), f32(-1, 3)
    yield Sample("default", [at, depth, onoff], const=(1,))
    yield Sample("axis0", [at.reshape(2, 2), depth, onoff], {"axis": 0}, const=(1, 2))
    yield Sample("axis1", [at.reshape(2, 2), depth, onoff], {"axis": 1}, const=(1,))
    yield Sample("outside", [i64(7, 1), depth, onoff], const=(1,))
    yield Sample("vector_depth", [at, i64(5), onoff], const=(1,))
    yield Sample("scalar", [np.array(2, np.int64), depth, onoff], const=(1,), both=True)
    yield Sample("depth_input", [at, depth, onoff])
    if v.version >= 11:
        yield Sample("negative", [i64(-1, -5, 0), depth, onoff], {"axis": -1}, const=(1,))
    for t in v.sweep("T3"):
        yield Sample(t.name, [i64(1, 0), np.array(3, np.int64), np.array([0, 1], np.int64).astype(t) if t != object else np.array(["off", "on"], object)], const=(1,))
    for t in v.sweep("T1"):
        yield Sample(f"indices_{t.name}", [np.array([1, 0], np.int64).astype(t), np.array(3, np.int64), onoff], const=(1,))


def compress(v):
    x = values(v.rng(), (3, 4))
    yield Sample("flat", [x, np.array([1, 0, 1, 1, 0], bool)])
    yield Sample("axis0", [x, np.array([0, 1, 1], bool)], {"axis": 0})
    yield Sample("axis1", [x, np.array([1, 0, 1], bool)], {"axis": 1}, const=(1,))
    yield Sample("nothing", [x, np.array([0, 0, 0], bool)], {"axis": 0})
    if v.version >= 11:
        yield Sample("negative", [x, np.array([1, 0, 0, 1], bool)], {"axis": -1})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (2, 3), t), np.array([0, 1], bool)], {"axis": 0})


SAMPLES = {
    "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "OneHot": one_hot, "Compress": compress,
}  # fmt: skip
