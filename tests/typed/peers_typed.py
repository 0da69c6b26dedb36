#!/usr/bin/env python3
"""An answer that parts from ONNX Runtime's where float32 does not decide a rounding is told apart from one that means something
else: ONNX Runtime's own then moves as far when its inputs move by one rounding. The peer here is a module of that name."""
import json
import sys

import numpy as np
import onnx
from onnx import parser

from typed import SOURCE, Typed, main

QUICK = ("--no-tune", "--no-cache", "--no-verify", "--quiet")
STEPS = """<ir_version: 9, opset_import: ["" : 17]>
g (float[1,120] x) => (float[1,8] y) <float k = {0.7}, float s = {0.7}, uint8 z = {128}> {
  p = Mul(x, k)
  q = QuantizeLinear(p, s, z)
  d = DequantizeLinear(q, s, z)
  y = MatMul(d, w)
}"""
# Of bytes alone, so that an engine computes it of bytes and rounds no float; every second sum lies between two.
BYTES = """<ir_version: 9, opset_import: ["" : 17]>
g (uint8[1,16] x) => (float[1,8] y) <float one = {1}, float two = {2}, uint8 u = {0}, int8 z = {0}> {
  a = DequantizeLinear(x, one, u)
  b = DequantizeLinear(w, one, z)
  p = MatMul(a, b)
  q = QuantizeLinear(p, two, z)
  y = DequantizeLinear(q, two, z)
}"""
# Its form hangs on its sizes; c may be fixed.
FORMS = """<ir_version: 9, opset_import: ["" : 17]>
g (float[n,1,k] x, float c) => (float y) {
  e = Squeeze(x)
  y = Mul(e, c)
}"""
LIST = """<ir_version: 9, opset_import: ["" : 17]>
g (float[n,4] x) => (seq(float[n,4]) s) {
  y = Relu(x)
  s = SequenceConstruct(x, y)
}"""
# Rounds what lies between two integers upwards, as arithmetic that errs by a third of a rounding may.
PEER = """import numpy as np
class SessionOptions:
    def __init__(self): self.entries = {}
    def add_session_config_entry(self, key, value): self.entries[key] = value
class Port:
    def __init__(self, name): self.name = name
class InferenceSession:
    def __init__(self, model, options, providers):
        import onnx
        assert options.entries.get("session.qdq_matmulnbits_accuracy_level") == "1"  # products of 4-bit weights in float32
        self.w = onnx.numpy_helper.to_array(next(i for i in onnx.load(model).graph.initializer if i.name == "w"))
    def get_inputs(self): return [Port("x")]
    def get_outputs(self): return [Port("y")]
    def run(self, names, feed):
        steps = np.floor(feed["x"].astype(np.float64) * (1 + 2e-8) + 0.5)
        steps[0, 7] += {wrong}
        return [(steps * np.float32(0.7) @ self.w).astype(np.float32)]
"""

SUMS = """<ir_version: 9, opset_import: ["" : 17]>
g (float[4,120] x) => (float[4,8] y) {
  y = MatMul(x, w)
}"""
# Takes the model's types alone, and is off by a factor.
INEXACT = PEER[: PEER.index("    def run")].replace("self.name = name", 'self.name, self.type = name, "tensor(float)"') + """    def run(self, names, feed):
        assert feed["x"].dtype == np.float32
        return [(feed["x"].astype(np.float64) @ self.w * {factor}).astype(np.float32)]
"""


