"""Models written by hand in the manner of real ones: speech, pages, detection, layout, molecules, EEG, text. This file
and written_more.py hold thirty, written_later.py those that came later.

Each function builds one and gives two settings of its free sizes."""
import numpy as np
from written_parts import Net, ids

NETS = {}


def net(make):
    NETS[make.__name__] = make
    return make


def build(name):
    """The graph, and two settings of its sizes."""
    n = Net(name)
    return n, NETS[name](n)


# ---- speech ----
@net
def voice_activity(n):
    x = n.Unsqueeze(n.input("audio", ["batch", 512]), [1])
    x = n.Pad(x, [0, 0, 64, 0, 0, 64], mode="reflect")
    s = n.Conv(x, n.w(258, 1, 256), kernel_shape=[256], strides=[64])
    real, imaginary = n.Split(s, axis=1, outs=2)
    x = n.Sqrt(n.Add(n.Mul(real, real), n.Mul(imaginary, imaginary)))
    for i, o, s in ((129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)):
        x = n.conv1(x, i, o, 3, s)
    x = n.recurrent("LSTM", n.Transpose(x, perm=[2, 0, 1]), 128, 128)
    x = n.Sigmoid(n.linear(n.Relu(x), 128, 1))
    n.output(n.ReduceMean(x, axes=[0], keepdims=0))
    return [{"batch": 1}, {"batch": 4}]


@net
def keyword(n):
    x = n.conv(n.input("mel", ["batch", 1, 98, 40]), 1, 64, 5, 2)
    for _ in range(4):
        x = n.conv(n.conv(x, 64, 64, 3, g=64), 64, 64, 1)
    x = n.Flatten(n.GlobalAveragePool(x))
    n.output(n.Softmax(n.Gemm(x, n.w(64, 35), n.b(35)), axis=-1))
    return [{"batch": 1}, {"batch": 3}]


@net
def wave_features(n):
    x = n.Unsqueeze(n.input("audio", ["batch", "samples"]), [1])
    x = n.Conv(x, n.w(64, 1, 10), kernel_shape=[10], strides=[5])
    shape = n.Shape(x)
    x = n.InstanceNormalization(n.Reshape(x, [0, 64, -1]), n.one(64), n.b(64))
    x = n.act(n.Reshape(x, shape), "Gelu")
    for k in (3, 3, 2):
        x = n.act(n.Conv(x, n.w(64, 64, k), kernel_shape=[k], strides=[2]), "Gelu")
    x = n.linear(n.layer_norm(n.Transpose(x, perm=[0, 2, 1]), 64), 64, 128)
    n.output(n.encoder(x, 128, 4, 256))
    return [{"batch": 1, "samples": 16000}, {"batch": 2, "samples": 8000}]


@net
def conformer(n):
    x = n.input("features", ["batch", "frames", 144])
    for _ in range(2):
        x = n.Add(x, n.Mul(n.linear(n.linear(n.layer_norm(x, 144), 144, 576, "Silu"), 576, 144), 0.5))
        x = n.Add(x, n.attention(n.layer_norm(x, 144), 144, 4))
        y = n.Transpose(n.layer_norm(x, 144), perm=[0, 2, 1])
        a, b = n.Split(n.conv1(y, 144, 288, 1, act=None), axis=1, outs=2)
        y = n.conv1(n.Mul(a, n.Sigmoid(b)), 144, 144, 15, g=144, act="Silu")
        x = n.Add(x, n.Transpose(n.conv1(y, 144, 144, 1, act=None), perm=[0, 2, 1]))
        x = n.layer_norm(x, 144)
    n.output(n.LogSoftmax(n.linear(x, 144, 64), axis=-1))
    return [{"batch": 1, "frames": 100}, {"batch": 2, "frames": 37}]


