"""Integers of every width and booleans: arithmetic that wraps, bits, shifts, comparisons, choices, reductions, products, and
what is asked of floats (IsNaN, IsInf, Cast and CastLike, BitCast)."""
import numpy as np
from graph import NUMPY, Skip, TYPES, dims, elements, is_fixed

EVERY = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


def like(b, x):
    """A shape of an input: that of x, or a small one."""
    if x.rank and elements(x.shape) < 4000 and all(b.name_of(d) is not None for d in x.shape) and b.chance(0.6):
        return x.shape
    return dims(b.pick(2, 3), b.pick(1, 5, 8))


def whole(b, shape, kind, low=None, high=None):
    low = (0 if kind[0] == "u" else -20) if low is None else low
    return b.input(shape, kind, low=low, high=high or 20, stem="whole")


def number(b, kind, low, high):
    return b.const(np.array(b.between(low, high), NUMPY[kind]), "n")


def other(b, v, low=1, high=7):
    """An operand that is not 0: a number, a row, or an input."""
    way = b.pick("number", "row", "input")
    if way == "row" and is_fixed(v.shape[-1]):
        return b.const(b.numbers.integers(low, high + 1, v.size(-1)).astype(NUMPY[v.dtype]))
    if way == "input" and elements(v.shape) < 4000:
        return whole(b, v.shape, v.dtype, low, high + 1)
    return number(b, v.dtype, low, high)


def arithmetic(b, x):
    kind = b.random.choice(EVERY if b.opset >= 14 else ["i32", "u32", "i64", "u64"])
    v = whole(b, like(b, x), kind)
    for _ in range(b.between(1, 4)):
        op = b.pick("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Abs", "Sign")
        if op in ("Max", "Min") and kind in ("i16", "u16"):
            op = "Add"
        v = b.op(op, [v]) if op in ("Abs", "Sign") else b.op(op, [v, other(b, v)])
        if op == "Mod" and kind[0] == "i" and b.chance(0.4):
            v = b.op("Mod", [v, number(b, kind, 2, 5)], fmod=1)
    return finish(b, v)


def finish(b, v):
    """As it is, or among floats."""
    if b.chance(0.4):
        return v
    return b.op("Mul", [b.op("Cast", [v], dtype="f32", to=1, std=20.0), b.scalar(0.05)], std=1.0) if v.dtype in ("i32", "i64", "u8", "i8") else v


def bits(b, x):
    b.need(18)
    kind = b.random.choice(EVERY)
    v = whole(b, like(b, x), kind)
    for _ in range(b.between(1, 3)):
        op = b.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
        v = b.op(op, [v]) if op == "BitwiseNot" else b.op(op, [v, other(b, v, 1, 60)])
    return finish(b, v)


def shift(b, x):
    kind = b.pick("u8", "u32", "u64")
    v = whole(b, like(b, x), kind, 0, 200)
    return b.op("BitShift", [v, other(b, v, 0, 7)], direction=b.pick("LEFT", "RIGHT"))