class Peers(Typed):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        model = parser.parse_model(STEPS)
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal((120, 8)).astype(np.float32), "w"))
        onnx.save(model, self.folder / "steps.onnx")
        x = rng.integers(-40, 40, (1, 120)).astype(np.float32)
        x[0, 20:40] += 0.5  # between two
        np.save(self.folder / "x.npy", x)
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={self.folder} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.environment["PERI_PYTHON"] = str(python)

    def verify(self, code, wrong, *words):
        (self.folder / "onnxruntime.py").write_text(PEER.replace("{wrong}", str(wrong)))
        return self.ends(code, "verify", "steps.onnx", "--onnxruntime", "--input", "x=x.npy", *QUICK, *words)

    def test_a_rounding_that_nothing_decides(self):
        said = self.verify(0, 0)
        self.assertIn("one answer parts from it at roundings", said)
        self.assertIn("its own answer moves as far", said)
        self.assertIn("1 run against ONNX Runtime; one answer parts", said)  # no error of the range is told where none was held by it

    def test_ties_that_no_rounding_of_the_inputs_moves(self):
        """The peer decides them as float64 does, or another way; ours, by what float32 makes of them."""
        exact = "steps = np.floor(feed[\"x\"].astype(np.float64) * (1 + 2e-8) + 0.5)"
        quarters = "(np.round(feed[\"x\"].astype(np.float64) * 4) / 4)"
        for steps, words, member in ((f"np.rint({quarters})", "and ONNX Runtime's is within the budget against the float64 reference", "peer_near"),
                                     (f"np.floor({quarters} + 0.5)", "and the float64 reference moves as far by the round-off of its operations", "reference_moves")):
            for code, wrong in ((0, 0), (3, 40)):
                with self.subTest(steps=steps, wrong=wrong):
                    (self.folder / "onnxruntime.py").write_text(PEER.replace(exact, f"steps = {steps}").replace("{wrong}", str(wrong)))
                    said = self.ends(code, "verify", "steps.onnx", "--onnxruntime", "--input", "x=x.npy", "--json", "v.json", *QUICK)
                    told = json.loads((self.folder / "v.json").read_text())["outputs"][0]
                    self.assertEqual((words in said, bool(told.get(member)) if code == 0 else False), (code == 0, code == 0), said)

    def test_another_meaning(self):
        said = self.verify(3, 40)
        self.assertIn("ONNX Runtime's own answer moves by 0", said)

    def test_an_engine_is_told_apart_like_its_model(self):
        self.ends(0, "build", "steps.onnx", "-o", "steps.engine", *QUICK)
        for code, wrong, words in ((0, 0, "its own answer moves as far"), (3, 40, "ONNX Runtime's own answer moves by 0")):
            (self.folder / "onnxruntime.py").write_text(PEER.replace("{wrong}", str(wrong)))
            self.assertIn(words, self.ends(code, "verify", "steps.engine", "--onnxruntime", "--model", "steps.onnx", "--input", "x=x.npy"))
        said = self.ends(2, "verify", "steps.engine", "--onnxruntime", "--model", "steps.engine")
        self.assertIn("--model is an engine, and ONNX Runtime needs the model that it was made of: expected --model MODEL.onnx", said)

    def test_an_engine_of_bytes_is_told_apart_like_its_model(self):
        """Its source has no rounding of a float: the model's do, at which alone it may part."""
        rng, model = np.random.default_rng(3), parser.parse_model(BYTES)
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.integers(-3, 4, (16, 8), np.int8), "w"))
        onnx.save(model, self.folder / "bytes.onnx")
        np.save(self.folder / "b.npy", rng.integers(0, 16, (1, 16), np.uint8))
        self.ends(0, "build", "bytes.onnx", "-o", "bytes.engine", *QUICK)
        peer = PEER[: PEER.index("        steps = ")] + """        steps = np.floor(feed["x"].astype(np.float64) @ self.w / 2 + 0.5)
        steps[0, 7] += {wrong}
        return [(steps * np.float32(2)).astype(np.float32)]
"""
        for code, wrong in ((0, 0), (3, 40)):
            (self.folder / "onnxruntime.py").write_text(peer.replace("{wrong}", str(wrong)))
            for words in (("bytes.onnx", *QUICK), ("bytes.engine", "--model", "bytes.onnx")):
                with self.subTest(words=words, wrong=wrong):
                    said = self.ends(code, "verify", *words, "--onnxruntime", "--input", "x=b.npy")
                    self.assertEqual("one answer parts from it at roundings that float32 does not decide" in said, code == 0, said)

    def test_an_inexact_peer_is_told_as_that(self):
        """Its answer means the same and errs, ours does not: the float64 reference says so before we are blamed."""
        model = parser.parse_model(SUMS)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.random.default_rng(3).standard_normal((120, 8)).astype(np.float32), "w"))
        onnx.save(model, self.folder / "sums.onnx")
        def verify(code, factor, *words):
            (self.folder / "onnxruntime.py").write_text(INEXACT.replace("{factor}", str(factor)))
            return self.ends(code, "verify", "sums.onnx", "--onnxruntime", "--json", "v.json", *words, *QUICK)
        said = verify(0, 1.002)
        self.assertIn("of 2 outputs ONNX Runtime's is the inexact one: ours is within the budget against the float64 reference", said)
        told = json.loads((self.folder / "v.json").read_text())["outputs"][0]
        self.assertTrue(told["peer_is_off"] and told["own_error"] < 1e-6 < 1e-4 < told["peer_error"], told)
        self.assertNotIn("inexact", verify(0, 1.0))
        self.assertIn("ONNX Runtime's is the inexact one", verify(3, 1.002, "--max-error", "1e-4"))  # a budget that is given is kept
        self.assertIn("ours is within the budget", verify(0, "1 + 5"))  # a shift, however large: its cosine is that of the reference
        self.assertIn("ours is off by", verify(3, "1 + 5", "--max-error", "1e-4"))
        self.assertIn("against the float64 reference ours is off by", verify(3, -1))  # another meaning
        self.assertNotIn("inexact", verify(3, -1))

    def test_an_answer_in_bytes_of_which_the_peer_is_a_step_off_here_and_there(self):
        """Ours is the float64 reference's: a step at some elements is the peer's rounding; up and down at all of them, or two, it means something else."""
        onnx.save(parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
            g (float[1,40] x) => (float[1,40] y) <float s = {0.25}, int8 z = {0}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""), self.folder / "ends.onnx")  # fmt: skip
        peer = PEER[: PEER.index("        self.w = ")] + PEER[PEER.index("    def get_inputs") : PEER.index("        steps = ")] + """        steps = np.rint(feed["x"].astype(np.float64) * 4)
        steps[0, {where}] += {wrong}
        return [(steps / 4).astype(np.float32)]
"""
        for code, where, wrong in ((0, "::8", 1), (0, "3", -1), (3, "3", 2), (3, ":", "np.resize([1, -1], 40)")):
            with self.subTest(where=where, wrong=wrong):
                (self.folder / "onnxruntime.py").write_text(peer.replace("{where}", where).replace("{wrong}", str(wrong)))
                said = self.ends(code, "verify", "ends.onnx", "--onnxruntime", *QUICK)
                self.assertEqual("ONNX Runtime's is the inexact one" in said, code == 0, said)

    def test_weights_that_an_engine_rounds(self):
        """Sums that cancel move by a fifth of their range where their weights are rounded: each answer is held by its own weights."""
        rng, model = np.random.default_rng(4), parser.parse_model(SUMS)
        model.graph.initializer.append(onnx.numpy_helper.from_array((1 + 0.01 * rng.standard_normal((120, 8))).astype(np.float32), "w"))
        onnx.save(model, self.folder / "sums.onnx")
        np.save(self.folder / "s.npy", np.where(np.arange(480) % 2, 1, -1).reshape(4, 120).astype(np.float32) + 1e-3 * rng.standard_normal((4, 120)).astype(np.float32))
        self.ends(0, "build", "sums.onnx", "-o", "sums.engine", "--dtype", "bf16", *QUICK)
        moved = "one answer is right by the model with its weights rounded to bf16, which moves its answer by up to 0."
        model_words = ("sums.onnx", "--dtype", "bf16", *QUICK)

        def verify(code, *words):
            said = self.ends(code, "verify", *words, "--input", "x=s.npy", "--json", "v.json", "--force")
            return said, json.loads((self.folder / "v.json").read_text())

        said, told = verify(0, *model_words)
        self.assertIn(moved, said)
        self.assertTrue(told["outputs"][0]["own_error"] < 1e-3 < 0.04 < told["outputs"][0]["stored_moves"] and not told["rounded_weights"], told)
        self.assertNotIn("peer_error", told["outputs"][0])
        said, told = verify(0, "sums.engine")
        self.assertIn("against float64 reference of its weights in bf16, largest error", said)
        self.assertTrue(told["rounded_weights"], told)
        for words in (model_words, ("sums.engine", "--model", "sums.onnx")):
            for code, factor, want in ((0, 1, moved), (0, 1.2, "ONNX Runtime's is the inexact one"), (3, -1, "rounding the weights to bf16 moves the answer by 0.")):
                with self.subTest(words=words, factor=factor):
                    (self.folder / "onnxruntime.py").write_text(INEXACT.replace("{factor}", str(factor)))
                    said, told = verify(code, *words, "--onnxruntime")
                    self.assertIn(want, said)
                    self.assertEqual("inexact" in said, factor == 1.2, said)
                    self.assertEqual(told["outputs"][0]["own_error"] < 1e-3, True, told)
            verify(3, *words, "--onnxruntime", "--max-error", "1e-4")  # a budget that is given is kept

    def test_answers_that_hardly_change_with_the_inputs(self):
        """Their change is of the size of two roundings, which is no error; what passes a few of them is."""
        model = parser.parse_model(SUMS.replace("y = MatMul(x, w)", "m = MatMul(x, w)\n  y = Add(m, b)"))
        small = np.random.default_rng(3).standard_normal((120, 8)).astype(np.float32) * np.float32(2e-8)
        model.graph.initializer.extend([onnx.numpy_helper.from_array(small, "w"), onnx.numpy_helper.from_array(np.linspace(1, 2, 8).astype(np.float32), "b")])
        onnx.save(model, self.folder / "near.onnx")
        peer = INEXACT.replace("@ self.w * {factor})", "@ self.w + np.linspace(1, 2, 8)) * {factor})").replace("return [(", "return [((")
        for code, factor, words in (0, 1 + 1.2e-7, "PASSED"), (0, 1 + 2e-5, "ONNX Runtime's is the inexact one"), (3, -1.0, "outside its budget"):
            (self.folder / "onnxruntime.py").write_text(peer.replace("{factor}", repr(factor)))
            for looser in ((), ("--max-error", "0.5")):  # the change between seeds decides, whose budget nobody gave
                said = self.ends(code, "verify", "near.onnx", "--onnxruntime", *looser, *QUICK)
                self.assertIn(words, said)
        (self.folder / "onnxruntime.py").write_text(peer.replace("{factor}", repr(1 + 2e-5)))
        self.assertIn("of the change between two seeds", self.ends(3, "verify", "near.onnx", "--onnxruntime", "--max-change", "1e-4", *QUICK))

    def test_answers_that_hardly_vary_beside_their_size(self):
        """A softmax of nearly equal values: float32 cannot hold it to a share of its range. A few roundings of its size are no error,
        twenty are, and a budget that was given is kept."""
        model = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]> g (float[16,64] x) => (float[16,64] y) { a = Mul(x, w) y = Softmax(a) }''')
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1e-5), "w"))
        onnx.save(model, self.folder / "flat.onnx")
        self.ends(0, "build", "flat.onnx", "-o", "flat.engine", *QUICK)
        words = "2 answers hardly vary beside their size, and are off by a few roundings of it at most"
        self.assertIn(f"2 runs against float64 reference; {words}", self.ends(0, "verify", "flat.engine", "--json", "v.json"))
        for told in json.loads((self.folder / "v.json").read_text())["outputs"]:
            self.assertTrue(told["inside"] and told["relative"] > 1e-4 and told["linf"] <= 8 * 2**-24 * told["largest"], told)
        self.assertIn("of its range, allowed 0.0001", self.ends(3, "verify", "flat.engine", "--max-error", "1e-4", "--quiet"))
        peer = INEXACT[: INEXACT.index("        return")] + """        e = np.exp(feed["x"].astype(np.float64) * self.w)
        y = e / e.sum(-1, keepdims=True)
        y[0, 0] += {off} * 2.0**-24 / 64
        return [y.astype(np.float32)]
"""
        for code, off, said in (0, 3, words), (3, 4000, "outside its budget"):
            (self.folder / "onnxruntime.py").write_text(peer.replace("{off}", str(off)))
            self.assertIn(said, self.ends(code, "verify", "flat.onnx", "--onnxruntime", *QUICK))

    def test_ports_of_another_type_than_the_models(self):
        """--io-dtype rounds what the model takes and gives in float32."""
        model = parser.parse_model(SUMS)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.random.default_rng(3).standard_normal((120, 8)).astype(np.float32), "w"))
        onnx.save(model, self.folder / "sums.onnx")
        (self.folder / "onnxruntime.py").write_text(INEXACT.replace("{factor}", "1"))
        self.ends(0, "build", "sums.onnx", "-o", "half.engine", "--io-dtype", "f16", *QUICK)
        self.ends(0, "verify", "half.engine", "--onnxruntime", "--model", "sums.onnx")

    def test_an_engine_of_another_model(self):
        """Told by its identity, before anything runs: other weights are no error of accuracy."""
        self.environment["PERI_PYTHON"] = "/bin/true"
        other = onnx.load(self.folder / "steps.onnx")
        other.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((120, 8), np.float32), "w"))
        del other.graph.initializer[-2]
        onnx.save(other, self.folder / "other.onnx")
        onnx.save(parser.parse_model(FORMS), self.folder / "forms.onnx")
        for model, words in (("steps.onnx", ()), ("steps.onnx", ("--io-dtype", "f16")), ("forms.onnx", ("--dims", "n=1,k=5")), ("forms.onnx", ("--dims", "k=1,n=7", "--fix", "c=2"))):
            self.ends(0, "build", model, "-o", "a.engine", "--force", *words, *QUICK)
            with self.subTest(model=model, words=words):
                self.assertIn("is it a Python?", self.ends(1, "verify", "a.engine", "--onnxruntime", "--model", model))
                said = self.ends(2, "verify", "a.engine", "--onnxruntime", "--model", "other.onnx")
                found = "one that cannot be built so: --fix names 'c'" if "--fix" in words else "identity [0-9a-f]{16}"
                self.assertRegex(said, "other.onnx: the engine was not made from this model: expected a model of identity [0-9a-f]{16}, found " + found)
        self.assertIn("was not made from", self.ends(2, "verify", "steps.onnx", "--onnxruntime", "--model", "other.onnx", *QUICK))

    def test_an_engine_of_a_folder_is_compared_with_an_export(self):
        """No file has the identity of a Hugging Face folder: an export of the model is taken as that, and its answers decide."""
        self.environment["PERI_PYTHON"] = "/bin/true"
        self.ends(0, "build", SOURCE / "tests/hf/data/tiny_bert", "-o", "bert.engine", *QUICK)
        self.assertIn("is it a Python?", self.ends(1, "verify", "bert.engine", "--onnxruntime", "--model", "steps.onnx"))

    def test_a_sequence_is_not_compared(self):
        """Its elements have names of ours, which ONNX Runtime does not know."""
        del self.environment["PERI_PYTHON"]
        onnx.save(parser.parse_model(LIST), self.folder / "list.onnx")
        said = self.ends(1, "verify", "list.onnx", "--onnxruntime", "--dims", "n=2", *QUICK)
        self.assertIn("list.onnx: 's.0' is an element of 's', a seq(tensor(float)), whose elements are not compared with ONNX Runtime's; verify against", said)

    def test_a_program_that_is_no_python(self):
        self.environment["PERI_PYTHON"] = "/bin/true"
        self.assertIn("/bin/true: it ended well and wrote no answer", self.verify(1, 0))

    def test_a_budget_that_is_given_is_kept(self):
        self.verify(3, 0, "--max-error", "1e-4")
        self.verify(3, 0, "--min-cosine", "0.9999999")


if __name__ == "__main__":
    main()
