"""Places as data: ScatterND and ScatterElements with every reduction, GatherND with batches, ReverseSequence, OneHot, EyeLike,
Unique with all its results, TopK of integers, Hardmax, writing into a cache."""
import numpy as np
from elementwise import activation
from graph import Skip, dims, elements, fixed, is_fixed
from sizes import scalar_int, size_of


def all_fixed(x):
    return [x.size(k) for k in range(x.rank)]


def reduction(b, since=16):
    """The word for how values meet; before opset 16 there is none."""
    if b.opset < since:
        return {}
    return {"reduction": b.pick("none", "add", "mul") if b.opset < 18 else b.pick("none", "none", "add", "mul", "max", "min")}


def scatter_nd(b, x):
    """Distinct places, so that the order does not matter, unless they are joined by a reduction."""
    if x.rank < 1 or elements(x.shape) > 20000:
        raise Skip
    depth = b.between(1, min(2, x.rank))
    least = [min(x.shape[k]) for k in range(depth)]
    count = min(b.pick(1, 2, 3), int(np.prod(least)))
    words = reduction(b)
    flat = b.random.sample(range(int(np.prod(least))), count)
    if words.get("reduction", "none") != "none" and b.chance(0.4):
        flat = flat + flat[:1]
    at = np.stack(np.unravel_index(flat, least), 1).astype(np.int64)
    if b.chance(0.3):
        at[:, 0] -= 0 if not is_fixed(x.shape[0]) else x.size(0)
    rest = x.shape[depth:]
    if not all(is_fixed(d) for d in rest):
        raise Skip
    updates = b.weight([len(flat)] + [d[0] for d in rest])
    if b.chance(0.3):
        updates = b.op("Tanh", [updates])
    return b.op("ScatterND", [x, b.const(at), updates], x.shape, **words)


def scatter_elements(b, x):
    if x.rank < 1 or elements(x.shape) > 20000:
        raise Skip
    axis = b.between(0, x.rank - 1)
    least = min(x.shape[axis])
    words = reduction(b)
    shape = [b.between(1, min(min(d), 4)) for d in x.shape]
    shape[axis] = min(b.pick(1, 2, 3), least)
    twice = words.get("reduction", "none") != "none" and b.chance(0.4)
    lines = int(np.prod(shape)) // shape[axis]
    rows = [[b.between(0, least - 1) for _ in range(shape[axis])] if twice else b.random.sample(range(least), shape[axis]) for _ in range(lines)]
    at = np.moveaxis(np.array(rows, np.int64).reshape([n for k, n in enumerate(shape) if k != axis] + [shape[axis]]), -1, axis)
    if b.chance(0.3) and is_fixed(x.shape[axis]):
        at = np.where(b.numbers.random(at.shape) < 0.5, at, at - x.size(axis))
    updates = b.weight(shape)
    return b.op("ScatterElements", [x, b.const(np.ascontiguousarray(at)), updates], x.shape, axis=axis if b.chance(0.6) else axis - x.rank, **words)


def scatter_old(b, x):
    if x.rank < 1 or elements(x.shape) > 20000:
        raise Skip
    b.alone(b.pick(9, 10))
    axis = b.between(0, x.rank - 1)
    shape = [1] * x.rank
    shape[axis] = min(2, min(x.shape[axis]))
    at = np.array(b.random.sample(range(min(x.shape[axis])), shape[axis]), np.int64).reshape(shape)
    return b.op("Scatter", [x, b.const(at), b.weight(shape)], x.shape, axis=axis)


