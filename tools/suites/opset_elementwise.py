"""Samples of the element-wise, comparison, logic and bit families."""
import numpy as np
from opset_cases import Sample, f32, i64, is_float, values

UNARY = {
    "Abs": "any", "Acos": "unit", "Acosh": "ge1", "Asin": "unit", "Asinh": "any", "Atan": "any", "Atanh": "unit", "Ceil": "any", "Celu": "any", "Cos": "any",
    "Cosh": "any", "Elu": "any", "Erf": "any", "Exp": "any", "Floor": "any", "Gelu": "any", "HardSigmoid": "any", "HardSwish": "any", "IsInf": "any",
    "IsNaN": "any", "LeakyRelu": "any", "Log": "positive", "Mish": "any", "Neg": "any", "Not": "any", "Reciprocal": "positive", "Relu": "any", "Round": "any",
    "Selu": "any", "Shrink": "any", "Sigmoid": "any", "Sign": "any", "Sin": "any", "Sinh": "any", "Softplus": "any", "Softsign": "any", "Sqrt": "positive",
    "Swish": "any", "Tan": "unit", "Tanh": "any", "ThresholdedRelu": "any", "BitwiseNot": "any", "Identity": "any",
}  # fmt: skip
ATTRIBUTES = {
    "Celu": [{"alpha": 0.5}], "Elu": [{"alpha": 2.0}], "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}, {"alpha": -0.1}], "LeakyRelu": [{"alpha": 0.2}, {"alpha": 2.0}],
    "Selu": [{"alpha": 1.5, "gamma": 0.9}], "ThresholdedRelu": [{"alpha": 0.25}, {"alpha": -1.0}], "Shrink": [{"lambd": 1.0, "bias": 0.5}, {"lambd": 0.0}],
    "Gelu": [{"approximate": "tanh"}, {"approximate": "none"}], "Swish": [{"alpha": 1.7}, {"alpha": -0.5}],
    "IsInf": [{"detect_negative": 0}, {"detect_positive": 0}, {"detect_negative": 0, "detect_positive": 0}],
}  # fmt: skip
SPECIAL = f32(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-41, -1e-41, 3.4e38, -3.4e38, 1.5, 2.5, -0.5, -1.5, 88.0, -88.0, 1.0)
LIMITS = ("HardSwish", "Mish", "Softsign", "ThresholdedRelu")  # at NaN and infinity formula and limit part; no definition chooses
PARAMS = {"IsInf": "T1", "IsNaN": "T1"}


def unary(v):
    kind, param = UNARY[v.op], PARAMS.get(v.op, "T")
    types = v.types(param) or v.types("V")
    first = np.dtype(np.float32) if np.dtype(np.float32) in types else types[0]
    for name, shape in (("3d", (2, 3, 4)), ("scalar", ()), ("empty", (0, 3)), ("tail", (5, 67))):
        yield Sample(name, [values(v.rng(name), shape, first, kind)])
    for i, attrs in enumerate(ATTRIBUTES.get(v.op, [])):
        extra = f32(np.inf, -np.inf) if v.op == "IsInf" else f32(0, 1)
        x = np.concatenate([values(v.rng(f"attr{i}"), (17,), np.float32, kind), extra]).astype(first)
        yield Sample(f"attr{i}", [x], attrs)
    for t in v.sweep(param) or v.sweep("V"):
        yield Sample(t.name, [values(v.rng(t.name), (3, 5), t, kind)], both=v.op == "HardSwish" and t.name == "float64")
        if t.name in ("float16", "float32") and v.op not in LIMITS:
            with np.errstate(all="ignore"):
                yield Sample(f"special_{t.name}", [SPECIAL.astype(t)], both=v.op not in ("IsNaN", "IsInf"))
    if v.op in ("Round", "Ceil", "Floor"):
        yield Sample("ties", [f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 8388609.5, -0.49999997, 0.49999997)])


