"""Samples of shape and layout: reshape, transpose, squeeze, slice, pad, split, concat, tile, range and their kin."""
import numpy as np
import onnx
from onnx import TensorProto
from opset_cases import Sample, f32, i64, is_narrow, onnx_type, values


def sweep(v, make, param="T"):
    """A sample per type of this version's sweep; make(array) gives the rest of a Sample's arguments."""
    for t in v.sweep(param):
        yield Sample(t.name, *make(values(v.rng(t.name), (2, 3, 4), t)))


def reshape(v):
    x = values(v.rng(), (2, 3, 4))
    for name, shape in {"flat": (24,), "infer": (4, -1), "zero": (0, -1), "zeros": (0, 0, 2, 2), "same": (2, 3, 4), "ones": (1, 2, 1, 12), "only_infer": (-1,)}.items():
        yield Sample(name, [x, i64(*shape)], const=(1,))
    yield Sample("input", [x, i64(6, 4)], fixed=(1,))  # its length is the rank of the output
    yield Sample("to_scalar", [f32(3.0), i64()], const=(1,))
    yield Sample("from_scalar", [np.array(3, np.float32), i64(1, 1)], const=(1,))
    yield Sample("empty", [np.zeros((0, 3), np.float32), i64(3, 0) if not v.has("allowzero") else i64(3, -1)], const=(1,), both=True)
    if v.has("allowzero"):
        yield Sample("allowzero", [np.zeros((0, 3), np.float32), i64(3, 0)], {"allowzero": 1}, const=(1,))
    yield from sweep(v, lambda a: ([a, i64(4, -1)], {}, 1, (1,)))


def transpose(v):
    x = values(v.rng(), (2, 3, 4, 5))
    for name, perm in {"default": None, "nhwc": (0, 2, 3, 1), "nchw": (0, 3, 1, 2), "heads": (0, 2, 1, 3), "identity": (0, 1, 2, 3), "reverse": (3, 2, 1, 0), "last": (0, 1, 3, 2)}.items():
        yield Sample(name, [x], {} if perm is None else {"perm": perm})
    for name, shape in {"matrix": (17, 33), "vector": (5,), "scalar": (), "empty": (0, 3), "rank6": (1, 2, 3, 2, 1, 2)}.items():
        yield Sample(name, [values(v.rng(name), shape)])
    yield from sweep(v, lambda a: ([a], {"perm": [1, 2, 0]}))


def squeeze(v):
    """Squeeze and Unsqueeze; axes are an attribute before version 13, an input after."""
    unsqueeze = v.op == "Unsqueeze"
    forms = {"first": (0,), "two": (0, 2), "end": (2,)} if unsqueeze else {"first": (0,), "two": (0, 2), "end": (4,)}
    if v.version >= 11:
        forms |= {"negative": (-1,)} | ({"unsorted": (3, 0)} if unsqueeze else {})
    shape = (2, 3) if unsqueeze else (1, 3, 1, 2, 1)

    def sample(name, x, axes, const=True):
        if v.has("axes"):
            return Sample(name, [x], {"axes": axes})
        return Sample(name, [x, i64(*axes)], const=(1,) if const else ())

    for name, axes in forms.items():
        yield sample(name, values(v.rng(name), shape), axes)
    if not unsqueeze:
        yield Sample("all", [values(v.rng("all"), shape)], fixed=(0,))  # without axes its sizes decide the rank
        yield Sample("none_to_remove", [values(v.rng("none"), (2, 3))], fixed=(0,))
        yield sample("to_scalar", f32(2.5), (0,))
    else:
        yield sample("scalar", np.array(2, np.float32), (0,))
    if not v.has("axes"):
        yield sample("input", values(v.rng("input"), shape), (0,), const=False)
    for t in v.sweep("T"):
        yield sample(t.name, values(v.rng(t.name), (2, 3) if unsqueeze else (1, 3), t), (0,))


def flatten(v):
    x = values(v.rng(), (2, 3, 4))
    for axis in (None, 0, 1, 2, 3) + ((-1, -3) if v.version >= 11 else ()):
        yield Sample("default" if axis is None else f"axis{axis}".replace("-", "_minus"), [x], {} if axis is None else {"axis": axis})
    yield Sample("empty", [np.zeros((2, 0, 3), np.float32)], {"axis": 1})
    yield Sample("vector", [f32(1, 2, 3)], {"axis": 1})
    if v.version >= 9:
        yield Sample("scalar", [np.array(3, np.float32)], {"axis": 0}, both=True)
    yield from sweep(v, lambda a: ([a], {"axis": 2}))


