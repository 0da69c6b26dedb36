"""Transforms of signals: DFT and its inverse, STFT, windows, the filters of a mel spectrum, and determinants."""
import math

import numpy as np
from elementwise import activation
from graph import Skip, dims, elements, fixed, is_fixed, per_binding
from sizes import scalar_int, size_of


def batch_of(b, x):
    """The first size of x where an input can have it."""
    return x.shape[0] if x.rank and b.name_of(x.shape[0]) is not None else fixed(b.pick(1, 2))


def transform(b, x, axis, shape, length, **words):
    """One DFT; the axis is an attribute before opset 20 and an input from there on."""
    count = scalar_int(b, length) if length else None
    if b.opset >= 20:
        return b.op("DFT", [x, count, scalar_int(b, axis)], shape, std=x.std * 3, **words)
    return b.op("DFT", [x, count] if count else [x], shape, std=x.std * 3, axis=axis, **words)


def power(b, y, axis, shape):
    """Imaginary parts that are zero are rounding alone: which of them is the largest, nobody can decide."""
    return b.op("ReduceSum", [b.op("Mul", [y, y]), b.ints(axis)], shape, keepdims=0)


def dft(b, x):
    b.need(17)
    if not 2 <= x.rank <= 3 or elements(x.shape) > 3000:
        raise Skip
    real = b.op("Unsqueeze", [x, b.ints(x.rank)], x.shape + dims(1))
    axis = b.between(1, x.rank - 1)
    n = x.shape[axis]
    length = b.pick(None, None, 8, 12, 16) if is_fixed(n) else None
    size = fixed(length) if length else n
    one = b.chance(0.5)
    bins = per_binding(lambda k: k // 2 + 1, size) if one else size
    shape = x.shape[:axis] + (bins,) + x.shape[axis + 1 :] + dims(2)
    b.fits(flops=4 * elements(shape) * max(size[:3]))
    y = transform(b, real, axis, shape, length, onesided=int(one))
    padded = length is not None and length > n[0]
    if b.chance(0.4) and not one and not padded:  # what was padded comes back as zeros and rounding
        y = transform(b, y, axis, shape, None, inverse=1)
        return b.op("Slice", [y, b.ints(0), b.ints(1), b.ints(x.rank)], shape[:-1] + dims(1))
    return power(b, y, x.rank, shape[:-1])


def window(b, size):
    """A window of `size` elements, computed by its operator."""
    words = {"periodic": b.pick(0, 1)} if b.chance(0.7) else {}
    if b.chance(0.2):
        wide = b.op(b.pick("HannWindow", "HammingWindow", "BlackmanWindow"), [size[0]], (size[1],), "f64", 0.6, output_datatype=11, **words)
        return b.op("Cast", [wide], dtype="f32", to=1)
    return b.op(b.pick("HannWindow", "HammingWindow", "BlackmanWindow"), [size[0]], (size[1],), "f32", 0.6, **words)


def windowed(b, x):
    """x, or a value beside it, under a window as long as its last axis."""
    b.need(17)
    if not x.rank or min(x.shape[-1]) < 2:
        raise Skip
    size = (scalar_int(b, x.size(-1)) if is_fixed(x.shape[-1]) and b.chance(0.5) else size_of(b, x, x.rank - 1), x.shape[-1])
    return b.op("Mul", [x, window(b, size)], x.shape)


def stft(b, x):
    b.need(17)
    n, long_, step = b.pick(32, 40, 64), b.pick(8, 12, 16), b.pick(3, 4, 8)
    signal = b.input((batch_of(b, x), fixed(n), fixed(1)), stem="signal")
    frames, one = (n - long_) // step + 1, b.chance(0.7)
    bins = long_ // 2 + 1 if one else long_
    shape = (signal.shape[0],) + dims(frames, bins, 2)
    b.fits(flops=4 * elements(shape) * long_)
    shaped = window(b, (scalar_int(b, long_), fixed(long_))) if b.chance(0.5) else b.weight((long_,), 0.2, 0.5) if b.chance(0.7) else None
    inputs = [signal, scalar_int(b, step), shaped, scalar_int(b, long_) if shaped is None or b.chance(0.6) else None]
    while inputs[-1] is None:
        inputs.pop()
    y = b.op("STFT", inputs, shape, "f32", 2.0, onesided=int(one))
    return power(b, y, 3, shape[:3])


def mel(b, x):
    """A row of bins times the filters."""
    b.need(17)
    bands, long_, rate = b.pick(4, 8), b.pick(32, 64), b.pick(8000, 16000)
    low, high = b.pick(0.0, 20.0), b.pick(3000.0, 3800.0)
    bins = long_ // 2 + 1
    filters = b.op("MelWeightMatrix", [scalar_int(b, bands), scalar_int(b, long_), scalar_int(b, rate), b.scalar(low), b.scalar(high)], dims(bins, bands), "f32", 0.3)
    row = b.input((batch_of(b, x), fixed(bins)), stem="bins")
    return activation(b, b.op("MatMul", [row, filters], row.shape[:1] + dims(bands)))


def determinant(b, x):
    m = b.pick(1, 2, 3, 4)
    lead = (batch_of(b, x),) + (dims(3) if b.chance(0.4) else ())
    y = b.input(lead + dims(m, m), stem="square")
    y = b.op("Add", [y, b.const(2 * np.eye(m, dtype=np.float32))])
    return b.op("Det", [y], lead, std=math.factorial(m))


BLOCKS = [dft, dft, windowed, stft, mel, determinant]
