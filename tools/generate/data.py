"""Results whose sizes depend on the data, and choices: NonZero, Compress, Unique, TopK, ArgMax, NonMaxSuppression, OneHot,
scatter. What they give is treated a little and mostly ends the graph."""
import numpy as np
from elementwise import activation
from graph import Skip, dims, fixed, is_fixed, per_binding
from sizes import scalar_int, size_of


def finish(b, y):
    """A step or two that take any size."""
    if y.dtype in ("i64", "i32"):
        return b.pick(lambda: y, lambda: b.op("Cast", [y], dtype="f32", to=1), lambda: b.op("Add", [y, b.const(np.array(1, np.int64))]))()
    return b.pick(lambda: y, lambda: activation(b, y), lambda: b.op("Mul", [y, b.scalar(0.5)]),
                  lambda: b.op("ReduceSum", [activation(b, y)], (), keepdims=0), lambda: b.op("Concat", [y, y], (None,) * y.rank, axis=0))()


def condition(b, x):
    return b.op("Greater", [x, b.scalar(b.pick(-0.5, 0.0, 0.3))], dtype="bool")


def non_zero(b, x):
    if not x.rank:
        raise Skip
    y = b.op("NonZero", [condition(b, x)], dims(x.rank) + (None,), "i64")
    kind = b.pick("as", "turned", "picked", "count")
    if kind == "turned":
        return finish(b, b.op("Transpose", [y], (None, fixed(x.rank)), perm=[1, 0]))
    if kind == "picked":
        return finish(b, b.op("GatherND", [x, b.op("Transpose", [y], (None, fixed(x.rank)), perm=[1, 0])], (None,)))
    if kind == "count":
        return b.op("Gather", [b.op("Shape", [y], dims(2), "i64"), scalar_int(b, 1)], (), axis=0)
    return finish(b, y)


def compress(b, x):
    if not x.rank:
        raise Skip
    if b.chance(0.4):
        flat = b.op("Reshape", [x, b.ints(-1)], (per_binding(lambda *d: int(np.prod(d)), *x.shape),))
        return finish(b, b.op("Compress", [flat, condition(b, flat)], (None,)))
    axis = b.between(0, x.rank - 1)
    rest = [k for k in range(x.rank) if k != axis]
    high = x
    if rest:
        high = b.op("ReduceMax", [x, b.ints(*rest)], (x.shape[axis],), keepdims=0) if b.opset >= 18 else b.op("ReduceMax", [x], (x.shape[axis],), axes=rest, keepdims=0)
    return finish(b, b.op("Compress", [x, b.op("Greater", [high, b.scalar(0.2)], dtype="bool")], x.shape[:axis] + (None,) + x.shape[axis + 1 :], axis=axis))


def unique(b, x):
    i = b.op("Cast", [b.op("Round", [b.op("Mul", [x, b.scalar(2.0)])])], dtype="i64", to=7)
    y = b.op("Unique", [i], (None,), sorted=b.pick(1, 1, 0))
    return finish(b, y)


