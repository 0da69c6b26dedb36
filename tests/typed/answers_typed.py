#!/usr/bin/env python3
"""What is no number proves nothing and is named where it comes from; what a step is said to take is what it takes, for every step."""
import json

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from typed import DIGITS, Typed, main

QUICK = ("--no-tune", "--no-cache", "--quiet")


class Answers(Typed):
    def save(self, name, nodes, shape, weights=(), kind=TensorProto.FLOAT):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", kind, shape)], [value("y", TensorProto.FLOAT, None)], list(weights))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / name)
        return name

    def logarithm(self):
        """y = log(-|x|) + x: NaN everywhere, made by one node."""
        return self.save("log.onnx", [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Softmax", ["x"], ["s"]),
                                      helper.make_node("Log", ["b"], ["c"], name="the_logarithm"), helper.make_node("Add", ["c", "s"], ["y"])], ["n", 4])  # fmt: skip

    def test_nan_against_nan_proves_nothing(self):
        model = self.logarithm()
        said = self.ends(3, "verify", model, "--json", "v.json", *QUICK)
        self.assertIn("proves nothing", said)
        self.assertIn("--nan-equal", said)
        self.assertFalse(json.loads((self.folder / "v.json").read_text())["passed"])
        self.assertIn("NaN on both sides and were taken for equal", self.ends(0, "verify", model, "--nan-equal", *QUICK))

    def test_a_build_says_that_it_judged_nan_against_nan(self):
        model = self.logarithm()
        for words in ((), ()):  # the second takes the verdict of the first
            said = self.ends(0, "build", model, "-o", "log.engine", "--no-tune")
            self.assertIn("with made-up inputs 4 of the 4 elements of 'y' are NaN at n=1, in the reference too, and prove nothing", said)
            told = json.loads((self.folder / "log.engine.proof").read_text())["engine"]["sizes"][0]
            self.assertEqual([told[key] for key in ("nan_output", "nan", "nan_of_elements")], ["y", 4, 4])
        self.assertNotIn("NaN", self.ends(0, "build", DIGITS, "-o", "fine.engine", *QUICK))
        self.assertNotIn('"nan"', (self.folder / "fine.engine.proof").read_text())

    def test_a_time_is_told_with_what_it_rests_on(self):
        """A replay of an engine's step is timed as the build timed it; what does not agree with itself is one of the processes."""
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        step = next(s["name"] for s in json.loads((self.folder / "d.engine.proof").read_text())["steps"] if s["chosen"].startswith(("conv", "onednn_conv")))
        for words, terms in ((("--from", "d.engine", step), "timed as in its build, with the engine's "), (("relu x=f32[64]",), "timed as in a large model: ")):
            shown = self.peri("replay", *words, "--budget", "1", "--json", "r.json", "--force").stdout.decode()
            self.assertIn(terms, shown)
            self.assertTrue(json.loads((self.folder / "r.json").read_text())["terms"].startswith(terms))
        said = self.ends(5, "bench", "d.engine", "--repeat", "2", "--seconds", "0.05", "--tolerance", "1e-9")
        self.assertRegex(said, r"not stable: in process [12] of 2 ")

    def test_labels_are_of_the_output_that_they_fit(self):
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x) => (float[n, 3] boxes, float[n, 6] classes) {
            boxes = Neg(x)  classes = Concat<axis = 1>(x, x) }"""
        onnx.save(parser.parse_model(text), self.folder / "two.onnx")
        numpy.save(self.folder / "x.npy", numpy.array([[1, 3, 2]], numpy.float32))
        (self.folder / "six.txt").write_text("a\nb\nc\nd\ne\nf\n")
        (self.folder / "five.txt").write_text("a\nb\nc\nd\ne\n")
        run = ("run", "two.onnx", "-i", "x=x.npy", "--top-k", "1", "--no-tune", "--no-cache", "--labels")
        shown = self.peri(*run, "six.txt").stdout.decode()
        self.assertIn("row 0: [0] -1", shown)
        self.assertIn("row 0: [1] b 3", shown)
        self.assertIn("--labels does not fit output 'boxes'", self.ends(2, *run, "five.txt"))

    def test_a_model_that_cancels_is_named_as_such(self):
        """y = sin(10000 x): moves by more than verify allows where each x moves by one rounding."""
        steep = numpy_helper.from_array(numpy.array(1e4, numpy.float32), "c")
        model = self.save("sin.onnx", [helper.make_node("Mul", ["x", "c"], ["a"]), helper.make_node("Sin", ["a"], ["y"])], ["n", 4], [steep])
        said = self.ends(0, "verify", model, "--dims", "n=8", "--json", "v.json", *QUICK)
        self.assertRegex(said, r"as the model's own answer moves by \S+ by one rounding of its inputs and weights, and each value that the engine keeps on the way is within its own error")
        told = json.loads((self.folder / "v.json").read_text())["outputs"]
        self.assertTrue(any(o.get("model_moves", 0) > 0 and o["inside"] and o["followed"] > 0 and o["relative"] <= 2 * o["model_moves"] for o in told), told)
        self.assertIn("is outside its budget", self.ends(3, "verify", model, "--dims", "n=8", "--max-error", "1e-4", *QUICK))
        far = self.save("far.onnx", [helper.make_node("Mul", ["x", "c"], ["a"]), helper.make_node("Sin", ["a"], ["y"])], ["n", 4], [numpy_helper.from_array(numpy.array(1e8, numpy.float32), "c")])
        said = self.ends(3, "verify", far, "--dims", "n=8", *QUICK)
        self.assertRegex(said, r"the model's own answer moves by \S+ of its range by one rounding of its inputs and weights: --max-error")

    def test_the_first_step_without_a_number_is_named(self):
        model = self.logarithm()
        said = self.ends(3, "run", model, "-i", "x=random:1", "--validate", "--json", "r.json", "--provider", "reference", *QUICK)
        self.assertIn("the_logarithm", said)
        self.assertIn("NaN", said)
        self.assertIn("the_logarithm", json.loads((self.folder / "r.json").read_text())["first_without_number"])
        self.assertIn("no step makes NaN or Inf", self.ends(0, "run", DIGITS, "-i", "image=random:1", "--validate", *QUICK))
        numpy.save(self.folder / "x.npy", numpy.array([[1, numpy.inf, 2, 3]], numpy.float32))
        fine = self.save("abs.onnx", [helper.make_node("Abs", ["x"], ["y"])], ["n", 4])
        self.assertIn("input 'x' holds 1 Inf", self.ends(3, "run", fine, "-i", "x=x.npy", "--validate", *QUICK))
        self.assertIn("8 of its 8 elements are NaN", self.ends(3, "verify", model, "--dims", "n=2", *QUICK))

    def test_an_answer_without_numbers_has_no_smallest_one(self):
        """Nor a sign of NaN: x86 makes negative ones."""
        model = self.save("minus.onnx", [helper.make_node("Sub", ["x", "x"], ["y"])], ["n", 4])
        numpy.save(self.folder / "x.npy", numpy.array([[numpy.inf, -numpy.inf, numpy.nan, -numpy.nan]], numpy.float32))
        r = self.peri("run", model, "-i", "x=x.npy", "--print", "--no-tune", "--no-cache")
        self.assertEqual((r.returncode, r.stdout.count(b"nan"), r.stdout.count(b"-nan")), (0, 8, 0), r.stdout)
        answer = json.loads(self.peri("run", model, "-i", "x=x.npy", "--json", "-", *QUICK).stdout)["answers"]["y"]
        self.assertEqual([answer[key] for key in ("min", "max", "mean", "nan", "inf")], [None, None, None, 4, 0])

    def test_a_text_is_shown_to_its_end(self):
        text = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (string[2] x) => (string[2] y) { y = Identity(x) }')
        onnx.save(text, self.folder / "m.onnx")
        numpy.save(self.folder / "x.npy", numpy.array(["a\0b", "c"]))
        r = self.peri("run", "m.onnx", "-i", "x=x.npy", "--print", "--no-tune")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(rb"'a\x00b' 'c'", r.stdout + r.stderr)

    def test_what_is_asked_for_is_shown_quietly_too(self):
        run = lambda *words: self.peri("run", DIGITS, "-i", "image=random:1", *QUICK, *words).stdout.decode()
        self.assertEqual(run(), "")
        for words, shown in ((("--top-k", "2"), "row 0: ["), (("--print",), "\n  ")):
            self.assertIn(shown, run(*words))
        self.assertEqual(list(json.loads(run("--print", "--json", "-"))["answers"]), ["logits"])
        self.assertIn("--top-k 11: the last axis has 10 elements, all are shown", run("--top-k", "11"))
        self.assertNotIn("all are shown", run("--top-k", "10"))

    def test_numbers_that_are_drawn_are_told(self):
        model = self.save("draws.onnx", [helper.make_node("RandomNormalLike", ["x"], ["r"], name="dice", seed=1.0), helper.make_node("Add", ["x", "r"], ["y"])], ["n", 4])
        self.assertIn("'dice' draws random numbers, the same in every run and in the float64 reference", self.ends(0, "verify", model, *QUICK))
        self.assertEqual(json.loads(self.peri("verify", model, "--json", "-", *QUICK).stdout)["draws"], "dice")
        self.assertNotIn("draws", self.ends(0, "verify", DIGITS, *QUICK))

    def test_an_engine_without_steps_is_explained(self):
        model = self.save("same.onnx", [helper.make_node("Identity", ["x"], ["y"])], [4])
        self.ends(0, "build", model, "-o", "same.engine", *QUICK)
        self.assertIn("0 steps", self.ends(0, "explain", "same.engine"))
        self.ends(0, "explain", "same.engine", "--json", "same.json", "--quiet")
        self.assertEqual(json.loads((self.folder / "same.json").read_text())["steps_timed"], 0)

    def test_every_step_is_explained_by_what_it_reads(self):
        table = numpy_helper.from_array(numpy.ones((40000, 64), numpy.float32), "table")
        shape = numpy_helper.from_array(numpy.array([-1, 8, 8]), "s")
        model = self.save("lookup.onnx", [helper.make_node("Gather", ["table", "x"], ["e"], name="the_lookup"), helper.make_node("Reshape", ["e", "s"], ["g"]),
                                          helper.make_node("Det", ["g"], ["y"], name="the_determinant")], ["n"], [table, shape], TensorProto.INT64)  # fmt: skip
        self.ends(0, "build", model, "-o", "a.engine", "--dims", "n=4", "--no-cache", "--lock", "a.lock", "--quiet")
        self.ends(0, "explain", "a.engine", "--json", "e.json", "--quiet")
        layers = json.loads((self.folder / "e.json").read_text())["layers"]
        self.assertEqual({layer["step"]["name"] for layer in layers}, {"the_lookup", "the_determinant"})
        for layer in layers:
            self.assertLess(layer["step"]["work"]["bytes"], 100000, "four rows of 256 bytes, not the table of ten million")
            self.assertLess(layer["share_of_peak"] or 0, 1.5)
        self.ends(0, "build", model, "-o", "b.engine", "--locked", "a.lock", "--no-cache", "--quiet")
        r = self.peri("explain", "b.engine")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b"none measured (a lock file's choices are not timed)", r.stderr)

    def test_samples_that_end_before_the_time_are_told(self):
        self.ends(0, "build", self.model("m.onnx"), "-o", "a.engine", "--no-verify", *QUICK)
        words = ("bench", "a.engine", "--seconds", "1000", "--tolerance", "1e6", "--threads", "1")
        r = self.peri(*words)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stderr.decode(), r"note: 100000 samples were taken in [\d.]+ of the 1000 s: --iterations N takes more")
        self.assertIn(b", 100000 samples, ", r.stderr)
        self.assertNotIn(b"note: ", self.peri(*words, "--iterations", "30").stderr)

    def test_layers_are_in_the_object_and_the_object_alone(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-verify", *QUICK)
        r = self.peri("bench", "a.engine", "--seconds", "0.05", "--layers", "--tolerance", "1e6", "--json", "-")
        self.assertEqual(r.returncode, 0, r.stderr)
        layers = json.loads(r.stdout)["layers"]
        self.assertGreater(len(layers), 3)
        explained = json.loads(self.peri("explain", "a.engine", "--json", "-").stdout)["layers"]
        self.assertEqual({layer["step"]: layer["kernel"] for layer in layers}, {layer["step"]["name"]: layer["step"]["chosen"] for layer in explained})
        r = self.peri("bench", "a.engine", "--no-such-flag", "--json", "-")
        self.assertEqual(r.returncode, 2)
        self.assertEqual(json.loads(r.stdout)["error"]["kind"], "usage")


if __name__ == "__main__":
    main()