def concat(v):
    for name, (axis, *shapes) in {"axis0": (0, (2, 3), (1, 3)), "axis1": (1, (2, 3), (2, 1), (2, 4)), "one": (0, (2, 3)), "vectors": (0, (2,), (3,)), "empty": (0, (0, 3), (2, 3)), "last": (2, (1, 2, 3), (1, 2, 1)), "channel": (1, (2, 3, 4, 4), (2, 5, 4, 4))}.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, s) for s in shapes], {"axis": axis})
    if v.version >= 11:
        yield Sample("negative", [values(v.rng("n"), (2, 2)), values(v.rng("m"), (2, 3))], {"axis": -1}, const=(1,))
    yield from sweep(v, lambda a: ([a, a], {"axis": 1}))


def split(v):
    x = values(v.rng(), (6, 4))

    def sample(name, data, sizes, attrs, count, const=True):
        if sizes is None:
            return Sample(name, [data], attrs, count)
        if v.has("split"):
            return Sample(name, [data], attrs | {"split": sizes}, count)
        return Sample(name, [data, i64(*sizes)], attrs, count, const=(1,) if const else ())

    number = {"num_outputs": 3} if v.has("num_outputs") else {}
    yield sample("equal", x, None, number, 3)
    yield sample("sizes", x, (1, 3, 2), {}, 3)
    yield sample("axis1", x, (3, 1), {"axis": 1}, 2)
    yield sample("zero", x, (0, 6), {}, 2)
    if v.version >= 11:
        yield sample("negative", x, (2, 2), {"axis": -1}, 2)
    if number:
        yield sample("uneven", values(v.rng("u"), (7, 2)), None, {"num_outputs": 3}, 3)
        yield sample("one", x, None, {"num_outputs": 1}, 1)
    if not v.has("split"):
        yield sample("input", x, (2, 4), {}, 2, const=False)
    for t in v.sweep("T"):
        yield sample(t.name, values(v.rng(t.name), (4, 3), t), (1, 3), {}, 2)


BIG = 2**31 - 1
SLICES = {  # starts, ends, axes, steps (None = not given)
    "plain": ((1, 0), (3, 4), None, None), "axes": ((1,), (3,), (1,), None), "end_negative": ((0,), (-1,), (2,), None), "start_negative": ((-2,), (BIG,), (1,), None), "past_end": ((0, 1), (1000, 1000), (0, 1), None),
    "nothing": ((3,), (3,), (1,), None), "backwards_empty": ((4,), (2,), (1,), None), "before_start": ((-1000,), (2,), (1,), None), "steps": ((0, 1), (4, 5), (0, 1), (2, 3)),
    "reverse": ((-1,), (-BIG,), (1,), (-1,)), "reverse_step": ((10, 4), (0, 0), (0, 1), (-2, -2)), "axes_negative": ((1,), (3,), (-1,), (1,)), "full": ((0, 0, 0), (BIG,) * 3, (0, 1, 2), (1, 1, 1)), "axes_unsorted": ((1, 0), (4, 2), (2, 0), (2, 1)),
}  # fmt: skip


def slice_(v):
    x = values(v.rng(), (4, 5, 6))
    for name, (starts, ends, axes, steps) in SLICES.items():
        if v.version < 10:
            if steps is None:
                yield Sample(name, [x], {"starts": starts, "ends": ends} | ({"axes": axes} if axes else {}))
            continue
        if v.version < 11 and axes and min(axes) < 0:
            continue
        inputs = [x, i64(*starts), i64(*ends)] + ([i64(*axes)] if axes else []) + ([i64(*steps)] if steps else [])
        yield Sample(name, inputs, const=tuple(range(1, len(inputs))))
        if name in ("axes", "reverse", "steps"):
            yield Sample(f"{name}_input", [i if n == 0 else i.astype(np.int32) for n, i in enumerate(inputs)])
    if v.version >= 10:
        yield Sample("steps_without_axes", [x, i64(0, 0, 1), i64(4, 5, 6), None, i64(2, 1, 3)])
    for t in v.sweep("T"):
        a = values(v.rng(t.name), (4, 5), t)
        yield Sample(t.name, [a], {"starts": [1], "ends": [3], "axes": [1]}) if v.version < 10 else Sample(t.name, [a, i64(1), i64(3), i64(1)], const=(1, 2, 3))


