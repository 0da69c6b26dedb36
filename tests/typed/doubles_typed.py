#!/usr/bin/env python3
"""Attention of float64 has a kernel, however a model says it, and the answers of ONNX Runtime or NumPy to nearly all their digits."""
import json

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

from typed import Typed, main

DOUBLE = TensorProto.DOUBLE


def value(name, dims, kind=DOUBLE):
    return helper.make_tensor_value_info(name, kind, dims)


def attention(q, k, v, seen):
    """Of [batch, heads, places, depth], k and v with fewer heads perhaps."""
    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = numpy.where(seen, q @ k.swapaxes(2, 3) / numpy.sqrt(q.shape[3]), -numpy.inf)
    p = numpy.exp(scores - scores.max(axis=3, keepdims=True))
    return p / p.sum(axis=3, keepdims=True) @ v


class Doubles(Typed):
    def answer(self, graph, given, opset=17):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.save(model, self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--quiet", "--force", "--no-tune", "--json", "b.json")
        report = json.loads((self.folder / "b.json").read_text())
        self.assertEqual(report["reference_steps"], 0)
        self.assertIn("attention_f64", json.dumps(report))
        for n, x in given.items():
            numpy.save(self.folder / f"{n}.npy", x)
        self.ends(0, "run", "m.engine", *[w for n in given for w in ("-i", f"{n}={n}.npy")], "--output-dir", "out")
        return numpy.load(self.folder / "out/y.npy")

    def test_products_around_a_softmax(self):
        rng = numpy.random.default_rng(7)
        w, b = rng.normal(size=(3, 16, 16)) / 4, rng.normal(size=16)
        nodes, heads = [], {}
        for k, n in enumerate("qkv"):
            nodes += [helper.make_node("MatMul", ["x", f"w{n}"], [f"p{n}"]), helper.make_node("Reshape", [f"p{n}", "split"], [f"s{n}"]),
                      helper.make_node("Transpose", [f"s{n}"], [n], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3])]
            heads[f"w{n}"] = w[k]
        nodes += [helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
                  helper.make_node("Add", ["scaled", "m"], ["masked"]), helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
                  helper.make_node("MatMul", ["p", "v"], ["h"]), helper.make_node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
                  helper.make_node("Reshape", ["t", "join"], ["j"]), helper.make_node("Add", ["j", "b"], ["y"])]
        made = [onnx.numpy_helper.from_array(numpy.asarray(x), n) for n, x in {**heads, "b": b, "scale": 0.5, "split": numpy.int64([0, 0, 2, 8]), "join": numpy.int64([0, 0, 16])}.items()]
        graph = helper.make_graph(nodes, "g", [value("x", ["n", "s", 16]), value("m", ["n", 1, 1, "s"])], [value("y", ["n", "s", 16])], made)
        for places in (1, 7, 65):
            given = {"x": rng.normal(size=(2, places, 16)), "m": numpy.where(rng.random((2, 1, 1, places)) < 0.3, -1e9, 0.0)}
            ours = self.answer(graph, given)
            theirs = onnxruntime.InferenceSession(self.folder / "m.onnx").run(None, given)[0]
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

    def test_the_node_attention(self):
        rng = numpy.random.default_rng(8)
        q, k, v = (rng.normal(size=(2, h, places, 8)) for h, places in ((4, 5), (2, 9), (2, 9)))
        mask = rng.random((5, 9)) < 0.6
        mask[:, 0] = True
        node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])
        io = [value("q", ["b", 4, "n", 8]), value("k", ["b", 2, "s", 8]), value("v", ["b", 2, "s", 8])]
        graph = helper.make_graph([node], "g", [*io, value("m", ["n", "s"], TensorProto.BOOL)], [value("y", ["b", 4, "n", 8])])
        ours = self.answer(graph, {"q": q, "k": k, "v": v, "m": mask}, 23)
        numpy.testing.assert_allclose(ours, attention(q, k, v, mask), rtol=1e-12, atol=1e-12)
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
        ours = self.answer(helper.make_graph([node], "g", io, [value("y", ["b", 4, "n", 8])]), {"q": q, "k": k, "v": v}, 23)
        numpy.testing.assert_allclose(ours, attention(q, k, v, numpy.tri(5, 9, dtype=bool)), rtol=1e-12, atol=1e-12)


if __name__ == "__main__":
    main()
