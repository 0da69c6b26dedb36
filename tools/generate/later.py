"""Operators that later versions brought, and rarer ones of earlier versions: attention, rotary positions, norms, Swish, Mish."""
import numpy as np
from graph import Skip, dims, fixed, is_fixed
from norm import reduced
from sampling import image_of
from signal_blocks import batch_of


def attention(b, x):
    """The operator of opset 23: heads apart or beside each other, fewer of keys, masks, a past, scores capped."""
    b.need(23)
    groups, per, w, wide = b.pick(1, 2), b.pick(1, 1, 2), b.pick(4, 8), b.pick(4, 6)
    heads, queries, keys, batch = groups * per, b.pick(1, 3, 5), b.pick(2, 5, 7), batch_of(b, x)
    causal = b.chance(0.3)
    keys = queries if causal else keys  # of one query and several keys ONNX Runtime sees all
    flat = b.chance(0.4)
    shape = lambda n, s, d: (batch, fixed(s), fixed(n * d)) if flat else (batch, fixed(n), fixed(s), fixed(d))
    q, k, v = b.input(shape(heads, queries, w), stem="query"), b.input(shape(groups, keys, w), stem="key"), b.input(shape(groups, keys, wide), stem="value")
    before = b.pick(0, 0, 3)
    past = [b.input((batch,) + dims(groups, before, d), stem="past") for d in (w, wide)] if before else [None, None]
    mask = None
    if b.chance(0.5):
        places = b.pick((), (heads,), (1, 1), (1, heads))
        kind = b.pick("f32", "bool")
        mask = b.input(dims(*places, queries, keys + before), kind, share=0.7, seen=1, stem="mask") if kind == "bool" else b.input(dims(*places, queries, keys + before), stem="mask")
    words = {"is_causal": int(causal), "scale": b.pick(None, 0.4), "softcap": b.pick(None, None, 2.0)}
    if flat:
        words |= {"q_num_heads": heads, "kv_num_heads": groups}
    inputs = [q, k, v, mask, *past]
    while inputs[-1] is None:
        inputs.pop()
    y_shape = shape(heads, queries, wide)
    if not before:
        return b.op("Attention", inputs, y_shape, std=0.6, **words)
    shapes = [y_shape] + [(batch,) + dims(groups, before + keys, d) for d in (w, wide)]
    out = b.ops("Attention", inputs, shapes, ["f32"] * 3, 0.6, **words)
    b.marked += out[1:]
    return out[0]


