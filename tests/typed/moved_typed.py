#!/usr/bin/env python3
"""Elements that a model moves: slices from before the first element, scattered integers, sizes of 0 that change their axis."""
import json

import numpy
import onnx
from onnx import numpy_helper, parser

from typed import Typed, main

QUICK = ("--no-tune", "--no-cache", "--quiet")


class Moved(Typed):
    def save(self, name, text):
        model = parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> ' + text)
        onnx.save(model, self.folder / f"{name}.onnx")
        return f"{name}.onnx"

    def answer(self, model, x, *words):
        numpy.save(self.folder / "x.npy", x)
        self.ends(0, "run", model, "-i", "x=x.npy", "--output-dir", "out", *(QUICK if model.endswith(".onnx") else ()), *words)
        return numpy.load(self.folder / "out/y.npy")

    def test_a_backward_slice_begins_at_the_first_element_where_its_start_is_before_it(self):
        text = """g (float[n,3] x) => (float[a,b] y)
        <int64[2] s = {-3, -9}, int64[2] e = {-100, -100}, int64[2] t = {-1, -2}, int64[2] d = {0, 1}> { y = Slice(x, s, e, d, t) }"""
        model = self.save("slice", text)
        self.ends(0, "build", model, "-o", "s.engine", "--dims", "n=5", *QUICK)
        for n in (1, 2, 3, 5, 6):
            x = numpy.arange(3 * n, dtype=numpy.float32).reshape(n, 3)
            numpy.testing.assert_array_equal(self.answer("s.engine", x), x[max(n - 3, 0) :: -1, :1])
            numpy.testing.assert_array_equal(self.answer(model, x, "--no-verify"), x[max(n - 3, 0) :: -1, :1])

    def test_integers_are_scattered_into_what_a_step_made(self):
        for kind, add in (("int64", '<reduction: string = "add">'), ("bool", ""), ("int8", "")):
            model = self.save(kind, f"""g (float[n,3] x) => (float[n,3] y) <int64[2,1] i = {{0, 2}}, {kind}[2,3] u = {{1, 0, 1, 0, 1, 1}}>
            {{ like = CastLike(x, u)  s = ScatterND {add} (like, i, u)  y = Cast<to: int = 1>(s) }}""")  # fmt: skip
            x = numpy.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]], numpy.float32)
            wanted = x.copy()
            wanted[[0, 2]] = numpy.float32([[1, 0, 1], [0, 1, 1]]) + (x[[0, 2]] if add else 0)
            numpy.testing.assert_array_equal(self.answer(model, x), wanted)
            self.ends(0, "verify", model, "--dims", "n=5", *QUICK)

    def test_a_size_of_0_stays_0_under_new_axes(self):
        text = "g (float[n,m,7] x) => (float[a,b,c,d,f] y) <int64[2] axes = {0, 2}> { s = Transpose<perm = [2,1,0]>(x)  u = Unsqueeze(s, axes)  y = Relu(u) }"
        model = self.save("past", text)
        self.ends(0, "build", model, "-o", "p.engine", "--min-shapes", "x:1x0x7", *QUICK)
        for m in (0, 3):
            x = numpy.ones((4, m, 7), numpy.float32)
            self.assertEqual(self.answer("p.engine", x).shape, (1, 7, 1, m, 4))
            self.assertEqual(self.answer(model, x).shape, (1, 7, 1, m, 4))

    def test_an_element_that_no_made_up_input_holds_is_looked_for(self):
        text = """g (int64[n,m] x) => (int64[two] y) <int64 end = {49407}, int64 first = {0}>
        { same = Equal(x, end)  places = NonZero(same)  y = Gather<axis = 1>(places, first) }"""
        model = self.save("end", text)
        for words in ((), ("--no-verify",)):
            said = self.ends(0, "build", model, "-o", "e.engine", "--json", "e.json", "--force", *QUICK, *words)
            self.assertIn("was not run", said)
            self.assertEqual("the inputs are made up: peri verify ENGINE --input NAME=FILE" in said, not words, said)
            self.assertEqual(json.loads((self.folder / "e.json").read_text())["engine_judged"], "no")
            numpy.testing.assert_array_equal(self.answer("e.engine", numpy.array([[1, 2, 3], [4, 49407, 0]])), [1, 1])
        for command in ("verify", "bench"):
            self.assertIn("the inputs are made up: give your own", self.ends(1, command, "e.engine"))

    def test_inputs_broadcast_where_one_of_them_may_be_empty(self):
        """x may be: it is joined to what is made of it."""
        text = "g (float[n,3] x, float[m,3] w) => (float[k,3] y) { a = Add(x, w)  y = Concat<axis = 0>(a, x) }"
        model = self.save("joined", text)
        self.ends(0, "build", model, "-o", "j.engine", "--dims", "n=5,m=5", *QUICK)
        for n, m in ((5, 5), (1, 4), (4, 1), (1, 1), (0, 1)):
            x, w = numpy.full((n, 3), 2, numpy.float32), numpy.ones((m, 3), numpy.float32)
            numpy.save(self.folder / "w.npy", w)
            numpy.testing.assert_array_equal(self.answer("j.engine", x, "-i", "w=w.npy"), numpy.concatenate([x + w, x]))
        for sizes in ("n=1,m=5", "n=5,m=1", "n=0,m=1"):
            self.ends(0, "verify", model, "--dims", sizes, *QUICK)

    def test_a_rest_is_empty_where_one_row_is_broadcast_to_it(self):
        text = "g (float[n,3] x) => (float[k,3] y) <int64[1] s = {1}, int64[1] e = {100}> { rest = Slice(x, s, e)  y = Add(x, rest) }"
        model = self.save("rest", text)
        self.ends(0, "build", model, "-o", "r.engine", "--dims", "n=2", *QUICK)
        x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        numpy.testing.assert_array_equal(self.answer("r.engine", x), x + x[1:])
        numpy.testing.assert_array_equal(self.answer("r.engine", x[:1]), numpy.zeros((0, 3), numpy.float32))

    def test_the_halves_of_an_odd_number_are_broadcast_where_one_is_1(self):
        text = """g (float[n,t] x) => (float[n,k] y, float[n,k] z) <int64[1] none = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {99999}> {
            s = Shape<start = 1, end = 2>(x)  half = Div(s, two)  a = Slice(x, none, half, one)  b = Slice(x, half, end, one)
            g = Sigmoid(b)  y = Mul(a, g)  z = Add(y, a) }"""
        model = self.save("halves", text)
        self.ends(0, "build", model, "-o", "h.engine", *QUICK)
        for t in (1, 2, 3, 4, 6):
            x = numpy.random.default_rng(t).standard_normal((2, t)).astype(numpy.float32)
            want = x[:, : t // 2] / (1 + numpy.exp(-x[:, t // 2 :]))
            numpy.testing.assert_allclose(self.answer("h.engine", x), want, rtol=1e-6)
            self.ends(0, "verify", model, "--dims", f"n=2,t={t}", *QUICK)
        numpy.save(self.folder / "x.npy", numpy.ones((2, 5), numpy.float32))
        self.assertIn("shapes do not broadcast", self.ends(1, "run", "h.engine", "-i", "x=x.npy"))

    def test_a_size_beyond_a_table_of_positions_is_refused_with_the_largest(self):
        """However the places are computed from sizes, and however many rows the table has."""
        table = numpy_helper.from_array(numpy.zeros((1500, 2), numpy.float32), "table")
        ways = {
            "a range": "s = Shape (x) r = Squeeze (s) at = Range (zero, r, one)",
            "a running sum": "s = Shape (x) ones = ConstantOfShape <value = int64[1] {1}> (s) c = CumSum (ones, zero) at = Sub (c, one)",
            "places that are not 0": "s = Shape (x) ones = ConstantOfShape <value = int64[1] {1}> (s) z = NonZero (ones) axis = Constant <value_ints = [0]> () at = Squeeze (z, axis)",
            "relative places": "s = Shape (x) r = Squeeze (s) to = Range (zero, r, one) axis = Constant <value_ints = [0]> () from = Unsqueeze (to, axis) last = Constant <value_ints = [1]> () rows = Unsqueeze (to, last) d = Sub (from, rows) half = Constant <value_int = 750> () at = Add (d, half)",
        }
        for name, nodes in ways.items():
            most = 750 if name == "relative places" else 1500
            text = f"g (int64[n] x) => (float y) <int64 zero = {{0}}, int64 one = {{1}}> {{ {nodes} p = Gather (table, at) f = Cast <to = 1> (x) last2 = Constant <value_ints = [-1]> () e = Unsqueeze (f, last2) y = Mul (p, e) }}"
            model = onnx.load(self.folder / self.save("far", text))
            model.graph.initializer.append(table)
            model.graph.output[0].type.tensor_type.ClearField("shape")
            onnx.save(model, self.folder / "far.onnx")
            with self.subTest(name):
                for command in (("inspect", "far.onnx"), ("build", "far.onnx", "-o", "far.engine", "--force")):
                    limit = f"the model does not run at n={most + 1}: '\\w*' is given index -?\\d+ of a table of 1500 rows: n={most} is the largest that fits"
                    self.assertRegex(self.ends(2, *command, "--dims", f"n={most + 1}"), limit + "; give sizes that it can have: --dims")
                    self.assertRegex(self.ends(2, *command, "--dims", "n=5", "--max-shapes", f"x:{most + 1}"), limit + "; give sizes that it can have: --min-shapes and --max-shapes")
                    self.ends(0, *command, "--dims", f"n={most}", *(QUICK if command[0] == "build" else ()))
                self.assertRegex(self.ends(2, "bench", "far.engine", "--dims", f"n={most + 1}"), limit)

    def test_classes_that_a_loss_leaves_out_are_no_places(self):
        text = """g (float[n,8] x) => (float y) <int64 zero = {0}, int64 one = {1}, int64 eight = {8}, int64 none = {-100}> { s = Shape <end = 1> (x) r = Squeeze (s)
            p = Range (zero, r, one) t = Mod (p, eight) u = Equal (t, zero) g = Where (u, none, t) l = LogSoftmax (x) y = NegativeLogLikelihoodLoss <ignore_index = -100> (l, g) }"""
        model = self.save("loss", text)
        self.ends(0, "inspect", model, "--dims", "n=20")
        self.ends(0, "build", model, "-o", "loss.engine", "--dims", "n=20", *QUICK)

    def test_a_size_that_only_padding_can_have_is_said_to_be_one(self):
        """Positions that a model counts from what is no padding end with its table: ones alone, which are padding, run."""
        model = self.save("positions", """g (int64[n] x) => (float[n,2] y) <int64 pad = {1}, int64 axis = {0}, float[6,2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>
        { same = Equal(x, pad)  other = Not(same)  ones = Cast<to: int = 7>(other)  at = CumSum(ones, axis)  y = Gather(table, at) }""")
        for earlier in (False, True):  # from the cache
            said = self.ends(0, "build", model, "-o", "p.engine", "--dims", "n=400", "--force", "--no-tune", "--quiet")
            self.assertEqual("by an earlier build" in said, earlier)
            self.assertRegex(said, r"at n=400( and \d more)? only with made-up integers that are all 1: others end with '\w*': an index .* is out of range")
            self.assertIn("is given index 6 of a table of 6 rows with made-up inputs: n=5 is the largest that fits", said)
        self.assertIn(b"n=5 is the largest that fits", self.peri("inspect", model, "--dims", "n=400").stdout)
        self.assertNotIn(b"the largest that fits", self.peri("inspect", model, "--dims", "n=5").stdout)
        tuned = json.loads((self.folder / "p.engine.proof").read_text())["engine"]["sizes"][0]
        self.assertEqual((tuned["dims"], tuned["made_up_integers"]), ({"n": 400}, 1))
        self.assertIn("out of range", tuned["other_integers_end_with"])
        for command in (("verify",), ("bench", "--seconds", "0.01", "--tolerance", "1e6")):
            r = self.peri(command[0], "p.engine", *command[1:])
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn(b"note: the inputs are made up, and all their integers are 1, since others end with: ", r.stderr)
        self.assertIn("out of range", self.ends(1, "bench", "p.engine", "--input", "x=random:1"))
        self.assertNotIn("made-up", self.ends(0, "build", model, "-o", "q.engine", "--dims", "n=2", "--no-tune", "--quiet"))

    def test_a_tuned_size_that_did_not_run_is_told_beside_one_that_did(self):
        model = self.save("start", """g (int64 x, float[n] z) => (float[m,2] y) <int64 one = {1}, float[6,2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>
        { shape = Shape(z)  size = Squeeze(shape)  end = Add(x, size)  at = Range(x, end, one)  y = Gather(table, at) }""")
        said = self.ends(0, "build", model, "-o", "s.engine", "--dims", "n=9", *QUICK)
        self.assertRegex(said, r"right at \d sizes?, .*; not run at its tuned size: .*out of range.*; the inputs are made up: |the engine was not run at its tuned size: .*out of range")
        self.assertIn("; the inputs are made up: give your own with --input NAME=FILE; else ", self.ends(1, "bench", "s.engine"))


if __name__ == "__main__":
    main()
