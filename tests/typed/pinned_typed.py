#!/usr/bin/env python3
"""Sizes on which a model's form hangs become numbers: an axis that is squeezed where it is one, an If whose branches differ in
rank; and a sequence has as many elements as --dims says."""
import json
import shlex

import numpy
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

COMPLEX = """<ir_version: 9, opset_import: ["" : 17]>
g (complex64[n,4] x) => (complex64[n,4] y) { y = Identity(x) }"""
ROW = """<ir_version: 9, opset_import: ["" : 17]>
g (float[ROWS] x) => (float[ROWS,1] y) <float[2,1] table = {1, 2}, float zero = {0}, float one = {1}, int32 axis = {0}> {
  z = Mul(x, zero)
  ones = Add(z, one)
  sum = CumSum(ones, axis)
  at = Cast<to = 7>(sum)
  y = Gather(table, at)
}"""
SCALED = """<ir_version: 9, opset_import: ["" : 17]>
g (float[n,1,4,4] x, float[4] s) => (float[a,b,c,d] y) { y = Resize(x, , s) }"""


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

    def test_a_fixed_size_is_told_with_its_remedy(self):
        """By inspect of the model and of the engine, and by a run of another size: its words build what runs it."""
        note = "note: sizes that the structure of the model depends on are fixed: length=1"
        said = self.peri("inspect", "ranks.onnx", "--dims", "length=1", "--json", "m.json").stdout.decode()
        self.assertIn(note, said)
        self.assertIn(note[6:], json.loads((self.folder / "m.json").read_text())["notes"])
        self.ends(0, "build", "ranks.onnx", "--dims", "length=1", "-o", "a.engine", *QUICK)
        self.assertIn(note, self.peri("inspect", "a.engine", "--json", "e.json").stdout.decode())
        self.assertEqual(json.loads((self.folder / "e.json").read_text())["fixed_dims"], {"length": 1})
        numpy.save(self.folder / "x.npy", numpy.ones((2, 4), numpy.float32))
        said = self.ends(2, "run", "a.engine", "-i", "x=x.npy")
        self.assertIn("dimension 1 does not fit: expected 1, found 4", said)
        words = shlex.split(said.split("peri build ", 1)[1])
        self.ends(0, "build", *[{"MODEL": "ranks.onnx", "ENGINE": "b.engine"}.get(w, w) for w in words], *QUICK)
        self.ends(0, "run", "b.engine", "-i", "x=x.npy")

    def test_quiet_keeps_notes(self):
        """What changes the answer is told, in one command as in another; progress and tables are not."""
        fixed, last = b"note: sizes that the structure of the model depends on are fixed: length=1", b"PASSED build: a.engine, "
        made = self.peri("build", "ranks.onnx", "--dims", "length=1,batch=2", "-o", "a.engine", "--force", *QUICK)
        self.assertEqual((made.returncode, made.stdout), (0, b""))
        *notes, end = made.stderr.splitlines()
        self.assertIn(fixed, notes)
        self.assertTrue(end.startswith(last) and all(line.startswith(b"note: ") for line in notes), made.stderr)
        seen = self.peri("inspect", "ranks.onnx", "--dims", "length=1,batch=2", "--quiet")
        self.assertEqual((seen.returncode, seen.stdout), (0, b""))
        self.assertIn(fixed, seen.stderr.splitlines())
        ran = self.peri("run", "a.engine", "-i", "x=random:1", "--dims", "batch=3", "--quiet")
        self.assertEqual((ran.returncode, ran.stdout), (0, b""))
        self.assertIn(b"note: tuned for batch=2, run at batch=3", ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 2, ran.stderr)

    def test_each_form_is_right(self):
        for length in (1, 4):
            self.ends(0, "verify", "ranks.onnx", "--onnxruntime", "--dims", f"length={length},batch=3", *QUICK)
        for sizes in ("n=1,length=5", "n=3,length=1", "n=1,length=1", "n=2,length=2"):
            self.ends(0, "verify", "squeeze.onnx", "--onnxruntime", "--dims", sizes, *QUICK)

    def test_no_size_is_proposed_where_none_helps(self):
        """A type that an operator does not take; a model without open sizes."""
        onnx.save(parser.parse_model(COMPLEX), self.folder / "complex.onnx")
        for command in ("build", "inspect"):
            said = self.ends(1, command, "complex.onnx")
            self.assertIn("does not take c64", said)
            self.assertNotIn("--dims", said)
        self.assertIn("does not run", said := self.ends(1, "build", self.row_beyond(3), "-o", "a.engine", *QUICK))
        self.assertNotIn("--dims", said)
        self.assertIn("--dims", self.ends(1, "build", self.row_beyond("n"), "--dims", "n=3", "-o", "a.engine", *QUICK))

    def row_beyond(self, rows):
        """Row `rows` of a table of two: only a run shows that it is missing."""
        text = ROW.replace("ROWS", str(rows))
        onnx.save(parser.parse_model(text), self.folder / "row.onnx")
        return "row.onnx"

    def test_scales_that_are_an_input_steer_a_model(self):
        """Made-up scales are of no use to it: it is built, and runs on those that it is given."""
        onnx.save(parser.parse_model(SCALED), self.folder / "scaled.onnx")
        said = self.ends(0, "build", "scaled.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
        self.assertIn("was not run at its tuned size: ", said)
        numpy.save(self.folder / "s.npy", numpy.array([1, 1, 2, 2], numpy.float32))
        self.assertIn("f32[1,1,8,8]", self.ends(0, "run", "a.engine", "-i", "x=random:1", "-i", "s=s.npy"))

    def test_a_list_needs_its_length(self):
        self.assertIn("--dims list=N", self.ends(1, "build", "list.onnx", "-o", "a.engine", *QUICK))
        self.ends(0, "build", "list.onnx", "--dims", "list=3,n.0=4", "-o", "a.engine", *QUICK)
        self.ends(0, "verify", "a.engine", "--dims", "list=3,n.1=2", "--quiet")


if __name__ == "__main__":
    main()
