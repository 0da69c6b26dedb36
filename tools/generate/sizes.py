"""Sizes computed in the graph, as torch and TensorFlow export them: Shape, Gather, Slice, Concat, arithmetic, Cast, and
what takes them: Reshape, Expand, Resize, Pad, Slice, Tile, Range, ConstantOfShape."""
import math

import numpy as np
import views
from graph import Skip, dims, elements, fixed, is_fixed, per_binding
from onnx import numpy_helper


def scalar_int(b, n):
    return b.const(np.array(n, np.int64), "k")


def shape_of(b, x):
    return b.op("Shape", [x], dims(x.rank), "i64")


def size_of(b, x, axis, scalar=True):
    """One size of x as a scalar or a list of one."""
    s = shape_of(b, x)
    if b.chance(0.3):
        one = b.op("Slice", [s, b.ints(axis), b.ints(axis + 1), b.ints(0)], dims(1))
        if not scalar:
            return one
        return b.op("Squeeze", [one, b.ints(0)] if b.chance(0.7) else [one], ())
    if not scalar and b.chance(0.4):
        return b.op("Gather", [s, b.ints(axis if b.chance(0.7) else axis - x.rank)], dims(1), axis=0)
    one = b.op("Gather", [s, scalar_int(b, axis)], (), axis=0)
    return one if scalar else b.op("Unsqueeze", [one, b.ints(0)], dims(1))


