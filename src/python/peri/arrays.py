"""Exchange of arrays with the library, by address or through DLPack, without copies."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import strings
from .errors import InvalidError, UnsupportedError, wrong_usage

# By the library's type name: its number and NumPy's type name; bfloat16 is defined by the package ml_dtypes.
_TYPES = {
    "f32": (1, "float32"), "f64": (2, "float64"), "f16": (3, "float16"), "bf16": (4, "bfloat16"),
    "i8": (11, "int8"), "i16": (12, "int16"), "i32": (13, "int32"), "i64": (14, "int64"),
    "u8": (15, "uint8"), "u16": (16, "uint16"), "u32": (17, "uint32"), "u64": (18, "uint64"), "bool": (23, "bool"),
}  # fmt: skip
_NUMBERS = {name: number for number, name in _TYPES.values()}


def numpy_type(dtype: str, name: str) -> np.dtype:
    """NumPy's type of one of the library's, "f32", for the input or output of this name."""
    if dtype == "string":
        return np.dtype(object)
    if dtype not in _TYPES:
        message, remedy = f"arrays of {dtype} are not taken or given here", "the program takes and writes them as files: peri run ENGINE"
        raise UnsupportedError(f"'{name}': {message}; {remedy}", message, node=name, found=dtype, remedy=remedy)
    if dtype != "bf16":
        return np.dtype(_TYPES[dtype][1])
    try:
        import ml_dtypes
    except ImportError:
        remedy = "install ml_dtypes, or build with io_dtype='f32'"
        raise UnsupportedError(f"'{name}': NumPy has no bfloat16: {remedy}", "NumPy has no bfloat16", node=name, remedy=remedy) from None
    return np.dtype(ml_dtypes.bfloat16)


def of_output(array: Any, dtype: str, name: str, place: Any) -> Any:
    """An output of the library as an array of its dtype: what it was written to, else a new one. The native part returns bfloat16 as
    raw 16 bits, and texts as bytes."""
    if dtype == "string":
        return strings.of_output(array, name, place)
    if place is not None:
        return place
    return array.view(numpy_type(dtype, name)) if dtype == "bf16" else array


def _number_of(array: np.ndarray, name: str) -> int:
    number = _NUMBERS.get(array.dtype.name)
    if number is None or not array.dtype.isnative:
        message, found = f"the library has no element type for {array.dtype}", str(array.dtype)
        remedy = "" if number is None else "give array.astype(array.dtype.newbyteorder('='))"
        raise UnsupportedError(f"'{name}': {message}" + (f"; {remedy}" if remedy else ""), message, node=name, found=found, remedy=remedy)
    return number


def _described(array: np.ndarray, name: str, dtype: str) -> tuple[Any, ...]:
    if dtype == "string" and strings.are_in(array):
        return strings.given(array, name)
    if array.dtype.kind in "UST":
        raise InvalidError(f"'{name}': another element type: expected {dtype}, found string", "another element type", "", name, dtype, "string")
    return _number_of(array, name), array.shape, array.__array_interface__["data"][0], math.prod(array.shape) * array.itemsize


def _exported(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # of a library from before there were versions
        return value.__dlpack__()


def _capsule_of(value: Any, name: str, writes: bool) -> tuple[Any, Any]:
    try:
        capsule = _exported(value)
    except Exception as error:  # depends on the library: BufferError if read-only or with gradients
        raise wrong_usage(f"its __dlpack__ fails: {error}", node=name, expected="a DLPack tensor", found=type(value).__name__) from error
    if type(capsule).__name__ != "PyCapsule":
        raise wrong_usage("its __dlpack__ gives no capsule", node=name, expected="a DLPack tensor", found=type(capsule).__name__)
    return (capsule, name, writes), capsule


def _is_read_only(value: Any) -> bool:
    """Whether memory is read-only by another protocol than DLPack, whose capsules without a version cannot say it."""
    try:
        on_device = value.__cuda_array_interface__
    except Exception:  # depends on the library: it is on the host, or has gradients
        on_device = None
    if on_device is not None:
        return bool(on_device["data"][1])
    try:
        return _has_type(value) and not np.asarray(value).flags.writeable
    except Exception:  # depends on the library: it lies on a device, or has a type that NumPy lacks
        return False


def _check_mask(array: np.ndarray, name: str) -> None:
    if np.ma.is_masked(array):
        raise wrong_usage("a masked array has no value where its mask is set", node=name, expected="array.filled(VALUE)")


def _has_type(value: Any) -> bool:
    """Whether a value says of which type its elements are: NumPy's scalars, pictures, whatever has a buffer."""
    if any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__array_struct__")):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _whole(value: Any, target: np.dtype) -> np.ndarray:
    """Numbers as integers of this type, each from its own value: NumPy makes one float type of integers beyond 64 bits with a sign, and
    of integers beside floats, which rounds them."""
    each, bounds = np.array(value, dtype=object), np.iinfo(target)
    made = np.empty(each.shape, target)
    for at, number in enumerate(each.flat):
        if not math.isfinite(number) or number != int(number) or not bounds.min <= int(number) <= bounds.max:
            raise ValueError(f"{number} is none")
        made.flat[at] = int(number)
    return made


