#!/usr/bin/env python3
"""Sizes on which a model's form hangs become numbers: an axis that is squeezed where it is one, an If whose branches differ in
rank; and a sequence has as many elements as --dims says."""
import onnx
from onnx import parser

from typed import Typed, main

QUICK = ("--no-tune", "--no-cache", "--no-verify", "--quiet")
SQUEEZE = """<ir_version: 9, opset_import: ["" : 17]>
g (float[n,1,length] x) => (float y) { e = Exp(x)
  y = Squeeze(e) }"""
RANKS = """<ir_version: 9, opset_import: ["" : 17]>
g (float[batch,length] x) => (float y) {
  s = Shape<start = 1>(x)
  one = Constant<value_ints = [1]>()
  is1 = Equal(s, one)
  y = If(is1) <then_branch = yes () => (float[a] p) { p = Squeeze(x, one) }, else_branch = no () => (float[a,b] q) { q = Neg(x) }>
}"""
LIST = """<ir_version: 9, opset_import: ["" : 17]>
g (seq(float[n]) list) => (float[k] y) { y = ConcatFromSequence<axis = 0>(list) }"""


class Pinned(Typed):
    def setUp(self):
        super().setUp()
        for name, text in {"squeeze": SQUEEZE, "ranks": RANKS, "list": LIST}.items():
            onnx.save(parser.parse_model(text), self.folder / f"{name}.onnx")

    def test_only_what_decides_is_a_number(self):
        self.ends(0, "build", "ranks.onnx", "--dims", "length=4,batch=2", "-o", "a.engine", *QUICK)
        for batch in (2, 5):
            self.ends(0, "verify", "a.engine", "--dims", f"batch={batch}", "--quiet")
        self.ends(0, "verify", "a.engine", "--dims", "batch=3,length=4", "--quiet")
        said = self.ends(2, "verify", "a.engine", "--dims", "length=1", "--quiet")
        self.assertIn("the structure of the model depends on it", said)

    def test_each_form_is_right(self):
        for length in (1, 4):
            self.ends(0, "verify", "ranks.onnx", "--onnxruntime", "--dims", f"length={length},batch=3", *QUICK)
        for sizes in ("n=1,length=5", "n=3,length=1", "n=1,length=1", "n=2,length=2"):
            self.ends(0, "verify", "squeeze.onnx", "--onnxruntime", "--dims", sizes, *QUICK)

    def test_a_list_needs_its_length(self):
        self.assertIn("--dims list=N", self.ends(1, "build", "list.onnx", "-o", "a.engine", *QUICK))
        self.ends(0, "build", "list.onnx", "--dims", "list=3,n.0=4", "-o", "a.engine", *QUICK)
        self.ends(0, "verify", "a.engine", "--dims", "list=3,n.1=2", "--quiet")


if __name__ == "__main__":
    main()
