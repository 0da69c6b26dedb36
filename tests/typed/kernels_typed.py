#!/usr/bin/env python3
"""No float32 product, convolution or element-wise node is left to the reference, of any rank, of numbers or open sizes."""
import itertools
import json

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from typed import Typed, main

FLOAT, value = TensorProto.FLOAT, helper.make_tensor_value_info
UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log Mish Neg
 Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu""".split()
BINARY = "Add Sub Mul Div Pow PRelu Max Min Mean Sum Equal Greater Less GreaterOrEqual LessOrEqual Mod".split()
SHAPES = [[], [7], ["n"], [2, 3], ["n", "c"], ["n", 1, "t"], [2, 3, 4], ["n", 3, 4, 5], ["n", "c", "h", "w"], ["n", "c", "d", "h", "w"], list("abcdef"), [1, 1, 1, 1]]
PRODUCTS = [  # shapes of both sides
    ([4], [4]), (["k"], ["k"]), ([3, 4], [4]), ([4], [4, 5]), (["m", "k"], ["k", "n"]), (["m", "k"], ["p", "n"]), ([2, 3, 4], [4, 5]), ([1, 3, 4], [2, 4, 5]), ([2, 1, 3, 4], [5, 4, 6]),
    (["b", "m", "k"], ["k", "n"]), (["m", "k"], ["b", "k", "n"]), (["b", "m", "k"], ["b", "k", "n"]), (["b", "h", "m", "k"], ["b", 1, "k", "n"]), (["b", "m", 1], ["b", 1, "n"]), (["b", "m", "k"], ["k"]),
    (["k"], ["b", "k", "n"]), (["p", "q", "r"], ["s", "t", "u"]), ([3, 3], [3, "n"]), ([1, 1], [1, 1]), ([1024, 1], [1, 1024]), ([1, 400], [400, 1]), (list("abcde"), list("abcef")),
    (["q", 1, 4, 8, 6], [1, "d", 4, 6, 5]), ([2, 1, 3, 1, 4, 5], [1, 7, 3, 2, 5, 4]), (["a", 1, "c", "m", "k"], ["b", 1, "k", "n"]),
]  # fmt: skip


def others(shape):
    """Shapes that meet this one: numbers, rows, columns, itself, and each axis with a name of its own."""
    rank = len(shape)
    out = [[], [1], shape, [1] * rank, shape[1:], [shape[0]] + [1] * (rank - 1) if rank else [], [1] * (rank - 1) + shape[-1:], [f"p{k}" for k in range(rank)]]
    if rank < 6:
        out.append(["k", *shape])
    return [list(s) for s in dict.fromkeys(map(tuple, out))]


class Kernels(Typed):
    def check(self, name, nodes, inputs, weights=()):
        """All are outputs of one graph, so that each is a step of its own or in a kernel with others."""
        outputs = [helper.make_empty_tensor_value_info(o) for n in nodes for o in n.output]
        graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--force", "--quiet", "--no-tune", "--no-verify")
        steps = json.loads((self.folder / "m.engine.proof").read_text())["steps"]
        self.assertEqual([s["name"] for s in steps if s["chosen"] == "reference"], [], name)
        self.assertTrue(steps, name)

    def test_unary(self):
        for shape in SHAPES:
            with self.subTest(shape):
                nodes = [helper.make_node(op, ["x"], [op]) for op in UNARY]
                nodes += [helper.make_node("Clip", ["x", *given], ["clip" + "_".join(given)]) for given in (["low"], ["", "high"], ["low", "high"], ["open", "high"])]
                nodes += [helper.make_node("Cast", ["x"], [f"to{t}"], to=t) for t in (TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8, TensorProto.DOUBLE, TensorProto.BFLOAT16)]
                self.check(shape, nodes, [value("x", FLOAT, shape), value("open", FLOAT, [])], [numpy_helper.from_array(numpy.float32(v), n) for n, v in (("low", -1), ("high", 1))])

    def test_binary(self):
        for shape in SHAPES:
            for k, other in enumerate(others(shape)):
                constant = all(isinstance(d, int) for d in other) and k % 2 == 0
                with self.subTest(shape, other=other, constant=constant):
                    more = lambda op: {"fmod": 1} if op == "Mod" else {}
                    nodes = [helper.make_node(op, ["x", "z"], [op], **more(op)) for op in BINARY if op != "PRelu" or len(other) <= len(shape)]
                    nodes += [helper.make_node(op, ["z", "x"], [op + "2"], **more(op)) for op in BINARY if op != "PRelu"]
                    nodes += [helper.make_node("Where", ["c", "x", "z"], ["where"]), helper.make_node("Where", ["c", "z", "x"], ["where2"])]
                    inputs = [value("x", FLOAT, shape), value("c", TensorProto.BOOL, shape)]
                    weights = [numpy_helper.from_array(numpy.full(other, 0.5, numpy.float32), "z")] if constant else []
                    self.check(shape, nodes, inputs if constant else [*inputs, value("z", FLOAT, other)], weights)

    def test_products(self):
        nodes, inputs, weights = [], [], []
        for k, (a, b) in enumerate(PRODUCTS):
            inputs += [value(f"a{k}", FLOAT, [f"{d}{k}" if isinstance(d, str) else d for d in a]), value(f"b{k}", FLOAT, [f"{d}{k}" if isinstance(d, str) else d for d in b])]
            nodes.append(helper.make_node("MatMul", [f"a{k}", f"b{k}"], [f"y{k}"]))
            for side, shape in (("a", a), ("b", b)):
                if all(isinstance(d, int) for d in shape):
                    weights.append(numpy_helper.from_array(numpy.full(shape, 0.5, numpy.float32), f"w{side}{k}"))
                    nodes.append(helper.make_node("MatMul", [f"wa{k}", f"b{k}"] if side == "a" else [f"a{k}", f"wb{k}"], [f"{side}y{k}"]))
        for k, (a, b, size) in enumerate(itertools.product((0, 1), (0, 1), ((3, 4, 5), ("m", "k", "n"), ("m", 4, 5), (1, 1, 1)))):
            m, inner, n = (f"{d}g{k}" if isinstance(d, str) else d for d in size)
            inputs += [value(f"ga{k}", FLOAT, [inner, m] if a else [m, inner]), value(f"gb{k}", FLOAT, [n, inner] if b else [inner, n])]
            for j, c in enumerate((None, [], [1], [n], [m, n], [m, 1])):
                inputs += [] if c is None else [value(f"gc{k}_{j}", FLOAT, c)]
                nodes += [helper.make_node("Gemm", [f"ga{k}", f"gb{k}"] + ([] if c is None else [f"gc{k}_{j}"]), [f"g{k}_{j}_{f}"], transA=a, transB=b, alpha=f, beta=f) for f in (1.0, 0.5)]
        self.check("products", nodes, inputs, weights)

    def test_convolutions(self):
        for shape, constant in itertools.product(([1, 4, 9, 9], ["n", 4, "h", "w"]), (True, False)):
            nodes, inputs, weights = [], [value("x", FLOAT, shape)], []
            for k, (op, group, kernel, dilation, stride, pad) in enumerate(itertools.product(("Conv", "ConvTranspose"), (1, 2, 4), ((1, 1), (3, 3), (1, 5), (2, 2)), (1, 2), (1, 2), ("VALID", "SAME_UPPER", "SAME_LOWER", [1, 1, 1, 1], [0, 1, 1, 0]))):
                if op == "ConvTranspose" and (pad == "VALID" or dilation * stride == 4):
                    continue
                of = [8, 4 // group, *kernel] if op == "Conv" else [4, 8 // group, *kernel]
                if k < 64 or k % 7 == 0:
                    weights += [numpy_helper.from_array(numpy.full(of, 0.1, numpy.float32), f"w{k}")] if constant else []
                    inputs += [] if constant else [value(f"w{k}", FLOAT, of)]
                    where = {"auto_pad": pad} if isinstance(pad, str) else {"pads": pad}
                    nodes.append(helper.make_node(op, ["x", f"w{k}"], [f"y{k}"], group=group, dilations=[dilation] * 2, strides=[stride] * 2, **where))
            with self.subTest(shape, constant=constant):
                self.check(shape, nodes, inputs, weights)

    def test_products_of_batches_in_many_groups(self):
        rng = numpy.random.default_rng(3)
        for a, b in (((3, 1, 4, 8, 6), (1, 5, 4, 6, 5)), ((2, 1, 3, 1, 4, 5), (1, 7, 3, 2, 5, 4)), ((2, 1, 3, 1, 4), (2, 1, 4, 2)), ((1, 2, 1, 3, 1, 2, 4, 4), (2, 1, 2, 1, 2, 2, 4, 1))):
            for open_sizes in (False, True):
                with self.subTest(a=a, b=b, open_sizes=open_sizes):
                    feed = {"a": rng.normal(size=a).astype(numpy.float32), "b": rng.normal(size=b).astype(numpy.float32)}
                    named = lambda s: [d if d == 1 or not open_sizes else f"d{len(s) - k}" for k, d in enumerate(s[:-2])] + list(s[-2:])
                    inputs = [value("a", FLOAT, named(a)), value("b", FLOAT, named(b))]
                    self.check("groups", [helper.make_node("MatMul", ["a", "b"], ["y"])], inputs)
                    for n, v in feed.items():
                        numpy.save(self.folder / f"{n}.npy", v)
                    self.ends(0, "run", "m.engine", "-i", "a=a.npy", "-i", "b=b.npy", "--output-dir", "out", "--quiet")
                    numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), feed["a"].astype(float) @ feed["b"], rtol=1e-4, atol=1e-4)

    def test_transposed_convolutions_of_given_weights(self):
        rng = numpy.random.default_rng(3)
        for group, window, more, open_sizes in (
            (1, (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, True),
            (2, (4, 2), {"strides": [3, 1], "dilations": [2, 1], "pads": [0, 2, 1, 0]}, True),
            (4, (1, 1), {"strides": [1, 2]}, False),
            (1, (2, 3), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}, True),
            (2, (2, 2), {"pads": [2, 2, 2, 2], "dilations": [1, 2]}, False),
            (1, (3, 3), {"strides": [2, 2], "output_shape": [9, 10]}, False),
        ):
            for bias in (False, True):
                with self.subTest(group=group, window=window, bias=bias, **more):
                    feed = {"x": rng.normal(size=(2, 4, 5, 5)), "w": rng.normal(size=(4, 8 // group, *window)), **({"b": rng.normal(size=8)} if bias else {})}
                    feed = {n: v.astype(numpy.float32) for n, v in feed.items()}
                    inputs = [value(n, FLOAT, ["n", 4, "h", "v"] if n == "x" and open_sizes else v.shape) for n, v in feed.items()]
                    self.check("computed weights", [helper.make_node("ConvTranspose", list(feed), ["y"], group=group, **more)], inputs)
                    for n, v in feed.items():
                        numpy.save(self.folder / f"{n}.npy", v)
                    self.ends(0, "run", "m.engine", *[w for n in feed for w in ("-i", f"{n}={n}.npy")], "--output-dir", "out", "--quiet")
                    theirs = onnxruntime.InferenceSession(self.folder / "m.onnx").run(None, feed)[0]
                    numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), theirs, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
