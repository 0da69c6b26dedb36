"""Operators in the sizes in which networks hold them: for each row an operator, what is special about it, and three lists
of arguments, small, usual and large. operator_matrix.py makes models of them."""
import math

import numpy as np

SIZES = ("small", "usual", "large")
TYPES = {"str": object, "f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8,
         "bool": np.bool_}


class Given:
    """An input of a run: values below `high`, of `low` at least; floats are normal where no bounds are given."""

    def __init__(self, kind, dims, low=None, high=None, distinct=False):
        self.kind, self.dims, self.low, self.high, self.distinct = kind, list(dims), low, high, distinct

    def make(self, rng):
        kind = TYPES[self.kind]
        if self.distinct:  # each place once along the last axis
            rows = [rng.permutation(self.high)[: self.dims[-1]] for _ in range(max(1, math.prod(self.dims[:-1])))]
            return np.array(rows, kind).reshape(self.dims)
        if self.kind == "str":
            return rng.choice(np.array(self.high, object), self.dims)
        if self.kind == "bool":
            return rng.random(self.dims) < 0.5
        if np.issubdtype(kind, np.integer):
            return rng.integers(self.low or 0, 100 if self.high is None else self.high, self.dims).astype(kind)
        values = rng.standard_normal(self.dims) if self.low is None else rng.uniform(self.low, self.high, self.dims)
        return values.astype(kind)


class Held:
    """A constant of the model: an array, or dims of seeded weights."""

    def __init__(self, value, kind=None):
        self.value, self.kind = value, kind

    def make(self, rng):
        if self.kind is None:
            return np.asarray(self.value)
        fan = math.prod(self.value[1:]) or 1
        return (rng.standard_normal(self.value) / math.sqrt(fan)).astype(TYPES[self.kind])


def F(*dims):
    return Given("f32", dims)


def U(*dims):
    return Given("f32", dims, 0.05, 0.95)


def L(*dims, high=100, kind="i64", distinct=False):
    return Given(kind, dims, 0, high, distinct)


def B(*dims):
    return Given("bool", dims)


def W(*dims):
    return Held(dims, "f32")


def K(*numbers):
    return Held(np.array(numbers, np.int64))


def S(number, kind=np.float32):
    return Held(np.array(number, kind))


IMAGES = ((1, 16, 28, 28), (1, 64, 56, 56), (4, 64, 112, 112))
ROWS = ((1, 16, 64), (1, 128, 768), (8, 128, 768))


class Row:
    """One operator: `cases` are three lists of arguments, or three pairs of arguments and attributes."""

    def __init__(self, op, cases, note="", outputs=1, opset=20, domain="", version=1, texts=False, **attributes):
        self.op, self.note, self.outputs, self.opset = op, note, outputs, opset
        self.domain, self.version, self.texts = domain, version, texts  # texts: a result is of strings
        self.cases = [(c if isinstance(c, tuple) else (c, {})) for c in cases]
        self.cases = [(list(arguments), {**attributes, **own}) for arguments, own in self.cases]

    def is_text(self):
        return False

    def full_name(self):
        return f"{self.domain}.{self.op}" if self.domain else self.op

    def name(self):
        return f"{self.full_name()} {self.note}".strip()

    def described(self, case):
        return [list(x.dims) if isinstance(x, Given) else "constant" for x in self.cases[case][0]]


class Text(Row):
    """One operator in graphs that a node alone does not make: bodies, sequences. `cases` are texts of ONNX; `given` are
    values of inputs by name, the others are random."""

    def __init__(self, op, cases, note="", opset=20, given=None):
        super().__init__(op, [([text], {}) for text in cases], note, opset=opset)
        self.cases, self.given = [[text] for text in cases], given or {}

    def is_text(self):
        return True

    def described(self, case):
        return self.cases[case]


def each(op, dims, make=F, note="", **more):
    return Row(op, [[make(*d)] for d in dims], note, **more)


