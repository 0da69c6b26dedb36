#!/usr/bin/env python3
"""Errors of a run speak of the model: its nodes, operators and values, never of the names that a plan counts for itself."""
import json
import re

import numpy
import onnx
from onnx import TensorProto, helper, parser

from typed import Typed, main

QUICK = ("--no-tune", "--quiet")
OWN = re.compile(r"'[txcv]\d+(\.told)?'")


class Terms(Typed):
    def save(self, text):
        model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]>\n' + text)
        onnx.save(model, self.folder / "m.onnx")
        # Without names of nodes as here, then with.
        for node in model.graph.node:
            node.name = "the_" + node.op_type
        onnx.save(model, self.folder / "named.onnx")

    def array(self, name, value):
        numpy.save(self.folder / name, value)

    def fails(self, wanted, *words):
        said = self.ends(1, *words, "--json", "e.json", "--force")
        error = json.loads((self.folder / "e.json").read_text())["error"]
        self.assertIsNone(OWN.search(said), said)
        self.assertRegex(said, wanted)
        return error["node"]

    def both(self, text, inputs, wanted, node, named):
        """Of an engine and of a model, with the nodes' names and without."""
        self.save(text)
        words = [w for name, value in inputs.items() for w in ("-i", f"{name}={value}")]
        for model, of in (("m", node), ("named", named)):
            self.ends(0, "build", f"{model}.onnx", "-o", f"{model}.engine", *QUICK)
            with self.subTest(model=model, wanted=wanted):
                self.assertEqual(self.fails(wanted, "run", f"{model}.engine", *words, "-q"), of)

    def test_sizes_that_do_not_fit_each_other(self):
        self.array("a.npy", numpy.ones((2, 4), numpy.float32))
        self.array("b.npy", numpy.ones((3, 4), numpy.float32))
        self.array("c.npy", numpy.ones((3, 3), numpy.float32))
        self.array("s.npy", numpy.array([5, 6], numpy.int64))
        pair = {"a": "a.npy", "b": "b.npy"}
        self.both("g (float[N, 4] a, float[M, 4] b) => (float[P, 4] y) { r = Relu(a) sum = Add(r, b) y = Softmax(sum) }", pair,
                  "Add of 'r' and 'b': shapes do not broadcast: expected equal dimensions or 1, found 2 against 3", "sum", "the_Add")
        told = {"a": "a.npy", "s": "t.npy"}
        self.array("t.npy", numpy.array([4, 2], numpy.int64))
        self.both("g (float[N, 4] a, int64[2] s, float[L, J] b) => (float[P, Q] y) { r = Reshape(a, s) p = Concat <axis = 1> (r, b) y = Relu(p) }", told | {"b": "b.npy"},
                  "Concat of 'r' and 'b': concat of different dimensions: expected 4, found 3", "p", "the_Concat")
        self.both("g (float[N, 4] a, int64[2] s, float[L, 3] b) => (float[P, 3] y) { r = Reshape(a, s) p = MatMul(r, b) y = Relu(p) }", told | {"b": "c.npy"},
                  r"MatMul of 'r' and 'b': the inner dimensions differ( \(one of the nodes '.*' and '.*'\))?: expected 2, found 3", "p", "the_MatMul")
        self.both("g (float[N, M] a, int64[2] s) => (float[P, Q] y) { y = Reshape(a, s) }", {"a": "a.npy", "s": "s.npy"},
                  "Reshape of 'a' and 's': reshape changes the number of elements: expected 8, found 30", "y", "the_Reshape")

    def test_sizes_of_inputs_that_a_node_requires_to_be_equal(self):
        """They are one dimension: the input is named, before anything runs."""
        self.array("a.npy", numpy.ones((2, 4), numpy.float32))
        self.array("b.npy", numpy.ones((3, 4), numpy.float32))
        self.array("c.npy", numpy.ones((3, 3), numpy.float32))
        for text, other, wanted in (
            ("g (float[N, K] a, float[L, J] b) => (float[P, Q] y) { p = Concat <axis = 1> (a, b) y = Relu(p) }", "b.npy", "b.npy: 'b': dimension 0 does not fit: expected 2 ('N' from input 'a'), found 3"),
            ("g (float[N, K] a, float[L, 3] b) => (float[N, 3] y) { p = MatMul(a, b) y = Relu(p) }", "c.npy", "c.npy: 'b': dimension 0 does not fit: expected 4 ('K' from input 'a'), found 3"),
        ):
            self.save(text)
            self.ends(0, "build", "m.onnx", "-o", "m.engine", *QUICK)
            for model in ("m.engine", "m.onnx"):
                with self.subTest(model=model, other=other):
                    self.assertIn(wanted, self.ends(2, "run", model, "-i", "a=a.npy", "-i", f"b={other}", "--quiet"))

    def test_axes_of_one_letter_that_differ(self):
        """The equation and its letter are named, not the product that stands for an Einsum."""
        self.array("a.npy", numpy.ones((2, 4), numpy.float32))
        self.array("b.npy", numpy.ones((3, 5), numpy.float32))
        pair = {"a": "a.npy", "b": "b.npy"}
        self.both('g (float[N, K] a, float[L, M] b) => (float[N, M] y) { p = Einsum <equation = "ij,jk->ik"> (a, b) y = Relu(p) }', pair,
                  "Einsum of 'a' and 'b': the sizes of letter j differ in Einsum's equation ij,jk->ik.*: expected 4, found 3 in ", "p", "the_Einsum")
        self.array("c.npy", numpy.ones((2, 4, 6), numpy.float32))
        self.array("d.npy", numpy.ones((3, 6, 7), numpy.float32))
        self.both('g (float[A, N, K] a, float[B, K, M] b) => (float[C, N, M] y) { p = Einsum <equation = "bij,bjk->bik"> (a, b) y = Relu(p) }', {"a": "c.npy", "b": "d.npy"},
                  "Einsum of 'a' and 'b': the sizes of letter b differ in Einsum's equation bij,bjk->bik.*: expected equal dimensions or 1, found 2 against 3", "p", "the_Einsum")
        self.save('g (float[2, 4] a, float[3, 5] b) => (float[2, 5] y) { p = Einsum <equation = "ij,jk->ik"> (a, b) y = Relu(p) }')
        self.assertEqual(self.fails("the sizes of letter j differ in Einsum's equation ij,jk->ik: expected 4, found 3 in ", "build", "named.onnx", "-o", "n.engine", "-q"), "the_Einsum")

    def test_several_nodes_in_one_step(self):
        """One step for a chain names the nodes of all, and a value within it by the operator that makes it."""
        self.array("a.npy", numpy.ones((2, 4), numpy.float32))
        self.array("b.npy", numpy.ones((3, 4), numpy.float32))
        self.save("g (float[N, 4] a, float[M, 4] b) => (float[P, 4] y) { s = Sigmoid(a) t = Mul(a, s) u = Exp(t) w = Neg(u) y = Add(w, b) }")
        self.ends(0, "build", "named.onnx", "-o", "m.engine", *QUICK)
        given = ("-i", "a=a.npy", "-i", "b=b.npy")
        for command in ("run", "bench", "verify"):
            with self.subTest(command=command):
                self.assertEqual(self.fails(r"Add of .* and 'b': shapes do not broadcast", command, "m.engine", *given, "-q"), "the_Add")
        for command in ("bench", "verify"):  # sizes that are given are looked at before inputs are made
            with self.subTest(command=command, of="sizes"):
                said = self.ends(2, command, "m.engine", "--dims", "N=2,M=3", "-q")
                self.assertIn("'the_Add': the model does not run at M=3,N=2: shapes do not broadcast", said)

    def test_in_the_body_of_a_loop(self):
        value = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["again"]), helper.make_node("Concat", ["x", "x"], ["grown"], axis=0, name="grows"), helper.make_node("Add", ["grown", "b"], ["next"], name="adds")], "body",
                                 [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, ["K", 4])],
                                 [value("again", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, ["K2", 4])])  # fmt: skip
        graph = helper.make_graph([helper.make_node("Loop", ["n", "", "a"], ["y"], body=body, name="loops")], "g",
                                  [value("n", TensorProto.INT64, []), value("a", TensorProto.FLOAT, ["N", 4]), value("b", TensorProto.FLOAT, ["M", 4])], [value("y", TensorProto.FLOAT, ["P", 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "m.engine", *QUICK)
        self.array("n.npy", numpy.array(2, numpy.int64))
        self.array("a.npy", numpy.ones((2, 4), numpy.float32))
        self.array("b.npy", numpy.ones((3, 4), numpy.float32))
        node = self.fails("Add of .*'b': shapes do not broadcast", "run", "m.engine", "-i", "n=n.npy", "-i", "a=a.npy", "-i", "b=b.npy", "-q")
        self.assertEqual(node, "loops/adds")


if __name__ == "__main__":
    main()
