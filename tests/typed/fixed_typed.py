#!/usr/bin/env python3
"""Inputs fixed by --fix are constants everywhere: build, verify, ONNX Runtime beside it; loops end at --max-iterations."""
import onnx
from onnx import parser

from typed import Typed, main

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
        self.ends(0, "build", "loop.onnx", "--fix", "k=5", "-o", "a.engine", *self.quick)
        self.assertNotIn("int64", self.ends(0, "inspect", "a.engine"))
        self.assertIn("k=5", self.ends(0, "inspect", "a.engine"))
        self.ends(0, "verify", "a.engine", "--dims", "n=3")
        self.ends(0, "verify", "loop.onnx", "--fix", "k=5", "--onnxruntime", "--dims", "n=3", "--no-tune", "--no-verify")

    def test_what_does_not_fit_is_refused(self):
        for value, words in {"k=x": "expected numbers of type i64", "k=1,2": "expected one value", "j=1": "no input of the model",
                             "x=1": "cannot be fixed"}.items():
            self.assertIn(words, self.ends((1, 2), "build", "loop.onnx", "--fix", value, "-o", "a.engine", *self.quick), value)

    def test_a_loop_ends_at_its_limit(self):
        for command in ("verify", "build"):
            words = ["-o", "a.engine", "--no-tune", "--no-cache"] if command == "build" else ["--no-tune", "--no-verify"]
            said = self.ends(1, command, "loop.onnx", "--fix", "k=5", "--max-iterations", "4", *words)
            self.assertIn("--max-iterations", said)
            self.ends(0, command, "loop.onnx", "--fix", "k=5", "--max-iterations", "5", *words)


if __name__ == "__main__":
    main()
