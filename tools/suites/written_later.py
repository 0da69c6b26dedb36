"""Eight models more, of kinds that the thirty have not: bidirectional LSTMs from given states, gated dilated stacks over
samples, graphs whose messages are scattered, spectra, boxes that are kept, separated speech, sleep, series."""
import numpy as np
from written_nets import net
from written_parts import ids, uniform


def states(n, x, count, batch_axis=1):
    """Zeros [count, batch, units], as exporters make them from the shape of x."""
    batch = n.Slice(n.Shape(x), [batch_axis], [batch_axis + 1], [0])
    return lambda units: n.Expand(0.0, n.Concat([count], batch, [units], axis=0))


def lstm_both(n, x, i, units):
    weights = [n.held((n.rng.standard_normal(s) / np.sqrt(units)).astype(np.float32)) for s in ((2, 4 * units, i), (2, 4 * units, units), (2, 8 * units))]
    zeros = states(n, x, 2)
    y = n.add("LSTM", [x, *weights, None, zeros(units), zeros(units)], 3, {"hidden_size": units, "direction": "bidirectional"})[0]
    return n.Reshape(n.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


@net
def handwriting(n):
    x = n.input("image", ["batch", 1, 32, "width"])
    for i, o, pool in ((1, 32, [2, 2]), (32, 64, [2, 2]), (64, 128, [2, 1]), (128, 224, [2, 1])):
        x = n.MaxPool(n.conv(x, i, o, act="LeakyRelu"), kernel_shape=pool, strides=pool)
    x = n.Transpose(n.ReduceMax(x, axes=[2], keepdims=0), perm=[2, 0, 1])
    x = lstm_both(n, lstm_both(n, x, 224, 224), 448, 224)
    n.output(n.LogSoftmax(n.linear(x, 448, 80), axis=2))
    return [{"batch": 1, "width": 400}, {"batch": 16, "width": 200}]


@net
def wave_stack(n):
    x = n.conv1(n.input("audio", ["batch", 1, "samples"]), 1, 32, 1, act=None)
    total = None
    for d in (1, 2, 4, 8, 16, 32, 64, 128):
        a, b = n.Split(n.conv1(x, 32, 64, 3, d=d, act=None, causal=True), axis=1, outs=2)
        y = n.Mul(n.Tanh(a), n.Sigmoid(b))
        skip = n.conv1(y, 32, 32, 1, act=None)
        total = skip if total is None else n.Add(total, skip)
        x = n.Mul(n.Add(x, n.conv1(y, 32, 32, 1, act=None)), float(np.sqrt(0.5)))
    n.output(n.conv1(n.conv1(n.Relu(total), 32, 32, 1), 32, 1, 1, act="Tanh"))
    return [{"batch": 1, "samples": 16000}, {"batch": 2, "samples": 3000}]


@net
def scattered_graph(n):
    x = n.input("atoms", ["atoms", 64])
    edges = n.input("edges", ["edges", 2], ids(20))
    kinds = n.input("bonds", ["edges", 6], uniform)
    source, target = n.Slice(edges, [0], [1], [1]), n.Slice(edges, [1], [2], [1])
    nothing = n.Expand(0.0, n.Shape(x))
    for _ in range(3):
        message = n.linear(n.Concat(n.GatherND(x, source), n.GatherND(x, target), kinds, axis=1), 134, 64, "Silu")
        summed = n.ScatterND(nothing, target, n.linear(message, 64, 64), reduction="add")
        largest = n.ScatterND(nothing, target, message, reduction="max")
        x = n.layer_norm(n.Add(x, n.linear(n.Concat(summed, largest, axis=1), 128, 64, "Elu")), 64)
    n.output(n.linear(n.ReduceSum(x, [0], keepdims=1), 64, 12))
    return [{"atoms": 200, "edges": 800}, {"atoms": 20, "edges": 44}]


@net
def spectrum_events(n):
    audio = n.Pad(n.input("audio", ["batch", "samples"]), [0, 200, 0, 200], mode="reflect")
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)).astype(np.float32)
    power = n.ReduceSumSquare(n.STFT(n.Unsqueeze(audio, [2]), np.int64(160), window, np.int64(400), onesided=1), axes=[3], keepdims=0)
    mel = n.Log(n.Add(n.MatMul(power, n.held(np.abs(n.rng.standard_normal((201, 64))).astype(np.float32) / 20)), 1e-5))
    x = n.Transpose(mel, perm=[0, 2, 1])
    x = n.conv1(n.conv1(x, 64, 96, 5, 2), 96, 96, 5)
    h = n.recurrent("GRU", n.Transpose(x, perm=[2, 0, 1]), 96, 96, both=True)
    n.output(n.Sigmoid(n.linear(n.ReduceMax(h, axes=[0], keepdims=0), 192, 20)))
    return [{"batch": 1, "samples": 32000}, {"batch": 3, "samples": 8000}]


