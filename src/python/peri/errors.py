"""The exceptions of peri: an Error of a kind, with the parts of the message as attributes."""
import errno
import os
import re
import unicodedata
from typing import Any


def shown(text: str) -> str:
    """A text that may hold names from a model, for a terminal: characters that control it, end a line, or reverse or hide text are
    escaped, as in the library's messages."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def _escaped(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Error(Exception):
    """Why a call failed. str() is everything on one line; a part that does not apply is ""."""

    code: str = "internal"

    def __init__(self, text: str, message: str = "", file: str = "", node: str = "", expected: str = "", found: str = "", remedy: str = ""):
        super().__init__(shown(text))
        self.message = message or text
        self.file = "".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in file)
        self.node = node
        self.expected = expected
        self.found = found
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.message, self.file, self.node, self.expected, self.found, self.remedy)


class UsageError(Error, ValueError):
    """The call is wrong."""

    code = "usage"


class InvalidError(Error, ValueError):
    """A file or an array violates its format or its rules."""

    code = "invalid"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by this version."""

    code = "unsupported"


# Error numbers of the operating system, by the text at the end of a message.
_NUMBERS = {os.strerror(number): number for number in errno.errorcode}


class FileError(Error, OSError):
    """A file could not be read or written. `errno`, `strerror` and `filename` are those of an OSError; None if unknown. `filename` names the
    file, whatever its bytes; `file` is for people."""

    code = "io"

    def __init__(self, text: str, message: str = "", file: str = "", *rest: str):
        super().__init__(text, message, file, *rest)
        words = self.message.rsplit(": ", 1)[-1]
        if words in _NUMBERS:
            self.errno, self.strerror = _NUMBERS[words], words
        self.filename = file or None

    def __reduce__(self) -> tuple[Any, ...]:
        made, (text, message, _, *rest) = super().__reduce__()
        return made, (text, message, self.filename or "", *rest)

    def __str__(self) -> str:
        return str(self.args[0])  # instead of OSError's "[Errno 2] ..."


class AccuracyError(Error):
    """An output is outside its bound."""

    code = "accuracy"


class RefusedError(Error):
    """A lock does not match, another version or machine, or a missing executor."""

    code = "refused"


class CancelledError(Error):
    """The call was stopped before it had a result."""

    code = "cancelled"


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory."""

    code = "memory"


class InternalError(Error):
    """An internal fault of peri."""

    code = "internal"


class RegressionError(Error):
    """A comparison found a slowdown."""

    code = "regression"


class UnstableError(Error):
    """A measurement is not conclusive."""

    code = "unstable"


# Indexed by peri_error_kind.
_KINDS = (
    InternalError, UsageError, InvalidError, UnsupportedError, FileError, AccuracyError, RefusedError, CancelledError,
    OutOfMemoryError, InternalError, RegressionError, UnstableError,
)  # fmt: skip


def _sizes(found: re.Match[str]) -> str:
    """ "x.0=0", "x.1=32": sizes as the mapping that `dims`, `min_dims` and `max_dims` take."""
    sizes = [size.rpartition("=") for size in re.findall(r'"([^"]+)"', found[2])]
    return found[1] + "={" + ", ".join(f"'{name}': {size}" for name, _, size in sizes) + "}"


# Names of C options ("the option dims") and fields, and their names in this package. First those with a value.
_WITH_VALUE = (
    (r"the option (dims|min_dims|max_dims) (\"[^\"]+=(?:\d+|N)\"(?:, \"[^\"]+=\d+\")*)", _sizes),
    (r"the option disabled_passes \"(\w+)\"", r"disabled_passes=['\1']"),
    (r"the option (\w+) \"(\w+)\"", r"\1='\2'"),
    (r"\bno_(tune|verify|cache|worker)\b", r"\1=False"),
    (r"leave its data NULL", "leave it out of outputs"),
    (r"\bbisect = 2\b", "steps_only=True"),
    (r"\bperi_engine_load\(\)", "peri.Engine(path)"),
    (r"\bperi_kernel_add\(\)", "peri.add_kernel()"),
    (r"peri_\w+_options\.", ""),
    (r"peri_\w+_options has", "the call has"),
)
_NAMES = {
    "lock_path": "lock", "locked_path": "locked", "engine_path": "output", "peer_model": "against", "no_tune": "tune=False",
    "no_verify": "verify=False", "no_cache": "cache=False", "force": "force=True", "nan_equal": "nan_equal=True", "compare": "compare=True",
}  # fmt: skip
_COMMAND = re.compile(r"(\bperi (?:bench|build|cache|compare|explain|inspect|replay|run|verify)\b[^;,]*)")  # left as typed


def in_words_of_python(text: str) -> str:
    """A message of the library with the parameter names of this package: "the option lock_path" is `lock`."""

    def translated(part: str) -> str:
        part = re.sub(r"the option (\w+)\b(?! \")", lambda found: _NAMES.get(found[1], found[1]), part)
        for pattern, words in _WITH_VALUE:
            part = re.sub(pattern, words, part)
        return part

    text = text.replace("peri_bench_options.processes of 5", "bench(processes=5)")
    return "".join(part if k % 2 else translated(part) for k, part in enumerate(_COMMAND.split(text)))


def of(kind: int, text: str, message: str, file: str, node: str, *rest: str) -> Error:
    """The exception for an error kind of the C interface."""
    made = _KINDS[kind] if 0 <= kind < len(_KINDS) else InternalError
    return made(in_words_of_python(text), in_words_of_python(message), file, node, *map(in_words_of_python, rest))


def wrong_usage(message: str, *, node: str = "", expected: str = "", found: str = "") -> UsageError:
    """A usage error found by this package, in the form of the library's."""
    text = (f"'{node}': " if node else "") + message
    about = [f"{what} {said}" for what, said in (("expected", expected), ("found", found)) if said]
    return UsageError(text + (": " + ", ".join(about) if about else ""), message, "", node, expected, found)
