#!/usr/bin/env python3
"""Whatever a model's names hold, a terminal is not made to obey it: not by lines, not by JSON, not by errors."""
import json
import shlex
import unicodedata

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from typed import Typed, main

# Colours, a title, a cursor, another line; C1; DEL; overrides and isolates; what hides; bytes that are no UTF-8.
NAMES = ["\x1b[31mred", "\x1b]0;title\x07t", "a\rb", "a\nPASSED zzz", "\u009b31mc1", "\x7fdel", "\u202eright", "\u2066iso", "\u2028line", "a\u200bb", "\U000e0041tag"]


def obeyed(text):
    """Characters that a terminal, or a reader's eye, follows."""
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


class Names(Typed):
    def said(self, *words, codes=(0,)):
        r = self.peri(*words)
        self.assertIn(r.returncode, codes, r.stderr)
        for stream in (r.stdout, r.stderr):
            text = stream.decode()  # invalid bytes fail here
            self.assertEqual(obeyed(text), [], f"{words}: {text!r}")
            self.assertFalse(any(line.startswith("PASSED zzz") for line in text.split("\n")), words)

    def test_every_command(self):
        quick = ("--no-tune", "--no-cache")
        for k in range(0, len(NAMES), 4):
            node, inner, given, output = (NAMES + NAMES)[k : k + 4]
            given += "x"
            with self.subTest(names=(node, inner, given, output)):
                model = self.model(f"{k}.onnx", node=node, inner=inner + "i", given=given, output=output + "y")
                engine = f"{k}.engine"
                self.said("inspect", model)
                self.said("build", model, "-o", engine, *quick, "--json", "-")
                self.said("explain", engine, "--full", "--json", "-")
                for command in (("inspect",), ("explain", "--full"), ("verify",), ("run", "-i", f"{given}=random:1", "--json", "-"),
                                ("bench", "--seconds", "0.01", "--layers", "--tolerance", "1e6")):
                    self.said(command[0], engine, *command[1:])
                self.said("run", engine, codes=(2,))
                self.said("run", engine, "--dims", f"{node}=1", codes=(2,))
                self.said("build", model, "-o", engine, "--dims", f"{node}=1", codes=(2,))
                if "\n" in given:
                    self.assertIn("input 'a\\x0aPASSED zzzx' is not given", self.ends(2, "run", engine))

    def test_faults_in_nodes_and_operators(self):
        for k, name in enumerate(NAMES):
            model = self.model(f"{k}.onnx", node=name, op="No" + name)
            self.said("inspect", model, codes=(1,))
            self.said("build", model, "-o", "x.engine", codes=(1,))

    def test_commands_that_are_suggested_can_be_typed(self):
        """Names with blanks and signs of a shell are quoted: a shell reads from the message the words that are meant."""
        given = "it's $(x) in"
        self.model("my model.onnx", given=given)
        said = self.ends(2, "run", "my model.onnx", "--no-tune", "--no-cache")
        self.assertEqual(shlex.split(said.split("expected ", 1)[1].split("; the inputs", 1)[0]), ["--input", f"{given}=FILE"])
        numpy.save(self.folder / "x.npy", numpy.ones((3, 4), numpy.float32))
        r = self.peri("run", "my model.onnx", "--opt-shapes", f"{given}:2x4", "-i", f"{given}=x.npy", "--no-tune", "--no-cache")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("peri build 'my model.onnx' -o ENGINE --dims n=3", r.stderr.decode())

    def test_an_output_whose_name_no_file_can_have(self):
        """It is written under a shorter one, which outputs.json tells and --reference-dir finds."""
        name = "StatefulPartitionedCall/" * 12 + "\u00e9"
        self.ends(0, "build", self.model("long.onnx", output=name), "-o", "long.engine", "--no-tune", "--no-cache", "--quiet")
        numpy.save(self.folder / "x.npy", numpy.ones((1, 4), numpy.float32))
        self.ends(0, "run", "long.engine", "-i", "x=x.npy", "--output-dir", "out")
        file = json.loads((self.folder / "out/outputs.json").read_text())[name]
        self.assertEqual(numpy.load(self.folder / "out" / file).tolist(), [[2, 2, 2, 2]])
        self.ends(0, "verify", "long.engine", "-i", "x=x.npy", "--reference-dir", "out")

    def test_dimensions_named_in_any_way(self):
        """What a name holds ends no shape and no list of dimensions, wherever an engine writes it down."""
        value = helper.make_tensor_value_info
        for name in ("x.shape[0]", "inputs[0]_dim0", "]", "a]b[c", "{n}", "a;b", "(n,m)", "1 + n", 'a"b', "n@1", "::", "$", "=n"):
            with self.subTest(name):
                nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0])]
                graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [name, 4])], [value("y", TensorProto.FLOAT, [4, name])], [numpy_helper.from_array(numpy.eye(4, dtype=numpy.float32), "w")])
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
                self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-tune", "--force", "--quiet")
                x = numpy.random.default_rng(1).normal(size=(3, 4)).astype(numpy.float32)
                numpy.save(self.folder / "x.npy", x)
                self.ends(0, "run", "m.engine", "-i", "x=x.npy", "--output-dir", "named")
                numpy.testing.assert_array_equal(numpy.load(self.folder / "named/y.npy"), numpy.maximum(x, 0).T)

    def test_bytes_that_are_no_text(self):
        model = self.model("a.onnx", node="@@@@@@")
        for bad in (b"\xff\xfe\xc2\x9b3", b"\xc2\x9b31m\xf0", b"\xed\xa0\x80abc"):
            path = self.folder / "bad.onnx"
            path.write_bytes(model.read_bytes().replace(b"@@@@@@", bad.ljust(6, b"z")[:6]))
            self.said("inspect", path, codes=(0, 1))
            self.said("build", path, "-o", "bad.engine", "--no-tune", "--no-cache", codes=(0, 1))
        self.said("inspect", b"\xff\xfe.onnx".decode(errors="surrogateescape"), codes=(1,))


if __name__ == "__main__":
    main()
