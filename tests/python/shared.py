"""What the tests of the Python package share: an engine of digits in a folder of its own, and arrays of another library."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import peri

SOURCE = pathlib.Path(sys.argv[1])
DIGITS = SOURCE / "models/digits_cnn.onnx"
DATA = np.load(SOURCE / "models/digits_data.npz")
IMAGES = DATA["test_images"][:8].copy()
QUICK = {"tune": False, "verify": False, "cache": False, "threads": 2}


class Foreign:
    """An array of another library: what it has is __dlpack__ alone."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    def __dlpack__(self, **_):
        self.asked += 1
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="peri-python-")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.engine = peri.build(DIGITS, dims={"batch": 8}, output=cls.folder / "digits.engine", **QUICK)
        cls.logits = cls.engine.run({"image": IMAGES})["logits"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def raises(self, kind, call, *words):
        with self.assertRaises(kind) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))
        return caught.exception
