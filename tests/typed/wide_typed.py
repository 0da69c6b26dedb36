#!/usr/bin/env python3
"""Sizes and steps at the ends of what numbers hold: as ONNX Runtime has it, or refused with node and remedy."""
import json
import resource

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

from typed import Typed, main


def little_time():
    """Of a process: what takes minutes where work is quadratic ends with a signal."""
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))


class Wide(Typed):
    def save(self, text, opset=17):
        onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}'), self.folder / "m.onnx")

    def answer(self, **given):
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--quiet", "--force")
        for name, x in given.items():
            numpy.save(self.folder / f"{name}.npy", x)
        self.ends(0, "run", "a.engine", *[w for name in given for w in ("-i", f"{name}={name}.npy")], "--output-dir", "out")
        return numpy.load(self.folder / "out/y.npy")

    def split(self, count, list_of_sizes):
        """A split into `count` parts of one element, joined the other way round."""
        node, value = helper.make_node, helper.make_tensor_value_info
        parts, sizes = [f"s{k}" for k in range(count)], numpy_helper.from_array(numpy.ones(count, numpy.int64), "n")
        made = {"constant": [node("Constant", [], ["n"], value=sizes)], "computed": [node("ConstantOfShape", ["c"], ["n"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1]))]}
        nodes = [*made.get(list_of_sizes, []), node("Split", ["x", "n"], parts, axis=1), node("Concat", parts[::-1], ["y"], axis=1)]
        kept = {"initializer": [sizes], "computed": [numpy_helper.from_array(numpy.array([count]), "c")]}
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["b", count])], [value("y", TensorProto.FLOAT, ["b", count])], kept.get(list_of_sizes, []))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / "m.onnx")

    def test_a_list_of_many_sizes_splits(self):
        """More than the elements that shapes are followed by, and than a node could make before."""
        for count, list_of_sizes in ((1025, "initializer"), (5000, "initializer"), (5000, "constant"), (1024, "computed")):
            with self.subTest(count=count, list_of_sizes=list_of_sizes):
                self.split(count, list_of_sizes)
                x = numpy.arange(2 * count, dtype=numpy.float32).reshape(2, count)
                numpy.testing.assert_array_equal(self.answer(x=x), x[:, ::-1])

    def test_many_sizes_that_are_computed_are_refused_as_that(self):
        self.split(1025, "computed")
        self.assertIn("split by a computed list of many sizes: expected at most 1024, found 1025; give them as a constant, or split in two steps", self.ends(1, "build", "m.onnx", "-o", "a.engine"))

    def test_more_values_than_a_node_can_make_are_refused(self):
        self.split(16385, "initializer")
        self.assertIn("a node makes too many values: expected at most 16384, found 16385", self.ends(1, "build", "m.onnx", "-o", "a.engine"))

    def test_a_table_of_many_texts_is_read(self):
        graph = helper.make_graph([helper.make_node("Gather", ["t", "x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])],
                                  [helper.make_tensor_value_info("y", TensorProto.STRING, ["n"])], [helper.make_tensor("t", TensorProto.STRING, [3000], [f"w{k}".encode() for k in range(3000)])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / "m.onnx")
        self.assertEqual([str(s) for s in self.answer(x=numpy.array([2999, 0, 1500]))], ["w2999", "w0", "w1500"])

    def test_many_operands_have_kernels(self):
        """A kernel reads 64; the sums, from left to right, are ONNX Runtime's to the bit."""
        value = helper.make_tensor_value_info
        for op, type, count in (("Sum", numpy.float32, 200), ("Mean", numpy.float32, 130), ("Max", numpy.int32, 65), ("Min", numpy.float32, 129), ("Sum", numpy.float32, 64)):
            with self.subTest(op=op, count=count):
                kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(type))
                shapes = [["n", 3] if k else ["n", 1] for k in range(count)]
                graph = helper.make_graph([helper.make_node(op, [f"x{k}" for k in range(count)], ["y"])], "g", [value(f"x{k}", kind, s) for k, s in enumerate(shapes)], [value("y", kind, ["n", 3])])
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
                self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--quiet", "--force", "--json", "build.json")
                self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
                said = self.ends(0, "verify", "m.onnx", "--onnxruntime", "--no-tune", "--quiet")
                self.assertTrue(op == "Mean" or "largest error 0 of" in said, said)

    def test_many_values_that_one_node_reads_are_no_long_work(self):
        """A region with the node was stated for each of its neighbours, and a beginning of a cover copied for each value: minutes, with or without a budget."""
        count = 2500
        node, value = helper.make_node, helper.make_tensor_value_info
        made = [f"m{k}" for k in range(count)]
        weights = {"Mul": (2,), "MatMul": (2, 2), "Conv": (1, 2, 1, 1)}
        for op, join in (("Mul", "Sum"), ("Mul", "Max"), ("MatMul", "Sum"), ("Conv", "Concat")):
            shape = ["n", 2, 4, 4] if op == "Conv" else ["n", 2]
            last = node(join, made, ["y"], axis=1) if join == "Concat" else node(join, made, ["y"])
            graph = helper.make_graph([node(op, ["x", f"w{k}"], [m]) for k, m in enumerate(made)] + [last], "g", [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, None)],
                                      [numpy_helper.from_array(numpy.full(weights[op], k / count, numpy.float32), f"w{k}") for k in range(count)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            with self.subTest(op=op, join=join):
                self.assertIn(f"{count + 1} nodes", self.ends(0, "inspect", "m.onnx"))

    def test_a_constant_that_many_nodes_share_is_no_long_work(self):
        """Each of them looked at all others to find out whether the constant tells sizes: a minute for ten thousand."""
        count = 6000
        node, value = helper.make_node, helper.make_tensor_value_info
        for op, shape in (("MatMul", (8, 8)), ("Add", (40,))):
            width = shape[-1]
            graph = helper.make_graph([node(op, [f"v{k}", "w"], [f"v{k + 1}"]) for k in range(count)], "g", [value("v0", TensorProto.FLOAT, ["n", width])], [value(f"v{count}", TensorProto.FLOAT, None)],
                                      [numpy_helper.from_array(numpy.ones(shape, numpy.float32), "w")])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            with self.subTest(op=op):
                self.assertIn(f"runs: {count} nodes", self.peri("inspect", "m.onnx", preexec_fn=little_time).stderr.decode())

    def test_a_chain_that_changes_a_sequence_is_no_long_work(self):
        """The list of each link stayed to the end, with n * n / 2 uses of the elements that were looked for one by one: longer than cubic."""
        count = 2000
        node, value = helper.make_node, helper.make_tensor_value_info
        inserts = [node("SequenceEmpty", [], ["s0"])] + [node("SequenceInsert", [f"s{k}", "x"], [f"s{k + 1}"]) for k in range(count)]
        erasures = [node("SequenceConstruct", ["x"] * count, ["s0"])] + [node("SequenceErase", [f"s{k}"], [f"s{k + 1}"]) for k in range(count - 1)]
        for nodes in (inserts, erasures):
            graph = helper.make_graph([*nodes, node("ConcatFromSequence", [nodes[-1].output[0]], ["y"], axis=0)], "g", [value("x", TensorProto.FLOAT, ["n", 2])], [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            with self.subTest(op=nodes[-1].op_type):
                self.assertRegex(self.peri("inspect", "m.onnx", preexec_fn=little_time).stderr.decode(), r"runs: \d+ nodes")

    def test_a_size_that_nothing_can_hold_is_refused_alike(self):
        self.save("g (float[n,s] x) => (float[n,s] y) { z = Relu(x) y = Exp(z) }")
        sizes = ("--dims", "n=1000000000,s=100000")
        for words in (("inspect", "m.onnx"), ("build", "m.onnx", "-o", "a.engine"), ("build", "m.onnx", "-o", "a.engine", "--no-verify", "--no-tune")):
            self.assertIn("'x': a value would take 363.8 TiB: expected at most 4.0 TiB; give smaller sizes", self.ends(1, *words, *sizes))
        self.assertFalse((self.folder / "a.engine").exists())

    def test_a_reshape_of_what_the_data_size_to_a_known_shape(self):
        """Its place hangs on a size that is known in the run only; numbers that do not fit each other are told as that."""
        self.save("g (float[b,t,4] x, int64[1] n) => (float[b,12] y) { zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() "
                  "to = Constant<value_ints = [0,12]>() q = Slice(x, zero, n, one) y = Reshape(q, to) }")
        x = numpy.arange(40, dtype=numpy.float32).reshape(2, 5, 4)
        numpy.testing.assert_array_equal(self.answer(x=x, n=numpy.array([3])), x[:, :3].reshape(2, 12))
        numpy.save(self.folder / "x.npy", x)
        numpy.save(self.folder / "n.npy", numpy.array([2]))
        self.assertIn("a reshape changes the number of elements: expected 16, found 24", self.ends(1, "run", "a.engine", "-i", "x=x.npy", "-i", "n=n.npy"))

    def test_a_slope_broadcasts_both_ways(self):
        x = numpy.arange(-3, 3, dtype=numpy.float32).reshape(2, 3)
        for given, slope in ((x, numpy.full((2, 1, 3), 0.5)), (x[:1], numpy.arange(6).reshape(2, 3)), (x[:, :1], numpy.array([[1, 2, 3]]))):
            self.save("g (float[n,m] x, float[...] s) => (float[...] y) { y = PRelu(x, s) }".replace("...", ",".join("abc"[:slope.ndim])))
            numpy.testing.assert_array_equal(self.answer(x=given, s=slope.astype(numpy.float32)), numpy.where(given < 0, given * slope, numpy.broadcast_to(given, (given + slope).shape)))

    def test_a_window_larger_than_its_input_is_refused_with_a_remedy(self):
        self.save("g (float[1,1,2] x) => (float[1,1,m] y) { y = MaxPool<kernel_shape = [5]>(x) }")
        self.assertIn("'y': the window is larger than the padded input: expected at least 5 elements along spatial axis 0, found 2; "
                      "give a larger input, or export the model with a smaller window or more padding", self.ends(1, "build", "m.onnx"))

    def test_a_step_beyond_every_axis_takes_the_first_element(self):
        x = numpy.arange(5, dtype=numpy.float32)
        for step in (2**63 - 1, 2**62, -(2**63) + 1, -(2**63)):
            first, end = (1, 2**63 - 1) if step > 0 else (3, -(2**63))
            for size in ("5", "n"):
                self.save(f"g (float[{size}] x) => (float[m] y) <int64[1] s = {{{first}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] p = {{{step}}}> {{ y = Slice(x, s, e, a, p) }}")
                numpy.testing.assert_array_equal(self.answer(x=x), [first], f"{step} {size}")

    def test_places_that_sizes_tell_may_lie_on_either_side_of_0(self):
        """Crops, tails, relative positions: one engine, with kernels, is right at every size, also where such a place counts from the end."""
        first = "Sub(size, {})".format
        places = {"last": (first("one"), None), "before2": (None, first("two")), "before5": (None, first("five")), "tail": (first("five"), None), "inner": ("Identity(two)", first("two")),
                  "back": ("Neg(floor)", None), "middle": ("Div(less, two)", "Add(middle_s, two)"), "front": (None, "Neg(floor)"), "rest": ("Sub(two, size)", None)}
        for step in (1, 2, -1, -2):
            nodes = "".join(f"{name}_s = {start or 'Identity(begin)'} {name}_e = {end or 'Identity(far)'} {name} = Slice(x, {name}_s, {name}_e, axis, step) " for name, (start, end) in places.items())
            begin, far = (0, 2**63 - 1) if step > 0 else (2**63 - 1, -(2**63))
            self.save("g (float[b,n] x) => (" + ", ".join(f"float[b,m{k}] {name}" for k, name in enumerate(places)) + f""") <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] five = {{5}}, int64[1] axis = {{1}},
                int64[1] step = {{{step}}}, int64[1] begin = {{{begin}}}, int64[1] far = {{{far}}}> {{ size = Shape<start = 1>(x) floor = Div(size, two) less = Sub(size, five) {nodes} }}""")
            self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet", "--force", "--json", "build.json")
            self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
            session = onnxruntime.InferenceSession(self.folder / "m.onnx")
            for n in range(1, 12):
                x = numpy.arange(2 * n, dtype=numpy.float32).reshape(2, n)
                numpy.save(self.folder / "x.npy", x)
                self.ends(0, "run", "a.engine", "-i", "x=x.npy", "--output-dir", "out")
                for name, want in zip(places, session.run(None, {"x": x})):
                    numpy.testing.assert_array_equal(numpy.load(self.folder / f"out/{name}.npy"), want, f"{name} {step} {n}")

    def test_sizes_that_are_known_beside_one_that_data_decide(self):
        """Sums of each graph's nodes, then a layer: the inner size of the product is known."""
        self.save("""g (float[n,6] x, int64[n] batch) => (float[m,3] y) <float[6,3] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18}, int64 one = {1}, int64[1] zero = {0}, int64[1] first = {1}, int64[1] six = {6}> {
            most = ReduceMax<keepdims = 0>(batch) count = Add(most, one) list = Unsqueeze(count, zero) shape = Concat<axis = 0>(list, six) none = ConstantOfShape(shape)
            at = Unsqueeze(batch, first) all = Shape(x) index = Expand(at, all) sums = ScatterElements<axis = 0, reduction = "add">(none, index, x) y = MatMul(sums, w) }""", 16)
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet", "--force", "--json", "build.json")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["slow_steps"], 0)
        self.assertNotIn("no kernel takes these", self.peri("build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--force").stdout.decode())
        w = numpy.arange(1, 19, dtype=numpy.float32).reshape(6, 3)
        for graphs in ([0, 0, 1, 3], [0], [2, 1, 0]):
            x = numpy.arange(6 * len(graphs), dtype=numpy.float32).reshape(-1, 6)
            sums = numpy.zeros((max(graphs) + 1, 6), numpy.float32)
            numpy.add.at(sums, graphs, x)
            numpy.testing.assert_allclose(self.answer(x=x, batch=numpy.array(graphs)), sums @ w, rtol=1e-6)

    def test_windows_of_neighbours_are_added_in_kernels(self):
        self.save("""g (float[b,n] x) => (float[b,m] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> { size = Shape<start = 1>(x) e = Sub(size, two) f = Sub(size, one)
            u = Slice(x, zero, e, one) v = Slice(x, one, f, one) w = Slice(x, two, size, one) t = Add(u, v) y = Add(t, w) }""")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet", "--force", "--json", "build.json")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
        for n in range(1, 8):
            x = numpy.arange(2 * n, dtype=numpy.float32).reshape(2, n)
            numpy.testing.assert_array_equal(self.answer(x=x), x[:, : n - 2] + x[:, 1 : n - 1] + x[:, 2:] if n > 1 else x[:, :0])

    def test_relative_positions_of_a_table_become_another_shape(self):
        """As Conformers and Transformer-XL have them: from `centre - size` on, then a view."""
        table = numpy.random.default_rng(3).standard_normal((401, 2), dtype=numpy.float32)
        node, ints = helper.make_node, lambda name, *v: numpy_helper.from_array(numpy.array(v, numpy.int64), name)
        nodes = [node("Shape", ["x"], ["size"], start=1), node("Sub", ["c", "size"], ["s0"]), node("Add", ["s0", "one"], ["s"]), node("Add", ["c", "size"], ["e"]), node("Slice", ["table", "s", "e", "zero"], ["p"]),
                 node("Mul", ["size", "two"], ["t0"]), node("Sub", ["t0", "one"], ["t"]), node("Concat", ["one", "t", "two"], ["l"], axis=0), node("Reshape", ["p", "l"], ["r"]), node("Neg", ["r"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "n"])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "m", 2])],
                                  [numpy_helper.from_array(table, "table"), ints("zero", 0), ints("one", 1), ints("two", 2), ints("c", 200)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        for n in (1, 5, 150, 200):
            numpy.testing.assert_array_equal(self.answer(x=numpy.ones((1, n), numpy.float32)), -table[None, 201 - n : 200 + n])

    def test_a_range_that_is_too_long_is_told_from_one_without_an_end(self):
        for type, limit, found in (("int64", numpy.int64(2**62), "4611686018427387904"), ("float", numpy.float32(numpy.inf), "infinitely many")):
            self.save(f"g ({type} l) => ({type}[m] y) <{type} a = {{0}}, {type} d = {{1}}> {{ y = Range(a, l, d) }}")
            numpy.save(self.folder / "l.npy", limit)
            self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--force")
            self.assertIn(f"range is too long: expected at most 1099511627776 elements, found {found}", self.ends(1, "run", "a.engine", "-i", "l=l.npy"))
            numpy.save(self.folder / "l.npy", numpy.full_like(limit, 3))
            self.ends(0, "run", "a.engine", "-i", "l=l.npy", "--output-dir", "out")
            numpy.testing.assert_array_equal(numpy.load(self.folder / "out/y.npy"), [0, 1, 2])

    def test_causal_attention_over_other_keys_than_queries_has_a_kernel(self):
        self.save("g (float[1,2,q,8] x, float[1,2,k,8] z) => (float[1,2,q,8] y) { y = Attention<is_causal = 1>(x, z, z) }", 23)
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--json", "build.json")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
        draw = numpy.random.default_rng(1)
        for queries, keys in ((1, 9), (9, 1), (5, 130), (130, 5), (66, 66)):
            x, z = (draw.standard_normal((1, 2, n, 8), dtype=numpy.float32) for n in (queries, keys))
            scores = x @ z.swapaxes(2, 3) / numpy.sqrt(8) + numpy.where(numpy.tri(queries, keys), 0, -numpy.inf)
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            numpy.testing.assert_allclose(self.answer(x=x, z=z), weights / weights.sum(-1, keepdims=True) @ z, atol=3e-6, err_msg=f"{queries} {keys}")

    def test_attention_with_a_soft_cap_or_behind_a_past_has_a_kernel(self):
        self.save("g (float[1,2,q,8] x, float[1,1,k,8] z, float[1,1,p,8] b, float[q,t] m) => (float[1,2,q,8] y, float[1,1,t,8] c, float[1,1,t,8] d) "
                  "{ y, c, d = Attention<is_causal = 1, softcap = 0.5>(x, z, z, m, b, b) }", 23)
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--json", "build.json")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
        draw = numpy.random.default_rng(2)
        for queries, keys, past in ((1, 9, 3), (9, 1, 4), (5, 130, 1), (130, 5, 70), (66, 66, 2)):
            x, z, b = (draw.standard_normal((1, heads, n, 8), dtype=numpy.float32) for heads, n in ((2, queries), (1, keys), (1, past)))
            m, all = draw.standard_normal((queries, past + keys), dtype=numpy.float32), numpy.concatenate((b, z), 2)
            scores = 0.5 * numpy.tanh(x @ all.swapaxes(2, 3) / numpy.sqrt(8) / 0.5) + m + numpy.where(numpy.tri(queries, past + keys, past), 0, -numpy.inf)
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            numpy.testing.assert_allclose(self.answer(x=x, z=z, b=b, m=m), weights / weights.sum(-1, keepdims=True) @ all, atol=3e-6, err_msg=f"{queries} {keys} {past}")
            numpy.testing.assert_allclose(self.answer(x=x, z=z, b=b, m=m[:, :1]), numpy.broadcast_to(all[:, :, :1], x.shape), atol=3e-6)  # one key is seen


if __name__ == "__main__":
    main()