def gather_nd(b, x):
    if x.rank < 2 or elements(x.shape) > 20000:
        raise Skip
    batch = b.pick(0, 1)
    if batch and not is_fixed(x.shape[0]):
        raise Skip
    depth = b.between(1, x.rank - batch)
    least, count = [min(x.shape[batch + k]) for k in range(depth)], b.pick(1, 2, 4)
    lead = [x.size(0)] if batch else []
    at = np.stack([b.numbers.integers(0, n, (*lead, count)) for n in least], -1).astype(np.int64)
    if b.chance(0.3):
        at = at - np.array([x.size(batch + k) if is_fixed(x.shape[batch + k]) else 0 for k in range(depth)])
    return b.op("GatherND", [x, b.const(at)], dims(*lead, count) + x.shape[batch + depth :], batch_dims=batch if batch or b.chance(0.5) else None)


def gather_elements(b, x):
    if x.rank < 1 or elements(x.shape) > 20000:
        raise Skip
    axis = b.between(0, x.rank - 1)
    shape = [b.between(1, min(min(d), 4)) for d in x.shape]
    shape[axis] = b.pick(1, 3, 5)
    n = min(x.shape[axis])
    at = b.numbers.integers(-n if is_fixed(x.shape[axis]) else 0, n, shape).astype(b.pick(np.int64, np.int32))
    return b.op("GatherElements", [x, b.const(at)], dims(*shape), axis=axis)


def reverse(b, x):
    """Each row of the batch turned round as far as its length says."""
    if x.rank < 2:
        raise Skip
    time, batch = b.pick((0, 1), (1, 0))
    high = min(x.shape[time])
    if b.name_of(x.shape[batch]) is None:
        raise Skip
    lengths = b.input((x.shape[batch],), "i64", low=1, high=high + 1, stem="lengths")
    return b.op("ReverseSequence", [x, lengths], x.shape, time_axis=time, batch_axis=batch)


def one_hot(b, x):
    shape = (x.shape[0] if x.rank and b.name_of(x.shape[0]) is not None else fixed(2),) + dims(b.pick(1, 3))
    depth = b.pick(2, 5, 9)
    at = b.input(shape, b.pick("i64", "i32"), low=-depth, high=depth + 2, stem="classes")  # what lies outside gives a row of off
    kind = b.pick("f32", "f32", "i64", "i32")
    values = b.const(np.array([0, 1] if b.chance(0.6) else [-2, 3], {"f32": np.float32, "i64": np.int64, "i32": np.int32}[kind]))
    axis = b.between(0, 2)
    count = scalar_int(b, depth)
    if at.dtype == "i32" or kind == "i32":  # ONNX Runtime has few combinations
        at, values, kind = b.op("Cast", [at], dtype="i64", to=7), b.const(np.array([0.0, 1.0], np.float32)), "f32"
    return b.op("OneHot", [at, count, values], shape[:axis] + (fixed(depth),) + shape[axis:], kind, 0.5, axis=axis if b.chance(0.6) else axis - 3)


def eye(b, x):
    x = x if x.rank == 2 else b.input(dims(b.pick(1, 3), b.pick(2, 5)), stem="square")
    kind, code = b.pick(("f32", 1), ("i64", 7), ("i32", 6), ("f64", 11))
    y = b.op("EyeLike", [x], x.shape, kind, 0.5, k=b.pick(-1, 0, 0, 2), dtype_=code)
    if kind == "f32":
        return b.op("Add", [x, y]) if b.chance(0.5) else y
    return b.op("Cast", [y], dtype="f32", to=1)


def unique_all(b, x):
    """Values, first places, ways back and counts, of a list or along an axis."""
    kind = b.pick("i64", "i64", "f32")
    axis = b.pick(None, 0, 1)
    v = b.input(dims(b.pick(3, 6), b.pick(2, 3)), "i64", low=0, high=4 if axis is None else 2, stem="repeated")
    v = v if kind == "i64" else b.op("Cast", [v], dtype="f32", to=1)
    ends = (None,)
    shape = ends if axis is None else ends + v.shape[1:] if axis == 0 else v.shape[:1] + ends
    count = v.shape[axis] if axis is not None else fixed(v.size(0) * v.size(1))
    out = b.ops("Unique", [v], [shape, ends, (count,), ends], [kind, "i64", "i64", "i64"], sorted=b.pick(0, 1, 1), axis=axis)
    for o in out[1:]:
        if b.chance(0.6):
            b.marked.append(o)
    return out[0]