@net
def speech_encoder(n):
    x = n.conv1(n.input("mel", ["batch", 80, 600]), 80, 128, 3, act="Gelu")
    x = n.Transpose(n.conv1(x, 128, 128, 3, 2, act="Gelu"), perm=[0, 2, 1])
    x = n.Add(x, n.w(300, 128))
    for _ in range(2):
        x = n.encoder(x, 128, 4, 512, first=True)
    n.output(n.layer_norm(x, 128))
    return [{"batch": 1}, {"batch": 2}]


@net
def denoise(n):
    x = n.input("magnitudes", ["frames", "batch", 129])
    h = n.recurrent("GRU", n.linear(n.Log(n.Add(n.Abs(x), 1e-3)), 129, 96, "Tanh"), 96, 96)
    h = n.recurrent("GRU", h, 96, 96)
    n.output(n.Mul(x, n.Sigmoid(n.linear(h, 96, 129))))
    return [{"frames": 50, "batch": 1}, {"frames": 20, "batch": 4}]


# ---- pages ----
@net
def text_detection(n):
    x = n.conv(n.input("image", ["batch", 3, "height", "width"]), 3, 16, 3, 2, act="HardSwish")
    a = n.inverted(x, 16, 24, 64, s=2)
    b = n.inverted(n.inverted(a, 24, 40, 96, 5, 2), 40, 40, 120, 5)
    c = n.inverted(b, 40, 96, 240, 5, 2)
    c, b, a = n.conv(c, 96, 48, 1, act=None), n.conv(b, 40, 48, 1, act=None), n.conv(a, 24, 48, 1, act=None)

    def up(y, k):
        return n.Resize(y, None, np.array([1, 1, k, k], np.float32), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    b = n.Add(b, up(c, 2))
    a = n.Add(a, up(b, 2))
    x = n.Concat(up(n.conv(c, 48, 24), 4), up(n.conv(b, 48, 24), 2), n.conv(a, 48, 24), axis=1)
    x = n.conv(x, 72, 24)
    x = n.Relu(n.ConvTranspose(x, n.w(24, 24, 2, 2), n.b(24), kernel_shape=[2, 2], strides=[2, 2]))
    n.output(n.Sigmoid(n.ConvTranspose(x, n.w(24, 1, 2, 2), n.b(1), kernel_shape=[2, 2], strides=[2, 2])))
    return [{"batch": 1, "height": 320, "width": 480}, {"batch": 2, "height": 96, "width": 160}]


@net
def text_lines(n):
    x = n.input("image", ["batch", 1, 32, "width"])
    for i, o, pool in ((1, 32, [2, 2]), (32, 64, [2, 2]), (64, 128, [2, 1]), (128, 128, [2, 1])):
        x = n.MaxPool(n.conv(x, i, o), kernel_shape=pool, strides=pool)
    x = n.Squeeze(n.Conv(x, n.w(128, 128, 2, 1), n.b(128), kernel_shape=[2, 1]), [2])
    x = n.recurrent("LSTM", n.Transpose(x, perm=[2, 0, 1]), 128, 64, both=True)
    n.output(n.Softmax(n.linear(x, 128, 97), axis=2))
    return [{"batch": 1, "width": 320}, {"batch": 3, "width": 100}]


@net
def text_patches(n):
    x = n.conv(n.conv(n.input("image", ["batch", 3, 48, "width"]), 3, 32, 3, 2, act="Gelu"), 32, 64, 3, 2, act="Gelu")
    x = n.Transpose(n.Reshape(x, [0, 64, -1]), perm=[0, 2, 1])
    for _ in range(2):
        x = n.encoder(x, 64, 2, 256, first=True)
    x = n.Reshape(n.Transpose(n.layer_norm(x, 64), perm=[0, 2, 1]), [0, 64, 12, -1])
    x = n.Squeeze(n.ReduceMean(x, axes=[2]), [2])
    n.output(n.Softmax(n.linear(n.Transpose(x, perm=[0, 2, 1]), 64, 97), axis=-1))
    return [{"batch": 1, "width": 160}, {"batch": 2, "width": 64}]


@net
def text_angle(n):
    x = n.conv(n.input("image", ["batch", 3, 48, 192]), 3, 8, 3, 2, act="HardSwish")
    for i, o, wide, k, s in ((8, 8, 8, 3, 2), (8, 16, 32, 3, 2), (16, 16, 48, 3, 1), (16, 32, 96, 5, 2), (32, 32, 96, 5, 1)):
        x = n.inverted(x, i, o, wide, k, s)
    x = n.Flatten(n.GlobalMaxPool(n.conv(x, 32, 128, 1, act="HardSwish")))
    n.output(n.Softmax(n.Gemm(x, n.w(128, 2), n.b(2)), axis=1))
    return [{"batch": 1}, {"batch": 6}]


@net
def table_structure(n):
    x = n.input("image", ["batch", 3, 128, 128])
    for i, o in ((3, 16), (16, 32), (32, 64)):
        x = n.residual(x, i, o, 2)
    memory = n.Transpose(n.Reshape(x, [0, 64, -1]), perm=[0, 2, 1])
    y = n.Gather(n.w(50, 64), n.input("tokens", ["batch", "length"], ids(50)))
    for _ in range(2):
        y = n.layer_norm(n.Add(y, n.attention(y, 64, 4, memory=memory)), 64)
        y = n.layer_norm(n.Add(y, n.linear(n.linear(y, 64, 128, "Relu"), 128, 64)), 64)
    n.output(n.linear(y, 64, 50), n.Sigmoid(n.linear(y, 64, 4)))
    return [{"batch": 1, "length": 30}, {"batch": 2, "length": 7}]


# ---- detection ----
@net
def one_stage(n):
    def split_block(x, c):
        a, b = n.Split(n.conv(x, c, c, 1, act="Silu"), axis=1, outs=2)
        y = n.Add(b, n.conv(n.conv(b, c // 2, c // 2, act="Silu"), c // 2, c // 2, act="Silu"))
        return n.conv(n.Concat(a, b, y, axis=1), c * 3 // 2, c, 1, act="Silu")

    x = n.conv(n.input("image", ["batch", 3, 256, 256]), 3, 16, 3, 2, act="Silu")
    x = split_block(n.conv(x, 16, 32, 3, 2, act="Silu"), 32)
    a = split_block(n.conv(x, 32, 64, 3, 2, act="Silu"), 64)
    b = split_block(n.conv(a, 64, 128, 3, 2, act="Silu"), 128)
    y = n.conv(b, 128, 64, 1, act="Silu")
    pools = [y]
    for _ in range(3):
        pools.append(n.MaxPool(pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    b = n.conv(n.Concat(*pools, axis=1), 256, 128, 1, act="Silu")
    a = n.conv(n.Concat(a, n.Resize(b, None, np.array([1, 1, 2, 2], np.float32), mode="nearest"), axis=1), 192, 64, 1, act="Silu")
    boxes, scores = [], []
    for y, c in ((a, 64), (b, 128)):
        boxes.append(n.Reshape(n.conv(n.conv(y, c, 64, act="Silu"), 64, 64, 1, act=None), [0, 64, -1]))
        scores.append(n.Reshape(n.conv(n.conv(y, c, 64, act="Silu"), 64, 20, 1, act=None), [0, 20, -1]))
    d = n.Softmax(n.Transpose(n.Reshape(n.Concat(*boxes, axis=2), [0, 4, 16, -1]), perm=[0, 2, 1, 3]), axis=1)
    d = n.Conv(d, np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1), kernel_shape=[1, 1])
    n.output(n.Concat(n.Squeeze(d, [1]), n.Sigmoid(n.Concat(*scores, axis=2)), axis=1))
    return [{"batch": 1}, {"batch": 2}]


@net
def anchors(n):
    x = n.conv(n.input("image", ["batch", 3, 160, 160]), 3, 16, 3, 2)
    maps, boxes, scores = [], [], []
    for i, o in ((16, 32), (32, 64), (64, 96), (96, 96)):
        x = n.inverted(x, i, o, i * 4, s=2, act="Relu", gate=False)
        maps.append((x, o))
    for y, c in maps[1:]:
        boxes.append(n.Reshape(n.Transpose(n.conv(y, c, 24, act=None), perm=[0, 2, 3, 1]), [0, -1, 4]))
        scores.append(n.Reshape(n.Transpose(n.conv(y, c, 126, act=None), perm=[0, 2, 3, 1]), [0, -1, 21]))
    n.output(n.Concat(*boxes, axis=1), n.Softmax(n.Concat(*scores, axis=1), axis=2))
    return [{"batch": 1}, {"batch": 3}]


@net
def centres(n):
    x = n.input("image", ["batch", 3, 128, 128])
    for i, o in ((3, 32), (32, 64), (64, 128)):
        x = n.residual(x, i, o, 2)
    x = n.Relu(n.ConvTranspose(x, n.w(128, 64, 4, 4), n.b(64), kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4))
    heat = n.Sigmoid(n.Mul(n.conv(n.conv(x, 64, 64), 64, 10, 1, act=None), 0.1))
    peak = n.Equal(heat, n.MaxPool(heat, kernel_shape=[3, 3], pads=[1] * 4))
    heat = n.Reshape(n.Mul(heat, n.Cast(peak, to=1)), [0, -1])
    best, at = n.TopK(heat, [50], axis=1, outs=2)
    sizes = n.Transpose(n.Reshape(n.conv(n.conv(x, 64, 64), 64, 2, 1, act=None), [0, 2, -1]), perm=[0, 2, 1])
    cell = n.Expand(n.Unsqueeze(n.Mod(at, np.int64(32 * 32)), [2]), [1, 1, 2])
    n.output(best, at, n.GatherElements(sizes, cell, axis=1))
    return [{"batch": 1}, {"batch": 2}]


@net
def faces(n):
    x = n.conv(n.input("image", ["batch", 3, 128, 128]), 3, 24, 5, 2)
    c = 24
    for o, s in ((24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1)):
        y = n.conv(n.conv(x, c, c, 3, s, g=c, act=None), c, o, 1, act=None)
        x = n.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]) if s == 2 else x
        x = n.Pad(x, [0, 0, 0, 0, 0, o - c, 0, 0]) if o > c else x
        x, c = n.Relu(n.Add(x, y)), o
    n.output(n.Reshape(n.Transpose(n.conv(x, 64, 32, 1, act=None), perm=[0, 2, 3, 1]), [0, -1, 16]),
             n.Sigmoid(n.Reshape(n.Transpose(n.Mul(n.conv(x, 64, 2, 1, act=None), 0.002), perm=[0, 2, 3, 1]), [0, -1, 1])))
    return [{"batch": 1}, {"batch": 4}]


@net
def queries(n):
    x = n.input("image", ["batch", 3, 128, 160])
    for i, o in ((3, 24), (24, 48), (48, 96), (96, 96)):
        x = n.residual(x, i, o, 2)
    x = n.Add(n.Transpose(n.Reshape(x, [0, 96, -1]), perm=[0, 2, 1]), n.w(80, 96))
    memory = n.encoder(x, 96, 4, 192)
    q = n.Add(n.Mul(n.ReduceMean(memory, axes=[1]), 0.0), n.w(1, 25, 96, gain=5.0))
    for _ in range(2):
        q = n.layer_norm(n.Add(q, n.attention(q, 96, 4)), 96)
        q = n.layer_norm(n.Add(q, n.attention(q, 96, 4, memory=memory)), 96)
        q = n.layer_norm(n.Add(q, n.linear(n.linear(q, 96, 192, "Relu"), 192, 96)), 96)
    n.output(n.linear(q, 96, 21), n.Sigmoid(n.linear(n.linear(q, 96, 96, "Relu"), 96, 4)))
    return [{"batch": 1}, {"batch": 2}]
