#!/usr/bin/env python3
"""A proof claims what was done and no more, says when, and explains no engine but its own."""
import json
import shutil

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from typed import DIGITS, Typed, main


class Proofs(Typed):
    def proof(self, engine):
        return json.loads((self.folder / f"{engine}.proof").read_text())

    def build(self, engine, *words, model=DIGITS):
        self.ends(0, "build", model, "-o", engine, "--quiet", *words)
        return self.proof(engine)

    def test_a_lock_of_another_model_is_told_as_one(self):
        self.build("a.engine", "--lock", "a.lock", "--no-tune", "--no-verify", model=self.model("m.onnx"))
        said = self.ends(1, "build", DIGITS, "-o", "c.engine", "--locked", "a.lock")
        self.assertIn("the lock was made for another model: the model has no dimension 'n'", said)
        self.assertIn("give the model that the lock was made of", said)

    def test_it_says_when_each_step_was_proven(self):
        first = self.build("a.engine", "--lock", "a.lock")
        claims = first["verification"]
        self.assertEqual(claims["steps_verified"], claims["steps"])
        self.assertTrue(claims["verified"])
        self.assertEqual({s["verified"] for s in first["steps"] if s["key"]} - {"by definition"}, {"in this build"})
        self.assertEqual(claims["steps_of_earlier_builds"], 0)
        again = self.build("b.engine")
        earlier = [s for s in again["steps"] if s["verified"].startswith("in an earlier build, 20")]
        self.assertGreater(len(earlier), 0)
        self.assertGreaterEqual(again["verification"]["steps_of_earlier_builds"], len(earlier))
        locked = self.build("c.engine", "--locked", "a.lock", "--json", "c.json")
        self.assertEqual(json.loads((self.folder / "c.json").read_text())["candidates"], 0, "as the page says: a lock's choices are not tried")
        self.assertFalse(locked["verification"]["verified"])
        self.assertFalse(locked["verification"]["measured"])
        self.assertEqual({s["verified"] for s in locked["steps"] if s["key"]} - {"by definition"}, {"no"})
        self.assertIn("lock", locked["verification"]["how"])
        self.assertTrue(locked["engine"]["judged"])
        page = self.peri("build", DIGITS, "-o", "d.engine", "--locked", "a.lock").stdout.decode()
        self.assertRegex(page, r"errors +at most 0\.\d+ of their bound, [1-9]\d* steps verified in runs of the whole engine, none alone")
        r = self.peri("explain", "c.engine")
        self.assertIn(b"steps verified in runs of the whole engine, none alone", r.stderr)
        self.assertNotIn(b" 0 of ", r.stderr)
        self.assertIn(b"lock file's choices are not timed", r.stderr)
        for line in r.stdout.decode().split("ms  share")[1].strip().split("\n")[1:]:
            self.assertEqual(line.split()[:2], ["-", "-"], "a step without a time has no share of it")
        self.assertNotIn(b"--no-tune", r.stderr)

    def test_it_says_when_the_engine_was_judged(self):
        first = self.build("a.engine", "--lock", "a.lock")["engine"]
        self.assertEqual((first["judged"], first["when"]), (True, "in this build"))
        page = self.peri("build", DIGITS, "-o", "b.engine", "--locked", "a.lock")
        self.assertIn("by an earlier build", page.stderr.decode())
        self.assertRegex(page.stdout.decode(), r"cache +the engine as a whole judged by an earlier build, .* ago; --no-cache does it again")
        again = self.proof("b.engine")["engine"]
        self.assertRegex(again["when"], r"in an earlier build, 20\d\d-")
        self.assertEqual(again["sizes"], first["sizes"])
        self.assertIn(b"the engine as a whole judged by an earlier build", self.peri("explain", "b.engine").stderr)
        page = self.peri("build", DIGITS, "-o", "c.engine")
        self.assertRegex(page.stdout.decode(), r"the engine as a whole judged by an earlier build, .* ago; --retune does it again")
        self.assertEqual(self.build("c.engine", "--retune")["engine"]["when"], "in this build")
        self.assertEqual(self.build("d.engine", "--locked", "a.lock", "--no-cache")["engine"]["when"], "in this build")
        self.assertEqual(self.build("e.engine", "--no-tune", "--no-verify")["engine"]["when"], "no")

    def test_steps_of_bodies_are_replayed_and_a_loop_names_them(self):
        onnx.save(parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[n,4] x) => (float[4] y, float[n,4] z) <float[4] w = {0,0,0,0}> {
            y, z = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] e) => (float[4] t, float[4] o) { t = Add(s, e) o = Exp(t) }>(w, x) }"""), self.folder / "m.onnx")
        proof = self.build("a.engine", "--json", "build.json", model="m.onnx")
        loop = next(s for s in proof["steps"] if "bodies" in s)
        steps = loop["bodies"][0]
        other = next(s for s in steps if s["name"] != loop["name"])
        for wanted in [other["name"]] + [s["key"] for s in steps]:
            self.ends(0, "replay", wanted, "--from", "a.engine")
        said = self.ends(2, "replay", loop["name"], "--from", "a.engine")
        self.assertIn(f"step '{loop['name']}' has no problem of its own: it is a loop or a branch", said)
        for s in steps:
            self.assertIn(f"'{s['key'] if s['name'] == loop['name'] else s['name']}'", said)

    def test_a_name_of_several_problems_is_told_their_keys(self):
        value = helper.make_tensor_value_info
        weights = [numpy_helper.from_array(numpy.arange(12, dtype=numpy.uint8).reshape(4, 3), "b"), numpy_helper.from_array(numpy.float32(0.5), "s")]
        graph = helper.make_graph([helper.make_node("DynamicQuantizeMatMul", ["a", "b", "s"], ["y"], name="dqm", domain="com.microsoft")], "g",
                                       [value("a", TensorProto.FLOAT, [2, 4])], [value("y", TensorProto.FLOAT, [2, 3])], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), self.folder / "m.onnx")
        steps = [s for s in self.build("a.engine", model="m.onnx")["steps"] if s["name"] == "dqm"]
        self.assertGreater(len({s["problem"] for s in steps}), 1)
        said = self.ends(2, "replay", "dqm", "--from", "a.engine")
        self.assertIn("steps have this name: expected the key of one: ", said)
        for s in steps:
            self.assertIn(f"{s['key']} (", said)
            self.ends(0, "replay", s["key"], "--from", "a.engine", "--budget", "1")

    def test_a_problem_whose_sizes_the_data_decide_is_not_replayed(self):
        onnx.save(parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[4,4] x) => (int64[2,k] y) { y = NonZero(x) }"""), self.folder / "m.onnx")
        step = next(s for s in self.build("a.engine", model="m.onnx")["steps"] if "non_zero" in s["problem"])
        for words in ((step["key"], "--from", "a.engine"), (step["problem"],)):
            said = self.ends(2, "replay", *words)
            self.assertIn("the data decide the sizes of its results: it is not replayed alone; judge it in runs of its engine: peri verify ENGINE --steps-only", said)

    def test_how_often_a_loop_runs_is_no_slow_step(self):
        onnx.save(parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[n,4] x) => (float[4] y) <float[4] w = {0,0,0,0}> {
            y = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] e) => (float[4] t) { t = Add(s, e) }>(w, x) }"""), self.folder / "m.onnx")
        proof = self.build("a.engine", "--json", "build.json", model="m.onnx")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["reference_steps"], 0)
        loop = next(s["origins"] for s in proof["steps"] if "bodies" in s)
        self.assertEqual([(s["name"], s["origins"]) for s in proof["steps"] if s["chosen"] == "sized"], [(f"{loop[0]}/sizes", loop)])
        self.assertNotIn("slow", self.peri("inspect", "m.onnx").stdout.decode())
        self.assertNotIn("slow", self.peri("explain", "a.engine").stderr.decode())

    def test_steps_whose_sizes_the_data_tell_are_verified_only_in_runs_that_were_judged(self):
        values = [helper.make_tensor_value_info(n, t, s) for n, t, s in (("x", TensorProto.FLOAT, ["n", 3]), ("y", TensorProto.INT64, [2, "k"]))]
        graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "g", values[:1], values[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / "sized.onnx")
        for words, when in (((), "in runs of the engine"), (("--no-verify",), "no")):
            with self.subTest(words=words):
                r = self.peri("build", "sized.onnx", "-o", "a.engine", "--no-cache", "--json", "a.json", *words)
                self.assertEqual(r.returncode, 0, r.stderr)
                proof, told = self.proof("a.engine"), json.loads((self.folder / "a.json").read_text())
                self.assertEqual({s["verified"] for s in proof["steps"]} | {s["verified"] for s in told["steps_in_order"]}, {when})
                self.assertEqual((proof["verification"]["verified"], told["steps_verified"]), (not words, not words))
                self.assertNotIn(b"by definition", r.stdout + r.stderr)
                if words:
                    self.assertIn(b"it runs at its tuned size, and nothing of it is verified", r.stderr)
                else:
                    self.assertIn(b"0 of 1 step verified individually, 1 in runs of the engine", r.stdout)
                    self.assertEqual({e["answer_note"] for e in proof["engine"]["sizes"]}, {"how much the model computes depends on its data"})

    def test_what_an_earlier_build_verified_is_told_of_an_engine_that_is_not_judged(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine")
        r = self.peri("build", DIGITS, "-o", "a.engine", "--no-verify")
        self.assertRegex(r.stderr.decode(), r"it runs at its tuned size; (\d+) of \1 steps verified individually in an earlier build, and the engine as a whole is not")
        self.assertNotIn(b"nothing of it", r.stdout + r.stderr)

    def test_what_was_tried_is_told(self):
        def tried(*words):
            said = self.peri("build", DIGITS, "-o", "a.engine", *words).stdout.decode()
            return next(line for line in said.split("\n") if line.startswith("tried"))

        self.assertRegex(tried("--lock", "a.lock"), r"[1-9]\d* candidates of [1-9]\d* problems, [1-9]\d* timed now, \d+ rejected")
        self.assertRegex(tried("--no-tune"), r"[1-9]\d* candidates of [1-9]\d* problems, 0 timed now, 0 rejected")
        self.assertIn("no candidates: each step has the first of those it is offered", tried("--no-tune", "--no-verify"))
        self.assertIn("no candidates: the lock file names the one of each step", tried("--locked", "a.lock"))

    def test_steps_whose_sizes_the_data_decide_are_timed_at_them(self):
        """Their candidates are compared at an assumed size, of which the time of a run is told nowhere."""
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("NonZero", ["x"], ["z"]), helper.make_node("Cast", ["z"], ["f"], to=TensorProto.FLOAT), helper.make_node("Exp", ["f"], ["e"]),
                 helper.make_node("Softmax", ["e"], ["y"], axis=1)]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 200000])], [value("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "data.onnx")
        self.build("data.engine", "--no-cache", model="data.onnx")
        proof, told = self.proof("data.engine"), self.explained("data.engine")
        assumed = [s for s in proof["steps"] if "assumed_sizes" in s]
        self.assertTrue(assumed)
        for step in assumed:
            self.assertEqual((set(step["assumed_sizes"].values()), step["measured"]), ({64}, "in runs of the engine"))
            layer = next(layer for layer in told["layers"] if layer["step"]["name"] == step["name"])
            self.assertEqual(layer["ms"], step["in_run"]["ms"])
            self.assertNotIn("floor_ms", layer, "that of the assumed size")
        alone = sum(s["evidence"].get("time_ms", 0) for s in assumed)
        self.assertGreater(sum(s["in_run"]["ms"] for s in assumed), 10 * alone, "200,000 times two elements in place of 64")
        self.assertAlmostEqual(proof["predicted_ms"], told["total_ms"], 9)
        page = self.peri("explain", "data.engine")
        self.assertIn(b"steps whose sizes the data decide", page.stdout)
        self.assertIn(b"whose sizes the data decide it is not known", page.stderr)
        row = next(line for line in page.stdout.decode().split("\n") if f"  {assumed[0]['name']}  [" in line)
        self.assertEqual(row.split()[5:7], ["-", "-"], "the work is known of another size than the time: " + row)
        for step in proof["steps"]:
            step.pop("in_run", None)
        (self.folder / "data.engine.proof").write_text(json.dumps(proof))
        self.assertRegex(self.peri("explain", "data.engine").stdout.decode(), r"timed at assumed sizes, for what the data decide: data\.\w+=64")

    def test_a_prediction_is_of_all_steps(self):
        """Steps on the reference, which no trial times, are timed in runs of the engine."""
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("NonZero", ["x"], ["z"])]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 64]), value("z", TensorProto.INT64, [2, None])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "part.onnx")
        self.build("part.engine", "--no-cache", model="part.onnx")
        proof = self.proof("part.engine")
        slow = next(s for s in proof["steps"] if s["chosen"] in ("reference", "sized"))
        self.assertEqual((slow["measured"], slow["in_run"]["runs"]), ("in runs of the engine", 1))
        self.assertGreater(slow["in_run"]["ms"], 0)
        self.assertTrue(proof["verification"]["measured"])
        self.assertEqual(proof["verification"]["not_measured"], "")
        self.assertAlmostEqual(proof["predicted_ms"], sum(s["evidence"].get("time_ms", 0) or s["in_run"]["ms"] for s in proof["steps"]) + proof["conversion_ms"], 9)
        told = self.explained("part.engine")
        self.assertEqual(told["steps_timed"], 2)
        self.assertIn("steps on the reference: the median of some runs of the engine on the inputs that peri bench makes up", self.peri("explain", "part.engine").stdout.decode())
        self.assertNotIn("in_run", json.dumps(self.explained("part.engine", "--proof", self.without_counts("part.engine"))))

    def without_counts(self, engine):
        """The proof as a build wrote it that counted nothing."""
        path = self.folder / "old.proof"
        proof = self.proof(engine)
        left = list(proof["steps"])
        while left:
            step = left.pop()
            step.pop("in_run", None)
            left += [inner for body in step.get("bodies", []) for inner in body]
        path.write_text(json.dumps(proof))
        return path

    def explained(self, engine, *words):
        r = self.peri("explain", engine, "--quiet", "--json", "-", *words)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_steps_of_bodies_count_as_often_as_they_run(self):
        """In the prediction, in explain, and in its page's totals; a branch not taken counts as none."""
        text = parser.parse_model('''<ir_version: 9, opset_import: ["" : 19]> g (float[48,48] x, float[48,48] w) => (float[48,48] y) {
            many = Constant<value = int64 {30}>() four = Constant<value = int64 {4}>() go = Constant<value = bool {1}>()
            y = Loop(many, go, x) <body = b (int64 i, bool on, float[48,48] c) => (bool again, float[48,48] d) {
              again = Identity(on) m = MatMul(c, w) t = Tanh(m) early = Less(i, four)
              d = If(early) <then_branch = p () => (float[48,48] q) { q = MatMul(t, t) }, else_branch = r () => (float[48,48] s) { s = Neg(t) }> }> }''')
        onnx.save(text, self.folder / "loop.onnx")
        self.build("loop.engine", "--no-cache", model="loop.onnx")
        told = self.explained("loop.engine")
        runs = {layer["step"]["name"]: layer["runs"] for layer in told["layers"]}
        self.assertEqual(runs, {"y": 1, "y/m": 30, "y/d": 30, "y/d/q": 4, "y/d/s": 26, "y/early": 30})
        for layer in told["layers"]:
            alone = layer["step"]["evidence"].get("time_ms", -1)
            self.assertAlmostEqual(layer["ms"], alone * layer["runs"] if alone >= 0 else layer["step"]["in_run"]["ms"], 9)
        self.assertAlmostEqual(told["total_ms"], sum(layer["ms"] for layer in told["layers"]), 9)
        seen = {layer["step"]["name"]: layer["step"]["in_run"]["ms"] for layer in told["layers"]}
        self.assertLess(seen["y"], seen["y/m"] + seen["y/d/q"] + seen["y/d/s"], "what the steps of its body take is not the loop's own")
        proof = self.proof("loop.engine")
        self.assertAlmostEqual(proof["predicted_ms"], told["total_ms"] + proof["conversion_ms"], 9)
        said = self.peri("explain", "loop.engine").stdout.decode()
        self.assertRegex(said, r"m  \[.*\] x 30\n")
        self.assertIn("as often as they run", self.ends(0, "explain", "loop.engine"))
        old = self.explained("loop.engine", "--proof", self.without_counts("loop.engine"))
        self.assertEqual({layer["runs"] for layer in old["layers"]}, {1, None})
        self.assertLess(old["total_ms"], told["total_ms"])
        self.assertIn("each counted once", self.ends(0, "explain", "loop.engine", "--proof", "old.proof"))
        proof["steps"][0]["in_run"] = {"runs": "many"}
        (self.folder / "bad.proof").write_text(json.dumps(proof))
        self.ends(1, "explain", "loop.engine", "--proof", "bad.proof")

    def test_a_model_is_explained_and_verified_as_it_is_built(self):
        """Choices that the judge of the whole engine refuses are in none of the three."""
        nodes = [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("ReduceSum", ["e", "a"], ["y"], keepdims=0)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 1])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(numpy.int64([8, 2_000_000]), "s"), numpy_helper.from_array(numpy.int64([1]), "a")])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "sum.onnx")
        r = self.peri("build", "sum.onnx", "-o", "s.engine", "--no-tune", "--json", "s.json", "--quiet")
        self.assertEqual(r.returncode, 0, r.stderr)
        built, told = json.loads((self.folder / "s.json").read_text()), json.loads(self.peri("explain", "sum.onnx", "--no-tune", "--quiet", "--json", "-").stdout.decode().splitlines()[-1])
        self.assertGreater(built["reference_steps"], 0, "no choice is refused: this test shows nothing")
        self.assertEqual([s["chosen"] for s in built["steps_in_order"]], [layer["step"]["chosen"] for layer in sorted(told["layers"], key=lambda layer: layer["step"]["name"])])
        numpy.save(self.folder / "x.npy", numpy.full((8, 1), 4000, numpy.float32))
        self.ends(0, "verify", "sum.onnx", "-i", "x=x.npy", "--no-tune", "--quiet")

    def test_runs_are_those_of_the_inputs_that_bench_makes_up(self):
        """A count that is an input is as large in both: a body runs as often as its answer says of the input of that seed."""
        text = parser.parse_model('''<ir_version: 9, opset_import: ["" : 19]> g (int64 n, float[8] x) => (float[8] y) {
            go = Constant<value = bool {1}>() one = Constant<value = float {1.0}>()
            y = Loop(n, go, x) <body = b (int64 i, bool on, float[8] c) => (bool again, float[8] d) { again = Identity(on) d = Add(c, one) }> }''')
        onnx.save(text, self.folder / "count.onnx")
        self.build("count.engine", "--no-cache", model="count.onnx")
        numpy.save(self.folder / "x.npy", numpy.zeros(8, numpy.float32))
        self.ends(0, "run", "count.engine", "-i", "n=random:1", "-i", "x=x.npy", "--output-dir", "out", "--quiet")
        times = int(numpy.load(self.folder / "out/y.npy")[0])
        self.assertGreater(times, 1)
        body = next(s["bodies"][0] for s in self.proof("count.engine")["steps"] if s.get("bodies"))
        self.assertEqual({s["in_run"]["runs"] for s in body}, {times})

    def test_bodies_of_an_engine_on_a_device(self):
        """They are on the host, whichever device is named for the whole; a build whose choices are known counts their steps too."""
        text = parser.parse_model('''<ir_version: 9, opset_import: ["" : 19]> g (float[8,16] x, float[16,16] w) => (float[8,16] y) {
            many = Constant<value = int64 {5}>() go = Constant<value = bool {1}>() z = MatMul(x, w)
            v = Loop(many, go, z) <body = b (int64 i, bool on, float[8,16] c) => (bool again, float[8,16] d) { again = Identity(on) m = MatMul(c, w) d = Tanh(m) }>
            y = Softmax(v) }''')
        onnx.save(text, self.folder / "loop.onnx")
        for engine in ("a.engine", "b.engine"):
            self.build(engine, "--backend", "null", "--device", "null", model="loop.onnx")
            body = next(s["bodies"][0] for s in self.proof(engine)["steps"] if s.get("bodies"))
            self.assertEqual({s["in_run"]["runs"] for s in body}, {5})
        for command in (("verify",), ("run", "-i", "x=random:1", "-i", "w=random:2"), ("bench", "--seconds", "0", "--repeat", "2", "--tolerance", "1e6")):
            self.ends(0, command[0], "a.engine", *command[1:], "--device", "null", "--quiet")

    def test_a_budget_that_ended_is_told(self):
        r = self.peri("build", DIGITS, "-o", "a.engine", "--no-cache", "--budget", "0.001")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout.decode(), r"tried      0 of [1-9]\d* problems, 0 candidates timed now, 0 rejected: there was no time for the others")
        self.assertRegex(r.stderr.decode(), r"PASSED build: .*; --budget was over before [1-9]\d* problems could be tried\n$")
        said = self.ends(0, "explain", "a.engine")
        self.assertIn("none measured (the time of its budget was over)", said)
        self.assertNotIn("interrupted", said)

    def test_it_belongs_to_one_engine(self):
        self.build("a.engine", "--no-tune", "--dims", "batch=1")
        self.build("b.engine", "--no-tune", "--dims", "batch=2")
        self.assertNotEqual(self.proof("a.engine")["engine_hash"], self.proof("b.engine")["engine_hash"])
        self.ends(0, "explain", "a.engine")
        shutil.copy(self.folder / "b.engine.proof", self.folder / "a.engine.proof")
        self.assertIn("another engine's", self.ends(1, "explain", "a.engine"))
        self.assertIn("another engine's", self.ends(1, "replay", "region @0", "--from", "a.engine"))
        self.ends(0, "explain", "a.engine", "--proof", "b.engine.proof")

    def test_it_belongs_to_one_machine(self):
        self.build("a.engine", "--no-tune")
        path = self.folder / "a.engine.proof"
        whole = path.read_text()
        path.write_text(whole.replace('\n "threads": ', '\n "threads": 100', 1))
        self.assertIn("more threads", self.ends(1, "explain", "a.engine"))
        path.write_text(whole.replace('"cpu": "', '"cpu": "another ', 1))
        self.assertIn("another machine", self.ends(1, "explain", "a.engine"))
        self.ends(0, "explain", "a.engine", "--compare")


if __name__ == "__main__":
    main()