BINARY = {
    "Add": "any", "And": "any", "Or": "any", "Xor": "any", "Sub": "any", "Mul": "any", "Div": "positive", "Equal": "few", "Greater": "few", "GreaterOrEqual": "few",
    "Less": "few", "LessOrEqual": "few", "BitwiseAnd": "any", "BitwiseOr": "any", "BitwiseXor": "any",
}  # fmt: skip
BROADCASTS = {
    "same": ((2, 3, 4), (2, 3, 4)), "trailing": ((2, 3, 4), (4,)), "leading": ((4,), (2, 3, 4)), "cross": ((2, 1, 4), (3, 1)), "scalar": ((2, 3), ()),
    "scalars": ((), ()), "ones": ((1, 1), (3, 5)), "empty": ((0, 3), (1, 3)), "to_empty": ((1, 3), (0, 3)), "channel": ((2, 5, 3, 3), (5, 1, 1)), "tail": ((3, 67), (3, 1)),
}  # fmt: skip


def binary(v):
    kind, types = BINARY[v.op], v.types("T") or v.types("T1")
    first = np.dtype(np.float32) if np.dtype(np.float32) in types else types[0]
    for name, (a, b) in BROADCASTS.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, a, first, kind), values(rng, b, first, kind)])
    rng = v.rng("const")
    yield Sample("const", [values(rng, (3, 4), first, kind), values(rng, (4,), first, kind)], const=(1,))
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (3, 5), t, kind), values(rng, (5,), t, kind)])
        if t.name in ("float16", "float32", "float64"):
            with np.errstate(all="ignore"):
                x = SPECIAL.astype(t)
            yield Sample(f"special_{t.name}", [x[:, None], x[None, :]], both=True, widen=False)
    if v.op == "Div":
        for t in (np.int32, np.int64):
            if np.dtype(t) in types:
                yield Sample(f"signs_{np.dtype(t).name}", [np.array([7, -7, 7, -7, 0], t), np.array([2, 2, -2, -2, 5], t)])


def variadic(v):
    types = v.types("T")
    for name, shapes in {"one": [(3, 4)], "two": [(3, 4)] * 2, "three": [(2, 3)] * 3}.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, s) for s in shapes])
    if v.version >= 8:
        for name, shapes in {"cross": [(2, 1, 4), (3, 1), ()], "empty": [(0, 2), (1, 2)], "five": [(3,), (2, 3), (1, 3), (2, 1), (1,)]}.items():
            rng = v.rng(name)
            yield Sample(name, [values(rng, s) for s in shapes])
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (3, 5), t), values(rng, (3, 5), t)])
    if np.dtype(np.float32) in types:
        yield Sample("special", [SPECIAL, np.roll(SPECIAL, 3)], both=True)


def pow_(v):
    rng = v.rng("base")
    yield Sample("same", [values(rng, (2, 3), kind="positive"), values(rng, (2, 3))])
    yield Sample("square", [values(rng, (2, 3, 4)), np.array(2, np.float32)], const=(1,))
    yield Sample("cross", [values(rng, (2, 1), kind="positive"), values(rng, (1, 3))])
    yield Sample("half", [values(rng, (7,), kind="positive"), f32(0.5)])
    yield Sample("empty", [values(rng, (0, 3)), f32(2, 3, 4)])
    yield Sample("special", [SPECIAL[:, None], f32(0, 1, 2, 3, -1, 0.5)[None]], both=True)
    second = v.types("T1") or v.types("T")
    for t in v.sweep("T"):
        for e in second if v.version >= 12 else (t,):
            if t in v.sweep("T") and (e == t or t.name in ("float32", "int64")) and not (e.kind == "f" and t.kind != "f" and e != t):
                yield Sample(f"{t.name}_{e.name}", [values(rng, (5,), t, "positive"), np.array([0, 1, 2, 3, 2], np.int64).astype(e)], widen=e == t)


def mod(v):
    a, b = np.array([7, -7, 7, -7, 0, 5]), np.array([3, 3, -3, -3, 4, 5])
    for t in v.sweep("T"):
        x, y = (abs(a), abs(b)) if t.kind == "u" else (a, b)
        if is_float(t):
            yield Sample(f"fmod_{t.name}", [(x + 0.5).astype(t), y.astype(t)], {"fmod": 1})
        else:
            yield Sample(t.name, [x.astype(t), y.astype(t)])
            yield Sample(f"fmod_{t.name}", [x.astype(t), y.astype(t)], {"fmod": 1})
    yield Sample("cross", [i64(5, -4)[:, None], i64(3, -3, 2)[None]])
    yield Sample("fmod_cross", [f32(5.5, -4.25)[:, None], f32(3, -3, 2)[None]], {"fmod": 1})


