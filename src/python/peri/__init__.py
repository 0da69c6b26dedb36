"""Perihelion: compiles a trained model into a fast engine whose results are verified.

    engine = peri.build("model.onnx", dims={"batch": 8}, output="model.engine")
    answers = engine.run({"image": images})
"""
import os as _os
import sys as _sys

from ._native import version as _version
from .engine import Engine, Port, add_kernel, build, compare, inspect
from .errors import (
    AccuracyError,
    CancelledError,
    Error,
    FileError,
    InternalError,
    InvalidError,
    OutOfMemoryError,
    RefusedError,
    RegressionError,
    UnstableError,
    UnsupportedError,
    UsageError,
)
from .results import Comparison, Explanation, MeasuredSteps, Measurement, Record, Verification

# The Python whose NVIDIA libraries and onnxruntime are used, here and in processes that this one starts: this one, unless PERI_PYTHON
# names another. Where Python is a part of another program, that program is no Python to ask.
if _os.path.basename(_sys.executable or "").startswith(("python", "pypy")):
    _os.environ.setdefault("PERI_PYTHON", _sys.executable)

__version__: str = _version  # assigned, as type checkers take an imported name for private

__all__ = [
    "AccuracyError", "CancelledError", "Comparison", "Engine", "Error", "Explanation", "FileError", "InternalError",
    "InvalidError", "MeasuredSteps", "Measurement", "OutOfMemoryError", "Port", "Record", "RefusedError", "RegressionError", "UnstableError",
    "UnsupportedError", "UsageError", "Verification", "add_kernel", "build", "compare", "inspect",
]  # fmt: skip
