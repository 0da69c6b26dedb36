#!/usr/bin/env python3
"""Models as other programs write them: operators that ONNX Runtime has had under the domain of ONNX, functions with opsets of their own."""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from typed import Typed, main

QUICK = ("--no-tune", "--no-cache", "--quiet")


class Exported(Typed):
    def save(self, op, opset, shape, weights=(), **attributes):
        value = helper.make_tensor_value_info
        names = [f"w{k}" for k in range(len(weights))]
        graph = helper.make_graph([helper.make_node(op, ["x", *names], ["y"], name="node", **attributes)], "g", [value("x", TensorProto.FLOAT, shape)],
                                  [value("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(numpy.asarray(w), n) for w, n in zip(weights, names)])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6), self.folder / "m.onnx")

    def answer(self, x, *words):
        numpy.save(self.folder / "x.npy", x)
        self.ends(0, "run", "m.onnx", "-i", "x=x.npy", "--output-dir", "out", *QUICK, *words)
        return numpy.load(self.folder / "out/y.npy")

    def test_norms_of_optimised_models(self):
        """ONNX Runtime's optimiser writes LayerNormalization into models of any opset."""
        x, scale = numpy.arange(12, dtype=numpy.float32).reshape(2, 6) ** 2, numpy.arange(6, dtype=numpy.float32)
        apart = x - x.mean(1, keepdims=True)
        for opset in (7, 11, 16, 17):
            self.save("LayerNormalization", opset, ["n", 6], [scale], axis=-1, epsilon=0.25)
            numpy.testing.assert_allclose(self.answer(x), apart / numpy.sqrt((apart**2).mean(1, keepdims=True) + 0.25) * scale, rtol=1e-5)

    def test_experimental_operators(self):
        x = numpy.random.default_rng(3).standard_normal((2, 3, 6, 5)).astype(numpy.float32)
        bias = numpy.float32([0.1, -0.2, 0.3]).reshape(3, 1, 1)
        softplus = lambda v: numpy.log1p(numpy.exp(v))
        apart = lambda axes: x - x.mean(axes, keepdims=True)
        whole, channel = apart((1, 2, 3)), apart((2, 3))
        for op, given, wanted in (
            ("Affine", {"alpha": 2.0, "beta": 0.5}, 2 * x + 0.5),
            ("Crop", {"border": [1, 2, 0, 3]}, x[:, :, 2:3, 1:]),
            ("Crop", {"border": [1, 2, 0, 0], "scale": [3, 2]}, x[:, :, 2:5, 1:3]),
            ("ImageScaler", {"bias": [0.1, -0.2, 0.3], "scale": 0.5}, x * 0.5 + bias),
            ("MeanVarianceNormalization", {}, channel / channel.std((2, 3), keepdims=True)),
            ("MeanVarianceNormalization", {"across_channels": 1}, whole / whole.std((1, 2, 3), keepdims=True)),
            ("MeanVarianceNormalization", {"across_channels": 1, "normalize_variance": 0}, whole),
            ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, 2 * softplus(0.5 * x)),
            ("Scale", {"scale": 3.0}, 3 * x),
            ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, 2 * numpy.tanh(0.5 * x)),
            ("ThresholdedRelu", {"alpha": 0.5}, numpy.where(x > 0.5, x, 0)),
        ):
            with self.subTest(op, **given):
                self.save(op, 8, ["n", 3, 6, 5], **given)
                numpy.testing.assert_allclose(self.answer(x), wanted, rtol=1e-4, atol=1e-6)
        self.save("DynamicSlice", 8, ["n", 3, 6, 5], [[1, 2], [3, 9], [1, 3]])
        numpy.testing.assert_array_equal(self.answer(x), x[:, 1:3, :, 2:])

    def test_pictures_of_bytes_are_resized(self):
        """Antialiased they are rounded, as in other programs; else the fraction is cut off."""
        sizes, x = numpy_helper.from_array(numpy.array([1, 1, 1, 2]), "s"), numpy.uint8([[[[10, 11, 20, 22]]]])
        for antialias, wanted in ((0, [10, 21]), (1, [12, 20])):
            node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=antialias)
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 1, 1, 4])], [helper.make_tensor_value_info("y", TensorProto.UINT8, None)], [sizes])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), self.folder / "m.onnx")
            self.assertEqual(self.answer(x).ravel().tolist(), wanted)

    def test_lengths_of_sequences_that_are_none_are_refused(self):
        """By each kernel and by the reference: what is longer than the input, or less than 0."""
        rng, value = numpy.random.default_rng(5), helper.make_tensor_value_info
        for kind, dtype in ((TensorProto.FLOAT, numpy.float32), (TensorProto.DOUBLE, numpy.float64)):
            for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
                weights = [numpy_helper.from_array(rng.standard_normal(shape).astype(dtype), n) for n, shape in (("w", (1, 4 * gates, 3)), ("r", (1, 4 * gates, 4)))]
                node = helper.make_node(op, ["x", "w", "r", "", "lens"], ["", "y"], hidden_size=4)
                graph = helper.make_graph([node], "g", [value("x", kind, [3, 2, 3]), value("lens", TensorProto.INT32, [2])], [value("y", kind, None)], weights)
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "cell.onnx")
                numpy.save(self.folder / "x.npy", rng.standard_normal((3, 2, 3)).astype(dtype))
                for words in ((), ("--provider", "reference")):
                    self.ends(0, "build", "cell.onnx", "-o", "cell.engine", *QUICK, *words)
                    for lens, code in (((3, 0), 0), ((1, 4), 1), ((-1, 2), 1)):
                        with self.subTest(op=op, kind=kind, words=words, lens=lens):
                            numpy.save(self.folder / "l.npy", numpy.int32(lens))
                            said = self.ends(code, "run", "cell.engine", "-i", "x=x.npy", "-i", "lens=l.npy", "--quiet")
                            self.assertEqual("an element of sequence_lens is out of range: expected 0 to 3, found " in said, code == 1, said)

    def test_votes_for_one_class_of_two(self):
        """As LightGBM and XGBoost are written; all of a tree's leaves may be above 0."""
        x, value = numpy.float32([[-1], [1]]), helper.make_tensor_value_info
        for weights in ([0.3, 1.4], [-0.3, 1.4], [-0.5, -0.25]):
            tree = {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3, "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3,
                    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 0]}  # fmt: skip
            node = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", class_weights=weights, classlabels_int64s=[0, 1], post_transform="LOGISTIC", **tree)
            graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, ["n", 1])], [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8), self.folder / "m.onnx")
            second = 1 / (1 + numpy.exp(-numpy.array(weights)))
            for words in ((), ("--provider", "reference")):
                numpy.testing.assert_allclose(self.answer(x, *words), numpy.stack([1 - second, second], 1), rtol=1e-5)

    def test_the_number_of_a_leaf_counts_once(self):
        """skl2onnx writes it for each class, for its option decision_leaf."""
        tree = {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3, "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3,
                "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0] * 6, "target_nodeids": [1, 1, 1, 2, 2, 2], "target_ids": [0] * 6}  # fmt: skip
        node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, target_weights=[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], **tree)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8), self.folder / "m.onnx")
        for words in ((), ("--provider", "reference")):
            self.assertEqual(self.answer(numpy.float32([[-1], [1]]), *words).tolist(), [[1], [2]])

    def test_a_condition_that_is_longer_than_its_axis(self):
        """As in NumPy: it may keep nothing there; an element beyond is an error that says what others make of it."""
        x, value = numpy.arange(6, dtype=numpy.float32).reshape(2, 3), helper.make_tensor_value_info
        for axis, inside, beyond, said in (
            (1, [0, 1, 0, 0, 0], [1, 0, 0, 1], "expected none from 3 on, found 3"),
            (None, [1, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 1], "expected none from 6 on, found 7"),
        ):
            node = helper.make_node("Compress", ["x", "keep"], ["y"], name="node", **({} if axis is None else {"axis": axis}))
            graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, ["n", 3]), value("keep", TensorProto.BOOL, ["k"])], [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            for provider in ((), ("--provider", "reference")):
                numpy.save(self.folder / "keep.npy", numpy.array(inside, bool))
                numpy.testing.assert_array_equal(self.answer(x, "-i", "keep=keep.npy", *provider), numpy.compress(inside, x, axis))
                numpy.save(self.folder / "keep.npy", numpy.array(beyond, bool))
                told = self.ends(1, "run", "m.onnx", "-i", "x=x.npy", "-i", "keep=keep.npy", *QUICK, *provider)
                self.assertIn(f"keeps an element beyond its axis: {said}; cut the condition to the axis: ONNX Runtime leaves such elements out", told)

    def test_a_gaussian_process_ends_in_a_solution(self):
        """As skl2onnx writes GaussianProcessClassifier: equations of a constant matrix; of one that has no solution it is said."""
        rng = numpy.random.default_rng(1)
        a, x = (rng.standard_normal((5, 5)) + 5 * numpy.eye(5)).astype(numpy.float32), rng.standard_normal((5, 3)).astype(numpy.float32)
        value = helper.make_tensor_value_info
        for matrix, transposed in ((a, 0), (a, 1), (numpy.ones((5, 5), numpy.float32), 0)):
            node = helper.make_node("Solve", ["a", "x"], ["y"], name="node", domain="com.microsoft", lower=0, transposed=transposed)
            graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, [5, "n"])], [value("y", TensorProto.FLOAT, [5, "n"])], [numpy_helper.from_array(matrix, "a")])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
            onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), self.folder / "m.onnx")
            if matrix is a:
                numpy.testing.assert_allclose(self.answer(x), numpy.linalg.solve(a.T if transposed else a, x), rtol=1e-5)
                self.ends(0, "verify", "m.onnx", *QUICK)
            else:
                numpy.save(self.folder / "x.npy", x)
                self.assertIn("the matrix of a solve is singular", self.ends(1, "run", "m.onnx", "-i", "x=x.npy", *QUICK))

    def test_an_operator_of_two_opsets_is_listed_with_them(self):
        text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]> g (float[n,4] x) => (float[n,4] y) { a = Relu(x)  b = f.half(a)  y = Exp(b) }
        <domain: "f", opset_import: ["" : 18]> half (a) => (c) { b = Relu(a)  c = Relu(b) }"""
        onnx.save(parser.parse_model(text), self.folder / "m.onnx")
        said = self.peri("inspect", "m.onnx").stdout.decode()
        for line in ("2  Relu of opset 18\n", "1  Relu of opset 20\n", "1  Exp\n"):
            self.assertIn(line, said)


if __name__ == "__main__":
    main()
