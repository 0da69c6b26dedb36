"""Element-wise blocks: every unary and binary op within its domain, the epilogues that kernels fuse, integer arithmetic,
comparisons, and operands of every broadcast shape."""
import math

import numpy as np
from graph import Skip, dims, fixed, is_fixed


def clip(b, x, low, high):
    return b.op("Clip", [x, b.scalar(low) if low is not None else None, b.scalar(high) if high is not None else None], std=min(x.std, 2.0))


def mul_by(b, x, k):
    return b.op("Mul", [x, b.scalar(k)] if b.chance(0.8) else [b.scalar(k), x], x.shape, x.dtype, std=x.std * abs(k))


def tame(b, x):
    """The same within a magnitude that neither saturates nor vanishes."""
    return mul_by(b, x, round(1 / max(x.std, 1e-6), 6)) if not 0.02 < x.std < 20 else x


def positive(b, x):
    return b.op("Add", [b.op("Abs", [x]), b.scalar(b.pick(0.5, 1.0, 2.0))], std=1 + x.std)


def within(b, x, k=0.9):
    return mul_by(b, b.op("Tanh", [x], std=0.6), k)


# ---- activations ----
def swish(b, x):
    gate = b.op("Sigmoid", [x], std=0.6)
    return b.op("Mul", [x, gate] if b.chance(0.6) else [gate, x], x.shape, std=x.std * 0.7)


def hard_swish(b, x):
    if b.opset >= 14 and b.chance(0.3):
        return b.op("HardSwish", [x])
    if b.chance(0.5):
        return b.op("Mul", [x, b.op("HardSigmoid", [x], alpha=1 / 6, beta=0.5, std=0.6)])
    six = clip(b, b.op("Add", [x, b.scalar(3.0)]), 0.0, 6.0)
    return b.op("Mul", [x, b.op("Div", [six, b.scalar(6.0)], std=0.6)]) if b.chance(0.5) else b.op("Div", [b.op("Mul", [x, six]), b.scalar(6.0)])


def gelu(b, x):
    if b.opset >= 20 and b.chance(0.4):
        return b.op("Gelu", [x], approximate=b.pick("none", "tanh"))
    if b.chance(0.3):  # the tanh form
        cube = b.op("Mul", [b.op("Mul", [x, x]), x]) if b.chance(0.5) else b.op("Pow", [x, b.scalar(3.0)])
        inner = b.op("Mul", [b.op("Add", [x, mul_by(b, cube, 0.044715)]), b.scalar(math.sqrt(2 / math.pi))])
        return b.op("Mul", [mul_by(b, x, 0.5), b.op("Add", [b.op("Tanh", [inner]), b.scalar(1.0)])], std=x.std * 0.7)
    e = b.op("Erf", [b.op("Div", [x, b.scalar(math.sqrt(2))])], std=0.7)
    one = b.op("Add", [e, b.scalar(1.0)] if b.chance(0.7) else [b.scalar(1.0), e], x.shape, "f32")
    if b.chance(0.5):
        return b.op("Mul", [b.op("Mul", [x, one]), b.scalar(0.5)], std=x.std * 0.7)
    return b.op("Mul", [mul_by(b, x, 0.5), one], std=x.std * 0.7)


ACTIVATIONS = [
    lambda b, x: b.op("Relu", [x], std=x.std * 0.7),
    lambda b, x: b.op("LeakyRelu", [x], alpha=b.pick(0.01, 0.1, 0.3)),
    lambda b, x: b.op("Sigmoid", [x], std=0.6),
    lambda b, x: b.op("Tanh", [x], std=0.6),
    lambda b, x: clip(b, x, 0.0, 6.0),
    lambda b, x: clip(b, x, b.pick(-1.0, None), b.pick(1.0, 0.5)),
    lambda b, x: b.op("Elu", [x], alpha=b.pick(1.0, 0.5)),
    lambda b, x: b.op("Selu", [x]),
    lambda b, x: b.op("Softplus", [x]),
    lambda b, x: b.op("Softsign", [x], std=0.5),
    lambda b, x: b.op("HardSigmoid", [x], std=0.5),
    lambda b, x: b.op("Mul", [x, b.op("Tanh", [b.op("Softplus", [x])])]),  # mish
    swish, swish, hard_swish, gelu, gelu,
]


def activation(b, x):
    return b.random.choice(ACTIVATIONS)(b, x)


