"""Exchange of texts with the library: arrays of str and bytes in, object arrays of str out."""
from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidError, wrong_usage


def are_in(array: np.ndarray) -> bool:
    """Whether an array may hold texts: of str, bytes, NumPy's variable-width strings or objects."""
    return array.dtype.kind in "USTO"


def _encoded(text: Any, at: int, name: str) -> bytes:
    if isinstance(text, bytes):
        return text  # the library says whether it is UTF-8
    if not isinstance(text, str):
        raise wrong_usage(f"string {at} is no text", node=name, expected="str or bytes", found=f"{type(text).__name__} ({text!r:.40})")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise wrong_usage(f"string {at} is no Unicode: it holds half of a surrogate pair", node=name) from None


def given(array: np.ndarray, name: str) -> tuple[tuple[int, ...], list[bytes]]:
    """The description of an input of texts for the native part, which holds their bytes."""
    return array.shape, [_encoded(text, at, name) for at, text in enumerate(array.ravel().tolist())]


def check_place(value: Any, name: str) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O" or not value.flags.writeable:
        found = str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__
        raise wrong_usage("an output of texts goes to a writable array of dtype object", node=name, found=found)


def of_output(made: tuple[list[int], list[bytes]], name: str, place: np.ndarray | None) -> np.ndarray:
    """An output of texts as an object array of str: a new one, or `place`."""
    shape, raw = tuple(made[0]), made[1]
    texts = np.empty(len(raw), object)
    for at, text in enumerate(raw):
        try:
            texts[at] = text.decode()
        except UnicodeDecodeError as error:
            message = f"string {at} of this output is not UTF-8: {text!r:.40}"
            raise InvalidError(f"'{name}': {message}", message, node=name) from error
    if place is None:
        return texts.reshape(shape)
    if place.shape != shape:
        raise wrong_usage("this output has another shape", node=name, expected=f"[{','.join(map(str, shape))}]", found=f"[{','.join(map(str, place.shape))}]")
    place[...] = texts.reshape(shape)
    return place
