"""What a call of peri raises: an Error of the kind that says who can mend it, with the parts of the message as fields."""


class Error(Exception):
    """Why a call failed. str() is everything on one line; a part that was not given is ""."""

    code: str = "internal"

    def __init__(self, text: str, message: str = "", file: str = "", node: str = "", expected: str = "", found: str = "", remedy: str = ""):
        super().__init__(text)
        self.message = message or text
        self.file = file
        self.node = node
        self.expected = expected
        self.found = found
        self.remedy = remedy

    def __reduce__(self):
        return type(self), (self.args[0], self.message, self.file, self.node, self.expected, self.found, self.remedy)


class UsageError(Error, ValueError):
    """The call is wrong."""

    code = "usage"


class InvalidError(Error, ValueError):
    """A file or an array breaks its format or its rules."""

    code = "invalid"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but this version cannot do it."""

    code = "unsupported"


class FileError(Error, OSError):
    """A file could not be read or written."""

    code = "io"


class AccuracyError(Error):
    """An answer lies outside its bound."""

    code = "accuracy"


class RefusedError(Error):
    """Locked, another version or machine, or an executor that is not here."""

    code = "refused"


class CancelledError(Error):
    """The call was stopped before there was an answer."""

    code = "cancelled"


class OutOfMemoryError(Error, MemoryError):
    """There is no memory."""

    code = "memory"


class InternalError(Error):
    """A fault of peri's own."""

    code = "internal"


class RegressionError(Error):
    """Something became slower."""

    code = "regression"


class UnstableError(Error):
    """A measurement does not tell."""

    code = "unstable"


# By the numbers of peri_error_kind.
_KINDS = (
    InternalError, UsageError, InvalidError, UnsupportedError, FileError, AccuracyError, RefusedError, CancelledError,
    OutOfMemoryError, InternalError, RegressionError, UnstableError,
)  # fmt: skip


def of(kind: int, *parts: str) -> Error:
    """The error of a kind of the C interface."""
    return (_KINDS[kind] if 0 <= kind < len(_KINDS) else InternalError)(*parts)
