#!/usr/bin/env python3
"""Weights of few elements are weights: no product or convolution runs on the reference because it is small."""
import json

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from typed import Typed, main


class Cliffs(Typed):
    def save(self, name, op, shape, weights, **attributes):
        inputs = ["x", *weights]
        nodes = [helper.make_node(op, inputs, ["y"], **attributes)]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(numpy.full(s, 0.25, numpy.float32), n) for n, s in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / name)
        return name

    def test_small_weights_have_kernels(self):
        models = [
            self.save("blur.onnx", "Conv", ["n", 1, 64, 64], {"w": (1, 1, 3, 3)}, pads=[1, 1, 1, 1]),
            self.save("grey.onnx", "Conv", ["n", 3, 16, 16], {"w": (1, 3, 1, 1), "b": (1,)}),
            self.save("depthwise.onnx", "Conv", ["n", 2, 32, 32], {"w": (2, 1, 2, 2)}, group=2),
            self.save("up.onnx", "ConvTranspose", ["n", 1, 8, 8], {"w": (1, 1, 2, 2)}, strides=[2, 2]),
            self.save("matmul.onnx", "MatMul", ["n", 4], {"w": (4, 4)}),
            self.save("thin.onnx", "MatMul", ["n", 1], {"w": (1, 3)}),
            self.save("gemm.onnx", "Gemm", ["n", 4], {"w": (4, 4), "b": (4,)}),
            self.save("one.onnx", "MatMul", ["n", 7], {"w": (7, 1)}),
        ]
        for model in models:
            with self.subTest(model=model):
                more = ("--dtype", "f16") if model == "grey.onnx" else ("--no-tune",)
                self.ends(0, "build", model, "-o", "a.engine", "--json", "a.json", "--quiet", *more)
                self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
                self.ends(0, "verify", "a.engine", "--max-error", "1e-2", "--quiet")

    def test_batches_too_large_to_try(self):
        """What no machine can run once keeps the kernel of its small cases: for its size alone nothing goes to the reference."""
        weight = lambda name, *shape: numpy_helper.from_array(numpy.full(shape, 0.25, numpy.float32), name)
        node = helper.make_node
        nodes = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]), node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("Softmax", ["c"], ["d"], axis=1), node("Conv", ["d", "w"], ["e"], pads=[1, 1, 1, 1]), node("ReduceMean", ["e"], ["f"], axes=[2, 3], keepdims=0),
                 node("MatMul", ["f", "m"], ["g"]), node("LayerNormalization", ["g", "s", "s"], ["h"]), node("Transpose", ["h"], ["y"], perm=[1, 0])]  # fmt: skip
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 8, 8, 8])], [value("y", TensorProto.FLOAT, None)],
                                  [weight("w", 8, 8, 3, 3), weight("m", 8, 8), weight("s", 8)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "large.onnx")
        for more in ((), ("--no-verify",)):
            said = self.ends(0, "build", "large.onnx", "-o", "a.engine", "--dims", "n=1000000000", "--json", "a.json", "--no-cache", "--quiet", *more)
            self.assertIn("the engine was not run", said)
            self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
        self.ends(0, "verify", "a.engine", "--dims", "n=3", "--quiet")

    def test_what_runs_on_the_reference_is_named(self):
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"], name="the_determinant")], "g", [value("x", TensorProto.FLOAT, ["n", 3, 3])], [value("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "det.onnx")
        r = self.peri("build", "det.onnx", "-o", "a.engine", "--no-cache")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b"no kernel takes these, they are slow: the_determinant", r.stdout)


if __name__ == "__main__":
    main()
