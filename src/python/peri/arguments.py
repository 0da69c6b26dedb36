"""What callers give as the native half takes it: whole numbers, names and texts, sizes, paths, types."""
from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import UsageError, wrong_usage

Path = str | os.PathLike[str]


def number(value: Any, what: str, least: int, most: int) -> int:
    """A whole number within a range: 2.7 and "2" are none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise wrong_usage(f"{what} is not in range", expected=f"{least} to {most}", found=str(number))
    return number


def seeds(given: Iterable[int] | None) -> list[int]:
    """Seeds of runs; none given: an empty list, for which the library takes its own."""
    if given is None:
        return []
    if not isinstance(given, Iterable):
        raise TypeError(f"'seeds' must be several whole numbers such as [{given!r}], not {type(given).__name__}")
    numbers = [number(seed, "a seed", 0, 2**64 - 1) for seed in given]
    if not numbers:
        raise wrong_usage("seeds is empty: nothing would be verified", expected="at least one seed, or None for the default")
    return numbers


def word(given: Any, what: str) -> str:
    """A text as C takes it, which would end at a NUL."""
    text = str(given)
    if "\0" in text:
        raise wrong_usage(f"{what} holds a NUL", found=repr(text))
    return text


# What stands in the options that are texts, where they are given.
CHOICES = {
    "backend": "auto, cpu or cuda", "device": "a device such as cuda:1", "dtype": "f32, f16 or bf16", "io_dtype": "f32, f16 or bf16",
    "provider": "peri, onednn, cublaslt, cudnn, outside or reference",
}  # fmt: skip


def choice(given: Any, what: str) -> str:
    """A text of the options, "" for None. An empty one is no wish to leave it out."""
    if given == "":
        raise wrong_usage(f"{what} is empty", expected=f"{CHOICES[what]}, or None for the default")
    return "" if given is None else word(given, what)


def texts(given: str | Iterable[str]) -> list[str]:
    words = [given] if isinstance(given, str) else list(given)
    for k, text in enumerate(words):
        if not isinstance(text, str):
            raise TypeError(f"text {k} is no str, but {type(text).__name__}")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise wrong_usage(f"text {k} is no Unicode: it holds half of a surrogate pair")
    return words


def prompt(text: str | None, name: str | None) -> tuple[str | None, str | None]:
    """What stands before texts: a text, the model's of a name, or neither."""
    if text is not None and name is not None:
        raise wrong_usage("prompt and prompt_name are both given: leave one of them out")
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the prompt is no str, but {type(text).__name__}")
    return None if text is None else texts([text])[0], None if name is None else word(name, "the name of a prompt")


def sizes(dims: Mapping[str, int] | None) -> list[tuple[str, int]]:
    if dims is not None and not isinstance(dims, Mapping):
        raise TypeError(f"sizes are a mapping such as {{'batch': 8}}, not {type(dims).__name__}")
    return [(word(name, "a dimension's name"), number(value, f"the size of '{name}'", 0, 2**63 - 1)) for name, value in (dims or {}).items()]


def path(path: Path, what: str) -> bytes:
    """As the native half takes it: a path need not be UTF-8."""
    try:
        name = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{what} must be a path, not {type(path).__name__}") from None
    if not name:
        raise UsageError(f"{what} is an empty path")
    if b"\0" in name:
        raise UsageError(f"{what} is not a path: it holds a NUL")
    return name


def names(given: Sequence[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"{what} is a list of names, not one name: [{given!r}]")
    return [word(name, what) for name in given]


def dtype(dtype: Any) -> str:
    """The name of an element type: "f16", np.float16, np.dtype("float16")."""
    return dtype if isinstance(dtype, str) else np.dtype(dtype).name