def bit_shift(v):
    for t in v.sweep("T"):
        for direction in ("LEFT", "RIGHT"):
            yield Sample(f"{direction.lower()}_{t.name}", [np.array([1, 16, 100, 3], t), np.array([1, 2, 3, 0], t)], {"direction": direction})
    yield Sample("cross", [np.array([[16], [255]], np.uint8), np.array([1, 2, 7], np.uint8)], {"direction": "RIGHT"})


def prelu(v):
    for name, shape, slope in (("same", (2, 3), (2, 3)), ("channel", (2, 3, 4, 4), (3, 1, 1)), ("scalar", (2, 3), ()), ("one", (2, 3), (1,)), ("empty", (0, 3), (3,))):
        rng = v.rng(name)
        yield Sample(name, [values(rng, shape), values(rng, slope)])
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (3, 4), t), values(rng, (4,), t)], const=(1,))


def where(v):
    for name, (c, a, b) in {"same": ((2, 3),) * 3, "cross": ((2, 1, 1), (3, 1), (4,)), "scalar": ((), (2, 2), ()), "mask": ((1, 1, 4), (2, 3, 4), ()), "empty": ((1,), (0, 2), (2,))}.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, c, bool), values(rng, a), values(rng, b)])
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (3, 4), bool), values(rng, (3, 4), t), values(rng, (4,), t)])


def clip(v):
    rng = v.rng()
    x = values(rng, (3, 7))
    if v.version < 11:
        for i, attrs in enumerate(({}, {"min": -1.0}, {"max": 0.5}, {"min": -1.0, "max": 1.5})):
            yield Sample(f"attrs{i}", [x], attrs)
        for t in v.sweep("T"):
            yield Sample(t.name, [values(rng, (9,), t)], {"min": -1.0, "max": 1.0})
        return
    low, high = np.array(-1, np.float32), np.array(1.5, np.float32)
    for name, inputs in {"none": [x], "min": [x, low], "max": [x, None, high], "both": [x, low, high], "crossed": [x, high, low], "scalar": [np.array(9, np.float32), low, high],
                         "empty": [x[:0], low, high], "relu6": [x * 4, np.array(0, np.float32), np.array(6, np.float32)]}.items():
        yield Sample(name, inputs, both=name == "crossed")
        if len(inputs) == 3 and name != "crossed":
            yield Sample(f"{name}_const", inputs, const=(1, 2))
    for t in v.sweep("T"):
        yield Sample(t.name, [values(rng, (9,), t), np.array(2, np.int64).astype(t), np.array(4, np.int64).astype(t)])
    yield Sample("special", [SPECIAL, low, high], both=True)


def dropout(v):
    x = values(v.rng(), (3, 5))
    if v.version < 12:
        yield Sample("plain", [x])
        yield Sample("ratio", [x], {"ratio": 0.7})
        yield Sample("mask", [x], {"ratio": 0.3}, outputs=2, both=True)
    else:
        half = np.array(0.5, np.float32)
        yield Sample("plain", [x])
        yield Sample("ratio", [x, half])
        yield Sample("mask", [x, half], {"seed": 3}, outputs=2)
        yield Sample("inference", [x, half, np.array(False)], outputs=2)
        yield Sample("zero_ratio", [x, np.array(0, np.float32), np.array(True)], outputs=2, const=(1, 2))
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (4,), t)])


def table():
    out = {op: unary for op in UNARY} | {op: binary for op in BINARY} | {op: variadic for op in ("Max", "Min", "Sum", "Mean")}
    out |= {"Pow": pow_, "Mod": mod, "BitShift": bit_shift, "PRelu": prelu, "Where": where, "Clip": clip, "Dropout": dropout}
    return out


SAMPLES = table()
