"""Quantised pieces as ONNX Runtime's quantiser writes them: QuantizeLinear and DequantizeLinear around products, activations
and sums, and products of what is quantised while the model runs."""
import numpy as np
from graph import Skip, dims, elements


def bytes_of(b, x, signed=None):
    """x in bytes, with its scale and zero point."""
    if x.dtype != "f32" or None in x.shape or elements(x.shape) > 20000:
        raise Skip
    signed = b.chance(0.5) if signed is None else signed
    # Scales of no simple ratio: between those every other value would lie midway between two bytes.
    scale = b.const(np.array(np.float32(max(x.std, 0.05) / b.pick(24, 40, 60) * (0.8 + 0.4 * b.numbers.random()))), "scale")
    zero = b.const(np.array(b.pick(0, 3, -7) if signed else b.pick(128, 120, 100), np.int8 if signed else np.uint8), "zero")
    return b.op("QuantizeLinear", [x, scale, zero], dtype="i8" if signed else "u8"), scale, zero


def through(b, x):
    """x as it is after it was bytes."""
    q, scale, zero = bytes_of(b, x)
    return b.op("DequantizeLinear", [q, scale, zero], dtype="f32", std=x.std)


def weight(b, rows, columns):
    """Bytes of weights, dequantised per column or as a whole."""
    w = b.const(b.numbers.integers(-127, 128, (rows, columns)).astype(np.int8), "w")
    per = b.chance(0.5)
    scale = (b.numbers.random(columns if per else ()) * 0.01 + 0.002).astype(np.float32)
    inputs = [w, b.const(np.asarray(scale), "scale")]
    if b.chance(0.5):
        inputs.append(b.const(np.zeros(scale.shape, np.int8), "zero"))
    return b.op("DequantizeLinear", inputs, dtype="f32", std=0.4, axis=1)


def dense(b, x):
    """A product of bytes with a bias, and what follows in bytes."""
    if x.rank < 2:
        raise Skip
    rows, columns = x.size(-1), b.pick(1, 3, 8, 16, 17)
    b.fits(flops=2 * elements(x.shape) * columns)
    y = b.op("MatMul", [through(b, x), weight(b, rows, columns)], x.shape[:-1] + dims(columns), std=x.std)
    if b.chance(0.6):
        y = b.op("Add", [y, b.weight((columns,), 0.3)])
    if b.chance(0.5):
        y = b.op("Relu", [y])
    return through(b, y) if b.chance(0.7) else y


def between(b, x):
    """Bytes that are only moved or looked up: a chain between two ends."""
    y = through(b, x)
    for _ in range(b.pick(1, 2)):
        kind = b.pick("Relu", "Sigmoid", "Tanh", "Transpose", "Abs")
        if kind == "Transpose" and y.rank > 0:
            order = list(range(y.rank))
            b.random.shuffle(order)
            y = b.op("Transpose", [y], tuple(y.shape[k] for k in order), perm=order)
        elif kind != "Transpose":  # of one number there is nothing to turn
            y = b.op(kind, [y])
        y = through(b, y)
    return y


def added(b, x):
    """A sum of two that are bytes."""
    return through(b, b.op("Add", [through(b, x), through(b, b.op("Tanh", [x], std=0.6))]))


def dynamic(b, x):
    """A product of what is quantised in the run."""
    if x.rank < 2 or x.dtype != "f32" or None in x.shape:
        raise Skip
    rows, columns = x.size(-1), b.pick(2, 8, 16, 31)
    b.fits(flops=2 * elements(x.shape) * columns)
    q, scale, zero = b.ops("DynamicQuantizeLinear", [x], [x.shape, (), ()], ["u8", "f32", "u8"], 1.0)
    w = b.const(b.numbers.integers(-127, 128, (rows, columns)).astype(np.int8), "w")
    y = b.op("MatMulInteger", [q, w, zero, b.const(np.array(0, np.int8), "zero")], x.shape[:-1] + dims(columns), dtype="i32")
    factor = b.op("Mul", [scale, b.scalar(0.004)], (), std=0.01)
    return b.op("Mul", [b.op("Cast", [y], dtype="f32", std=100.0, to=1), factor], std=1.0)


BLOCKS = [dense, dense, between, added, dynamic]