def top_k_integers(b, x):
    v = b.input(dims(b.pick(1, 4), b.pick(5, 9)), b.pick("i64", "i32"), low=-20, high=20, stem="numbers")
    axis, k = b.pick(1, -1, 0), b.between(1, 3)
    k = min(k, v.size(axis))
    shape = dims(*(k if a == axis % 2 else v.size(a) for a in range(2)))
    values, at = b.ops("TopK", [v, b.ints(k)], [shape] * 2, [v.dtype, "i64"], axis=axis, largest=b.pick(0, 1), sorted=1)
    b.marked.append(at)
    return values


def arg_integers(b, x):
    v = b.input(dims(b.pick(1, 4), b.pick(5, 9)), b.pick("i32", "u8", "i8"), low=0, high=6, stem="numbers")
    axis, keep = b.pick(0, 1, -1), b.pick(0, 1)
    shape = tuple(d if k != axis % 2 else fixed(1) for k, d in enumerate(v.shape) if keep or k != axis % 2)
    return b.op(b.pick("ArgMax", "ArgMin"), [v], shape, "i64", axis=axis, keepdims=keep, select_last_index=b.pick(0, 1))


def hardmax(b, x):
    if x.rank < 1:
        raise Skip
    return b.op("Hardmax", [x], std=0.4, axis=b.between(-x.rank, x.rank - 1))


def nonzero_integers(b, x):
    v = b.input(dims(3, b.pick(2, 5)), b.pick("i64", "i32", "bool", "u8"), low=0, high=2, stem="flags")
    return b.op("NonZero", [v], (fixed(2), None), "i64")


def into_cache(b, x):
    """New places written into a cache, from opset 24 on, linear or round about."""
    b.need(24)
    batch, most, now, n = b.pick(1, 2), b.pick(6, 9), b.pick(1, 2), b.pick(2, 5)
    past, fresh = b.input(dims(batch, 2, most, n), stem="cache"), b.input(dims(batch, 2, now, n), stem="fresh")
    mode = b.pick("linear", "circular")
    at = b.const(b.numbers.integers(0, most - now + 1 if mode == "linear" else most, batch).astype(np.int64))
    return b.op("TensorScatter", [past, fresh, at], past.shape, mode=mode)


def count(b, x):
    """How many elements there are, as a number among floats."""
    n = b.op("Cast", [b.op("Size", [x], (), "i64")], dtype="f32", to=1)
    return b.op("Div", [x, n], x.shape) if b.chance(0.5) else activation(b, b.op("Mul", [n, b.scalar(0.01)]))


def half_compressed(b, x):
    """Rows that an input names."""
    if not x.rank or not is_fixed(x.shape[0]):
        raise Skip
    keep = b.input(x.shape[:1], "bool", share=0.6, stem="keep")
    return b.op("Compress", [x, keep], (None,) + x.shape[1:], axis=0)


def rows_at(b, x):
    """Gather by places that are computed from a size: the last row, and the middle one."""
    if x.rank < 2:
        raise Skip
    n = size_of(b, x, 0)
    at = b.op("Sub", [n, scalar_int(b, 1)]) if b.chance(0.5) else b.op("Div", [n, scalar_int(b, 2)])
    at = at if min(x.shape[0]) > 1 else b.op("Sub", [n, n])
    return b.op("Gather", [x, at], x.shape[1:], axis=0)


BLOCKS = [scatter_nd, scatter_nd, scatter_elements, scatter_elements, scatter_old, gather_nd, gather_nd, gather_elements, reverse, one_hot, eye, eye, unique_all, top_k_integers,
          arg_integers, hardmax, nonzero_integers, into_cache, into_cache, count, half_compressed, rows_at]
