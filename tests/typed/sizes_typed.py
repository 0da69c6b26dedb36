#!/usr/bin/env python3
"""Sizes nobody stated follow from the inputs at hand, else from the weights; those that were stated are not touched."""
import json
import resource

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from typed import DIGITS, SOURCE, Typed, main


class Sizes(Typed):
    def save(self, name, op, shape, weights, outputs=("y",), **attributes):
        """One node over an input of named sizes."""
        value = helper.make_tensor_value_info
        nodes = [helper.make_node(op, ["x", *weights], outputs, name="node", **attributes)]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value(y, TensorProto.FLOAT, None) for y in outputs],
                                  [numpy_helper.from_array(numpy.asarray(w), n) for n, w in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / name)
        return name

    def tuned(self, *words):
        self.ends(0, "build", *words, "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
        return {s["name"]: s["size"] for s in self.sizes()}

    def sizes(self):
        proof = json.loads((self.folder / "a.engine.proof").read_text())
        return [{"name": n, "size": v} for n, v in proof["tuned_for"].items()]

    def test_positions_of_an_encoder_bound_its_texts(self):
        """Of 20, those of RoBERTa begin behind the padding id, 1: whatever ids a run is given, it has no more than 18."""
        for folder, most in (("tiny_bert", 20), ("tiny_distilbert", 20), ("tiny_roberta", 18)):
            self.assertEqual(self.tuned(SOURCE / "tests/hf/data" / folder), {"batch": 1, "sequence": most})
            self.ends(0, "verify", "a.engine", "--seed", "1", "--seed", "2", "--seed", "3", "--quiet")
            said = self.ends(2, "run", "a.engine", "--dims", f"sequence={most + 1}", *[w for name in self.inputs() for w in ("-i", f"{name}=random:1")])
            self.assertIn("embeddings.position_ids", said)

    def inputs(self):
        self.ends(0, "inspect", "a.engine", "--json", "i.json", "--quiet")
        return [port["name"] for port in json.loads((self.folder / "i.json").read_text())["inputs"]]

    def test_an_input_that_is_too_small_is_told_by_its_step(self):
        weights = {"w": numpy.ones((4, 3, 5, 5), numpy.float32)}
        self.ends(0, "build", self.save("conv.onnx", "Conv", ["n", 3, "h", "w"], weights), "-o", "c.engine")
        numpy.save(self.folder / "x.npy", numpy.ones((1, 3, 2, 9), numpy.float32))
        said = self.ends(1, "run", "c.engine", "-i", "x=x.npy")
        self.assertIn("'node'", said)
        self.assertIn("the window is larger than the padded input: expected at least 5 elements along spatial axis 0, found 2", said)
        pool = self.save("pool.onnx", "MaxPool", ["n", 2, "h", "w"], {}, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        self.ends(0, "build", pool, "-o", "p.engine")
        x = numpy.arange(6, dtype=numpy.float32).reshape(1, 2, 1, 3)
        numpy.save(self.folder / "x.npy", x)
        self.ends(0, "run", "p.engine", "-i", "x=x.npy", "--output-dir", "out")  # its windows are rounded up
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out/y.npy"), [[[[1, 2]], [[4, 5]]]])
        numpy.save(self.folder / "x.npy", numpy.ones((1, 3, 2, 9), numpy.float32))
        self.ends(0, "build", self.save("small.onnx", "AveragePool", ["n", 3, "h", "w"], {}, kernel_shape=[3, 3]), "-o", "q.engine")
        self.ends(0, "run", "q.engine", "-i", "x=x.npy", "--output-dir", "out", "--force")  # no window has a place
        self.assertEqual(numpy.load(self.folder / "out/y.npy").shape, (1, 3, 0, 7))
        numpy.save(self.folder / "x.npy", numpy.ones((1, 3, 1, 9), numpy.float32))
        self.assertIn("expected at least 3 elements along spatial axis 0, found 1", self.ends(1, "run", "q.engine", "-i", "x=x.npy"))
        self.ends(0, "build", self.save("parts.onnx", "Split", ["n", "k"], {}, ("y", "z", "u"), num_outputs=3), "-o", "s.engine")
        numpy.save(self.folder / "x.npy", numpy.ones((1, 4), numpy.float32))
        self.assertIn("'node': Split of 'x': split of 1 elements into 3 parts", self.ends(1, "run", "s.engine", "-i", "x=x.npy"))

    def test_a_division_by_a_size_that_may_be_0(self):
        text = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, 4] x, float[100] w) => (%s) <int64[1] first = {0}, int64[1] hundred = {100}, int64[1] rest = {-1}> {
            s = Shape(x)  n = Gather(s, first)  %s }"""
        for name, output, nodes in (("m", "float[k] y", "r = Mod(hundred, n)  z = ConstantOfShape(r)  y = Neg(z)"),
                                    ("v", "float[k, l] y", "t = Concat<axis = 0>(rest, n)  r = Reshape(w, t)  y = Neg(r)")):
            onnx.save(parser.parse_model(text % (output, nodes)), self.folder / f"{name}.onnx")
        numpy.save(self.folder / "x.npy", numpy.ones((0, 4), numpy.float32))
        numpy.save(self.folder / "w.npy", numpy.ones(100, numpy.float32))
        limits = ("--min-shapes", "x:0x4", "--opt-shapes", "x:5x4", "--max-shapes", "x:10x4", "--no-tune", "--no-cache")
        # As a value it is what the operator says, as a size none at all.
        self.ends(0, "build", "m.onnx", "-o", "m.engine", *limits)
        self.ends(0, "run", "m.engine", "-i", "x=x.npy", "-i", "w=w.npy", "--json", "m.json", "--output-dir", "m")
        self.assertEqual(numpy.load(self.folder / "m/y.npy").shape, (0,))
        said = self.ends(2, "build", "v.onnx", "-o", "v.engine", *limits)
        told = "size 'floordiv(100, n?)' divides by 0: expected dimension 'n' at least 1, found 'n' is 0; "
        self.assertIn("'r': the model does not run at n=0: " + told + "give sizes that it can have: --dims NAME=N", said)
        for command in ("run", "verify"):
            said = self.ends(1, command, "v.onnx", "-i", "x=x.npy", "-i", "w=w.npy")
            self.assertIn(told, said)

    def test_a_reshape_to_sizes_of_another_input_takes_all_elements(self):
        (self.folder / "r.txt").write_text("""<ir_version: 8, opset_import: ["" : 18]> g (float[n, 6] x, float[m] z) => (float[a, b] y) <int64[1] two = {2}> {
            s = Shape(z)  t = Concat<axis = 0>(s, two)  r = Reshape(x, t)  y = Neg(r) }""")
        onnx.save(parser.parse_model((self.folder / "r.txt").read_text()), self.folder / "r.onnx")
        numpy.save(self.folder / "x.npy", numpy.ones((2, 6), numpy.float32))
        numpy.save(self.folder / "six.npy", numpy.ones(6, numpy.float32))
        numpy.save(self.folder / "three.npy", numpy.ones(3, numpy.float32))
        self.ends(0, "build", "r.onnx", "-o", "r.engine", "--no-tune", "--no-cache", "--dims", "n=2,m=6")
        for source in ("r.engine", "r.onnx"):
            self.ends(0, "run", source, "-i", "x=x.npy", "-i", "z=six.npy")
            said = self.ends(1, "run", source, "-i", "x=x.npy", "-i", "z=three.npy")
            self.assertIn("a reshape changes the number of elements: expected 12, found 6", said)

    def test_sizes_nobody_stated_do_not_hang_on_the_order_of_inputs(self):
        inputs = ["float[T,D] x", "float[D] h"]
        for order in (inputs, inputs[::-1]):
            onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({", ".join(order)}) => (float[T,D] y) {{ y = Add(x, h) }}'), self.folder / "order.onnx")
            self.assertEqual(self.tuned("order.onnx"), {"T": 1, "D": 128})

    def test_weights_decide(self):
        w = lambda *shape: numpy.full(shape, 0.25, numpy.float32)
        image = ["n", "c", "h", "w"]
        cases = [
            (self.save("conv.onnx", "Conv", image, {"w": w(8, 3, 3, 3)}), {"c": 3}),
            (self.save("groups.onnx", "Conv", image, {"w": w(8, 2, 3, 3)}, group=4), {"c": 8}),
            (self.save("norm.onnx", "BatchNormalization", image, {k: w(5) for k in ("s", "b", "m", "v")}), {"c": 5}),
            (self.save("matmul.onnx", "MatMul", ["n", "k"], {"w": w(37, 4)}), {"k": 37}),
            (self.save("gemm.onnx", "Gemm", ["n", "k"], {"w": w(4, 19)}, transB=1), {"k": 19}),
            (self.save("layer.onnx", "LayerNormalization", ["n", "s", "k"], {"s": w(48), "b": w(48)}), {"k": 48}),
            (self.save("add.onnx", "Add", ["n", "k"], {"b": w(300)}), {"k": 300}),
            (self.save("flat.onnx", "Reshape", ["a", "b", "c"], {"s": numpy.array([2, 3, 4])}), None),
            (self.save("depth.onnx", "DepthToSpace", image, {}, blocksize=3), None),
            (self.save("split.onnx", "Split", ["n", "k"], {"s": numpy.array([3, 4])}, ("y", "z"), axis=1), {"k": 7}),
        ]
        for model, wanted in cases:
            with self.subTest(model=model):
                have = self.tuned(model)
                for name, size in (wanted or {}).items():
                    self.assertEqual(have[name], size)
                if model == "flat.onnx":
                    self.assertEqual(have["a"] * have["b"] * have["c"], 24)
                if model == "depth.onnx":
                    self.assertEqual(have["c"] % 9, 0)
                self.ends(0, "run", "a.engine", "-i", "x=random:1", "--quiet")

    def test_a_bias_of_the_scores_is_as_long_as_the_keys(self):
        """Its axis has a name of its own; the nodes that an operator of com.microsoft was replaced by have one. Keys are past and new ones, or as many
        as total_sequence_length says, here the length of a mask."""
        value = lambda name, *dims, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, dims)
        inputs = [value(name, "b", "s", 16) for name in ("q", "k", "v")] + [value(name, "b", 2, "p", 8) for name in ("pk", "pv")]
        inputs.append(value("ab", 1, 2, "s", "tt"))
        counted = [value("sl", "b", kind=TensorProto.INT32), value("mask", "b", "t", kind=TensorProto.INT64)]
        op = lambda name, read, *made, **words: helper.make_node(name, read, made, domain="com.microsoft" if "num_heads" in words else "", **words)
        total = [op("Shape", ["mask"], "t1", start=1, end=2), op("Squeeze", ["t1"], "t0"), op("Cast", ["t0"], "tot", to=TensorProto.INT32)]
        many = op("MultiHeadAttention", ["q", "k", "v", "", "", "ab", "pk", "pv"], "y", "nk", "nv", num_heads=2)
        grouped = op("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "sl", "tot", "", "", "", "ab"], "y", "nk", "nv", num_heads=2, kv_num_heads=2)
        # Sizes that are given, what the bias is as long as then, and sizes at which no run ends without an error; the bias of one key is that of all.
        cases = {"mha.onnx": ([many], [], "p=5,s=2", 7, {"b=1,p=1,s=1,tt=3": 2, "b=1,p=4,s=1,tt=4": 2}),
                 "gqa.onnx": ([*total, grouped], counted, "t=37", 37, {"b=1,p=4,s=1,t=5,tt=3": 2})}
        for model, (nodes, more, given, keys, never) in cases.items():
            graph = helper.make_graph(nodes, "g", [*inputs, *more], [helper.make_empty_tensor_value_info(name) for name in ("y", "nk", "nv")])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
            onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), self.folder / model)
            with self.subTest(model=model):
                for words in ([model], [model, "--dims", given]):
                    have = self.tuned(*words, "--force")
                    self.assertEqual(have["tt"], have["t"] if more else have["p"] + have["s"])
                    self.ends(0, "verify", "a.engine", "--seed", "1")
                self.assertEqual(have["tt"], keys)
                for dims, code in never.items():
                    said = self.ends(code, "build", model, "-o", "b.engine", "--no-tune", "--no-cache", "--dims", dims)
                    self.assertIn(f"the model does not run at {dims}", said)
                    self.assertNotIn("report", said)

    def test_a_total_with_a_name_of_its_own_is_the_sum_of_others(self):
        """Of what a mask has behind the past; sizes that nobody gave and that no model can have are no reason to say nothing of it."""
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[s,4] x, float[p,4] past, float[t] mask) => (float[4] y) <int64[1] end = {999999}, float[3] a = {1,2,3}, float[5] b = {1,2,3,4,5}>
        { n = Shape<end = 1>(past)  new = Slice(mask, n, end)  r = ReduceSum<keepdims = 0>(x, one)  same = Add(new, r)  y = MatMul(same, x) }"""
        onnx.save(onnx.parser.parse_model(text.replace("<int64[1] end", "<int64[1] one = {1}, int64[1] end")), self.folder / "m.onnx")
        self.assertEqual(self.tuned("m.onnx"), {"s": 1, "p": 1, "t": 2})
        onnx.save(onnx.parser.parse_model(text[: text.index("{ n")] + "{ c = Concat<axis = 0>(mask, mask)  d = Add(c, a)  e = Add(mask, b)  y = Concat<axis = 0>(d, e) }"), self.folder / "n.onnx")
        self.assertIn("has only supported operators: 4 nodes", self.ends(0, "inspect", "n.onnx"))
        self.assertIn("note: memory and build time are not estimated, and a build is refused, at sizes that nobody gave: ", self.peri("inspect", "n.onnx").stdout.decode())
        self.assertIn("does not run at", self.ends(2, "build", "n.onnx", "-o", "n.engine"))

    def test_inspect_reads_inputs_at_the_sizes_that_are_given(self):
        tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
        kinds = {"list": (helper.make_sequence_type_proto(tensor), "ConcatFromSequence", {"axis": 0}), "maybe": (helper.make_optional_type_proto(tensor), "OptionalHasElement", {})}
        for name, (kind, op, more) in kinds.items():
            output = helper.make_tensor_value_info("y", TensorProto.BOOL, []) if name == "maybe" else helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])
            graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **more)], "g", [helper.make_value_info("x", kind)], [output])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / f"{name}.onnx")
        inputs = lambda *words: [p["name"] for p in json.loads(self.peri("inspect", *words, "--json", "-").stdout)["inputs"]]
        self.assertIn("give the number of its elements: --dims x=N", self.ends(1, "inspect", "list.onnx"))
        self.assertEqual(inputs("list.onnx", "--dims", "x=3"), ["x.0", "x.1", "x.2"])
        said = self.ends(1, "inspect", "list.onnx", "--dims", "x=1000")
        self.assertIn("'y': a size of output 0 passes 64 bits, or is too long an expression of the named sizes; export the model", said)
        self.assertEqual((inputs("maybe.onnx"), inputs("maybe.onnx", "--dims", "x=0")), (["x"], []))
        said = b"note: optional input 'x' is taken to be given; --dims x=0 builds for runs without it"
        self.assertIn(said, self.peri("build", "maybe.onnx", "--no-tune", "--no-cache").stderr)
        self.assertNotIn(said, self.peri("build", "maybe.onnx", "--no-tune", "--no-cache", "--dims", "x=0").stderr)
        onnx.save(parser.parse_model('<ir_version: 9, opset_import: ["" : 19]> g (float x) => (float y) { y = Relu(x) }'), self.folder / "open.onnx")
        model = onnx.load(self.folder / "open.onnx")
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.ClearField("shape")
        onnx.save(model, self.folder / "open.onnx")
        told = json.loads(self.peri("inspect", "open.onnx", "--shapes", "x:2x3", "--json", "-").stdout)
        self.assertRegex(told["inputs"][0]["type"], r"^f32\[\w+,\w+\]$")

    def test_what_the_reference_cannot_do_is_refused_before_inputs_are_made(self):
        self.ends(0, "build", DIGITS, "-o", "digits.engine", "--no-tune", "--quiet")
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # inputs alone are 12 GB
        for path in (DIGITS, "digits.engine"):
            r = self.peri("verify", path, "--dims", "batch=50000000", preexec_fn=limit)
            self.assertEqual(r.returncode, 1)
            self.assertRegex(r.stderr.decode(), "hours at batch=50000000: expected at most 1 Tflop, found 1.. Tflop; give smaller sizes with --dims, judge each step alone with --steps-only, or compare with "
                                                "--onnxruntime or --reference-dir")

    def test_what_was_stated_stays_or_is_refused(self):
        model = self.save("conv.onnx", "Conv", ["n", "c", "h", "w"], {"w": numpy.full((8, 3, 3, 3), 0.25, numpy.float32)})
        have = self.tuned(model, "--dims", "h=20,w=24")
        self.assertEqual(have, {"n": 1, "c": 3, "h": 20, "w": 24})
        self.assertIn("expected 3 channels", self.ends(2, "build", model, "-o", "a.engine", "--no-tune", "--dims", "c=4", "--quiet"))

    def test_a_number_of_keys_that_is_an_input_fits_the_bias(self):
        """total_sequence_length, made up, is what the bias says: the engine is run and judged, and bench and verify need no files."""
        value = lambda name, *dims, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, dims)
        inputs = [value(name, "b", "s", 16) for name in ("q", "k", "v")] + [value(name, "b", 2, "p", 8) for name in ("pk", "pv")]
        inputs += [value("sl", "b", kind=TensorProto.INT32), value("tot", kind=TensorProto.INT32), value("ab", 1, 1, "s", "tt")]
        node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "sl", "tot", "", "", "", "ab"], ["y", "nk", "nv"], domain="com.microsoft", num_heads=2, kv_num_heads=2)
        graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(name) for name in ("y", "nk", "nv")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), self.folder / "total.onnx")
        for words in ([], ["--dims", "s=1,p=16,tt=17"], ["--dims", "b=2,s=4,p=4,tt=8"]):
            with self.subTest(words=words):
                said = self.ends(0, "build", "total.onnx", "-o", "t.engine", "--no-tune", "--no-cache", "--force", "--json", "t.json", *words)
                self.assertIn("right at", said)
                self.assertEqual(json.loads((self.folder / "t.json").read_text())["engine_judged"], "in this build")
                self.ends(0, "verify", "t.engine")
                self.ends(0, "bench", "t.engine", "--seconds", "0.01", "--tolerance", "1e6", "--quiet")

    def test_sizes_that_a_model_computes_in_float32(self):
        """10 * 0.7 is 7 there, also for the reference; its floor in float64 were 6. What interpolation by a scale writes."""
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[b,%s] x) => (float y) <float f = {0.7}, int64 one = {1}, int64[1] zero = {0}> {
            s = Shape(x) h = Gather(s, one) hf = Cast<to = 1>(h) m = Mul(hf, f) fl = Floor(m) n = Cast<to = 7>(fl) list = Unsqueeze(n, zero)
            z = ConstantOfShape(list) r = Reciprocal(x) t = ReduceSum<keepdims = 0>(r) y = Add(z, t) }"""
        for axis, sizes in (("10", ("b=1",)), ("h", ("b=1,h=10", "b=1,h=20", "b=1,h=7"))):
            onnx.save(parser.parse_model(text % axis), self.folder / "scaled.onnx")
            for dims in sizes:
                self.ends(0, "build", "scaled.onnx", "-o", "a.engine", "--no-tune", "--dims", dims, "--quiet")
                self.ends(0, "verify", "scaled.onnx", "--no-tune", "--dims", dims, "--json", "v.json", "--force")
                at = 10 if axis == "10" else int(dims.rsplit("=")[-1])
                self.assertEqual(json.loads((self.folder / "v.json").read_text())["outputs"][0]["count"], int(numpy.floor(numpy.float32(at) * numpy.float32(0.7))))

    def test_a_hidden_size_that_is_a_name_may_be_given(self):
        """How long a head is follows from it: the form of the model hangs on it."""
        value = lambda name, *dims, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, dims)
        ends = [value("sl", "b", kind=TensorProto.INT32), value("tot", kind=TensorProto.INT32)]
        for op, names, keys, inputs, more in (("MultiHeadAttention", ["q", "k", "v"], "h", [], {}), ("GroupQueryAttention", ["q", "k", "v", "", "", "sl", "tot"], "k", ends, {"kv_num_heads": 2})):
            node = helper.make_node(op, names, ["y"], domain="com.microsoft", num_heads=4, **more)
            graph = helper.make_graph([node], "g", [value("q", "b", "s", "h"), value("k", "b", "s", keys), value("v", "b", "s", keys), *inputs], [helper.make_empty_tensor_value_info("y")])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), self.folder / "hidden.onnx")
            r = self.peri("build", "hidden.onnx", "-o", "h.engine", "--no-tune", "--force", "--dims", "h=32" + (",k=16" if more else ""))
            self.assertEqual((r.returncode, "are fixed: h=32" in (r.stdout + r.stderr).decode()), (0, True), r)
            if more:
                self.assertIn("give the sizes that it has: --dims NAME=N", self.ends(1, "build", "hidden.onnx", "-o", "h.engine", "--no-tune"))

    def test_a_difference_of_sizes_may_be_less_than_none(self):
        """As an answer, captured by a branch, and as the trips of a loop, of which there are none then."""
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[b,n] x) => (int64 d, float[b,n] y, float[b,n] z) <int64 one = {1}, int64 many = {16}, float half = {0.5}> {
            s = Shape(x) h = Gather(s, one) d = Sub(h, many) go = Constant<value = bool {1}>() c = Greater(d, one)
            y = Loop(d, go, x) <body = b (int64 i, bool on, float[b,n] v) => (bool again, float[b,n] w) { again = Identity(on) w = Add(v, half) }>
            z = If(c) <then_branch = t () => (float[b,n] p) { p = Neg(x) }, else_branch = e () => (float[b,n] q) { f = Cast<to = 1>(d) q = Add(x, f) }> }"""
        onnx.save(parser.parse_model(text), self.folder / "less.onnx")
        for words in ((), ("--dims", "n=3")):
            self.ends(0, "build", "less.onnx", "-o", "l.engine", "--no-tune", "--quiet", *words)
            for n in (3, 18):
                x = numpy.ones((2, n), numpy.float32)
                numpy.save(self.folder / "x.npy", x)
                self.ends(0, "run", "l.engine", "-i", "x=x.npy", "--output-dir", "out", "--quiet")
                d, y, z = (numpy.load(self.folder / f"out/{k}.npy") for k in "dyz")
                self.assertEqual(d, n - 16)
                numpy.testing.assert_array_equal(y, x + 0.5 * max(n - 16, 0))
                numpy.testing.assert_array_equal(z, -x if n == 18 else x + d)

    def test_how_many_there_are_may_hang_on_a_rounding(self):
        """Such an output is held value by value like any other behind a rounding; one whose shape is wrong is outside."""
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (int64[one,m] y) <float k = {255.0}, float th = {0.2}>
            { q = Div(x, k) c = GreaterOrEqual(q, th) y = NonZero(c) }"""
        onnx.save(parser.parse_model(text), self.folder / "ties.onnx")
        numpy.save(self.folder / "x.npy", numpy.float32([51, 52, 50, 51, 0, 200]))
        for more in ((), ("--bisect",)):
            said = self.ends(0, "verify", "ties.onnx", "-i", "x=x.npy", "--no-tune", *more)
            self.assertIn("one answer parts from it at roundings that float32 does not decide", said)
        numpy.save(self.folder / "y.npy", numpy.zeros((1, 5), numpy.int64))
        said = self.ends(3, "verify", "ties.onnx", "-i", "x=x.npy", "--no-tune", "--reference-dir", ".")
        self.assertRegex(said, r"its shape is another one: expected i64\[1,5\], found i64\[1,[24]\]")

    def test_seeded_inputs_are_such_as_the_model_takes(self):
        """Counts and indices lie within what they count: what `inspect` says runs is run by run, bench and verify without a file."""
        models = {"largest": "g (float[n,4] x, int64[1] k) => (int64[2] s) { q, i = TopK(x, k) y = Sin(q) s = Shape(y) }",
                  "values": "g (float[n,4] x, int64[1] k) => (float[n,m] y) { q, i = TopK(x, k) y = Sin(q) }",
                  "rows": "g (float[n,3] x, int64[5] k) => (float[5,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}> { q = Gather(w, k) z = ReduceSum(x) y = Add(q, z) }",
                  "moved": "g (float[n,3] x, int32[5,1] k) => (float[3,5] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}> { a = Cast<to = 7>(k) s = Squeeze(a) q = Gather(w, s) t = Transpose<perm = [1, 0]>(q) z = ReduceSum(x) y = Add(t, z) }"}
        for name, text in models.items():
            onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), self.folder / f"{name}.onnx")
            self.ends(0, "inspect", f"{name}.onnx")
            self.ends(0, "build", f"{name}.onnx", "-o", "a.engine", "--no-tune", "--dims", "n=2", "--quiet")
            for seed in range(5):
                with self.subTest(name=name, seed=seed):
                    self.ends(0, "run", "a.engine", "-i", f"x=random:{seed}", "-i", f"k=random:{seed + 7}", "--quiet")
            self.ends(0, "verify", "a.engine", *(w for seed in range(5) for w in ("--seed", seed)))
            self.ends(0, "bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6", "--quiet")

    def test_seeded_indices_reach_a_table_within_bodies(self):
        """A loop carries them, and within its body a branch reads the table of 3 rows; behind the loop they index one of 2."""
        value = helper.make_tensor_value_info
        node, whole, boolean = helper.make_node, TensorProto.INT64, TensorProto.BOOL
        branch = lambda name, op: helper.make_graph([node("Gather", ["w", "t"], [f"{name}g"], axis=0), node(op, [f"{name}g"], [name])], name, [], [value(name, TensorProto.FLOAT, ["m", 2])])
        body = helper.make_graph([node("If", ["c"], ["e"], then_branch=branch("p", "Sin"), else_branch=branch("q", "Cos")), node("Identity", ["c"], ["c2"]),
                                  node("Concat", ["t", "t"], ["t2"], axis=0), node("ReduceSum", ["e"], ["s"], keepdims=0)],
                                 "body", [value("i", whole, []), value("c", boolean, []), value("t", whole, ["m"])],
                                 [value("c2", boolean, []), value("t2", whole, ["m2"]), value("s", TensorProto.FLOAT, [])])
        nodes = [node("Loop", ["count", "", "k"], ["last", "sums"], body=body), node("Gather", ["v", "last"], ["y"], axis=0)]
        weights = [numpy_helper.from_array(numpy.ones(shape, numpy.float32), name) for name, shape in (("w", (3, 2)), ("v", (2, 5)))] + [numpy_helper.from_array(numpy.array(3), "count")]
        for name, tables in (("within", nodes[:1]), ("behind", nodes)):
            outputs = [value("sums", TensorProto.FLOAT, ["z"])] + ([value("y", TensorProto.FLOAT, ["r", 5])] if name == "behind" else [])
            graph = helper.make_graph(tables, "g", [value("k", whole, [9])], outputs, weights)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"{name}.onnx")
            with self.subTest(name=name):
                self.ends(0, "build", f"{name}.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
                self.ends(0, "verify", "a.engine", *(w for seed in range(4) for w in ("--seed", seed)))
                self.ends(0, "bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6", "--quiet")
                self.ends(0, "verify", f"{name}.onnx", "--seed", "5", "--no-tune", "--no-cache", "--quiet")

    def test_inputs_at_hand_decide(self):
        model = self.save("relu.onnx", "Relu", ["n", "k"], {})
        numpy.save(self.folder / "x.npy", numpy.ones((6, 10), numpy.float32))
        for command in ("run", "verify", "bench"):
            more = ("--seconds", "0.01", "--tolerance", "1e6") if command == "bench" else ()
            r = self.peri(command, model, "-i", "x=x.npy", "--no-tune", "--no-cache", *more)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertNotIn(b"tuned for", r.stderr)
        r = self.peri("run", model, "-i", "x=x.npy", "--dims", "k=5", "--no-tune", "--no-cache")
        self.assertIn(b"tuned for k=5,n=6, run at k=10,n=6", r.stderr)

    def test_a_largest_size_below_the_smallest(self):
        """Neither is what the engine is tuned for, which nobody said."""
        model = self.save("relu.onnx", "Relu", ["n", "k"], {})
        said = self.ends(2, "build", model, "-o", "a.engine", "--min-shapes", "x:1x2", "--max-shapes", "x:4x1")
        self.assertIn("the smallest size of dimension 'k' is 2, and its largest is 1", said)

    def test_a_run_that_fails_is_not_called_right(self):
        model = self.save("pick.onnx", "Gather", ["n"], {"i": numpy.array([0, 200])})
        self.ends(0, "build", model, "-o", "a.engine", "--dims", "n=256", "--no-tune", "--no-cache", "--quiet")
        for n, code in ((200, 1), (201, 0)):
            numpy.save(self.folder / "x.npy", numpy.ones(n, numpy.float32))
            for subject in ("a.engine", model):
                r = self.peri("run", subject, "-i", "x=x.npy", "--dims", "n=256", "--no-tune", "--no-cache") if subject == model else self.peri("run", subject, "-i", "x=x.npy")
                self.assertEqual((r.returncode, b"perhaps not fastest" in r.stderr), (code, code == 0), r.stderr)

    def test_sizes_that_are_proposed_are_understood(self):
        """A name may be read as two items: then the note names an axis."""
        for names in (["n,m", "k"], ["N,M=3", "k"], ["a=1,b", "k"], ["p", "a=1,b=2"]):
            model = self.save("names.onnx", "Relu", names, {})
            numpy.save(self.folder / "x.npy", numpy.ones((6, 10), numpy.float32))
            self.ends(0, "build", model, "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
            note = next(line for line in self.peri("run", "a.engine", "-i", "x=x.npy").stderr.decode().split("\n") if "perhaps not fastest" in line)
            with self.subTest(names=names, note=note):
                self.assertEqual(self.tuned(model, "--dims", note.split("--dims ")[1]), dict(zip(names, (6, 10))))

    def test_a_suite_is_built_for_its_inputs(self):
        case = self.folder / "suite/reshape/test_data_set_0"
        case.mkdir(parents=True)
        self.save("suite/reshape/model.onnx", "Reshape", ["a", "b"], {"s": numpy.array([5, 7, 11])})
        x = numpy.arange(385, dtype=numpy.float32)
        for name, array in (("input_0", x.reshape(77, 5)), ("output_0", x.reshape(5, 7, 11))):
            (case / f"{name}.pb").write_bytes(numpy_helper.from_array(array, name[0] + "_").SerializeToString())
        self.assertIn("1 passed", self.ends(0, "verify", "--suite", "suite"))

    def test_inspect_tells_the_arena_of_a_session(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--dims", "batch=4", "--no-tune", "--no-cache", "--quiet")
        r = self.peri("inspect", "a.engine", "--json", "a.json")
        arena = json.loads((self.folder / "a.json").read_text())["arena_bytes"]
        self.assertGreaterEqual(arena, 4 * 10 * 4)  # the logits at least
        self.assertRegex(r.stdout.decode(), r"  arena   [0-9.]+ .*B of each session, at the size it is tuned for")

    def test_an_axis_that_follows_may_be_given(self):
        """As trtexec takes the shapes of all inputs; it must be what it follows to, and may be what decides."""
        quick = ("--no-tune", "--no-cache", "--quiet")
        io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in
              (("ids", "seq"), ("past", "before"), ("mask", "before + seq"), ("y", "before + seq"))]
        nodes = [helper.make_node("Concat", ["past", "ids"], ["all"], axis=1), helper.make_node("Add", ["all", "mask"], ["y"])]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", io[:3], io[3:]), opset_imports=[helper.make_opsetid("", 17)]), self.folder / "d.onnx")
        self.ends(0, "build", "--onnx=d.onnx", "--saveEngine=d.engine", "--minShapes=ids:1x1,mask:1x3,past:1x2", "--optShapes=ids:1x1,mask:1x17,past:1x16",
                  "--maxShapes=ids:1x4,mask:1x68,past:1x64", *quick)
        for words in (("bench", "d.engine", "--seconds", "0.01", "--tolerance", "1e6"), ("inspect", "d.onnx"),
                      ("run", "d.engine", "-i", "ids=random:1", "-i", "past=random:1", "-i", "mask=random:1")):
            with self.subTest(words=words):
                self.ends(0, *words, "--shapes", "ids:1x2,mask:1x10,past:1x8")
                self.ends(0, *words, "--shapes", "ids:1x2,mask:1x10")
                said = self.ends(2, *words, "--shapes", "ids:1x2,mask:1x11,past:1x8")
                self.assertIn("axis 'mask.1' follows from other dimensions: expected before? + seq? = 10 at before=8, seq=2, found 11", said)
                said = self.ends(2, *words, "--shapes", "ids:1x9,mask:1x8")
                self.assertIn("a size that no 'before' leads to: expected before? + seq? at seq=9, found 8", said)
                self.assertIn("expected before? + seq?, found 9; give all but one of them too", self.ends(2, *words, "--shapes", "mask:1x9"))
        said = self.ends(1, "run", "d.engine", "-i", "ids=random:1", "-i", "past=random:1", "-i", "mask=random:1", "--shapes", "ids:1x1,mask:1x66")
        self.assertIn("beyond what the engine was built for: expected 2 to 64, found 65", said)
        for flag in ("--optShapes", "--minShapes", "--maxShapes"):
            self.assertIn("before? + seq? = 17", self.ends(2, "build", "d.onnx", f"{flag}=ids:1x1,mask:1x18,past:1x16", *quick))


if __name__ == "__main__":
    main()
