"""Results of calls as objects: the members of the JSON object that the command line writes, as attributes and by key."""
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Self

from . import errors


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    return [_wrap(v) for v in value] if isinstance(value, list) else value


_MOST_SHOWN = 160  # characters per member


def _shown(value: Any) -> str:
    """A member as one line of its record; long ones by their number of elements."""
    text = repr(value)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{{{len(value)} members}}" if isinstance(value, dict) else f"[{len(value)} items]" if isinstance(value, list) else text[:_MOST_SHOWN] + "..."


class Record(Mapping):
    """The members of a JSON object: record.latency_ms.median, record["latency_ms"]["median"]."""

    def __init__(self, members: Mapping[str, Any]):
        self._members = dict(members)

    def __getitem__(self, name: str) -> Any:
        return _wrap(self._members[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_members":  # looked up by copy and pickle
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no member '{name}': there are {', '.join(self._members)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._members]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in self._members.items())})"

    def to_dict(self) -> dict[str, Any]:
        return dict(self._members)

    def to_json(self) -> str:
        return json.dumps(self._members, default=Record.to_dict)


class Verdict(Record):
    """A record with an outcome: true if it passed; `outside` describes what did not, and check() raises it."""

    passed: bool
    outside: str

    def __init__(self, members: Mapping[str, Any], passed: bool, outside: str):
        super().__init__({**members, "passed": passed, "outside": outside})

    def __bool__(self) -> bool:
        return self["passed"]

    def _error(self) -> type[errors.Error]:
        return errors.AccuracyError

    def check(self) -> Self:
        """The record itself if it passed; else its outcome as an exception."""
        if not self:
            raise self._error()(self["outside"])
        return self


class Verification(Verdict):
    """Outputs compared with the float64 reference or another runtime: one element of `outputs` per output of each run."""

    against: str
    max_error: float
    compared: int  # elements of outputs; 0: all are empty, or the steps alone were judged
    outputs: list[Record]

    @property
    def worst(self) -> float:
        """The largest error, as a share of its output's range."""
        errors = [o["relative"] for o in self._members["outputs"]]
        return max((math.inf if e is None else e for e in errors), default=0.0)


class Measurement(Record):
    """Times of runs: latency_ms.median, latency_ms.p99, runs_per_s, items_per_s, and layers if requested."""

    latency_ms: Record
    runs_per_s: float
    items_per_s: float


class Explanation(Record):
    """Time per step: a row of `layers` for each step, the slowest first, with its hardware minimum."""

    total_ms: float | None  # None: no step was measured
    floor_ms: float
    sustained_ms: float
    layers: list[Record]


class MeasuredSteps(Record):
    """Times of steps within a run on a device: a row of `steps` for each, in their order, with `ms` and `launches`."""

    model: str
    run_ms: float
    rounds: int
    steps: list[Record]


class Comparison(Verdict):
    """Two measurements of one model, and whether the second is significantly slower."""

    def _error(self) -> type[errors.Error]:
        return errors.RegressionError if self["regression"] else errors.UnstableError
