"""Samples of Cast and CastLike: every pair of types whose answer the definition settles."""
import numpy as np
from opset_cases import BFLOAT16, Sample, f32, is_float, is_narrow, onnx_type

NUMBERS = [0, 1, 2, 3, 5, 7]
SIGNED = [0, 1, -1, 3, -5, 7]
FRACTIONS = [0.0, 1.0, -1.5, 2.75, -3.25, 6.5]


def source(t):
    """Values of a type that any wider type holds."""
    if t == object:
        return np.array(["0", "1", "3", "5"], object)
    if t == np.bool_:
        return np.array([True, False, True])
    if is_float(t):
        return np.array([0, 1, -1, 2] if t.itemsize == 1 else FRACTIONS, np.float32).astype(t)
    if t.name in ("int2", "uint2"):
        return np.array([0, 1], np.int8).astype(t)
    return np.array(SIGNED if t.name.startswith("int") else NUMBERS, np.int64).astype(t)


def settled(a, b):
    """False where a negative value would meet an unsigned type (the definition leaves that open)."""
    unsigned = b.name.startswith("uint")
    return not (unsigned and a != object and (is_float(a) or a.name.startswith("int")))


def pairs(v, first, second):
    """Pairs of types new in this version, and at the newest the plain ones among all."""
    every = v.types(first)
    new = set(v.sweep(first)) if not v.newest or v.before is None else set(every)
    for a in every:
        for b in v.types(second):
            narrow = is_narrow(a) or is_narrow(b)
            if not (a in new or b in new) or (narrow and np.dtype(np.float32) not in (a, b) and not (a == np.float16 or b == np.float16)):
                continue
            yield a, b


def sample(v, name, x, b, attrs=None, **more):
    if v.op == "Cast":
        return Sample(name, [x], {"to": onnx_type(b)} | (attrs or {}), widen=False, **more)
    like = np.array(["a"], object) if b == object else np.zeros((1,), np.int8).astype(b)
    return Sample(name, [x, like], attrs or {}, widen=False, **more)


def cast(v):
    for a, b in pairs(v, "T1", "T2"):
        x = source(a)
        if not settled(a, b):
            x = x[np.asarray(x.astype(np.float32)) >= 0]
        if b.name in ("int2", "uint2", "float4_e2m1fn") or a.name in ("int2", "uint2"):
            x = x[: 2 if x.size >= 2 else 1]
        if b.name in ("int4", "uint4") and is_float(a):
            x = np.array([0, 1, 2, 7], np.float32).astype(a)
        text = object in (a, b) and (is_float(a if b == object else b) or np.dtype(bool) in (a, b))
        yield sample(v, f"{a.name}_to_{b.name}", x, b, both=text or "e8m0" in a.name + b.name)
    if v.newest or v.before is None:
        yield sample(v, "scalar", np.array(2.5, np.float32), np.dtype(np.int64))
        yield sample(v, "empty", np.zeros((0, 3), np.float32), np.dtype(np.int32))
        yield sample(v, "round_half", f32(1 + 2**-11, 1 + 3 * 2**-11, 65504, 65519, 1e-8), np.dtype(np.float16))
        yield sample(v, "to_bool", f32(0.0, -0.0, 0.5, -2, np.nan, np.inf), np.dtype(bool), both=True)
        yield sample(v, "truncate", f32(2.9, -2.9, 0.99, -0.99), np.dtype(np.int32))
        yield sample(v, "wrap", np.array([300, -1, 256, 70000], np.int64), np.dtype(np.uint8), both=True)
    if v.version >= 9 and v.op == "Cast" and (v.newest or v.version == 9):
        yield sample(v, "words", np.array(["NaN", "INF", "-INF", "1e3", "-2.5E-1", "+7"], object), np.dtype(np.float32), both=True)
        yield sample(v, "numbers_to_text", f32(1.0, -0.5, 1e10, 0.1), np.dtype(object), both=True)
        yield sample(v, "whole_to_text", np.array([0, -12, 345], np.int64), np.dtype(object))
    if v.has("saturate"):
        for b in v.types("T2"):
            if b.name.startswith("float8") and b.name != "float8_e8m0fnu":
                for saturate in (0, 1):
                    yield sample(v, f"saturate{saturate}_{b.name}", f32(1e6, -1e6, 0.3, 500), b, {"saturate": saturate}, both=True)
    if v.version >= 13 and BFLOAT16 in v.types("T2") and v.op == "Cast":
        yield sample(v, "bfloat16_ties", f32(1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38), BFLOAT16)


SAMPLES = {"Cast": cast, "CastLike": cast}