@net
def kept_boxes(n):
    x = n.conv(n.conv(n.input("image", ["batch", 3, "height", "width"]), 3, 24, 3, 2), 24, 48, 3, 2)
    x = n.conv(n.conv(x, 48, 64, 3, 2, act="Silu"), 64, 64, act="Silu")
    scores = n.Sigmoid(n.Reshape(n.Transpose(n.conv(x, 64, 6, 1, act=None), perm=[0, 2, 3, 1]), [0, -1, 6]))
    boxes = n.Reshape(n.Transpose(n.conv(x, 64, 4, 3, act="Softplus"), perm=[0, 2, 3, 1]), [0, -1, 4])
    best, at = n.TopK(n.ReduceMax(scores, axes=[2], keepdims=0), [100], axis=1, outs=2)
    where = n.Unsqueeze(at, [2])
    boxes = n.GatherElements(boxes, n.Expand(where, [1, 1, 4]), axis=1)
    scores = n.Transpose(n.GatherElements(scores, n.Expand(where, [1, 1, 6]), axis=1), perm=[0, 2, 1])
    near, far = n.Split(boxes, axis=2, outs=2)
    boxes = n.Concat(near, n.Add(near, far), axis=2)
    kept = n.NonMaxSuppression(boxes, scores, np.int64(20), np.float32(0.5), np.float32(0.3))
    n.output(n.GatherND(scores, kept), n.GatherND(boxes, n.Gather(kept, [0, 2], axis=1)), best)
    return [{"batch": 1, "height": 256, "width": 256}, {"batch": 2, "height": 128, "width": 192}]


@net
def parted_speech(n):
    x = n.Unsqueeze(n.input("mixture", ["batch", "samples"]), [1])
    coded = n.Relu(n.Conv(x, n.w(128, 1, 16, gain=1.4), kernel_shape=[16], strides=[8]))

    def whole_norm(y, c):
        middle = n.Sub(y, n.ReduceMean(y, axes=[1, 2]))
        spread = n.Sqrt(n.Add(n.ReduceMean(n.Mul(middle, middle), axes=[1, 2]), 1e-8))
        return n.Add(n.Mul(n.Div(middle, spread), n.held(np.full((c, 1), 1.1, np.float32))), n.held(np.full((c, 1), 0.1, np.float32)))

    y = n.conv1(whole_norm(coded, 128), 128, 64, 1, act=None)
    for d in (1, 2, 4, 8, 16):
        z = whole_norm(n.PRelu(n.conv1(y, 64, 128, 1, act=None), np.float32([[0.25]])), 128)
        z = whole_norm(n.PRelu(n.conv1(z, 128, 128, 3, g=128, d=d, act=None), np.float32([[0.25]])), 128)
        y = n.Add(y, n.conv1(z, 128, 64, 1, act=None))
    masks = n.Reshape(n.conv1(y, 64, 256, 1, act="Sigmoid"), [0, 2, 128, -1])
    parts = n.Mul(masks, n.Unsqueeze(coded, [1]))
    first, second = n.Split(parts, axis=1, outs=2)
    weight = n.w(128, 1, 16)
    n.output(*[n.ConvTranspose(n.Squeeze(p, [1]), weight, kernel_shape=[16], strides=[8]) for p in (first, second)])
    return [{"batch": 1, "samples": 16000}, {"batch": 2, "samples": 4000}]


@net
def sleep_stages(n):
    x = n.input("night", ["epochs", 1, 3000])
    fine, coarse = n.conv1(x, 1, 32, 50, 6, act="Gelu"), n.conv1(x, 1, 32, 400, 50, act="Gelu")
    fine = n.MaxPool(fine, kernel_shape=[8], strides=[8])
    coarse = n.MaxPool(coarse, kernel_shape=[4], strides=[4])
    fine = n.conv1(n.conv1(fine, 32, 64, 8, act="Gelu"), 64, 64, 8, act="Gelu")
    coarse = n.conv1(coarse, 32, 64, 6, act="Gelu")
    x = n.Concat(n.GlobalAveragePool(fine), n.GlobalMaxPool(coarse), axis=1)
    x = n.Reshape(x, [0, 1, 128])
    h = n.recurrent("LSTM", x, 128, 64, both=True)
    weight = n.Softmax(n.linear(h, 128, 1, "Tanh"), axis=0)
    n.output(n.Softmax(n.linear(n.Squeeze(n.Mul(h, n.Add(weight, 1.0)), [1]), 128, 5), axis=-1))
    return [{"epochs": 20}, {"epochs": 3}]


@net
def series_patches(n):
    x = n.input("series", ["batch", 336, 7])
    middle = n.ReduceMean(x, axes=[1])
    spread = n.Sqrt(n.Add(n.ReduceMean(n.Pow(n.Sub(x, middle), 2.0), axes=[1]), 1e-5))
    y = n.Transpose(n.Div(n.Sub(x, middle), spread), perm=[0, 2, 1])
    y = n.Pad(y, [0, 0, 0, 0, 0, 8], mode="edge")
    places = (np.arange(42)[:, None] * 8 + np.arange(16)[None]).astype(np.int64)
    y = n.Reshape(n.Gather(y, places, axis=2), [-1, 42, 16])
    y = n.Add(n.linear(y, 16, 128), n.w(42, 128))
    for _ in range(2):
        y = n.encoder(y, 128, 8, 256)
    y = n.Reshape(n.linear(n.Reshape(y, [0, -1]), 42 * 128, 96), [-1, 7, 96])
    n.output(n.Add(n.Mul(n.Transpose(y, perm=[0, 2, 1]), spread), middle))
    return [{"batch": 1}, {"batch": 8}]
