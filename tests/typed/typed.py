"""What the tests of this folder share: the program under test, run as a user types it, and small models with chosen names."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import onnx
from onnx import TensorProto, helper

PERI, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
DIGITS = SOURCE / "models/digits_cnn.onnx"


class Typed(unittest.TestCase):
    """Each test in an empty folder, with a cache of its own."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="peri-typed-")
        self.folder = pathlib.Path(self.scratch.name)
        self.environment = {**os.environ, "PERI_CACHE": str(self.folder / "cache")}

    def tearDown(self):
        self.scratch.cleanup()

    def peri(self, *words, **more):
        more = {"capture_output": True, "timeout": 280, "cwd": self.folder, **more}  # somewhat less than CTest gives the whole
        return subprocess.run([PERI, *map(str, words)], env=self.environment, **more)

    def ends(self, code, *words):
        """The last line of a command that ends with this code."""
        r = self.peri(*words)
        said = r.stderr.decode(errors="replace").strip()
        self.assertEqual(r.returncode, code, f"{' '.join(map(str, words))}: {said[-600:]}")
        return said.split("\n")[-1]

    def model(self, path, node="n", inner="m", given="x", output="y", op="Relu", size=4):
        """y = op(x) + w, with these names."""
        nodes = [helper.make_node(op, [given], [inner], name=node), helper.make_node("Add", [inner, "w"], [output], name=node + "2")]
        weight = helper.make_tensor("w", TensorProto.FLOAT, [size], [1.0] * size)
        io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n in (given, output)]
        graph = helper.make_graph(nodes, "g", io[:1], io[1:], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (self.folder / path).write_bytes(made.SerializeToString())
        return self.folder / path


def main():
    unittest.main(argv=sys.argv[:1], verbosity=1)


assert onnx.__version__
