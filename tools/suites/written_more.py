"""The rest of the thirty: layout, molecules, EEG, text."""
import numpy as np
from written_nets import net
from written_parts import ids, ones, uniform


# ---- layout ----
@net
def page_layout(n):
    t = n.input("tokens", ["batch", "length"], ids(500))
    boxes = n.input("boxes", ["batch", "length", 4], ids(1000))
    mask = n.input("mask", ["batch", "length"], ones)
    x = n.Gather(n.w(500, 128, gain=10.0), t)
    for k in range(4):
        x = n.Add(x, n.Gather(n.w(1000, 128, gain=10.0), n.Squeeze(n.Slice(boxes, [k], [k + 1], [2]), [2])))
    hidden = n.Mul(n.Sub(1.0, n.Cast(n.Unsqueeze(mask, [1, 2]), to=1)), -10000.0)
    x = n.layer_norm(x, 128)
    for _ in range(2):
        x = n.encoder(x, 128, 4, 512, hidden)
    n.output(n.linear(x, 128, 7))
    return [{"batch": 1, "length": 128}, {"batch": 3, "length": 20}]


@net
def page_regions(n):
    x = n.input("image", ["batch", 3, "height", "width"])
    skips, c = [], 3
    for o in (16, 32, 64):
        x = n.conv(n.conv(x, c, o), o, o)
        skips.append((x, o))
        x, c = n.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]), o
    x = n.conv(x, 64, 128)
    c = 128
    for y, o in reversed(skips):
        x = n.ConvTranspose(x, n.w(c, o, 2, 2), n.b(o), kernel_shape=[2, 2], strides=[2, 2])
        x = n.conv(n.conv(n.Concat(y, x, axis=1), 2 * o, o), o, o)
        c = o
    n.output(n.ArgMax(n.conv(x, 16, 5, 1, act=None), axis=1, keepdims=0))
    return [{"batch": 1, "height": 128, "width": 96}, {"batch": 2, "height": 64, "width": 64}]


