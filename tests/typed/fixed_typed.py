#!/usr/bin/env python3
"""Inputs fixed by --fix are constants everywhere: build, verify, ONNX Runtime beside it; loops end at --max-iterations."""
import json

import numpy
import onnx
from onnx import TensorProto, helper, parser

from typed import Typed, main

QUICK = ("--no-tune", "--no-cache", "--no-verify", "--quiet")
LOOP = """<ir_version: 9, opset_import: ["" : 19]>
g (float[n,7] x, int64 k) => (float[n,7] y) {
  go = Constant<value = bool {1}>()
  y = Loop(k, go, x) <body = b (int64 i, bool on, float[n,7] s) => (bool again, float[n,7] t) {
    again = Identity(on)
    t = Tanh(s)
  }>
}"""


class Fixed(Typed):
    def setUp(self):
        super().setUp()
        onnx.save(parser.parse_model(LOOP), self.folder / "loop.onnx")

    def test_a_fixed_input_is_none(self):
        said = json.loads(self.peri("inspect", "loop.onnx", "--fix", "k=5", "--json", "-").stdout)
        self.assertEqual(([p["name"] for p in said["inputs"]], "input 'k' is fixed to 5" in said["notes"]), (["x"], True), said)
        self.ends(0, "build", "loop.onnx", "--fix", "k=5", "-o", "a.engine", *QUICK)
        told = self.peri("inspect", "a.engine").stdout.decode()
        self.assertNotIn("i64", told)
        self.assertIn("k=5", told)
        self.ends(0, "verify", "a.engine", "--dims", "n=3")
        self.ends(0, "verify", "loop.onnx", "--fix", "k=5", "--onnxruntime", "--dims", "n=3", *QUICK)

    def test_a_size_that_only_a_run_tells_is_explained(self):
        """Three trips at most, or fewer where the body says so; without its word the size is a number."""
        scan = LOOP.replace("float[n,7] y)", "float[m,n,7] z)").replace("y = Loop", "y, z = Loop").replace("float[n,7] t)", "float[n,7] t, float[n,7] u)").replace("t = Tanh(s)", "t = Tanh(s)\n    u = Neg(s)")
        for name, text, want in (("stays", scan, "f32[3,n,7]"), ("ends", scan.replace("again = Identity(on)", "two = Constant<value = int64 {2}>()\n    again = Less(i, two)"), "f32[data.trips_")):
            onnx.save(parser.parse_model(text), self.folder / f"{name}.onnx")
            self.ends(0, "build", f"{name}.onnx", "--fix", "k=3", "-o", f"{name}.engine", *QUICK)
            told = self.peri("inspect", f"{name}.engine").stdout.decode()
            self.assertIn(want, told)
            self.assertEqual("sizes   that the data of a run decides: data.trips_" in told, name == "ends", told)

    def test_a_lock_holds_what_was_fixed(self):
        self.ends(0, "build", "loop.onnx", "--fix", "k=5", "-o", "a.engine", "--lock", "a.lock", *QUICK)
        for words in ([], ["--fix", "k=5"]):
            self.ends(0, "build", "loop.onnx", "--locked", "a.lock", *words, "-o", "b.engine", "--quiet")
            self.assertIn("k=5", self.peri("inspect", "b.engine").stdout.decode())
            self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "b.engine").read_bytes())
        said = self.ends(1, "build", "loop.onnx", "--locked", "a.lock", "--fix", "k=6", "-o", "b.engine", "--quiet")
        self.assertIn("other inputs fixed", said)
        self.ends(0, "build", "loop.onnx", "-o", "c.engine", "--lock", "c.lock", *QUICK)
        self.assertIn("other inputs fixed", self.ends(1, "build", "loop.onnx", "--locked", "c.lock", "--fix", "k=5", "-o", "b.engine", "--quiet"))

    def test_the_reference_alone_has_no_kernels_for_sizes_that_values_tell(self):
        cut = parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]>
            g (float[n] x, int64[1] end) => (float[m] y) { zero = Constant<value = int64[1] {0}>() y = Slice(x, zero, end) }""")
        onnx.save(cut, self.folder / "cut.onnx")
        for provider, executor in ("peri", "sized"), ("reference", "reference"):
            self.ends(0, "build", "cut.onnx", "-o", "a.engine", "--provider", provider, *QUICK)
            told = self.peri("inspect", "a.engine").stdout.decode()
            self.assertIn(f"executor {executor}", told)
            self.assertEqual("executor sized" in told, executor == "sized")
            self.assertRegex(told, rf"kernel +{executor}@1")
            self.assertEqual("reference@1" in told, executor == "reference")  # `build` counts it so, too
            told = self.peri("explain", "a.engine", "--full", "--json", "why.json").stdout.decode()
            self.assertIn("no kernel: the data decides the sizes of its results", told)
            self.assertNotIn("than it is built for", told + (self.folder / "why.json").read_text())

    def test_names_and_values_with_an_equals_sign(self):
        onnx.save(parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]>
            g (float[n] x, float[1] k, float[1] k_2) => (float[n] y) { s = Mul(x, k) y = Add(s, k_2) }"""), self.folder / "two.onnx")
        model = onnx.load(self.folder / "two.onnx")
        model.graph.input[2].name = model.graph.node[1].input[1] = "k=2"
        onnx.save(model, self.folder / "two.onnx")
        self.ends(0, "build", "two.onnx", "--fix", "k=2=7", "--fix", "k=3", "-o", "a.engine", *QUICK)
        told = self.peri("inspect", "a.engine").stdout.decode()
        self.assertIn("k=2=7", told)
        self.assertNotIn("input   k", told)
        self.ends(0, "verify", "two.onnx", "--fix", "k=2=7", "--fix", "k=3", "--onnxruntime", "--dims", "n=3", *QUICK)
        self.assertIn("no input", self.ends(2, "build", "two.onnx", "--fix", "j=2=7", "-o", "a.engine", *QUICK).replace("not an input", "no input"))

    def test_an_input_with_a_default_value(self):
        """It is a constant until --fix gives it another value: for the engine, for its lock and for ONNX Runtime beside it."""
        onnx.save(parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]>
            g (float[n,2] x, int64 k, float[2] w) => (float[n,2] y) <int64 k = {3}, float[2] w = {1, 2}> {
              go = Constant<value = bool {1}>()
              s = Loop(k, go, x) <body = b (int64 i, bool on, float[n,2] s) => (bool again, float[n,2] t) {
                again = Identity(on)
                t = Add(s, s)
              }>
              y = Add(s, w)
            }"""), self.folder / "default.onnx")
        numpy.save(self.folder / "x.npy", numpy.ones((1, 2), numpy.float32))
        for fixed, y, noted in ((), [[9, 10]], "kw"), (("k=1",), [[3, 4]], "w"), (("w=5,7", "k=0"), [[6, 8]], ""):
            with self.subTest(fixed=fixed):
                flags = [word for f in fixed for word in ("--fix", f)]
                r = self.peri("build", "default.onnx", *flags, "-o", "a.engine", "--lock", "a.lock", "--no-tune", "--no-cache")
                said = r.stderr.decode()
                self.assertEqual(r.returncode, 0, said)
                for name in "kw":
                    self.assertEqual(f"input '{name}' has a default value and is taken as a constant; --fix gives it another" in said, name in noted, said)
                self.ends(0, "run", "a.engine", "-i", "x=x.npy", "--output-dir", "out")
                self.assertEqual(numpy.load(self.folder / "out/y.npy").tolist(), y)
                self.ends(0, "verify", "default.onnx", *flags, "--onnxruntime", "--dims", "n=3", *QUICK)
                self.ends(0, "build", "default.onnx", "--locked", "a.lock", "-o", "b.engine", "--quiet")
                self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "b.engine").read_bytes())
        self.assertIn("expected x, k, w", self.ends(2, "build", "default.onnx", "--fix", "j=1", "-o", "a.engine", *QUICK))

    def test_a_lock_says_which_model_it_was_made_of(self):
        """It is taken for another one whose steps are alike, such as the same model trained further, and that is told."""
        def save(name, weight, *first):
            value = helper.make_tensor_value_info
            nodes = [*first, helper.make_node("MatMul", [first[0].output[0] if first else "x", "w"], ["m"], name="product"), helper.make_node("Relu", ["m"], ["y"], name="last")]
            graph = helper.make_graph(nodes, name, [value("x", TensorProto.FLOAT, ["n", 8])], [value("y", TensorProto.FLOAT, ["n", 8])],
                                      [helper.make_tensor("w", TensorProto.FLOAT, [8, 8], [weight] * 64)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"{name}.onnx")
        save("base", 0.5)
        save("tuned", 0.25)
        save("other", 0.5, helper.make_node("Identity", ["x"], ["i"]))
        self.ends(0, "build", "base.onnx", "-o", "base.engine", "--lock", "base.lock", "--no-tune", "--quiet")
        lock = json.loads((self.folder / "base.lock").read_text())
        self.assertEqual(lock["model"]["name"], "base")
        for model, said in (("base", None), ("tuned", "note: the lock was made with other weights: of 'base' of identity [0-9a-f]{16}, not of this one"),
                            ("other", "note: the lock was made of another model, whose steps are alike: of 'base' of identity")):
            with self.subTest(model=model):
                r = self.peri("build", f"{model}.onnx", "-o", "made.engine", "--locked", "base.lock")
                self.assertEqual(r.returncode, 0, r.stderr)
                if said:
                    self.assertRegex(r.stderr.decode(), said)
                else:
                    self.assertNotIn("the lock was made", r.stderr.decode())
        del lock["model"]  # of an older build
        (self.folder / "older.lock").write_text(json.dumps(lock, indent=1))
        r = self.peri("build", "tuned.onnx", "-o", "made.engine", "--locked", "older.lock")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn("the lock was made", r.stderr.decode())

    def test_a_dropout_that_trains_is_refused_where_it_runs(self):
        value, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
        options = [helper.make_tensor("ratio", f32, [], [0.5]), helper.make_tensor("on", TensorProto.BOOL, [], [True])]
        drops = helper.make_graph([helper.make_node("Dropout", ["x", "ratio", "on"], ["d"], name="drops")], "then", [], [value("d", f32, ["n", 4])], options)
        keeps = helper.make_graph([helper.make_node("Relu", ["x"], ["k"])], "else", [], [value("k", f32, ["n", 4])])
        graph = helper.make_graph([helper.make_node("If", ["train"], ["y"], then_branch=drops, else_branch=keeps, name="mode")], "g",
                                  [value("x", f32, ["n", 4]), value("train", TensorProto.BOOL, [])], [value("y", f32, ["n", 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "branch.onnx")
        graph = helper.make_graph([helper.make_node("Dropout", ["x", "ratio", "train"], ["y"], name="drops")], "g",
                                  [value("x", f32, ["n", 4]), value("train", TensorProto.BOOL, [])], [value("y", f32, ["n", 4])], options[:1])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "input.onnx")
        for answer in (False, True):
            numpy.save(self.folder / f"{answer}.npy", numpy.array(answer))
        for model in ("branch", "input"):
            with self.subTest(model=model):
                self.assertEqual(self.peri("inspect", f"{model}.onnx").returncode, 0)
                r = self.peri("build", f"{model}.onnx", "-o", f"{model}.engine", "--no-tune")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.ends(0, "run", f"{model}.engine", "-i", "x=random:1", "-i", "train=False.npy")
                self.assertIn("drops': dropout in training mode has random outputs", self.ends(1, "run", f"{model}.engine", "-i", "x=random:1", "-i", "train=True.npy"))
                self.ends(0, "run", f"{model}.onnx", "-i", "x=random:1", "-i", "train=False.npy", "--no-tune")
                self.assertIn("drops': dropout in training mode has random outputs", self.ends(1, "build", f"{model}.onnx", "-o", "none.engine", "--fix", "train=1"))
                self.ends(0, "build", f"{model}.onnx", "-o", "right.engine", "--fix", "train=0", "--no-tune", "--force")

    def test_what_does_not_fit_is_refused(self):
        for value, words in {"k=x": "expected numbers of type i64", "k=1,2": "expected one value", "j=1": "not an input of the model",
                             "x=1": "cannot be fixed"}.items():
            self.assertIn(words, self.ends(2, "build", "loop.onnx", "--fix", value, "-o", "a.engine", *QUICK), value)

    def test_a_loop_ends_at_its_limit(self):
        for most, code in (4, 1), (5, 0):
            said = self.ends(code, "verify", "loop.onnx", "--fix", "k=5", "--max-iterations", most, *QUICK)
            self.assertEqual("--max-iterations" in said, code == 1)

    def test_a_loop_longer_than_a_judge_waits_is_built(self):
        for words in (["--fix", "k=20000"], ["--fix", "k=5", "--max-iterations", "4"]):
            said = self.ends(0, "build", "loop.onnx", *words, "-o", "a.engine", "--no-tune", "--no-cache")
            self.assertIn("a loop did not end within its limit of iterations", said)
            self.assertNotIn("right at", said)
        self.ends(0, "build", "loop.onnx", "--fix", "k=20000", "-o", "a.engine", *QUICK)
        # 20,000 sums in float32: how far they drift depends on the processor.
        self.ends(0, "verify", "a.engine", "--max-error", "1e-3", "--quiet")

    def test_an_engine_keeps_its_limit(self):
        """Each run may have another; without one it is that of the build, also of a build by its lock."""
        self.ends(0, "build", "loop.onnx", "--fix", "k=5", "--max-iterations", "4", "-o", "a.engine", "--lock", "a.lock", *QUICK)
        for words in (["run", "a.engine", "-i", "x=random:1"], ["verify", "a.engine"], ["bench", "a.engine", "--seconds", "0.01"]):
            with self.subTest(words=words):
                self.assertIn("a loop did not end within its limit of iterations: expected at most 4; raise it with --max-iterations", self.ends(1, *words))
                self.ends(0, *words, "--max-iterations", "5", *(["--tolerance", "1e6"] if words[0] == "bench" else []))
        self.assertIn("limit   at most 4 iterations of a loop", self.peri("inspect", "a.engine").stdout.decode())
        self.assertEqual(json.loads(self.peri("inspect", "a.engine", "--json", "-").stdout)["max_iterations"], 4)
        self.ends(0, "build", "loop.onnx", "--locked", "a.lock", "-o", "b.engine", "--quiet")
        self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "b.engine").read_bytes())
        said = self.ends(1, "build", "loop.onnx", "--locked", "a.lock", "--max-iterations", "9", "-o", "b.engine", "--quiet")
        self.assertIn("the lock was made with another limit of iterations: expected 4, found 9", said)
        self.ends(0, "build", "loop.onnx", "--fix", "k=5", "-o", "c.engine", "--max-iterations", "9", *QUICK)
        self.assertIn("expected at most 3", self.ends(1, "verify", "c.engine", "--max-iterations", "3"))

    def test_a_limit_of_the_build_is_told_as_that(self):
        """It is no remedy to raise what is not in the way; nor has a model of fixed sizes a tuned one."""
        said = self.ends(0, "build", "loop.onnx", "--fix", "k=20000", "-o", "a.engine", "--no-tune", "--no-cache")
        self.assertIn("the engine was not run at its tuned size: ", said)
        self.assertIn("expected at most 10000; a build runs no more on inputs that it makes up", said)
        self.assertNotIn("raise it", said)
        self.assertIn("raise it with --max-iterations", self.ends(0, "build", "loop.onnx", "--fix", "k=5", "--max-iterations", "4", "-o", "b.engine", "--no-tune", "--no-cache"))
        onnx.save(parser.parse_model(LOOP.replace("n,7", "2,7")), self.folder / "fixed.onnx")
        said = self.ends(0, "build", "fixed.onnx", "--fix", "k=20000", "-o", "c.engine", "--no-tune", "--no-cache")
        self.assertIn("the engine was not run: ", said)
        self.assertNotIn("tuned size", said)


if __name__ == "__main__":
    main()