# ---- any unary ----
UNARY = [
    lambda b, x: b.op(b.pick("Neg", "Abs", "Identity"), [x]),
    lambda b, x: b.op("Exp", [within(b, x, 2.0)], std=2.0),
    lambda b, x: b.op("Log", [positive(b, x)], std=1.0),
    lambda b, x: b.op("Sqrt", [positive(b, x)], std=1.2),
    lambda b, x: b.op("Reciprocal", [positive(b, x)], std=0.7),
    lambda b, x: b.op("Erf", [x], std=0.7),
    lambda b, x: b.op(b.pick("Sin", "Cos"), [within(b, x, 3.0)], std=0.7),
    lambda b, x: b.op(b.pick("Tan", "Asin", "Acos", "Atanh"), [within(b, x, 0.8)], std=0.8),
    lambda b, x: b.op(b.pick("Atan", "Asinh"), [x], std=0.8),
    lambda b, x: b.op(b.pick("Sinh", "Cosh"), [within(b, x, 1.5)], std=1.2),
    lambda b, x: b.op("Acosh", [b.op("Add", [b.op("Abs", [x]), b.scalar(1.5)])], std=1.2),
    lambda b, x: b.op("Pow", [x, b.scalar(2.0)], std=x.std**2 + 0.1),
    lambda b, x: b.op("Pow", [positive(b, x), b.scalar(b.pick(0.5, 1.5, -0.5, -1.0, 3.0))], std=1.5),
    lambda b, x: b.op("Mul", [x, x], std=x.std**2 + 0.01),
    lambda b, x: b.op(b.pick("Floor", "Ceil", "Round"), [mul_by(b, x, 3.0)], std=3 * x.std),
    lambda b, x: b.op("Sign", [x], std=1.0),
    lambda b, x: b.op("ThresholdedRelu", [x], alpha=b.pick(0.5, 1.0)),
    lambda b, x: b.op("Celu", [x], alpha=b.pick(1.0, 2.0)),
    lambda b, x: b.op("PRelu", [x, b.weight((channels_or_1(x),) + (1,) * max(0, x.rank - 2), 0.2)]) if x.rank >= 2 else b.op("Neg", [x]),
    lambda b, x: b.op("Shrink", [x], lambd=0.3, bias=b.pick(0.0, 0.1)),
    activation, activation,
]


def channels_or_1(x):
    return x.shape[1][0] if is_fixed(x.shape[1]) else 1


def unary(b, x):
    return tame(b, b.random.choice(UNARY)(b, x))


# ---- operands ----
def operand(b, x, exact=False):
    """Something x can be joined with: a scalar, a row, a column, a channel, a slice of itself, an input, another value."""
    same = [v for v in b.pool if v.dtype == x.dtype and v.shape == x.shape and v is not x]
    kind = b.pick("same", "same", "input", "own") if exact else b.pick("scalar", "row", "some", "some", "same", "same", "input", "column", "own", "reduced")
    if kind == "same" and same:
        return b.random.choice(same)
    if kind == "input" and all(b.name_of(d) is not None for d in x.shape):
        return b.input(x.shape, std=b.pick(0.3, 1.0, 3.0))
    if exact or kind == "own":
        return activation(b, x)
    if kind == "reduced" and x.rank:
        axis = b.between(0, x.rank - 1)
        return reduce_keep(b, x, axis)
    if kind == "row" and x.rank and is_fixed(x.shape[-1]):
        return b.weight((x.shape[-1][0],), 0.5)
    if kind in ("some", "column") and x.rank:
        return b.weight(tuple(d[0] if is_fixed(d) and d[0] < 600 and b.chance(0.5) else 1 for d in x.shape), 0.5)
    return b.scalar(b.pick(-1.5, 0.1, 0.5, 2.0), b.pick((), (), (1,)) if x.rank else ())


def reduce_keep(b, x, axis):
    shape = x.shape[:axis] + (fixed(1),) + x.shape[axis + 1 :]
    kind = b.pick("ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin")
    std = x.std * (max(1, min(x.shape[axis][:3])) ** 0.5 if kind == "ReduceSum" else 1)
    if b.opset >= 18 or kind == "ReduceSum":
        return b.op(kind, [x, b.ints(axis)], shape, std=std, keepdims=1)
    return b.op(kind, [x], shape, std=std, axes=[axis], keepdims=1)


def joined(x, y):
    """The broadcast shape of two; Skip where it is not one for every size."""
    out = []
    for k in range(max(x.rank, y.rank)):
        d, e = (v.shape[v.rank - 1 - k] if k < v.rank else fixed(1) for v in (x, y))
        if d == e or e == fixed(1):
            out.append(d)
        elif d == fixed(1):
            out.append(e)
        else:
            raise Skip
    return tuple(reversed(out))


def binary(b, x, y=None, kinds=("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mean", "Sum")):
    y = y or operand(b, x)
    shape, kind = joined(x, y), b.random.choice(kinds)
    if kind == "PRelu":
        if y.rank > x.rank or shape != x.shape:
            raise Skip
        return b.op("PRelu", [x, y], shape)
    if kind == "Div":
        return b.op("Div", [x, positive(b, y)], shape)
    if kind == "Pow":
        return b.op("Pow", [positive(b, within(b, x)), within(b, y)], shape, std=1.5)
    pair = [x, y] if b.chance(0.7) else [y, x]
    if kind in ("Max", "Min", "Mean", "Sum") and b.chance(0.4):
        pair.append(b.scalar(b.pick(-0.5, 0.0, 0.5)))
    return tame(b, b.op(kind, pair, shape, std=x.std * y.std if kind == "Mul" else math.hypot(x.std, y.std)))


