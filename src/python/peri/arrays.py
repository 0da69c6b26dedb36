"""Exchange of arrays with the library, by address or through DLPack, without copies."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import UnsupportedError, wrong_usage

# By the names of the library: its number, and NumPy's name; bfloat16 is of the package ml_dtypes.
_TYPES = {
    "f32": (1, "float32"), "f64": (2, "float64"), "f16": (3, "float16"), "bf16": (4, "bfloat16"),
    "i8": (11, "int8"), "i16": (12, "int16"), "i32": (13, "int32"), "i64": (14, "int64"),
    "u8": (15, "uint8"), "u16": (16, "uint16"), "u32": (17, "uint32"), "u64": (18, "uint64"), "bool": (23, "bool"),
}  # fmt: skip
_NUMBERS = {name: number for number, name in _TYPES.values()}


def numpy_type(dtype: str) -> np.dtype:
    """The NumPy dtype of an element type of the library, e.g. "f32"."""
    if dtype not in _TYPES:
        raise UnsupportedError(f"NumPy has no element type for {dtype}")
    if dtype != "bf16":
        return np.dtype(_TYPES[dtype][1])
    try:
        import ml_dtypes
    except ImportError:
        remedy = "install ml_dtypes, or build with io_dtype='f32'"
        raise UnsupportedError(f"NumPy has no bfloat16: {remedy}", "NumPy has no bfloat16", remedy=remedy) from None
    return np.dtype(ml_dtypes.bfloat16)


def of_memory(array: np.ndarray, dtype: str) -> np.ndarray:
    """An output of the library as an array of its dtype; bfloat16 is returned as raw 16 bits."""
    return array.view(numpy_type(dtype)) if dtype == "bf16" else array


def _number_of(array: np.ndarray, name: str) -> int:
    number = _NUMBERS.get(array.dtype.name)
    if number is None or not array.dtype.isnative:
        message, found = f"the library has no element type for {array.dtype}", str(array.dtype)
        remedy = "" if number is None else "give array.astype(array.dtype.newbyteorder('='))"
        raise UnsupportedError(f"'{name}': {message}" + (f"; {remedy}" if remedy else ""), message, node=name, found=found, remedy=remedy)
    return number


def _described(array: np.ndarray, name: str) -> tuple[int, tuple[int, ...], int, int]:
    return _number_of(array, name), array.shape, array.__array_interface__["data"][0], math.prod(array.shape) * array.itemsize


def _capsule_of(value: Any, name: str) -> tuple[Any, Any]:
    capsule = value.__dlpack__()
    if type(capsule).__name__ != "PyCapsule":
        raise wrong_usage("its __dlpack__ gives no capsule", node=name, expected="a DLPack tensor", found=type(capsule).__name__)
    return capsule, capsule


def given(value: Any, name: str, dtype: str) -> tuple[Any, Any]:
    """(description for the native part, object to keep alive during the call) of an input. Arrays that are not contiguous are
    copied; numbers and lists get the input's type; arrays are never cast."""
    if isinstance(value, np.ndarray):
        array = value if value.flags.c_contiguous else value.copy(order="C")
        return _described(array, name), array
    if hasattr(value, "__dlpack__"):
        if getattr(value, "requires_grad", False):
            value = value.detach()
        if hasattr(value, "is_contiguous") and not value.is_contiguous():
            value = value.contiguous()
        return _capsule_of(value, name)
    try:
        array = np.asarray(value, dtype=None if hasattr(value, "__array__") else numpy_type(dtype), order="C")
    except (OverflowError, TypeError, ValueError) as error:
        raise wrong_usage("no array can be made of it", node=name, expected=f"numbers of {dtype}", found=f"{type(value).__name__} ({error})") from error
    return _described(array, name), array


def place(value: Any, name: str, shape: tuple[int, ...], dims: tuple[str, ...]) -> tuple[Any, Any]:
    """The same for memory that receives an output of this shape (-1: any size), with these dimension names."""
    found = tuple(getattr(value, "shape", shape))
    if len(found) != len(shape) or any(want not in (-1, have) for want, have in zip(shape, found)):
        raise wrong_usage("this output has another shape", node=name, expected=f"[{','.join(dims)}]", found=f"[{','.join(map(str, found))}]")
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous and value.flags.writeable):
            raise wrong_usage("the memory of this output is not contiguous and writable", node=name)
        return _described(value, name), value
    if not hasattr(value, "__dlpack__"):
        raise wrong_usage("an output goes to an array", node=name, found=type(value).__name__)
    if hasattr(value, "is_contiguous") and not value.is_contiguous():
        raise wrong_usage("the memory of this output is not contiguous", node=name)
    return _capsule_of(value, name)