def _of_numbers(value: Any, target: np.dtype) -> np.ndarray:
    """Numbers, and lists of them, as an array of the input's type. What that type cannot hold is a ValueError: no text is read, no
    fraction dropped, nothing wrapped."""
    raw = np.asarray(value)
    if raw.dtype == target:
        return np.ascontiguousarray(raw) if raw.ndim else raw
    if raw.dtype.kind == "O" and all(type(number) is int for number in raw.flat):
        raise ValueError("they pass 64 bits")
    if raw.dtype.kind not in "biuf":
        raise ValueError("they are not real numbers")
    if raw.dtype.kind == "f" and target.kind in "iu":
        return _whole(value, target)
    with np.errstate(all="ignore"):
        made = raw.astype(target, order="C")
        if target.kind not in "biu":
            lost = np.isfinite(raw) & ~np.isfinite(made)
        else:
            lost = (made.astype(raw.dtype) != raw) | ((made < 0) != (raw < 0))
    if lost.any():
        raise ValueError(f"{raw[lost][0]} is none")
    return made


def _is_contiguous(value: Any) -> bool:
    """What an array of another library says of itself: by a method (PyTorch), by a property (pyarrow), or nothing."""
    said = getattr(value, "is_contiguous", True)
    return bool(said() if callable(said) else said)


def given(value: Any, name: str, dtype: str) -> tuple[Any, Any]:
    """(description for the native part, object to keep alive during the call) of an input. Arrays that are not contiguous are
    copied; numbers, texts and lists get the input's type; arrays are never cast."""
    if isinstance(value, np.ndarray):
        _check_mask(value, name)
        array = value if value.flags.c_contiguous else value.copy(order="C")
        return _described(array, name, dtype), array
    if hasattr(value, "__dlpack__"):
        if getattr(value, "requires_grad", False):
            value = value.detach()
        if not _is_contiguous(value) and hasattr(value, "contiguous"):
            value = value.contiguous()
        return _capsule_of(value, name, writes=False)
    try:
        if _has_type(value):
            array = np.asarray(value, order="C")
        elif dtype == "string":
            array = np.array(value, dtype=object)
        else:
            array = _of_numbers(value, numpy_type(dtype, name))
    except (OverflowError, TypeError, ValueError) as error:
        raise wrong_usage("no array can be made of it", node=name, expected=f"numbers of {dtype}", found=f"{type(value).__name__} ({error})") from error
    return _described(array, name, dtype), array


def place(value: Any, name: str, dtype: str, shape: tuple[int, ...], dims: tuple[str, ...]) -> tuple[Any, Any]:
    """The same for memory that receives an output of this type and shape (-1: any size), with these dimension names; None for the native
    part where it is of texts, which of_output() puts there."""
    found = tuple(getattr(value, "shape", shape))
    if len(found) != len(shape) or any(want not in (-1, have) for want, have in zip(shape, found)):
        raise wrong_usage("this output has another shape", node=name, expected=f"[{','.join(dims)}]", found=f"[{','.join(map(str, found))}]")
    if dtype == "string":
        strings.check_place(value, name)
        return None, value
    if isinstance(value, np.ndarray):
        _check_mask(value, name)
        if not (value.flags.c_contiguous and value.flags.writeable):
            raise wrong_usage("the memory of this output is not contiguous and writable", node=name)
        return _described(value, name, dtype), value
    if not hasattr(value, "__dlpack__"):
        raise wrong_usage("an output goes to an array", node=name, found=type(value).__name__)
    if not _is_contiguous(value):
        raise wrong_usage("the memory of this output is not contiguous", node=name)
    if _is_read_only(value):
        raise wrong_usage("the memory of this output is read-only", node=name, found=type(value).__name__)
    return _capsule_of(value, name, writes=True)