def pad(v):
    x, low = values(v.rng(), (2, 3, 4)), np.array(-1.5, np.float32)
    pads = {"edges": (0, 1, 2, 0, 1, 1), "none": (0,) * 6, "end": (0, 0, 0, 1, 2, 3)}
    modes = ("constant", "reflect", "edge") + (("wrap",) if v.version >= 19 else ())

    def sample(name, data, amounts, mode, value=None, axes=None, const=True):
        attrs = {} if mode is None else {"mode": mode}
        if v.version < 11:
            return Sample(name, [data], attrs | {"pads": amounts} | ({} if value is None else {"value": float(value)}))
        inputs = [data, i64(*amounts)] + ([value] if value is not None or axes else []) + ([i64(*axes)] if axes else [])
        return Sample(name, inputs, attrs, const=tuple(i for i in range(1, len(inputs)) if inputs[i] is not None) if const else ())

    for mode in modes:
        for name, amounts in pads.items():
            if mode != "constant" and name == "end":
                amounts = (0, 0, 0, 1, 2, 3)
            yield sample(f"{mode}_{name}", x, [min(a, 1) if mode == "reflect" and i % 3 == 0 else a for i, a in enumerate(amounts)], mode)
    yield sample("default", x, pads["edges"], None)
    yield sample("value", x, pads["edges"], "constant", low)
    yield sample("crop", x, (0, -1, 1, 0, 0, -2), "constant", low)
    yield sample("image", values(v.rng("i"), (1, 2, 4, 5)), (0, 0, 2, 1, 0, 0, 1, 3), "reflect")
    if v.version >= 11:
        yield sample("input", x, pads["edges"], "constant", low, const=False)
    if v.version >= 18:
        yield sample("axes", x, (1, 2, 0, 1), "constant", low, axes=(2, 0))
        yield sample("axes_negative", x, (1, 1), "edge", None, axes=(-1,))
    for t in v.sweep("T"):
        if is_narrow(t):
            continue
        yield sample(t.name, values(v.rng(t.name), (1, 2, 3), t), (0, 1, 1, 0, 0, 2), "constant")


def tile(v):
    for name, (shape, repeats) in {"matrix": ((2, 3), (2, 2)), "one": ((2, 3), (1, 1)), "rank3": ((1, 2, 3), (3, 1, 2)), "vector": ((4,), (5,)), "none": ((2, 3), (0, 1))}.items():
        yield Sample(name, [values(v.rng(name), shape), i64(*repeats)], const=(1,) if name != "vector" else ())
    yield from sweep(v, lambda a: ([a, i64(1, 2, 1)], {}, 1, (1,)))


def expand(v):
    for name, (shape, to) in {"rows": ((3, 1), (3, 4)), "rank": ((3, 1), (2, 1, 6)), "smaller": ((2, 3), (1,)), "same": ((2, 3), (2, 3)), "scalar": ((), (2, 2)), "empty": ((1, 3), (0, 3)), "input": ((1, 4), (3, 1))}.items():
        yield Sample(name, [values(v.rng(name), shape), i64(*to)], const=(1,) if name != "input" else ())
    yield from sweep(v, lambda a: ([a, i64(2, 1, 3, 4)], {}, 1, (1,)))


def shape(v):
    yield Sample("rank3", [values(v.rng(), (2, 3, 4))])
    yield Sample("scalar", [np.array(1, np.float32)], both=v.op == "Shape")
    yield Sample("empty", [np.zeros((0, 3), np.float32)])
    for i, (start, end) in enumerate(((1, None), (-2, None), (0, -1), (1, 2), (-10, 10), (2, 1)) if v.has("start") else ()):
        yield Sample(f"range{i}", [values(v.rng(), (2, 3, 4))], {"start": start} | ({} if end is None else {"end": end}))
    yield from sweep(v, lambda a: ([a],))