def elementwise():
    for op in ("Abs Ceil Cos Elu Erf Exp Floor HardSigmoid HardSwish IsInf IsNaN LeakyRelu Mish Neg Relu Round Selu Sigmoid Sign Sin "
               "Softplus Softsign Tan Tanh Celu Acos Asin Atan Sinh Cosh ThresholdedRelu Gelu Shrink Identity").split():
        yield each(op, IMAGES, U if op in ("Acos", "Asin") else F)
    for op in ("Log", "Sqrt", "Reciprocal"):
        yield each(op, IMAGES, U)
    for op in ("Acosh", "Asinh", "Atanh"):
        yield each(op, IMAGES, (lambda *d: Given("f32", d, 1.1, 3.0)) if op == "Acosh" else U)
    yield Row("Clip", [[F(*d), S(0), S(6)] for d in IMAGES])
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Sum", "Mean"):
        yield Row(op, [[F(*d), U(*d)] for d in IMAGES] if op != "PRelu" else [[F(*d), W(d[1], 1, 1)] for d in IMAGES])
    yield Row("Pow", [[U(*d), S(2.0)] for d in IMAGES], "square")
    yield Row("Pow", [[U(*d), S(3, np.int64)] for d in IMAGES], "cube by an integer")
    yield Row("Pow", [[U(*d), S(1.7)] for d in IMAGES])
    yield Row("Mod", [[F(*d), U(*d)] for d in IMAGES], fmod=1)
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        yield Row(op, [[F(*d), F(*d)] for d in IMAGES])
        yield Row(op, [[L(*d), S(7, np.int64)] for d in ROWS], "int64")
    for op in ("And", "Or", "Xor"):
        yield Row(op, [[B(*d), B(*d)] for d in ROWS])
    yield each("Not", ROWS, B)
    yield Row("Where", [[B(*d), F(*d), F(*d)] for d in ROWS])
    yield Row("Where", [[B(*d), L(*d), S(0, np.int64)] for d in ROWS], "int64")
    for op in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"):
        yield Row(op, [[L(*d), L(1, d[1], 1, high=9) if op not in ("Div", "Mod") else S(7, np.int64)] for d in ROWS], "int64")
    yield Row("Add", [[L(*d, kind="i32"), L(*d, kind="i32")] for d in ROWS], "int32")
    yield Row("Mul", [[Given("f64", d), Given("f64", d)] for d in ROWS], "float64")
    yield Row("Div", [[Given("f64", d), Given("f64", d, 1, 2)] for d in ROWS], "float64")
    for op in ("Abs", "Neg", "Sign", "Relu"):
        yield Row(op, [[Given("i32", d, -50, 50)] for d in ROWS], "int32")
    for op in ("Exp", "Sqrt", "Tanh"):
        yield Row(op, [[Given("f64", d, 0.1, 2)] for d in ROWS], "float64")
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Row(op, [[L(*d), L(*d)] for d in ROWS])
    yield each("BitwiseNot", ROWS, L)
    yield Row("BitShift", [[L(*d, kind="u8"), S(2, np.uint8)] for d in ROWS], direction="LEFT")
    number = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11}
    for source, to in (("f32", "i64"), ("f32", "i32"), ("f32", "u8"), ("f32", "bool"), ("f32", "f16"), ("f32", "f64"), ("i64", "f32"), ("i64", "i32"),
                       ("i64", "bool"), ("i32", "f32"), ("i32", "i64"), ("u8", "f32"), ("bool", "f32"), ("bool", "i64"), ("f16", "f32"), ("f64", "f32"),
                       ("f64", "i64")):
        bounds = (None, None) if source in ("bool", "f16") else (0, 100)
        yield Row("Cast", [[Given(source, d, *bounds)] for d in IMAGES], f"{source} to {to}", to=number[to])