def chain(b, x):
    for _ in range(b.between(1, 5)):
        x = b.attempt(b.pick(unary, unary, binary, epilogue_step), x) or x
    return x


def epilogue_step(b, x):
    """What a kernel may take into its own loop: bias, scale, activation, clip, residual."""
    kind = b.pick("bias", "scale", "act", "act", "clip", "add", "mul", "self")
    if kind in ("bias", "scale") and x.rank == 0:
        kind = "act"
    if kind in ("bias", "scale"):
        n = channels_or_1(x) if x.rank > 2 else x.shape[-1][0] if is_fixed(x.shape[-1]) else 1
        row = (n,) + (1,) * (x.rank - 2) if x.rank > 2 and b.chance(0.8) else (x.shape[-1][0] if is_fixed(x.shape[-1]) else 1,)
        return binary(b, x, b.weight(row, 0.5, 1.0 if kind == "scale" else 0.0), ("Add", "Sub") if kind == "bias" else ("Mul",))
    if kind == "clip":
        return clip(b, x, b.pick(0.0, -0.5), b.pick(1.0, 6.0))
    if kind in ("add", "mul"):
        return binary(b, x, operand(b, x, exact=b.chance(0.7)), ("Add",) if kind == "add" else ("Mul",))
    if kind == "self":
        return b.op(b.pick("Add", "Mul"), [x, x], std=x.std * max(1.0, x.std))
    return activation(b, x)


def compare_where(b, x):
    """where(a < b, p, q), with joined conditions."""
    y = operand(b, x)
    shape = joined(x, y)
    cond = b.op(b.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), [x, y], shape, "bool")
    if b.chance(0.4):
        other = b.op("Greater", [x, b.scalar(0.1)], x.shape, "bool")
        cond = b.op(b.pick("And", "Or", "Xor"), [cond, other], shape, "bool")
    if b.chance(0.3):
        cond = b.op("Not", [cond])
    if b.chance(0.25):
        return b.op("Mul", [x, b.op("Cast", [cond], dtype="f32", to=1)], shape)
    p, q = (x, unary(b, x)) if b.chance(0.6) else (x, b.scalar(b.pick(0.0, -1.0, -1e9 if b.chance(0.1) else 3.0)))
    return b.op("Where", [cond, p, q] if b.chance(0.5) else [cond, q, p], shape, "f32", std=x.std)


def integers(b, x):
    """Floats to integers, arithmetic there, and mostly back."""
    kind = b.pick("i32", "i64")
    i = b.op("Cast", [b.op("Round", [mul_by(b, within(b, x), 20.0)])], dtype=kind, to=7 if kind == "i64" else 6)
    number = np.int64 if kind == "i64" else np.int32
    for _ in range(b.between(1, 4)):
        op = b.pick("Add", "Sub", "Mul", "Div", "Mod", "Max", "Abs", "Neg")
        if op in ("Abs", "Neg"):
            i = b.op(op, [i])
        else:
            k = np.array(b.pick(2, 3, 5, 7), number)
            i = b.op(op, [i, b.const(k if b.chance(0.7) or not i.rank else k.reshape(1))])
    if b.chance(0.2):
        return i
    if b.chance(0.3):
        return b.op("Cast", [b.op(b.pick("Equal", "Less"), [i, b.const(np.array(3, number))], dtype="bool")], dtype="f32", to=1, std=0.7)
    return mul_by(b, b.op("Cast", [i], dtype="f32", to=1, std=20.0), 0.05)


def half(b, x):
    """A stretch in float16 or float64."""
    kind, code = b.pick(("f16", 10), ("f64", 11))
    y = b.op("Cast", [within(b, x)], dtype=kind, to=code)
    y = b.op(b.pick("Relu", "Abs", "Sigmoid", "Neg"), [y])
    return y if b.chance(0.1) else b.op("Cast", [y], dtype="f32", to=1)


def broadcast_product(b, x):
    """Outer products and joins of a column with a row."""
    if x.rank < 1 or x.rank > 4:
        raise Skip
    column = b.op("Unsqueeze", [x, b.ints(x.rank)], x.shape + dims(1))
    n = b.pick(1, 3, 8, 17)
    return tame(b, b.op(b.pick("Mul", "Add"), [column, b.weight((n,), 1.0)], x.shape + dims(n)))


BLOCKS = [chain, chain, chain, unary, binary, compare_where, integers, half, broadcast_product, epilogue_step]