def arithmetic(b, v, dim):
    """v, a size, times, plus, over something; Skip where that is no size. Returns it with its dim."""
    kind = b.pick("none", "none", "mul", "add", "div", "mod", "cast", "sub", "max", "float")
    n = b.pick(2, 3)
    if kind == "mul":
        return b.op("Mul", [v, scalar_int(b, n)] if b.chance(0.6) else [scalar_int(b, n), v], v.shape, "i64"), per_binding(lambda d: d * n, dim)
    if kind == "add":
        return b.op("Add", [v, scalar_int(b, n)]), per_binding(lambda d: d + n, dim)
    if kind == "sub":
        return b.op("Sub", [v, scalar_int(b, 1)]), per_binding(lambda d: d - 1, dim)
    if kind == "div":
        return b.op("Div", [b.op("Add", [v, scalar_int(b, n - 1)]), scalar_int(b, n)]), per_binding(lambda d: (d + n - 1) // n, dim)
    if kind == "mod":  # up to the next multiple
        rest = b.op("Mod", [v, scalar_int(b, 4)])
        rest = b.op("Mod", [b.op("Sub", [scalar_int(b, 4), rest], v.shape, "i64"), scalar_int(b, 4)])
        return b.op("Add", [v, rest]), per_binding(lambda d: d + (4 - d % 4) % 4, dim)
    if kind == "cast":
        return b.op("Cast", [b.op("Cast", [v], dtype="i32", to=6)], dtype="i64", to=7), dim
    if kind == "max":
        return b.op("Max", [v, scalar_int(b, n)]), per_binding(lambda d: max(d, n), dim)
    if kind == "float":
        f = b.op("Mul", [b.op("Cast", [v], dtype="f32", to=1), b.scalar(2.0)])
        return b.op("Cast", [b.op("Floor", [f]) if b.chance(0.5) else f], dtype="i64", to=7), per_binding(lambda d: 2 * d, dim)
    return v, dim


def listed(b, v):
    return v if v.rank == 1 else b.op("Unsqueeze", [v, b.ints(0)], dims(1)) if b.chance(0.7) else b.op("Reshape", [v, b.ints(-1)], dims(1))


def concat_sizes(b, items):
    """A list of sizes of numbers and values."""
    return b.op("Concat", [b.ints(i) if isinstance(i, int) else listed(b, i) for i in items], dims(len(items)), "i64", axis=0)


def sizes_of(b, x):
    return [d[0] if is_fixed(d) and b.chance(0.7) else size_of(b, x, k, b.chance(0.5)) for k, d in enumerate(x.shape)]


def reshape_computed(b, x):
    """view(b, -1), view(b * s, d), and back."""
    if x.rank < 2:
        raise Skip
    kind = b.pick("flat", "rows", "same", "add_one")
    if kind == "flat":
        return b.op("Reshape", [x, concat_sizes(b, [size_of(b, x, 0), -1])], (x.shape[0], views.product(*x.shape[1:])))
    if kind == "rows":
        if sum(not is_fixed(d) for d in x.shape[2:]) > 1:
            raise Skip
        first = b.op("Mul", [size_of(b, x, 0), size_of(b, x, 1)])
        y = b.op("Reshape", [x, concat_sizes(b, [first, *(d[0] if is_fixed(d) else -1 for d in x.shape[2:])])], (views.product(*x.shape[:2]),) + x.shape[2:])
        y = b.op("Relu", [y])
        return b.op("Reshape", [y, concat_sizes(b, sizes_of(b, x))], x.shape) if b.chance(0.6) else y
    whole = concat_sizes(b, sizes_of(b, x) + ([1] if kind == "add_one" else []))
    return b.op("Reshape", [x, whole], x.shape + (dims(1) if kind == "add_one" else ()))


def expand_computed(b, x):
    """A row, or a constant, as wide as x."""
    row = b.weight((1,) * (x.rank - 1) + (x.shape[-1][0] if is_fixed(x.shape[-1]) else 1,)) if x.rank else b.scalar(1.0)
    whole = shape_of(b, x) if b.chance(0.4) else concat_sizes(b, sizes_of(b, x)) if x.rank else shape_of(b, x)
    y = b.op("Expand", [row, whole], x.shape)
    return b.op(b.pick("Add", "Mul"), [x, y])


def filled(b, x):
    """ConstantOfShape of computed sizes, added to or beside x."""
    value = numpy_helper.from_array(np.array([b.pick(0.0, 1.0, 0.5)], np.float32))
    if x.rank >= 2 and b.chance(0.5):
        shape = (x.shape[0],) + dims(*(1 for _ in x.shape[1:]))
        y = b.op("ConstantOfShape", [concat_sizes(b, [size_of(b, x, 0), *[1] * (x.rank - 1)])], shape, "f32", value=value)
        return b.op("Add", [x, y])
    y = b.op("ConstantOfShape", [shape_of(b, x)], x.shape, "f32", value=value)
    return b.op("Concat", [y, x], views_joined(x, 0), axis=0) if x.rank and b.chance(0.5) else b.op("Add", [y, x], x.shape)


def views_joined(x, axis):
    return x.shape[:axis] + (per_binding(lambda d: 2 * d, x.shape[axis]),) + x.shape[axis + 1 :]


def positions(b, x):
    """Range over a size, as positions that are added, compared or looked up."""
    if x.rank < 2:
        raise Skip
    axis = x.rank - 2 if x.rank < 4 else x.rank - 1
    dim = x.shape[axis]
    r = b.op("Range", [scalar_int(b, 0), size_of(b, x, axis), scalar_int(b, 1)], (dim,), "i64")
    kind = b.pick("add", "table", "causal")
    if kind == "table" and x.rank == 3:
        y = b.op("Gather", [b.weight((max(dim[:3]) + 3, 4)), r], (dim,) + dims(4), axis=0)
        return b.op("Add", [b.op("ReduceSum", [y, b.ints(1)], (dim, fixed(1)), keepdims=1), x], x.shape)
    if kind == "causal":
        column = b.op("Unsqueeze", [r, b.ints(1)], (dim,) + dims(1))
        seen = b.op(b.pick("GreaterOrEqual", "Greater"), [column, r], (dim, dim), "bool")
        return b.op("Cast", [seen], dtype="f32", to=1)
    f = b.op("Mul", [b.op("Cast", [r], dtype="f32", to=1), b.scalar(0.1)])
    f = b.op("Unsqueeze", [f, b.ints(1)], (dim,) + dims(1)) if axis == x.rank - 2 else f
    return b.op("Add", [x, b.op(b.pick("Sin", "Cos"), [f])], x.shape)


def slice_computed(b, x):
    """x without its last element, its second half, or what two sizes leave."""
    if not x.rank:
        raise Skip
    axis = b.between(0, x.rank - 1)
    d, v = x.shape[axis], size_of(b, x, axis, False)
    kind = b.pick("most", "half", "whole")
    if kind == "most":
        start, end, out = b.ints(0), b.op("Sub", [v, b.ints(1)]), per_binding(lambda n: n - 1, d)
    elif kind == "half":
        start, end, out = b.op("Div", [v, b.ints(2)]), v, per_binding(lambda n: n - n // 2, d)
    else:
        start, end, out = b.ints(0), v, d
    if min(out) < 1:
        raise Skip
    return b.op("Slice", [x, start, end, b.ints(axis)] + ([b.ints(1)] if b.chance(0.5) else []), x.shape[:axis] + (out,) + x.shape[axis + 1 :])


def pad_computed(b, x):
    """Padded up to a multiple, or by a part of its own size; torch writes the pads as a reversed reshape."""
    if x.rank < 2:
        raise Skip
    axis = b.between(1, x.rank - 1) if x.rank > 2 else b.between(0, 1)
    v, d = size_of(b, x, axis), x.shape[axis]
    if b.chance(0.6):
        n = b.pick(2, 4)
        rest = b.op("Mod", [b.op("Sub", [scalar_int(b, n), b.op("Mod", [v, scalar_int(b, n)])], (), "i64"), scalar_int(b, n)])
        out = per_binding(lambda k: k + (n - k % n) % n, d)
    else:
        rest, out = b.op("Div", [v, scalar_int(b, 2)]), per_binding(lambda k: k + k // 2, d)
    shape = x.shape[:axis] + (out,) + x.shape[axis + 1 :]
    b.fits(shape)
    if b.chance(0.4):  # pairs from the last axis on, turned round
        pairs = [0] * (2 * x.rank)
        pairs[2 * (x.rank - 1 - axis) + 1] = rest
        rows = b.op("Reshape", [concat_sizes(b, pairs), b.ints(-1, 2)], dims(x.rank, 2))
        back = b.op("Slice", [rows, b.ints(-1), b.ints(-(2**63) + 1), b.ints(0), b.ints(-1)], dims(x.rank, 2))
        pads = b.op("Reshape", [b.op("Transpose", [back], dims(2, x.rank), perm=[1, 0]), b.ints(-1)], dims(2 * x.rank))
    else:
        pads = concat_sizes(b, [rest if k == x.rank + axis else 0 for k in range(2 * x.rank)])
    return b.op("Pad", [x, pads] + ([b.scalar(0.0)] if b.chance(0.5) else []), shape, mode="constant")


def resize_computed(b, x):
    """interpolate(scale_factor) and interpolate(size): sizes from Shape, through arithmetic."""
    if x.rank != 4:
        raise Skip
    axes = [arithmetic(b, size_of(b, x, k), x.shape[k]) for k in (2, 3)]
    lead = b.op("Slice", [shape_of(b, x), b.ints(0), b.ints(2), b.ints(0)], dims(2))
    tail = concat_sizes(b, [v for v, _ in axes])
    shape = x.shape[:2] + tuple(d for _, d in axes)
    b.fits(shape, flops=8 * elements(shape))
    sizes = b.op("Concat", [lead, tail], dims(4), "i64", axis=0)
    mode = b.pick("nearest", "linear")
    return b.op("Resize", [x, None, None, sizes], shape, mode=mode, coordinate_transformation_mode=b.pick("asymmetric", "half_pixel", "pytorch_half_pixel"), nearest_mode="floor" if mode == "nearest" else None)


def tile_computed(b, x):
    """A row repeated for each batch."""
    if x.rank < 2 or not is_fixed(x.shape[-1]):
        raise Skip
    row = b.weight((1, x.size(-1)))
    repeats = concat_sizes(b, [size_of(b, x, 0), 1])
    y = b.op("Tile", [row, repeats], (x.shape[0], x.shape[-1]))
    for k in range(1, x.rank - 1):
        y = b.op("Unsqueeze", [y, b.ints(1)], y.shape[:1] + dims(1) + y.shape[1:])
    return b.op("Add", [x, y], x.shape)


def grow(b, x):
    """Tensorflow's tf.reshape(x, [b, n * k]) and a fill of an arithmetic size."""
    v, dim = arithmetic(b, *((lambda k: (size_of(b, x, k), x.shape[k]))(b.between(0, x.rank - 1)) if x.rank else (_ for _ in ()).throw(Skip)))
    b.fits((dim, fixed(3)))
    y = b.op("Expand", [b.weight((1, 3)), concat_sizes(b, [v, 3])], (dim, fixed(3)))
    return b.op("Tanh", [y])


def size_as_value(b, x):
    """A mean by hand: the sum over the size as a float."""
    if x.rank < 2:
        raise Skip
    n = b.op("Cast", [size_of(b, x, 1)], dtype="f32", to=1)
    s = b.op("ReduceSum", [x, b.ints(1)], x.shape[:1] + dims(1) + x.shape[2:], keepdims=1)
    y = b.op("Div", [s, n], s.shape)
    return b.op("Sub", [x, y], x.shape) if b.chance(0.5) else y


BLOCKS = [reshape_computed, reshape_computed, expand_computed, filled, positions, slice_computed, pad_computed, resize_computed, tile_computed, grow, size_as_value]
