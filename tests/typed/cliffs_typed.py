#!/usr/bin/env python3
"""Weights of few elements are weights: no product or convolution runs on the reference because it is small."""
import json

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

from typed import SOURCE, Typed, main


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

    def test_small_matrices_on_the_left_and_vectors_have_kernels(self):
        """A rotation of points and a matrix of colours: few elements times many."""
        rng = numpy.random.default_rng(4)
        for text, left, right in (("MatMul (w, x)", (3, 3), (3, 900)), ("MatMul (w, x)", (4, 4), (5, 4, 30)), ("MatMul (w, x)", (4,), (4, 70)), ("Gemm <alpha = 0.5> (w, x)", (3, 3), (3, 900)), ("MatMul (x, x)", None, (1000,)), ("Conv (w, x)", (1, 1, 4, 4), (6, 1, 3, 3))):
            with self.subTest(text, right=right):
                model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g (float[{",".join("abcd"[: len(right)]) if "Conv" not in text else "6,1,3,3"}] x) => (float y) {{ y = {text} }}')
                model.graph.output[0].type.tensor_type.ClearField("shape")
                feed = {"x": rng.normal(size=right).astype(numpy.float32)}
                w = rng.normal(size=left or (1,)).astype(numpy.float32)
                if left:
                    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
                onnx.save(model, self.folder / "few.onnx")
                self.ends(0, "build", "few.onnx", "-o", "a.engine", "--json", "a.json", "--quiet", "--no-tune", "--force")
                self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
                numpy.save(self.folder / "x.npy", feed["x"])
                self.ends(0, "run", "a.engine", "-i", "x=x.npy", "--output-dir", "out")
                numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), onnxruntime.InferenceSession(self.folder / "few.onnx").run(None, feed)[0], rtol=1e-4, atol=1e-4)

    def test_batch_normalisations_of_columns_and_of_given_statistics(self):
        """Behind a dense layer, of an open number of channels, and of statistics that are inputs, with names of their own or not."""
        rng = numpy.random.default_rng(2)
        given = lambda a, b, c, d: f"float[{a}] s, float[{b}] o, float[{c}] m, float[{d}] v"
        for x, statistics, shape in (("n,8", None, (5, 8)), ("n,c", given(*"cccc"), (5, 8)), ("n,c,t", given(*"cccc"), (2, 8, 3)), ("n,c,h,w", given(*"pqrs"), (2, 8, 3, 4)), ("n,c,t", None, (3, 8, 5))):
            with self.subTest(x=x, statistics=statistics):
                text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[{x}] x{", " + statistics if statistics else ""}) => (float[{x}] y) {{ y = BatchNormalization <epsilon = 0.01> (x, s, o, m, v) }}'
                model = parser.parse_model(text)
                feed = {n: rng.uniform(0.1, 2, 8).astype(numpy.float32) for n in "somv"}
                if not statistics:
                    model.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in feed.items())
                onnx.save(model, self.folder / "bn.onnx")
                self.ends(0, "build", "bn.onnx", "-o", "a.engine", "--json", "a.json", "--quiet", "--no-tune", "--force")
                self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
                data = rng.normal(size=shape).astype(numpy.float32)
                for n, w in {"x": data, **(feed if statistics else {})}.items():
                    numpy.save(self.folder / f"{n}.npy", w)
                words = [w for n in (["x", *"somv"] if statistics else ["x"]) for w in ("-i", f"{n}={n}.npy")]
                self.ends(0, "run", "a.engine", *words, "--output-dir", "out")
                s, o, m, v = (w.astype(float).reshape(8, *[1] * (data.ndim - 2)) for w in feed.values())
                numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), (data - m) / numpy.sqrt(v + 0.01) * s + o, rtol=1e-5, atol=1e-5)
                numpy.save(self.folder / "x.npy", data[:, :1])  # no statistic is broadcast
                self.assertIn(self.peri("run", "a.engine", *words).returncode, (1, 2))

    def test_a_sum_of_two_that_have_one_size_at_the_smallest_batch(self):
        """The memory of either can hold the result there, and of one alone at the tuned batch; so of a list that data cut."""
        open_table = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[b,s,32] x, float[1,s,32] p) => (float[b,s,32] y) { a = Softmax (x) y = Add (a, p) }')
        cut = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[t,8] x, float[q,8] z, int64[1] n) => (float[m,8] y) { o = Constant <value_ints = [0]> () c = Slice (x, o, n, o) ' + "".join(f"a{k} = Add ({f'r{k - 1}' if k else 'c'}, z) r{k} = Relu (a{k}) " for k in range(60)) + "y = Add (r59, z) }")
        for name, graph, words in (("open", open_table, ("--min-shapes", "x:1x8x32,p:1x8x32", "--opt-shapes", "x:4x32x32,p:1x32x32")), ("cut", cut, ())):
            with self.subTest(name):
                onnx.save(graph, self.folder / "sum.onnx")
                self.ends(0, "build", "sum.onnx", "-o", "a.engine", "--json", "a.json", "--quiet", "--no-tune", "--force", *words)
                self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)

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
        words = ("build", "large.onnx", "-o", "a.engine", "--dims", "n=1000000000", "--json", "a.json", "--no-cache", "--quiet")
        self.assertRegex(self.ends(1, *words), r"the engine does not run at n=1000000000: a run takes( at least)? [\d.]+ GiB of memory, and [\d.]+ are free; .*--no-verify builds it")
        self.assertRegex(self.ends(0, *words, "--no-verify", "--force"), r"the engine was not run( at n=1000000000)?: one run takes \d+ Gflop")
        self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
        self.ends(0, "verify", "a.engine", "--dims", "n=3", "--quiet")

    def test_bounds_that_are_not_judged_are_told(self):
        """A largest size that this machine cannot run, or not judge, is not passed over; one that it can says nothing."""
        node, value = helper.make_node, helper.make_tensor_value_info
        graph = helper.make_graph([node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("ReduceMean", ["a"], ["y"], axes=[2, 3])], "g", [value("x", TensorProto.FLOAT, ["n", 8, "h", "h"])],
                                  [value("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(numpy.full((8, 8, 3, 3), 0.25, numpy.float32), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "wide.onnx")
        for largest, told in (("x:1000000000x8x8x8", r"not run at h=8,n=1000000000: a run takes( at least)? [\d.]+ GiB of memory, and [\d.]+ are free"), ("x:1x8x40000x40000", "not run at h=40000,n=1: "), ("x:3x8x9x9", "right at 2 sizes")):
            with self.subTest(largest=largest):
                words = ("build", "wide.onnx", "-o", "w.engine", "--dims", "n=1,h=8", "--max-shapes", largest, "--no-tune", "--no-cache", "--quiet", "--force")
                said = self.ends(0, *words)
                self.assertRegex(said, told)
                self.assertEqual("not run" in said, "not run" in told, said)
        proof = json.loads((self.folder / "w.engine.proof").read_text())
        self.assertNotIn("limit_of_this_machine", json.dumps(proof))
        self.ends(0, "build", "wide.onnx", "-o", "w.engine", "--dims", "n=1,h=8", "--max-shapes", "x:1x8x40000x40000", "--no-tune", "--no-cache", "--quiet", "--force", "--json", "w.json")
        self.assertTrue(json.loads((self.folder / "w.json").read_text())["engine_not_judged"].startswith("not run at h=40000,n=1: "))

    def test_convolutions_whose_weights_come_with_the_run(self):
        value = helper.make_tensor_value_info
        for name, x, w, more, bias in (("plain", ["n", 4, 40, 40], [8, 4, 3, 3], {"pads": [1, 1, 1, 1]}, False), ("grouped", ["n", 6, 17, 19], [9, 2, 3, 2], {"group": 3, "strides": [2, 3], "dilations": [1, 2]}, True),
                                       ("pixel", ["n", 16, 7, 7], [32, 16, 1, 1], {}, True), ("even", ["n", 3, 9, 8], [2, 3, 4, 4], {"auto_pad": "SAME_LOWER", "strides": [2, 1]}, False),
                                       ("volume", ["n", 24, 5, 9, 11], [20, 12, 3, 3, 2], {"group": 2, "strides": [2, 1, 1], "pads": [1, 1, 0, 1, 1, 1]}, True)):
            inputs = [value("x", TensorProto.FLOAT, x), value("w", TensorProto.FLOAT, w)] + [value("b", TensorProto.FLOAT, w[:1])] * bias
            nodes = [helper.make_node("Conv", [i.name for i in inputs], ["c"], **more), helper.make_node("Relu", ["c"], ["y"])]
            graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"{name}.onnx")
            with self.subTest(name=name):
                self.ends(0, "build", f"{name}.onnx", "-o", "c.engine", "--dims", "n=2", "--json", "c.json", "--no-cache", "--quiet")
                self.assertEqual(json.loads((self.folder / "c.json").read_text())["reference_steps"], 0)
                self.ends(0, "verify", "c.engine", "--dims", "n=3", "--bisect", "--quiet")

    def test_steps_of_narrow_engines_are_held_against_the_source_with_what_is_stored_before_them(self):
        """A value of the source carries the roundings of all values that an engine in 16 bits stores on the way to it."""
        for model in ("digits_cnn", "digits_transformer"):
            for dtype in ("f16", "bf16"):
                with self.subTest(model=model, dtype=dtype):
                    self.ends(0, "build", SOURCE / f"models/{model}.onnx", "--backend", "null", "--dtype", dtype, "--io-dtype", dtype, "--no-tune", "--no-verify", "-o", "n.engine", "--force", "--quiet")
                    self.ends(0, "verify", "n.engine", "--bisect", "--quiet")

    def test_what_the_reference_runs_is_right_by_definition(self):
        """And is not said to be verified: nothing was held against anything."""
        text = parser.parse_model('<ir_version: 9, opset_import: ["" : 19]> g (string[n,4] a, string[n,4] b) => (bool[n,4] y) { y = Equal(a, b) }')
        onnx.save(text, self.folder / "text.onnx")
        r = self.peri("build", "text.onnx", "-o", "text.engine", "--no-cache")
        self.assertIn(b"0 of 1 step verified individually, 1 right by definition", r.stdout)
        self.assertRegex(r.stderr, rb"right at (\d+) sizes, 0 steps judged, \1 right by definition")
        self.assertIn(b"none of 1 step was judged", (said := self.peri("verify", "text.engine", "--bisect")).stdout + said.stderr)
        self.assertIn(b"y (equal)", next(line for line in r.stdout.split(b"\n") if line.startswith(b"reference")))

    def test_steps_of_bodies_are_told_apart_from_those_of_a_run(self):
        """A build, its proof, inspect and explain say which steps are in bodies of loops and branches."""
        text = parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]> g (string[n,400] a, string[n,400] b, int64 k) => (bool[n,400] y) {
            go = Constant<value = bool {1}>() s = Equal(a, b)
            y = Loop(k, go, s) <body = w (int64 i, bool on, bool[n,400] c) => (bool again, bool[n,400] d) {
              again = Identity(on) e = Equal(a, b) f = Not(e) d = Xor(c, f) }> }""")
        onnx.save(text, self.folder / "loop.onnx")
        r = self.peri("build", "loop.onnx", "-o", "loop.engine", "--no-tune", "--no-cache", "--json", "loop.json")
        self.assertEqual(r.returncode, 0, r.stderr)
        told = json.loads((self.folder / "loop.json").read_text())
        steps, inner = told["steps"], told["steps_in_bodies"]
        listed = told["steps_in_order"]
        self.assertEqual(inner, sum(len(body) for s in listed for body in s.get("bodies", [])))
        self.assertGreater(inner, 0)
        both = f"{steps} steps and {inner} in bodies of loops and branches"
        self.assertIn(f"loop.engine, {both}, 2 of them on the slow reference", r.stderr.decode().strip().split("\n")[-1])
        self.assertRegex(r.stdout.decode(), rf"(?m)^steps      {steps}, and {inner} in bodies of loops and branches$")
        self.assertIn(f" of {steps + inner} steps ({inner} in bodies) verified individually", r.stdout.decode())
        slow = next(line for line in r.stdout.decode().split("\n") if line.startswith("reference"))
        self.assertEqual(slow.count("(equal)"), 2, "that of the body has a name too")
        self.assertIn(f"{both}, each counted once, ", self.ends(0, "explain", "loop.engine", "--quiet"))
        engine = self.peri("inspect", "loop.engine")
        self.assertIn(f"runs here: {both}", engine.stderr.decode())
        self.assertRegex(engine.stdout.decode(), r"executor reference +2 steps")
        self.assertIn(f"slow: 2 of {steps + inner} steps ({inner} in bodies) on the reference", self.peri("inspect", "loop.onnx").stdout.decode())

    def test_comparisons_have_kernels(self):
        """In every type of numbers; their outputs, and those of ranges, which the reference makes, have the types that the model states."""
        cases = [(f"{op} = {t}", f"({t}[n,4] a, {t}[n,4] b) => (bool[n,4] y) {{ y = {op}(a, b) }}") for t in ("float", "double", "int64", "int32", "uint8", "float16")
                 for op in ("Equal", "Less")]
        cases += [(f"IsNaN of {t}", f"({t}[n,4] a) => (bool[n,4] y) {{ y = IsNaN(a) }}") for t in ("float", "double", "float16")]
        cases += [(f"IsInf of {t}", f"({t}[n,4] a) => (bool[n,4] y) {{ y = IsInf(a) }}") for t in ("float", "double")]
        for name, graph in cases:
            with self.subTest(name):
                onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}'), self.folder / "m.onnx")
                r = self.peri("build", "m.onnx", "-o", "m.engine", "--dims", "n=3", "--no-tune")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertNotIn(b"slow reference", r.stderr)
                self.ends(0, "verify", "m.engine", "--quiet")
                self.ends(0, "run", "m.engine", *(w for x in ("ab" if "b)" in graph else "a") for w in ("-i", f"{x}=random:{ord(x)}")), "--output-dir", "out", "--quiet")
                self.assertEqual(numpy.load(self.folder / "out/y.npy").dtype, numpy.bool_)
        for t, of in (("float", numpy.float32), ("double", numpy.float64), ("int64", numpy.int64), ("int32", numpy.int32)):
            with self.subTest(f"Range of {t}"):
                onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({t} a, {t} b, {t} c) => ({t}[k] y) {{ y = Range(a, b, c) }}'),
                          self.folder / "m.onnx")
                for name, value in (("a", 3), ("b", 10), ("c", 2)):
                    numpy.save(self.folder / f"{name}.npy", numpy.array(value, of))
                inputs = ("-i", "a=a.npy", "-i", "b=b.npy", "-i", "c=c.npy")
                self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-tune", "--quiet")
                self.ends(0, "verify", "m.engine", *inputs, "--quiet")
                self.ends(0, "run", "m.engine", *inputs, "--output-dir", "out", "--quiet")
                y = numpy.load(self.folder / "out/y.npy")
                self.assertEqual((y.dtype, y.tolist()), (of, [3, 5, 7, 9]))

    def test_many_parts_are_moved_by_a_kernel(self):
        """Split by a list of sizes, of more parts than a tensor has axes: the list as a constant, and as an input."""
        value = helper.make_tensor_value_info
        parts = [f"p{k}" for k in range(40)]
        sizes = numpy.array([1, 2] * 20, numpy.int64)
        nodes = [helper.make_node("Split", ["x", "sizes"], parts, axis=1), helper.make_node("Concat", parts[::-1], ["y"], axis=1)]
        x = numpy.arange(2 * 60 * 3, dtype=numpy.float32).reshape(2, 60, 3)
        numpy.save(self.folder / "x.npy", x)
        numpy.save(self.folder / "sizes.npy", sizes)
        wanted = numpy.concatenate(numpy.split(x, numpy.cumsum(sizes)[:-1], axis=1)[::-1], axis=1)
        for given in (False, True):
            with self.subTest(given=given):
                inputs = [value("x", TensorProto.FLOAT, ["n", 60, 3])] + [value("sizes", TensorProto.INT64, [40])] * given
                graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)], [] if given else [numpy_helper.from_array(sizes, "sizes")])
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "parts.onnx")
                self.ends(0, "build", "parts.onnx", "-o", "a.engine", "--json", "a.json", "--no-tune", "--quiet", *(("--no-verify",) if given else ()))
                if not given:
                    self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0)
                self.ends(0, "run", "a.engine", "-i", "x=x.npy", *(("-i", "sizes=sizes.npy") if given else ()), "--output-dir", "out", "--quiet")
                numpy.testing.assert_array_equal(numpy.load(self.folder / "out/y.npy"), wanted)

    def test_a_constant_of_a_shape_that_follows_from_inputs_has_a_kernel(self):
        for kind, value in (("float", "1.5"), ("int64", "-7"), ("bool", "1"), ("double", "0.1")):
            onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g ({kind}[n,m] x) => ({kind}[n,m] y) {{ s = Shape(x) y = ConstantOfShape<value = {kind}[1] {{{value}}}>(s) }}'), self.folder / "a.onnx")
            self.ends(0, "build", "a.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet", "--force", "--json", "a.json")
            self.assertEqual(json.loads((self.folder / "a.json").read_text())["reference_steps"], 0, kind)
            x = numpy.zeros((3, 5), {"float": "f4", "double": "f8"}.get(kind, kind))
            numpy.save(self.folder / "x.npy", x)
            self.ends(0, "run", "a.engine", "-i", "x=x.npy", "--output-dir", "out", "--quiet", "--force")
            numpy.testing.assert_array_equal(numpy.load(self.folder / "out/y.npy"), numpy.full_like(x, float(value)))

    def test_what_runs_on_the_reference_is_named(self):
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("RegexFullMatch", ["x"], ["y"], name="the_words", pattern="[a-z]+")], "g", [value("x", TensorProto.STRING, ["n", 6])], [value("y", TensorProto.BOOL, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), self.folder / "words.onnx")
        r = self.peri("build", "words.onnx", "-o", "a.engine", "--no-cache")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b"no kernel takes these, they are slow: the_words (regex_full_match)", r.stdout)

    def test_every_command_names_what_runs_on_the_reference(self):
        onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[n,64] x, string[2,400] a, string[2,400] b) => (float[n,64] y, bool[2,400] same) { y = Relu(x) same = Equal(a, b) }'), self.folder / "s.onnx")
        named = "1 of 2 steps on the slow reference: same (equal)"
        self.assertIn(f"note: {named}", self.peri("build", "s.onnx", "-o", "s.engine", "--no-tune", "--no-cache", "--quiet").stderr.decode())
        given = ("-i", "x=random:1", "-i", "a=random:1", "-i", "b=random:2")
        for model in ("s.onnx", "s.engine"):
            quick = ("--no-tune", "--no-cache") if model == "s.onnx" else ()
            for words in (("run", model, *given), ("bench", model, "--seconds", "0.01", "--tolerance", "1e6"), ("verify", model)):
                with self.subTest(words=words):
                    self.assertIn(f"note: {named}", self.peri(*words, *quick, "--quiet").stderr.decode())
            self.assertIn(named, (shown := self.peri("inspect", model)).stdout.decode() + shown.stderr.decode())

    def test_kernels_that_an_option_leaves_out_are_not_missing(self):
        onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[n,64] x) => (float[n,64] y) { s = Softmax(x) y = Relu(s) }'), self.folder / "p.onnx")
        r = self.peri("build", "p.onnx", "-o", "p.engine", "--provider", "onednn", "--no-cache")
        self.assertIn(b"reference  no kernel of the provider that --provider names takes these, they are slow: ", r.stdout)
        self.assertIn("no kernel of --provider onednn supports them", self.peri("inspect", "p.onnx", "--provider", "onednn").stdout.decode())
        self.assertIn("left out by --provider onednn", self.peri("explain", "p.engine", "--full").stdout.decode())

    def test_sums_of_many_and_circular_functions_of_large_arguments_have_kernels(self):
        """A sum's error grows with the number of its terms, a sine's to the whole of its range, a tangent's across a pole to anything."""
        node, value = helper.make_node, helper.make_tensor_value_info
        graphs = {"sum": ([node("Relu", ["x"], ["r"]), node("Sum", ["r"] * 12000, ["y"])], {})}
        for op, factor in (("Sin", 1.1e7), ("Cos", 1e9), ("Tan", 1.1e3)):
            graphs[op] = ([node("Mul", ["x", "c"], ["a"]), node(op, ["a"], ["y"])], {"c": numpy.array(factor, numpy.float32)})
        graphs["tiny"] = ([node("Mul", ["x", "c"], ["a"]), node("MatMul", ["a", "w"], ["m"]), node("Mul", ["m", "d"], ["y"])],
                          {"c": numpy.array(1e-40, numpy.float32), "d": numpy.array(1e30, numpy.float32), "w": numpy.random.default_rng(3).normal(size=(64, 64)).astype(numpy.float32)})
        for name, (nodes, weights) in graphs.items():
            shape = ["n", 5] if name == "sum" else [200, 64] if name == "tiny" else ["n", 200000]
            graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, n) for n, w in weights.items()])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"{name}.onnx")
            with self.subTest(name=name):
                said = self.ends(0, "build", f"{name}.onnx", "-o", "a.engine", "--no-cache", "--quiet", "--force")
                self.assertNotIn("reference", said)
                self.assertNotIn("refused", said)

    def test_a_layer_that_overflows_leaves_equal_layers_their_kernels(self):
        """Of weights that nobody scaled: what is behind the overflow proves nothing, and that is said."""
        node, value, layers = helper.make_node, helper.make_tensor_value_info, 38
        weights = {f"w{k}": numpy.random.default_rng(k).normal(size=(256, 256)).astype(numpy.float32) for k in range(layers)}
        nodes = [n for k in range(layers) for n in (node("MatMul", [f"v{k}", f"w{k}"], [f"m{k}"]), node("Relu", [f"m{k}"], [f"v{k + 1}"]))]
        graph = helper.make_graph(nodes, "g", [value("v0", TensorProto.FLOAT, ["n", 256])], [value(f"v{layers}", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, n) for n, w in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "o.onnx")
        for _ in range(2):  # the second takes the verdict of the first
            said = self.ends(0, "build", "o.onnx", "-o", "o.engine", "--no-tune", "--quiet")
            self.assertRegex(said, r"with made-up inputs '\w+' overflows float32: it and \d+ steps? behind it prove nothing")
            self.assertNotIn("slow reference", said)
        size = json.loads((self.folder / "o.engine.proof").read_text())["engine"]["sizes"][0]
        self.assertEqual(size["steps_judged"] + size["steps_overflowed"], len(json.loads((self.folder / "o.engine.proof").read_text())["steps"]))

    def test_a_step_of_a_few_elements_is_not_called_slow(self):
        onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[n,64] x, double[3,3] a) => (float[n,64] y, double d) { y = Relu(x) d = Det(a) }'), self.folder / "d.onnx")
        r = self.peri("build", "d.onnx", "-o", "d.engine", "--no-tune", "--no-cache", "--json", "d.json")
        self.assertEqual(r.returncode, 0, r.stderr)
        told = json.loads((self.folder / "d.json").read_text())
        self.assertEqual((told["reference_steps"], told["slow_steps"]), (1, 0))
        self.assertIn(b"reference  no kernel takes these, which are of few elements: d (det)", r.stdout)
        shown = self.peri("inspect", "d.onnx")
        for said in (r.stdout, r.stderr, shown.stdout, shown.stderr, self.peri("explain", "d.engine").stderr):
            self.assertNotIn(b"slow", said)


if __name__ == "__main__":
    main()