def top_k(b, x):
    """k a number, or half of a size."""
    if not x.rank:
        raise Skip
    axis = b.between(0, x.rank - 1)
    d = x.shape[axis]
    if b.chance(0.5):
        k = b.between(1, min(3, min(d)))
        out, count = fixed(k), b.ints(k)
    else:
        half = b.op("Div", [b.op("Add", [size_of(b, x, axis, False), b.ints(1)]), b.ints(2)])
        if b.chance(0.5):
            half = b.op("Min", [half, b.ints(4)])
            out = per_binding(lambda n: min(4, (n + 1) // 2), d)
        else:
            out = per_binding(lambda n: (n + 1) // 2, d)
        count = half
    shape = x.shape[:axis] + (out,) + x.shape[axis + 1 :]
    values, at = b.ops("TopK", [x, count], [shape] * 2, ["f32", "i64"], axis=axis, largest=b.pick(0, 1, 1))
    b.marked.append(at)
    return activation(b, values) if b.chance(0.5) else values


def arg_max(b, x):
    if not x.rank:
        raise Skip
    axis, keep = b.between(0, x.rank - 1), b.pick(0, 1)
    shape = x.shape[:axis] + ((fixed(1),) if keep else ()) + x.shape[axis + 1 :]
    y = b.op(b.pick("ArgMax", "ArgMax", "ArgMin"), [x], shape, "i64", axis=axis, keepdims=keep)
    if b.chance(0.3):
        return b.op("Cast", [y], dtype="f32", to=1)
    if b.chance(0.3) and keep and is_fixed(x.shape[axis]):
        return b.op("GatherElements", [x, y], shape, axis=axis)
    if b.chance(0.2) and is_fixed(x.shape[axis]):
        return b.op("OneHot", [y, b.ints(x.size(axis)), b.const(np.array([0.0, 1.0], np.float32))], shape + (x.shape[axis],), "f32", axis=-1)
    return y


def lookup(b, x):
    """An embedding of ids, with or without the rest of the graph."""
    batch = x.shape[0] if x.rank and b.name_of(x.shape[0]) is not None else fixed(2)
    n, width = b.pick(5, 30, 100), b.pick(4, 8, 17)
    ids = b.input((batch, b.pick(fixed(3), *b.symbols.values())), b.pick("i64", "i64", "i32"), low=0, high=n, stem="ids")
    y = b.op("Gather", [b.weight((n, width)), ids], ids.shape + (fixed(width),), "f32", axis=0)
    return activation(b, y) if b.chance(0.3) else y


def suppression(b, x):
    """Boxes that overlap are dropped; corners from centres and sizes that are apart."""
    n = b.pick(6, 12)
    centres = b.numbers.random((1, n, 2)).astype(np.float32) * 4
    boxes = np.concatenate([centres - 0.6, centres + 0.6], 2)
    if x.rank != 2 or not is_fixed(x.shape[1]):
        raise Skip
    w = b.weight((x.size(1), n), 1.0)
    top = b.op("ReduceMean", [b.op("MatMul", [x, w], (x.shape[0], fixed(n)))], dims(n), axes=[0], keepdims=0) if b.opset < 18 else \
        b.op("ReduceMean", [b.op("MatMul", [x, w], (x.shape[0], fixed(n))), b.ints(0)], dims(n), keepdims=0)
    scores = b.op("Reshape", [b.op("Sigmoid", [top], std=0.6), b.ints(1, 1, n)], dims(1, 1, n))
    y = b.op("NonMaxSuppression", [b.const(boxes.astype(np.float32)), scores, b.ints(b.pick(3, 20)), b.const(np.array([0.3], np.float32)), b.const(np.array([0.2], np.float32))],
             (None, fixed(3)), "i64")
    if b.chance(0.5):
        return y
    at = b.op("Gather", [y, scalar_int(b, 2)], (None,), axis=1)
    return b.op("Gather", [b.const(boxes[0].astype(np.float32)), at], (None, fixed(4)), "f32", axis=0)


def scatter(b, x):
    if x.rank < 2 or not is_fixed(x.shape[-1]) or x.size(-1) < 3:
        raise Skip
    at = sorted(b.random.sample(range(x.size(-1)), 2))
    if not all(is_fixed(d) for d in x.shape[:-1]):
        zero = b.op("Mul", [b.op("Slice", [x, b.ints(0), b.ints(2), b.ints(-1)], x.shape[:-1] + (fixed(2),)), b.scalar(0.0)])
        index = b.op("Add", [b.op("Cast", [zero], dtype="i64", to=7), b.ints(*at)])
    else:
        index = b.const(np.broadcast_to(np.array(at, np.int64), [d[0] for d in x.shape[:-1]] + [2]).copy())
    return b.op("ScatterElements", [x, index, b.op("Tanh", [b.op("Slice", [x, b.ints(0), b.ints(2), b.ints(-1)], x.shape[:-1] + (fixed(2),))])], x.shape, axis=x.rank - 1)


BLOCKS = [non_zero, non_zero, compress, compress, unique, top_k, top_k, arg_max, arg_max, lookup, suppression, scatter]