def windows():
    conv = lambda n, c, o, k, *hw, g=1: [F(n, c, *hw), W(o, c // g, *([k] * len(hw))), W(o)]
    yield Row("Conv", [(conv(1, 16, 16, 3, 28, 28), {"pads": [1] * 4}), (conv(1, 64, 64, 3, 56, 56), {"pads": [1] * 4}),
                       (conv(4, 128, 128, 3, 56, 56), {"pads": [1] * 4})], "3x3")
    yield Row("Conv", [conv(1, 16, 1, 1, 80, 80), conv(1, 16, 1, 1, 160, 160), conv(4, 16, 1, 1, 160, 160)], "16 to 1 channels")
    yield Row("Conv", [(conv(1, 13, 27, 3, 28, 28), {"pads": [1] * 4}), (conv(1, 51, 75, 3, 56, 56), {"pads": [1] * 4}),
                       (conv(4, 51, 75, 3, 56, 56), {"pads": [1] * 4})], "odd channels")
    yield Row("Conv", [(conv(1, 32, 32, 3, 28, 28, g=4), {"pads": [1] * 4, "group": 4}), (conv(1, 128, 128, 3, 56, 56, g=32), {"pads": [1] * 4, "group": 32}),
                       (conv(4, 128, 128, 3, 56, 56, g=32), {"pads": [1] * 4, "group": 32})], "groups")
    yield Row("Conv", [(conv(1, 16, 16, 3, 28, 28), {"pads": [2] * 4}), (conv(1, 64, 64, 3, 56, 56), {"pads": [2] * 4}),
                       (conv(4, 64, 64, 3, 56, 56), {"pads": [2] * 4})], "dilated", dilations=[2, 2])
    yield Row("Conv", [([F(n, c, h, h), W(c, c, 1, 7), W(c)], {"pads": [0, 3, 0, 3]}) for n, c, h in ((1, 16, 28), (1, 64, 35), (4, 128, 35))], "1x7")
    yield Row("Conv", [(conv(1, 8, 8, 3, 8, 16, 16), {"pads": [1] * 6}), (conv(1, 32, 32, 3, 16, 28, 28), {"pads": [1] * 6}),
                       (conv(1, 64, 64, 3, 16, 56, 56), {"pads": [1] * 6})], "3-D")
    yield Row("Conv", [(conv(1, c, c, 3, d, h, h, g=c), {"pads": [1] * 6, "group": c}) for c, d, h in ((16, 8, 14), (64, 16, 28), (64, 16, 56))], "3-D depthwise")
    yield Row("Conv", [(conv(1, 16, 16, 3, 100), {"pads": [1] * 2}), (conv(1, 80, 256, 3, 1000), {"pads": [1] * 2}),
                       (conv(4, 256, 256, 3, 1000), {"pads": [1] * 2})], "1-D")
    yield Row("ConvTranspose", [[F(1, 16, 14, 14), W(16, 8, 2, 2)], [F(1, 64, 28, 28), W(64, 32, 2, 2)], [F(2, 128, 56, 56), W(128, 64, 2, 2)]], strides=[2, 2])
    yield Row("ConvTranspose", [[F(1, 8, 4, 8, 8), W(8, 8, 2, 2, 2)], [F(1, 32, 8, 14, 14), W(32, 16, 2, 2, 2)],
                                [F(1, 64, 8, 28, 28), W(64, 32, 2, 2, 2)]], "3-D", strides=[2, 2, 2])
    yield Row("Conv", [([F(n, c, h, h), F(c, c, 3, 3)], {"pads": [1] * 4}) for n, c, h in ((1, 16, 28), (1, 64, 56), (1, 256, 28))], "computed weights")
    yield Row("ConvTranspose", [([F(1, c, h, h), W(c, 1, k, k)], {"group": c, "strides": [s, s]}) for c, h, k, s in ((16, 14, 4, 2), (64, 50, 4, 2), (21, 64, 16, 8))], "depthwise")
    yield Row("ConvTranspose", [([F(1, c, h, h), F(c, c, 4, 4)], {"pads": [1] * 4, "strides": [2, 2]}) for c, h in ((16, 14), (64, 28), (128, 28))], "computed weights")
    yield Row("DeformConv", [[F(1, 8, 14, 14), W(8, 8, 3, 3), F(1, 18, 14, 14)], [F(1, 32, 28, 28), W(32, 32, 3, 3), F(1, 18, 28, 28)],
                             [F(1, 64, 56, 56), W(64, 64, 3, 3), F(1, 18, 56, 56)]], pads=[1] * 4)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield each(op, IMAGES, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        yield each(op, IMAGES, note="SAME_UPPER", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        yield each(op, IMAGES, note="SAME_LOWER", kernel_shape=[2, 2], auto_pad="SAME_LOWER")
        yield each(op, ((1, 8, 8, 16, 16), (1, 32, 16, 28, 28), (1, 64, 16, 56, 56)), note="3-D", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    yield each("MaxPool", IMAGES, note="with indices", outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    yield each("MaxPool", IMAGES, lambda *d: L(*d, kind="u8"), note="uint8", kernel_shape=[2, 2], strides=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield each(op, IMAGES)
    yield each("GlobalAveragePool", ((1, 8, 8, 16, 16), (1, 32, 16, 28, 28), (1, 64, 16, 56, 56)), note="3-D")
    yield Row("MaxUnpool", [[F(*d), L(*d, high=math.prod(d) * 4)] for d in IMAGES], kernel_shape=[2, 2], strides=[2, 2])
    yield Row("Col2Im", [[F(1, c * 9, (h - 2) ** 2), K(h, h), K(3, 3)] for c, h in ((4, 14), (32, 28), (64, 56))])


def normalised():
    scales = lambda d: [W(d[1]), W(d[1])]
    yield Row("BatchNormalization", [[F(*d), *scales(d), W(d[1]), Held(np.full(d[1], 0.7, np.float32))] for d in IMAGES])
    yield Row("InstanceNormalization", [[F(*d), *scales(d)] for d in IMAGES])
    yield Row("GroupNormalization", [[F(*d), *scales(d)] for d in IMAGES], opset=21, num_groups=8)
    yield Row("LayerNormalization", [[F(*d), W(d[-1]), W(d[-1])] for d in ROWS])
    yield Row("RMSNormalization", [[F(*d), W(d[-1])] for d in ROWS], opset=23)
    yield each("LpNormalization", ROWS)
    yield each("LpNormalization", IMAGES, note="of channels", axis=1, p=2)
    yield each("LRN", IMAGES, size=5)
    yield each("MeanVarianceNormalization", IMAGES, opset=12)
    yield each("Softmax", ROWS)
    yield each("Softmax", IMAGES, note="of channels", axis=1)
    yield each("LogSoftmax", ROWS)
    yield each("Hardmax", ROWS)
    yield each("LogSoftmax", IMAGES, note="of channels", axis=1)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"):
        yield Row(op, [[U(*d), K(-1)] for d in ROWS])
        yield Row(op, [[U(*d), K(2, 3)] for d in IMAGES], "of images", keepdims=0)
    yield Row("ReduceMean", [[F(*d), K(1)] for d in IMAGES], "of channels")
    yield Row("ReduceMean", [[F(*d), K(0, 2, 3)] for d in IMAGES], "of axes apart")
    yield Row("ReduceSum", [[L(*d), K(-1)] for d in ROWS], "int64")
    yield Row("ReduceMax", [[L(*d, kind="i32"), K(1)] for d in ROWS], "int32")
    yield Row("ReduceSum", [[Given("f64", d), K(-1)] for d in ROWS], "float64")
    for op in ("ArgMax", "ArgMin"):
        yield each(op, ROWS, axis=-1)
        yield each(op, IMAGES, note="of channels", axis=1)
    yield each("ArgMax", ROWS, L, note="int64", axis=-1)
    yield Row("CumSum", [[F(*d), S(1, np.int64)] for d in ROWS])
    yield Row("CumSum", [[L(*d), S(2, np.int64)] for d in ROWS], "int64")
    yield Row("TopK", [[F(1, 1000), K(5)], [F(1, 8400), K(300)], [F(8, 100000), K(1000)]], outputs=2)
    yield Row("TopK", [[F(1, 28, 28, 16), K(1)], [F(1, 128, 768), K(8)], [F(8, 1024, 64), K(2)]], "of rows", outputs=2)


def products():
    yield Row("MatMul", [[F(1, 16, 64), W(64, 64)], [F(1, 128, 768), W(768, 768)], [F(8, 128, 768), W(768, 3072)]])
    yield Row("MatMul", [[F(1, 4, 16, 32), F(1, 4, 32, 16)], [F(1, 12, 128, 64), F(1, 12, 64, 128)], [F(8, 12, 128, 64), F(8, 12, 64, 128)]], "of runs")
    yield Row("MatMul", [[F(4, 1, 16, 32), F(3, 32, 16)], [F(8, 1, 128, 64), F(12, 64, 128)], [F(16, 1, 128, 64), F(12, 64, 128)]], "broadcast")
    yield Row("MatMul", [[F(1, 64), F(64, 64)], [F(1, 768), F(768, 768)], [F(1, 2048), F(2048, 2048)]], "of one row")
    yield Row("MatMul", [[Given("f64", (16, 64)), Given("f64", (64, 64))], [Given("f64", (128, 256)), Given("f64", (256, 256))],
                         [Given("f64", (256, 512)), Given("f64", (512, 512))]], "float64")
    yield Row("MatMul", [[L(16, 64), L(64, 64)], [L(128, 128), L(128, 128)], [L(256, 256), L(256, 256)]], "int64")
    yield Row("Gemm", [[F(1, 64), W(10, 64), W(10)], [F(1, 768), W(1000, 768), W(1000)], [F(64, 2048), W(1000, 2048), W(1000)]], transB=1)
    for text, dims in (("bhid,bhjd->bhij", (((1, 4, 16, 32), (1, 4, 16, 32)), ((1, 12, 128, 64), (1, 12, 128, 64)), ((8, 12, 128, 64), (8, 12, 128, 64)))),
                       ("bij,bjk->bik", (((1, 16, 16), (1, 16, 16)), ((4, 128, 128), (4, 128, 128)), ((8, 256, 256), (8, 256, 256)))),
                       ("bchw,cd->bdhw", (((1, 16, 14, 14), (16, 16)), ((1, 64, 56, 56), (64, 64)), ((4, 64, 56, 56), (64, 128)))),
                       ("bi,bi->b", (((4, 64), (4, 64)), ((128, 768), (128, 768)), ((1024, 768), (1024, 768))))):
        yield Row("Einsum", [[F(*x), F(*y)] for x, y in dims], text, equation=text)
    lstm = lambda s, b, n, g: [F(s, b, n), W(1, g * n, n), W(1, g * n, n), W(1, 2 * g * n)]
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        yield Row(op, [(lstm(*size, gates), {"hidden_size": size[2]}) for size in ((10, 1, 32), (50, 1, 128), (100, 8, 256))])


def moved():
    yield Row("Transpose", [each_dims for each_dims in ([F(*d)] for d in IMAGES)], perm=[0, 2, 3, 1])
    yield each("Transpose", ((1, 16, 4, 16), (1, 128, 12, 64), (8, 128, 12, 64)), note="of heads", perm=[0, 2, 1, 3])
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield Row("Pad", [[F(*d), K(0, 0, 1, 1, 0, 0, 1, 1)] for d in IMAGES], mode, mode=mode)
    yield Row("Pad", [[F(1, n), K(0, 200, 0, 200)] for n in (4000, 16000, 480000)], "reflect of a signal", mode="reflect")
    yield Row("Pad", [[L(*d), K(0, 0, 0, 0, 5, 0)] for d in ROWS], "int64")
    yield Row("Slice", [[F(*d), K(1), K(-1), K(2)] for d in IMAGES])
    yield Row("Slice", [[F(*d), K(0), K(1 << 40), K(3), K(2)] for d in IMAGES], "by steps")
    yield Row("Split", [[F(*d)] for d in ROWS], outputs=2, axis=-1, num_outputs=2)
    yield Row("Concat", [[F(*d), F(*d)] for d in IMAGES], axis=1)
    yield Row("Expand", [[F(1, d[1], 1), K(*d)] for d in ROWS])
    yield Row("Tile", [[F(*d), K(1, 2, 3)] for d in ROWS])
    yield Row("Gather", [[W(100, 32), L(1, 16)], [W(30522, 768), L(1, 128, high=30522)], [W(30522, 768), L(8, 128, high=30522)]])
    yield Row("Gather", [[F(*d), K(1, 0, 2)] for d in IMAGES], "of columns", axis=3)
    yield Row("GatherElements", [[F(*d), L(*d, high=d[-1])] for d in ROWS], axis=2)
    yield Row("GatherElements", [[F(*d), L(d[0], d[1] // 2, d[2], high=d[1])] for d in ROWS], "of rows", axis=1)
    yield Row("GatherND", [[F(16, 16, 8), L(64, 2, high=16)], [F(128, 128, 64), L(4096, 2, high=128)], [F(128, 128, 64), L(32768, 2, high=128)]])
    yield Row("GatherND", [[F(64, 64), L(64, 2, high=64)], [F(512, 512), L(65536, 2, high=512)], [F(1024, 1024), L(500000, 2, high=1000)]], "of elements")
    for reduction in ("none", "add"):
        yield Row("ScatterElements", [[F(*d), L(d[0], d[1], d[2] // 2, high=d[2], distinct=True), F(d[0], d[1], d[2] // 2)] for d in ROWS], reduction,
                  axis=2, reduction=reduction)
        yield Row("ScatterND", [[F(n, c), L(n // 2, 1, high=n), F(n // 2, c)] for n, c in ((64, 16), (4096, 64), (65536, 64))], reduction, reduction=reduction)
    yield Row("OneHot", [[L(*d, high=depth), S(depth, np.int64), Held(np.array([0, 1], np.float32))] for d, depth in (((1, 16), 10), ((8, 128), 1000), ((64, 128), 1000))])
    yield Row("Trilu", [[F(1, n, n)] for n in (16, 128, 1024)])
    yield Row("Trilu", [[B(1, n, n)] for n in (16, 128, 1024)], "bool")
    yield Row("ReverseSequence", [[F(16, 2, 32), L(2, high=16)], [F(128, 8, 256), L(8, high=128)], [F(512, 16, 256), L(16, high=512)]], time_axis=0, batch_axis=1)
    yield each("DepthToSpace", IMAGES, blocksize=2)
    yield each("DepthToSpace", IMAGES, note="CRD", blocksize=2, mode="CRD")
    yield each("SpaceToDepth", IMAGES, blocksize=2)
    yield Row("ConstantOfShape", [[Given("i64", (2,), n, n + 1)] for n in (16, 256, 1024)])
    yield Row("Range", [[S(0, np.int64), Given("i64", (), n, n + 1), S(1, np.int64)] for n in (16, 1024, 100000)])
    yield Row("EyeLike", [[F(n, n)] for n in (16, 128, 1024)])
    yield Row("NonZero", [[Given("i64", d, 0, 2)] for d in ROWS])
    yield Row("Compress", [[F(n, 16), B(n)] for n in (64, 4096, 65536)], axis=0)
    yield Row("Unique", [[L(n, high=50)] for n in (64, 4096, 65536)], outputs=4)
    yield Row("CenterCropPad", [[F(*d), K(24, 24)] for d in IMAGES], axes=[2, 3])
    yield Row("TensorScatter", [[F(1, 4, 64, 16), F(1, 4, 1, 16), K(5)], [F(1, 12, 512, 64), F(1, 12, 1, 64), K(5)], [F(8, 12, 512, 64), F(8, 12, 1, 64), K(*([5] * 8))]], opset=24)


def sampled():
    for mode, how in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel"), ("linear", "align_corners")):
        yield Row("Resize", [[F(*d), Held(np.zeros(0, np.float32)), Held(np.array([1, 1, 2, 2], np.float32))] for d in IMAGES], f"{mode} {how}", mode=mode,
                  coordinate_transformation_mode=how, **({"nearest_mode": "floor"} if mode == "nearest" else {}))
    yield Row("Resize", [[F(*d), Held(np.zeros(0, np.float32)), Held(np.array([1, 1, 0.5, 0.5], np.float32))] for d in IMAGES], "antialias", mode="linear", antialias=1)
    yield Row("Resize", [[F(*d), Held(np.zeros(0, np.float32)), Held(np.array([1, 1, 2, 2, 2], np.float32))] for d in ((1, 8, 4, 8, 8), (1, 16, 8, 14, 14), (1, 32, 8, 28, 28))],
              "linear 3-D", mode="linear")
    yield Row("Resize", [[F(*d), Held(np.zeros(0, np.float32)), Held(np.array([1, 1, 2], np.float32))] for d in ROWS], "linear 1-D", mode="linear")
    for mode, padding in (("linear", "zeros"), ("nearest", "border"), ("cubic", "zeros"), ("linear", "reflection")):
        yield Row("GridSample", [[F(*d), Given("f32", (d[0], d[2], d[3], 2), -1.1, 1.1)] for d in IMAGES], f"{mode} {padding}", mode=mode, padding_mode=padding)
    yield Row("AffineGrid", [[F(1, 2, 3), K(1, 3, n, n)] for n in (14, 56, 224)])
    yield Row("RoiAlign", [[F(1, 16, 14, 14), U(n, 4), Held(np.zeros(n, np.int64))] if n == 4 else [F(1, 256, 50, 50), Given("f32", (n, 4), 0, 40), Held(np.zeros(n, np.int64))]
                           for n in (4, 32, 256)], output_height=7, output_width=7, sampling_ratio=2, spatial_scale=1.0)
    yield Row("MaxRoiPool", [[F(1, 16, 14, 14), Held(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (n, 1)))] if n == 4 else
                             [F(1, 256, 50, 50), Held(np.tile(np.array([[0, 1, 1, 30, 30]], np.float32), (n, 1)))] for n in (4, 32, 128)], pooled_shape=[7, 7])
    yield Row("NonMaxSuppression", [[U(1, n, 4), U(1, c, n), S(50, np.int64), S(0.5), S(0.3)] for n, c in ((100, 1), (2000, 4), (8400, 10))])
    yield Row("DFT", [[F(1, n, 1)] for n in (64, 400, 4096)], onesided=1, axis=1, opset=17)
    yield Row("DFT", [[F(64, n, 2)] for n in (64, 400, 1024)], "complex", axis=1, opset=17)
    yield Row("STFT", [[F(1, n, 1), S(step, np.int64), Held(np.hanning(w).astype(np.float32)), S(w, np.int64)] for n, step, w in
                       ((1600, 64, 128), (16000, 160, 400), (160000, 160, 400))], onesided=1)
    yield Row("MelWeightMatrix", [[S(n, np.int64), S(w, np.int64), S(16000, np.int64), S(20.0), S(7600.0)] for n, w in ((40, 400), (80, 400), (128, 2048))])
    yield Row("Det", [[F(n, m, m)] for n, m in ((4, 3), (64, 4), (1024, 4))])


def quantised():
    zero, scale = S(128, np.uint8), S(0.02)
    yield Row("QuantizeLinear", [[F(*d), scale, zero] for d in IMAGES])
    yield Row("DequantizeLinear", [[L(*d, kind="u8"), scale, zero] for d in IMAGES])
    yield Row("DynamicQuantizeLinear", [[F(*d)] for d in ROWS], outputs=3)
    yield Row("MatMulInteger", [[L(16, 64, kind="u8"), L(64, 64, kind="i8")], [L(128, 768, kind="u8"), L(768, 768, kind="i8")], [L(256, 768, kind="u8"), L(768, 3072, kind="i8")]])


def rows():
    from operator_cases_rest import FAMILIES

    for family in (elementwise, windows, normalised, products, moved, sampled, quantised, *FAMILIES):
        yield from family()