def constant(v):
    def tensor(array):
        return onnx.numpy_helper.from_array(array, "value")

    yield Sample("matrix", [], {"value": tensor(values(v.rng(), (2, 3)))})
    yield Sample("scalar", [], {"value": tensor(np.array(3.5, np.float32))})
    yield Sample("empty", [], {"value": tensor(np.zeros((0, 2), np.float32))})
    if v.has("value_float"):
        for name, value in {"value_float": 1.5, "value_int": -7, "value_floats": [1.0, -2.0], "value_ints": [3, 4, 5]}.items():
            yield Sample(name, [], {name: value})
        yield Sample("value_string", [], {"value_string": "word"}, out_types=(TensorProto.STRING,))
        yield Sample("value_strings", [], {"value_strings": ["a", "déjà"]}, out_types=(TensorProto.STRING,))
    for t in v.sweep("T"):
        yield Sample(t.name, [], {"value": tensor(values(v.rng(t.name), (5,), t))}, out_types=(onnx_type(t),))


def constant_of_shape(v):
    for name, (dims, value) in {"default": ((2, 3), None), "float": ((2,), np.array([1.5], np.float32)), "scalar": ((), np.array([2], np.int64)), "empty": ((0, 3), np.array([1], np.float32))}.items():
        yield Sample(name, [i64(*dims)], {} if value is None else {"value": onnx.numpy_helper.from_array(value)}, const=(0,) if name != "float" else ())
    for t in v.sweep("T2"):
        if t != object:
            yield Sample(t.name, [i64(2, 2)], {"value": onnx.numpy_helper.from_array(values(v.rng(t.name), (1,), t))}, const=(0,))


def eye_like(v):
    for k in (0, 1, -2, 10):
        yield Sample(f"k{k}".replace("-", "_minus"), [values(v.rng(), (3, 5))], {"k": k})
    yield Sample("dtype", [values(v.rng(), (4, 3), np.int32)], {"dtype": TensorProto.FLOAT})
    for t in v.sweep("T1"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 3), t)])


def range_(v):
    for t in v.sweep("T"):
        for i, (start, limit, delta) in enumerate(((0, 5, 1), (1, 10, 3), (10, 0, -3), (5, 5, 1), (3, 0, 1))):
            yield Sample(f"{t.name}_{i}", [np.array(n).astype(t) for n in (start, limit, delta)], const=(0, 1, 2) if i % 2 else ())
    yield Sample("fractions", [np.array(n, np.float32) for n in (0.5, 2.1, 0.25)])


def space(v):
    depth = v.op == "DepthToSpace"
    forms = ({}, {"mode": "DCR"}, {"mode": "CRD"}) if v.has("mode") else ({},)
    for i, attrs in enumerate(forms):
        for block, dims in ((2, (1, 8, 2, 3) if depth else (2, 2, 4, 6)), (3, (1, 9, 2, 2) if depth else (1, 1, 3, 6))):
            yield Sample(f"mode{i}_block{block}", [values(v.rng(f"{i}{block}"), dims)], attrs | {"blocksize": block})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (1, 4, 2, 2), t)], {"blocksize": 2})


def trilu(v):
    x = values(v.rng(), (4, 5))
    for upper in (1, 0):
        for k in (None, 0, 1, -2, 10, -10):
            inputs = [x] if k is None else [x, np.array(k, np.int64)]
            yield Sample(f"upper{upper}_k{k}".replace("-", "_minus"), inputs, {"upper": upper}, const=(1,) if k == 1 else ())
    yield Sample("batch", [values(v.rng("b"), (2, 3, 3))])
    yield Sample("empty", [np.zeros((2, 0, 3), np.float32)])
    yield from sweep(v, lambda a: ([a],))


def reverse_sequence(v):
    x = values(v.rng(), (4, 3, 2))
    yield Sample("default", [x, i64(4, 2, 1)])
    yield Sample("batch_first", [x, i64(1, 2, 3, 3)], {"batch_axis": 0, "time_axis": 1}, const=(1,))
    yield from sweep(v, lambda a: ([a, i64(1, 2, 2)], {"time_axis": 0, "batch_axis": 1}))


SAMPLES = {
    "Reshape": reshape, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": squeeze, "Flatten": flatten, "Concat": concat, "Split": split, "Slice": slice_, "Pad": pad, "Tile": tile, "Expand": expand,
    "Shape": shape, "Size": shape, "Constant": constant, "ConstantOfShape": constant_of_shape, "EyeLike": eye_like, "Range": range_, "DepthToSpace": space, "SpaceToDepth": space, "Trilu": trilu, "ReverseSequence": reverse_sequence,
}  # fmt: skip