def rotary(b, x):
    b.need(23)
    batch, heads, places, w = b.pick(1, 2), b.pick(1, 3), b.pick(1, 4), b.pick(4, 8)
    flat = b.chance(0.4)
    part = b.pick(None, None, w // 2)
    half = (part or w) // 2
    v = b.input(dims(batch, places, heads * w) if flat else dims(batch, heads, places, w), stem="turned")
    words = {"interleaved": b.pick(0, 1), "rotary_embedding_dim": part, "num_heads": heads if flat else None}
    if b.chance(0.5):
        at = b.input(dims(batch, places), "i64", low=0, high=9, stem="places")
        table, more = (9, half), [at]
    else:
        table, more = (batch, places, half), []
    angle = b.numbers.random(table) * 3
    return b.op("RotaryEmbedding", [v, b.const(np.cos(angle).astype(np.float32)), b.const(np.sin(angle).astype(np.float32)), *more], v.shape, **words)


def rms(b, x):
    b.need(23)
    if x.rank < 2:
        raise Skip
    first = b.between(1, x.rank - 1)
    size = [x.size(k) for k in range(first, x.rank)]
    return b.op("RMSNormalization", [x, b.weight(size, 0.2, 1.0)], std=1.0, axis=first if b.chance(0.5) else first - x.rank, epsilon=1e-5)


def swish(b, x):
    b.need(24, 24)
    return b.op("Swish", [x], alpha=b.pick(None, 1.0, 0.5))


def mish(b, x):
    b.need(18)
    return b.op("Mish", [x])


def lp_norm(b, x):
    if x.rank < 1:
        raise Skip
    return b.op("LpNormalization", [b.op("Add", [x, b.scalar(2.0)])] if b.chance(0.5) else [x], x.shape, std=0.4, axis=b.between(-x.rank, x.rank - 1), p=b.pick(1, 2))


def of_images(b, x):
    """MeanVarianceNormalization, LRN, and places that become channels."""
    kind = b.pick("MeanVarianceNormalization", "LRN", "SpaceToDepth")
    if kind == "SpaceToDepth":
        v = b.input((batch_of(b, x),) + dims(b.pick(1, 3), 4, 6), stem="image")
        return b.op(kind, [v], v.shape[:1] + dims(4 * v.size(1), 2, 3), blocksize=2)
    y = b.op("Mul", [image_of(b, x), b.scalar(2.0)])
    if kind == "LRN":
        return b.op(kind, [y], size=b.pick(1, 3, 5), alpha=b.pick(0.001, 0.1), beta=b.pick(0.75, 0.5), bias=b.pick(1.0, 2.0))
    return b.op("MeanVarianceNormalization", [y], std=1.0, axes=b.pick([0, 2, 3], [2, 3], [1, 2, 3]))


def running_product(b, x):
    b.need(26)
    if x.rank < 1:
        raise Skip
    axis = b.between(0, x.rank - 1)
    if max(x.shape[axis][:3]) > 40:
        raise Skip
    near_one = b.op("Add", [b.op("Mul", [b.op("Tanh", [x], std=0.6), b.scalar(0.2)]), b.scalar(1.0)], x.shape)
    return b.op("CumProd", [near_one, b.const(np.array(axis - b.pick(0, x.rank)))], std=1.0, exclusive=b.pick(0, 1), reverse=b.pick(0, 1))


def log_sum(b, x):
    if x.rank < 1:
        raise Skip
    axis = b.between(0, x.rank - 1)
    y = b.op("Add", [b.op("Abs", [x]), b.scalar(0.5)], std=1.0)
    return reduced(b, "ReduceLogSum", y, [axis], b.chance(0.5), 1.0)


def group_norm(b, x):
    b.need(21)
    if x.rank < 3 or not is_fixed(x.shape[1]):
        raise Skip
    c = x.size(1)
    groups = b.random.choice([g for g in (1, 2, 3, 4, 8, c) if c % g == 0])
    return b.op("GroupNormalization", [x, b.weight((c,), 0.2, 1.0), b.weight((c,), 0.3)], std=1.0, num_groups=groups, epsilon=1e-5)


def angles(b, x):
    """Functions that are rare elsewhere, within their domains."""
    kind = b.pick("Acos", "Log", "Asin", "Atanh", "Tan", "Atan", "Asinh", "Sinh", "Cosh", "Acosh", "Celu", "ThresholdedRelu", "Ceil", "Floor", "Sign", "Shrink")
    y = b.op("Mul", [b.op("Tanh", [x], std=0.6), b.scalar(0.8)])
    if kind in ("Acosh", "Log"):
        y = b.op("Add", [b.op("Abs", [y]), b.scalar(1.5)])
    if kind in ("Ceil", "Floor"):
        y = b.op("Mul", [y, b.scalar(5.0)])
    return b.op(kind, [y], std=0.8)


def choices(b, x):
    """Reductions and joins of conditions."""
    if x.rank < 1:
        raise Skip
    kind = b.pick("ReduceSumSquare", "ReduceL1", "ReduceLogSumExp", "ReduceProd", "And", "Or", "Xor")
    if kind.startswith("Reduce"):
        y = b.op("Mul", [b.op("Tanh", [x], std=0.6), b.scalar(0.9)])
        return reduced(b, kind, y, [b.between(0, x.rank - 1)], b.chance(0.5), 1.0)
    one, two = (b.op(b.pick("Greater", "Less"), [x, b.scalar(k)], dtype="bool") for k in (0.1, -0.2))
    return b.op("Where", [b.op(kind, [one, two]), x, b.scalar(0.5)], x.shape, "f32")


def several(b, x):
    """Mean, Sum, Max and Min of three that broadcast."""
    row = b.weight((x.size(-1),), 0.5) if x.rank and is_fixed(x.shape[-1]) else b.scalar(0.3)
    return b.op(b.pick("Mean", "Sum", "Max", "Min"), [x, row, b.op("Tanh", [x])], x.shape)


BLOCKS = [attention, attention, attention, rotary, rotary, rms, swish, swish, mish, lp_norm, of_images, of_images, log_sum, running_product, group_norm, angles, angles, angles, several, choices]
