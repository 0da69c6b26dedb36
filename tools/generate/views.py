"""Views, moves, joins: chains of reshapes and transposes, slices, splits and concats, gathers, and the two-branch forms."""
import math

import numpy as np
from elementwise import activation
from graph import Skip, dims, fixed, is_fixed, per_binding


def product(*values):
    return per_binding(lambda *n: math.prod(n), *values) if values else fixed(1)


def transpose(b, x):
    if not x.rank:
        raise Skip
    perm = list(range(x.rank))
    b.random.shuffle(perm)
    return b.op("Transpose", [x], tuple(x.shape[p] for p in perm), perm=perm)


def flatten(b, x):
    axis = b.between(0, x.rank)
    return b.op("Flatten", [x], (product(*x.shape[:axis]), product(*x.shape[axis:])), axis=axis)


def merge(b, x):
    """Two neighbouring axes become one."""
    if x.rank < 2:
        raise Skip
    at = b.between(0, x.rank - 2)
    shape = x.shape[:at] + (product(x.shape[at], x.shape[at + 1]),) + x.shape[at + 2 :]
    return reshape(b, x, shape)


def split_axis(b, x):
    at = b.random.choice([k for k, d in enumerate(x.shape) if is_fixed(d) and d[0] > 1] or [None])
    if at is None or x.rank > 4:
        raise Skip
    n = x.size(at)
    part = b.random.choice([d for d in range(1, n + 1) if n % d == 0])
    return reshape(b, x, x.shape[:at] + dims(part, n // part) + x.shape[at + 1 :])


def reshape(b, x, shape):
    """By numbers, with 0 and -1 where sizes are free; Skip where that cannot say it."""
    free = [k for k, d in enumerate(shape) if not is_fixed(d)]
    words = [d[0] for d in shape]
    unsaid = [k for k in free if k >= x.rank or x.shape[k] != shape[k]]
    for k in free:
        words[k] = 0 if k not in unsaid else -1
    if len(unsaid) > 1:
        raise Skip
    if not unsaid and shape and b.chance(0.3):
        words[b.between(0, len(words) - 1)] = -1
    return b.op("Reshape", [x, b.ints(*words)], shape)


def unsqueeze(b, x):
    if x.rank > 4:
        raise Skip
    at = b.between(0, x.rank)
    return b.op("Unsqueeze", [x, b.ints(at)], x.shape[:at] + dims(1) + x.shape[at:])


def squeeze(b, x):
    ones = [k for k, d in enumerate(x.shape) if d == fixed(1)]
    if not ones:
        raise Skip
    at = b.random.choice(ones)
    return b.op("Squeeze", [x, b.ints(at)], x.shape[:at] + x.shape[at + 1 :])


def views(b, x):
    """A chain, sometimes with an activation inside."""
    for _ in range(b.between(1, 5)):
        y = b.attempt(b.pick(transpose, transpose, flatten, merge, split_axis, unsqueeze, squeeze), x)
        x = y if y is not None and y.rank <= 5 else x
        if b.chance(0.2):
            x = activation(b, x)
    return x


def cut(b, x):
    """A slice of a fixed axis, or of a free one counted from an end."""
    if not x.rank:
        raise Skip
    at = b.between(0, x.rank - 1)
    d = x.shape[at]
    if is_fixed(d):
        n = d[0]
        start, step = b.between(0, n - 1), b.pick(1, 1, 1, 2, 3)
        end = b.between(start + 1, n)
        if b.chance(0.15):
            return b.op("Slice", [x, b.ints(-1), b.ints(-(2**31)), b.ints(at), b.ints(-1)], x.shape)
        out = fixed(-(-(end - start) // step))
        end = b.pick(end, end - n) if end < n else b.pick(end, 2**31 - 1, 2**63 - 1)
    else:
        start, end, step = b.pick((0, -1, 1), (1, 2**63 - 1, 1), (0, 2**31 - 1, 2), (-1, 2**31 - 1, 1), (0, 1, 1))
        out = per_binding(lambda n: len(range(n)[slice(start, end, step)]), d)
    if min(out) < 1:
        raise Skip
    return b.op("Slice", [x, b.ints(start), b.ints(end), b.ints(at), b.ints(step)], x.shape[:at] + (out,) + x.shape[at + 1 :])


def parts(b, x, axis, count):
    """Equal parts of a fixed axis, by Split or by slices."""
    n = x.size(axis)
    if n % count:
        raise Skip
    shape = x.shape[:axis] + (fixed(n // count),) + x.shape[axis + 1 :]
    if b.chance(0.35):
        step = n // count
        return [b.op("Slice", [x, b.ints(k * step), b.ints((k + 1) * step), b.ints(axis)], shape) for k in range(count)]
    if b.opset >= 18 and b.chance(0.5):
        return b.ops("Split", [x], [shape] * count, [x.dtype] * count, axis=axis, num_outputs=count)
    return b.ops("Split", [x, b.ints(*[n // count] * count)], [shape] * count, [x.dtype] * count, axis=axis)


def split_join(b, x):
    """Parts, each treated on its own, put together again, perhaps in another order."""
    axes = [k for k, d in enumerate(x.shape) if is_fixed(d) and d[0] > 1]
    if not axes:
        raise Skip
    axis = b.random.choice(axes)
    count = b.random.choice([c for c in (2, 3, 4, x.size(axis)) if x.size(axis) % c == 0 and c <= 6] or [1])
    out = [activation(b, p) if b.chance(0.6) else p for p in parts(b, x, axis, count)]
    if b.chance(0.3):
        b.random.shuffle(out)
    if b.chance(0.3) and len(out) > 1:
        return b.op(b.pick("Add", "Mul", "Max"), out[:2])
    return b.op("Concat", out, x.shape, axis=axis if b.chance(0.6) else axis - x.rank)


def join(b, x):
    """x beside another value, or itself."""
    if not x.rank:
        raise Skip
    axis = b.between(0, x.rank - 1)
    if x.shape[axis] is None:
        raise Skip
    likes = [v for v in b.pool if v.dtype == x.dtype and v.rank == x.rank and v.shape[axis] is not None and all(d == e or k == axis for k, (d, e) in enumerate(zip(v.shape, x.shape)))]
    others = [b.random.choice(likes) if likes and b.chance(0.7) else activation(b, x) for _ in range(b.pick(1, 1, 2))]
    if b.chance(0.15) and all(is_fixed(d) for d in x.shape):
        others.append(b.weight([d[0] for d in x.shape]))
    all_ = [x, *others]
    b.random.shuffle(all_)
    whole = per_binding(lambda *n: sum(n), *(v.shape[axis] for v in all_))
    return b.op("Concat", all_, x.shape[:axis] + (whole,) + x.shape[axis + 1 :], axis=axis)


def gather(b, x):
    if not x.rank:
        raise Skip
    axis = b.between(0, x.rank - 1)
    least = min(x.shape[axis])
    count = b.pick(1, 2, 3)
    at = [b.between(-least, least - 1) for _ in range(count)]
    if b.chance(0.35):
        return b.op("Gather", [x, b.const(np.array(at[0], np.int64))], x.shape[:axis] + x.shape[axis + 1 :], axis=axis)
    return b.op("Gather", [x, b.ints(*at)], x.shape[:axis] + (fixed(count),) + x.shape[axis + 1 :], axis=axis)


def tile(b, x):
    repeats = [b.pick(1, 1, 2, 3) for _ in x.shape]
    return b.op("Tile", [x, b.ints(*repeats)], tuple(per_binding(lambda n: n * r, d) for d, r in zip(x.shape, repeats)))


def expand(b, x):
    ones = [k for k, d in enumerate(x.shape) if d == fixed(1)]
    n = b.pick(2, 3, 5)
    if ones and b.chance(0.7):
        at = b.random.choice(ones)
        return b.op("Expand", [x, b.ints(*(n if k == at else 1 for k in range(x.rank)))], x.shape[:at] + (fixed(n),) + x.shape[at + 1 :])
    if x.rank > 3:
        raise Skip
    return b.op("Expand", [x, b.ints(n, *[1] * x.rank)], (fixed(n),) + x.shape)


def triangle(b, x):
    if x.rank < 2 or b.opset < 14:
        raise Skip
    return b.op("Trilu", [x, b.const(np.array(b.pick(0, 1, -1), np.int64))], upper=b.pick(0, 1))


BLOCKS = [views, views, views, cut, split_join, split_join, join, join, gather, tile, expand, transpose, triangle]