@net
def page_turn(n):
    x = n.MaxPool(n.norm2(n.conv(n.input("image", ["batch", 3, 112, 112]), 3, 32, 7, 2, act=None, bias=False), 32), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = n.PRelu(x, n.held(np.full((32, 1, 1), 0.2, np.float32)))
    for i, o, s in ((32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)):
        x = n.residual(x, i, o, s)
    x = n.Reshape(n.GlobalAveragePool(x), [0, -1])
    n.output(n.Softmax(n.Gemm(x, n.w(4, 128, gain=0.02), n.b(4), transB=1), axis=1))
    return [{"batch": 1}, {"batch": 4}]


# ---- molecules ----
def edges_among(count):
    return lambda rng, dims: rng.integers(0, count, dims)


@net
def dense_graph(n):
    x, near = n.input("atoms", ["batch", "atoms", 32]), n.input("near", ["batch", "atoms", "atoms"], uniform)
    near = n.Cast(n.Greater(near, 0.8), to=1)
    near = n.Div(near, n.Add(n.ReduceSum(near, [2], keepdims=1), 1.0))
    for i in (32, 64, 64):
        x = n.Relu(n.Add(n.MatMul(near, n.linear(x, i, 64)), n.linear(x, i, 64)))
    n.output(n.linear(n.ReduceMax(x, axes=[1], keepdims=0), 64, 12))
    return [{"batch": 1, "atoms": 60}, {"batch": 4, "atoms": 23}]


@net
def messages(n):
    x = n.linear(n.input("atoms", ["atoms", 40]), 40, 64, "Relu")
    pairs, kinds = n.input("pairs", [2, "bonds"], edges_among(9)), n.input("bonds", ["bonds", 10])
    source, target = (n.Squeeze(n.Slice(pairs, [k], [k + 1], [0]), [0]) for k in (0, 1))
    none = n.Mul(x, 0.0)
    for _ in range(3):
        m = n.linear(n.Concat(n.Gather(x, source), kinds, axis=1), 74, 64, "Relu")
        m = n.ScatterND(none, n.Unsqueeze(target, [1]), m, reduction="add")
        gates = n.Sigmoid(n.Add(n.linear(m, 64, 128), n.linear(x, 64, 128)))
        z, r = n.Split(gates, axis=1, outs=2)
        new = n.Tanh(n.Add(n.linear(m, 64, 64), n.Mul(r, n.linear(x, 64, 64))))
        x = n.Add(n.Mul(n.Sub(1.0, z), new), n.Mul(z, x))
    n.output(n.linear(n.ReduceSum(x, [0], keepdims=0), 64, 1))
    return [{"atoms": 40, "bonds": 90}, {"atoms": 9, "bonds": 16}]


@net
def graph_attention(n):
    x = n.input("atoms", ["atoms", 32])
    pairs = n.input("pairs", [2, "bonds"], edges_among(11))
    source, target = (n.Squeeze(n.Slice(pairs, [k], [k + 1], [0]), [0]) for k in (0, 1))
    for i in (32, 64):
        h = n.linear(x, i, 64)
        e = n.LeakyRelu(n.Add(n.linear(n.Gather(h, source), 64, 1), n.linear(n.Gather(h, target), 64, 1)), alpha=0.2)
        e = n.Exp(n.Clip(e, -10.0, 10.0))
        empty = n.Mul(n.Slice(h, [0], [1], [1]), 0.0)
        total = n.ScatterElements(empty, n.Unsqueeze(target, [1]), e, axis=0, reduction="add")
        share = n.Div(e, n.Add(n.Gather(total, target), 1e-6))
        x = n.Elu(n.ScatterND(n.Mul(h, 0.0), n.Unsqueeze(target, [1]), n.Mul(n.Gather(h, source), share), reduction="add"))
    n.output(n.linear(n.ReduceMean(x, axes=[0], keepdims=0), 64, 2))
    return [{"atoms": 50, "bonds": 120}, {"atoms": 11, "bonds": 20}]


@net
def distances(n):
    kinds, place = n.input("kinds", ["atoms"], ids(20)), n.input("places", ["atoms", 3])
    x = n.Gather(n.w(20, 64, gain=5.0), kinds)
    apart = n.Sub(n.Unsqueeze(place, [1]), n.Unsqueeze(place, [0]))
    d = n.Sqrt(n.Add(n.ReduceSum(n.Mul(apart, apart), [2], keepdims=1), 1e-8))
    bells = n.Exp(n.Mul(n.Pow(n.Sub(d, np.linspace(0, 5, 32, dtype=np.float32)), 2.0), -10.0))
    cut = n.Mul(n.Add(n.Cos(n.Mul(d, float(np.pi / 5))), 1.0), n.Cast(n.Less(d, 5.0), to=1))
    for _ in range(3):
        filters = n.Mul(n.linear(n.Softplus(n.linear(bells, 32, 64)), 64, 64), cut)
        m = n.ReduceSum(n.Mul(filters, n.Unsqueeze(n.linear(x, 64, 64), [0])), [1], keepdims=0)
        x = n.Add(x, n.linear(n.Softplus(n.linear(m, 64, 64)), 64, 64))
    n.output(n.ReduceSum(n.linear(n.Softplus(n.linear(x, 64, 32)), 32, 1), [0], keepdims=0))
    return [{"atoms": 48}, {"atoms": 7}]


# ---- EEG ----
@net
def brain_compact(n):
    x = n.input("eeg", ["batch", 1, 22, 512])
    x = n.norm2(n.Conv(x, n.w(8, 1, 1, 64), kernel_shape=[1, 64], pads=[0, 32, 0, 31]), 8)
    x = n.Elu(n.norm2(n.Conv(x, n.w(16, 1, 22, 1), kernel_shape=[22, 1], group=8), 16))
    x = n.AveragePool(x, kernel_shape=[1, 4], strides=[1, 4])
    x = n.Conv(n.Conv(x, n.w(16, 1, 1, 16), kernel_shape=[1, 16], pads=[0, 8, 0, 7], group=16), n.w(16, 16, 1, 1), kernel_shape=[1, 1])
    x = n.Flatten(n.AveragePool(n.Elu(n.norm2(x, 16)), kernel_shape=[1, 8], strides=[1, 8]))
    n.output(n.Softmax(n.Gemm(x, n.w(256, 4), n.b(4)), axis=1))
    return [{"batch": 1}, {"batch": 8}]


@net
def brain_deep(n):
    x = n.input("eeg", ["batch", 1, 22, 500])
    x = n.Conv(n.Conv(x, n.w(25, 1, 1, 10), n.b(25), kernel_shape=[1, 10]), n.w(25, 25, 22, 1), kernel_shape=[22, 1])
    c = 25
    for o in (50, 100):
        x = n.MaxPool(n.Elu(n.norm2(x, c)), kernel_shape=[1, 3], strides=[1, 3])
        x, c = n.Conv(x, n.w(o, c, 1, 10), kernel_shape=[1, 10]), o
    x = n.Flatten(n.ReduceMean(n.Elu(x), axes=[3]))
    n.output(n.LogSoftmax(n.Gemm(x, n.w(100, 4), n.b(4)), axis=1))
    return [{"batch": 1}, {"batch": 5}]


@net
def brain_causal(n):
    x = n.conv1(n.input("eeg", ["batch", 19, "steps"]), 19, 32, 1, act=None)
    for d in (1, 2, 4, 8):
        y = n.conv1(n.conv1(x, 32, 32, 5, d=d, act="Elu", causal=True), 32, 32, 5, d=d, act="Elu", causal=True)
        x = n.Relu(n.Add(x, y))
    n.output(n.Sigmoid(n.conv1(x, 32, 3, 1, act=None)))
    return [{"batch": 1, "steps": 1000}, {"batch": 2, "steps": 256}]


# ---- text ----
@net
def sentences(n):
    t, mask = n.input("tokens", ["batch", "length"], ids(1000)), n.input("mask", ["batch", "length"], ones)
    x = n.layer_norm(n.Add(n.Gather(n.w(1000, 192, gain=10.0), t), n.Slice(n.w(512, 192, gain=10.0), [0], n.Slice(n.Shape(t), [1], [2]), [0])), 192)
    hidden = n.Mul(n.Sub(1.0, n.Cast(n.Unsqueeze(mask, [1, 2]), to=1)), -1e9)
    for _ in range(3):
        x = n.encoder(x, 192, 6, 768, hidden)
    some = n.Cast(n.Unsqueeze(mask, [2]), to=1)
    x = n.Div(n.ReduceSum(n.Mul(x, some), [1], keepdims=0), n.Clip(n.ReduceSum(some, [1], keepdims=0), 1e-9))
    n.output(n.LpNormalization(x, axis=1, p=2))
    return [{"batch": 1, "length": 64}, {"batch": 4, "length": 17}]


@net
def word_windows(n):
    x = n.Transpose(n.Gather(n.w(2000, 100, gain=10.0), n.input("tokens", ["batch", "length"], ids(2000))), perm=[0, 2, 1])
    found = [n.ReduceMax(n.Relu(n.Conv(x, n.w(100, 100, k), n.b(100), kernel_shape=[k])), axes=[2], keepdims=0) for k in (3, 4, 5)]
    n.output(n.Softmax(n.Gemm(n.Concat(*found, axis=1), n.w(300, 6), n.b(6)), axis=-1))
    return [{"batch": 1, "length": 60}, {"batch": 5, "length": 12}]


@net
def file_kind(n):
    x = n.OneHot(n.input("bytes", ["batch", 512], ids(257)), np.int64(257), np.array([0, 1], np.float32))
    x = n.Reshape(n.act(n.linear(x, 257, 64), "Gelu"), [0, 128, 256])
    x = n.act(n.linear(n.layer_norm(x, 256), 256, 256), "Gelu")
    x = n.Squeeze(n.GlobalMaxPool(n.Transpose(n.layer_norm(x, 256), perm=[0, 2, 1])), [2])
    n.output(n.Softmax(n.linear(x, 256, 113), axis=-1))
    return [{"batch": 1}, {"batch": 8}]


@net
def next_token(n):
    t = n.input("tokens", ["batch", "length"], ids(800))
    x = n.Gather(n.w(800, 128, gain=10.0), t)
    size = n.Slice(n.Shape(t), [1], [2])
    place = n.Range(np.int64(0), n.Squeeze(size, [0]), np.int64(1))
    turns = n.Mul(n.Cast(n.Unsqueeze(place, [1]), to=1), (10000.0 ** (-np.arange(0, 32, 2) / 32)).astype(np.float32)[None])
    turns = n.Concat(turns, turns, axis=1)
    cosine, sine = n.Cos(turns), n.Sin(turns)
    later = n.Greater(n.Unsqueeze(place, [0]), n.Unsqueeze(place, [1]))
    mask = n.Where(later, -1e9, 0.0)

    def turn(q):
        a, b = n.Split(q, axis=3, outs=2)
        return n.Add(n.Mul(q, cosine), n.Mul(n.Concat(n.Neg(b), a, axis=3), sine))

    def root_norm(y):
        return n.Mul(n.Div(y, n.Sqrt(n.Add(n.ReduceMean(n.Pow(y, 2.0), axes=[-1]), 1e-5))), n.one(128))

    for _ in range(2):
        x = n.Add(x, n.attention(root_norm(x), 128, 4, mask, turn=turn))
        y = root_norm(x)
        x = n.Add(x, n.MatMul(n.Mul(n.act(n.MatMul(y, n.w(128, 344)), "Silu"), n.MatMul(y, n.w(128, 344))), n.w(344, 128)))
    n.output(n.MatMul(root_norm(x), n.w(128, 800)))
    return [{"batch": 1, "length": 64}, {"batch": 2, "length": 9}]
