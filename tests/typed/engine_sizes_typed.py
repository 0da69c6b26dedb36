#!/usr/bin/env python3
"""Sizes of an engine that nobody gave follow from those given; sizes that the model cannot have together are told as that."""
import json

import numpy
import onnx
from onnx import parser

from typed import Typed, main

TUNED = {"seq": 1, "past": 7, "total": 8}


class EngineSizes(Typed):
    def build(self):
        """A decoder's step: as many scores as there are keys, and a mask whose length has a name of its own."""
        text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,seq,16] x, float[1,past,16] before, float[1,1,total] mask) => (float[1,seq,16] y) {
            keys = Concat<axis = 1>(before, x)  across = Transpose<perm = [0, 2, 1]>(keys)  scores = MatMul(x, across)
            masked = Add(scores, mask)  shares = Softmax(masked)  y = MatMul(shares, keys) }"""
        onnx.save(parser.parse_model(text), self.folder / "step.onnx")
        self.ends(0, "build", "step.onnx", "-o", "step.engine", "--no-tune", "--no-cache", "--quiet", "--dims",
                  ",".join(f"{n}={v}" for n, v in TUNED.items()))

    def measured(self, *words):
        self.ends(0, "bench", "step.engine", "--iterations", "5", "--tolerance", "1e6", "--json", "r.json", "--quiet", *words)
        return json.loads((self.folder / "r.json").read_text())["dims"]

    def test_what_follows(self):
        self.build()
        self.assertEqual(self.measured(), TUNED)
        self.assertEqual(self.measured("--dims", "past=20"), {"seq": 1, "past": 20, "total": 21})
        self.assertEqual(self.measured("--dims", "past=20,seq=3"), {"seq": 3, "past": 20, "total": 23})
        self.assertEqual(self.measured("--shapes", "before:1x4x16"), {"seq": 1, "past": 4, "total": 5})
        self.assertEqual(self.measured("--dims", "past=4,total=5"), {"seq": 1, "past": 4, "total": 5})
        self.ends(0, "verify", "step.engine", "--dims", "past=3,seq=2", "--quiet")

    def test_of_inputs_at_hand(self):
        self.build()
        numpy.save(self.folder / "x.npy", numpy.ones((1, 2, 16), numpy.float32))
        numpy.save(self.folder / "before.npy", numpy.ones((1, 5, 16), numpy.float32))
        self.ends(0, "run", "step.engine", "-i", "x=x.npy", "-i", "before=before.npy", "-i", "mask=random:1", "--output-dir", "out")
        self.assertEqual(numpy.load(self.folder / "out/y.npy").shape, (1, 2, 16))

    def test_what_cannot_be_together(self):
        self.build()
        for command in ("bench", "verify"):
            said = self.ends(2, command, "step.engine", "--dims", "past=7,seq=1,total=9")
            self.assertIn("the model does not run at past=7,seq=1,total=9: shapes do not broadcast", said)
            self.assertIn("'masked'", said)
            self.assertNotIn("made up", said)


if __name__ == "__main__":
    main()