def compare(b, x):
    kind = b.random.choice(EVERY)
    v = whole(b, like(b, x), kind, 0, 6)
    found = b.op(b.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal") if b.opset >= 16 else b.pick("Equal", "Less"), [v, other(b, v, 0, 5)], dtype="bool")
    return choose(b, found, v)


def choose(b, found, v):
    way = b.pick("as", "where", "count", "not", "joined", "equal")
    if way == "where" and v.dtype in ("i8", "u8", "i32", "u32", "i64"):
        return b.op("Where", [found, v, number(b, v.dtype, 0, 9)], v.shape, v.dtype)
    if way == "count":
        return b.op("ReduceSum", [b.op("Cast", [found], dtype="i64", to=7), b.ints(-1)], v.shape[:-1], keepdims=0)
    if way == "not":
        return b.op("Not", [found])
    if way in ("joined", "equal"):
        flags = b.input(v.shape, "bool", share=0.5, stem="flags")
        return b.op(b.pick("And", "Or", "Xor") if way == "joined" else "Equal", [found, flags])
    return found


def reduced(b, x):
    kind = b.pick("i32", "i64", "i8", "u8")
    v = whole(b, like(b, x), kind, 0, 4)
    op = b.pick("ReduceMax", "ReduceMin") if kind in ("i8", "u8") else b.pick("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean")
    if op == "ReduceProd" and max(v.shape[-1][:3]) > 12:
        raise Skip
    keep = b.pick(0, 1)
    shape = v.shape[:-1] + (dims(1) if keep else ())
    if b.opset >= 18 or op == "ReduceSum":
        return b.op(op, [v, b.ints(-1)], shape, keepdims=keep)
    return b.op(op, [v], shape, axes=[-1], keepdims=keep)


def product(b, x):
    kind = b.pick("i32", "u32", "i64", "u64")
    shape = like(b, x)
    v = whole(b, shape, kind)
    k, n = v.size(-1), b.pick(1, 3, 5)
    b.fits(flops=2 * elements(shape) * n)
    w = b.const(b.numbers.integers(0 if kind[0] == "u" else -9, 10, (k, n)).astype(NUMPY[kind]), "w")
    return finish(b, b.op("MatMul", [v, w], shape[:-1] + dims(n)))


def limits(b, x):
    kind = b.pick("i8", "u8", "i32", "u32", "i64", "u64")
    v = whole(b, like(b, x), kind)
    low, high = number(b, kind, 0, 3), number(b, kind, 7, 12)
    return finish(b, b.op("Clip", [v, low if b.chance(0.7) else None, high]))


def powers(b, x):
    kind = b.pick("i32", "i64")
    v = whole(b, like(b, x), kind, 0, 7)
    return b.op("Pow", [v, number(b, kind, 0, 4)])


def running(b, x):
    kind = b.pick("i32", "i64")
    v = whole(b, like(b, x), kind)
    return b.op("CumSum", [v, b.const(np.array(b.pick(-1, 0), np.int64))], exclusive=b.pick(0, 1), reverse=b.pick(0, 1))


def asked(b, x):
    """Infinity and NaN chosen by a comparison, and found again."""
    op = b.pick("IsNaN", "IsInf")
    strange = b.scalar(np.nan if op == "IsNaN" else b.pick(np.inf, -np.inf))
    y = b.op("Where", [b.op("Greater", [x, b.scalar(0.3)], dtype="bool"), strange, x], x.shape, "f32")
    words = {"detect_positive": b.pick(0, 1), "detect_negative": 1} if op == "IsInf" and b.chance(0.5) else {}
    found = b.op(op, [y], dtype="bool", **words)
    return b.op("Where", [found, b.scalar(0.0), x], x.shape, "f32") if b.chance(0.5) else found


def cast(b, x):
    """Integers to integers, which wraps, and floats to where they fit; CastLike says the type by a value."""
    kind, to = b.random.choice(EVERY), b.pick("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "bool")
    v = whole(b, like(b, x), kind, 0 if kind[0] == "u" else -100, 100)
    if b.opset >= 15 and b.chance(0.5):
        return b.op("CastLike", [v, b.const(np.zeros(1, NUMPY[to]))], dtype=to)
    return b.op("Cast", [v], dtype=to, to=TYPES[to])


def bit_cast(b, x):
    b.need(26)
    kind = b.pick("i32", "u32")
    v = b.input(like(b, x), "f32", stem="floats")  # of what is computed the last bit is nobody's
    y = b.op("BitCast", [v], v.shape, kind, to=TYPES[kind])
    return y if b.chance(0.5) else b.op("BitCast", [b.op("BitwiseAnd", [y, number(b, kind, 2**30, 2**31 - 1)])], v.shape, "f32", 1.0, to=TYPES["f32"])


def shaped(b, x):
    """Views, joins and lookups of integers and booleans."""
    kind = b.pick("i32", "i64", "bool", "u8", "f64")
    v = b.input(like(b, x), kind, low=0, high=9, stem="items")
    way = b.pick("turn", "twice", "flat", "last", "pad", "tile")
    if way == "turn":
        return b.op("Transpose", [v], v.shape[::-1], perm=list(range(v.rank))[::-1])
    if way == "twice" and is_fixed(v.shape[0]):
        return b.op("Concat", [v, v], dims(2 * v.size(0)) + v.shape[1:], axis=0)
    if way == "flat":
        return b.op("Unsqueeze", [v, b.ints(0)], dims(1) + v.shape)
    if way == "pad" and kind in ("i32", "i64") and is_fixed(v.shape[-1]):
        return b.op("Pad", [v, b.ints(*[0] * (2 * v.rank - 1), 2), number(b, kind, 0, 3)], v.shape[:-1] + dims(v.size(-1) + 2))
    if way == "tile":
        return b.op("Expand", [v, b.ints(2, *[1] * v.rank)], dims(2) + v.shape)
    return b.op("Gather", [v, b.const(np.array(-1, np.int64))], v.shape[:-1], axis=v.rank - 1)


BLOCKS = [arithmetic, arithmetic, arithmetic, bits, bits, shift, compare, compare, reduced, product, limits, powers, running, asked, asked, cast, cast, bit_cast, bit_cast, shaped, shaped]
