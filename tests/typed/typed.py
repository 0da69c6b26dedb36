"""What the tests of this folder share: the program under test, run as a user types it, and small models with chosen names."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import onnx
from onnx import TensorProto, helper

PERI, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
DIGITS = SOURCE / "models/digits_cnn.onnx"


def held(folder):
    """A lock on a folder of ours, which ends with this process however it ends; None where another has it or it is gone."""
    lock = None
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.geteuid() and os.path.samestat(os.fstat(lock), os.lstat(folder)):
            return lock
    except OSError:
        pass
    if lock is not None:
        os.close(lock)
    return None


class Scratch(tempfile.TemporaryDirectory):
    """One that also goes where its process was killed: when the next is made."""

    PREFIX = "peri-typed-in-"

    def __init__(self):
        for old in pathlib.Path(tempfile.gettempdir()).glob(self.PREFIX + "*"):
            if (lock := held(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(lock)
        self.lock = None
        while self.lock is None:  # another process may have found it before it was locked
            super().__init__(prefix=self.PREFIX)
            self.lock = held(self.name)

    def cleanup(self):
        super().cleanup()
        os.close(self.lock)


class Typed(unittest.TestCase):
    """Each test in an empty folder, with a cache of its own."""

    def setUp(self):
        self.scratch = Scratch()
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
