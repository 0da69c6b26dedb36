"""Engines: built from a model or loaded from a file, run on arrays, verified, measured, explained."""
from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from . import _native, arguments, arrays
from .errors import CancelledError, UsageError, in_words_of_python, shown, wrong_usage
from .results import Comparison, Explanation, MeasuredSteps, Measurement, Record, Verification

Path = arguments.Path
Progress = Callable[[int, int, str], object]
DType = str | type | np.dtype

_logger = logging.getLogger("peri")


def _log(warning: bool, message: str) -> None:
    _logger.log(logging.WARNING if warning else logging.INFO, "%s", in_words_of_python(message))


@dataclass(frozen=True)
class Port:
    """An input or output. A size that is not fixed is -1 in `shape`, and an expression in `dims`: "batch"."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]

    @property
    def numpy_dtype(self) -> np.dtype:
        """NumPy's type of its elements. In NumPy's own short names "i8" is int64."""
        return arrays.numpy_type(self.dtype, self.name)

    @classmethod
    def _of(cls, raw: tuple) -> Port:
        return cls(raw[0], raw[1], tuple(raw[2]), tuple(raw[3]))


def _by_name(given: Any, ports: Sequence[Port], what: str) -> dict[str, Any]:
    """The values for the ports, by name: from a mapping, a sequence in their order, or a single value."""
    names = [port.name for port in ports]
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if name not in names]
        if unknown:
            raise wrong_usage(f"no {what} has this name", node=unknown[0], expected=", ".join(names))
        return dict(given)
    many = isinstance(given, (list, tuple))
    if many and len(ports) == 1:  # [array], or the elements of one
        many = len(given) == 1 and getattr(given[0], "ndim", None) == len(ports[0].shape)
    values = list(given) if many else [given]
    if len(values) != len(ports):
        raise wrong_usage(f"another number of {what}s", expected=str(len(ports)), found=str(len(values)))
    return dict(zip(names, values))


def _given(value: float | None) -> float:
    """A value for the library, where 0 is the default: None is the default here, and 0 the smallest number."""
    return 0.0 if value is None else float(value) or math.ulp(0.0)


class _Closed:
    """The native part of an engine after close()."""

    def __getattr__(self, name: str) -> Any:
        raise UsageError("the engine is closed")


class Engine:
    """A program ready to run: immutable, can be shared by threads. close(), or the end of a `with` block, frees it.

    `Engine(path)` loads a file of `peri build`; `peri.build(model)` makes one. `threads` 0: the CPUs available to this process;
    `device`: the device to run on, e.g. "cuda:1"; `check_weights`: verify the hash of every weight at load;
    `max_iterations`: limit for one loop in one run; 0: the one it was built with."""

    def __init__(self, path: Path, *, threads: int = 0, device: str | None = None, check_weights: bool = False, max_iterations: int = 0):
        number, most = arguments.number(threads, "the number of threads", 0, 1024), arguments.number(max_iterations, "max_iterations", 0, 2**63 - 1)
        self._begin(_native.load(arguments.path(path, "the engine"), number, arguments.choice(device, "device"), bool(check_weights), most, _log))

    @classmethod
    def _of(cls, native: _native.Engine) -> Engine:
        made = cls.__new__(cls)
        made._begin(native)
        return made

    def _begin(self, native: _native.Engine) -> None:
        self._native = native
        self._idle: list[_native.Session] = []
        self._inputs = [Port._of(raw) for raw in native.inputs()]
        self._outputs = [Port._of(raw) for raw in native.outputs()]

    @property
    def inputs(self) -> list[Port]:
        """The inputs of a run, in order."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Port]:
        """The outputs of a run, in order."""
        return list(self._outputs)

    def __repr__(self) -> str:
        def words(ports: list[Port]) -> str:
            return shown(", ".join(f"{p.name}: {p.dtype}[{','.join(p.dims)}]" for p in ports))

        return f"<peri.Engine ({words(self.inputs)}) -> ({words(self.outputs)})>"

    def __copy__(self) -> Engine:
        return self  # engines are immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an engine is not pickled: hand over the path of its file, and load it there with peri.Engine(path)")

    def close(self) -> None:
        """Frees the engine and its memory once no run is in progress; arrays that runs returned stay valid."""
        self._native = _Closed()
        self._idle.clear()

    def __enter__(self) -> Engine:
        self._native.session  # raises an error if the engine is closed
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # ---- runs

    def _session(self) -> _native.Session:
        """A session that no other thread uses; as many are created as run concurrently."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._native.session(0)

    def _with_session(self, call: Callable[[_native.Session], Any]) -> Any:
        session = self._session()
        try:
            return call(session)
        finally:
            self._put_back(session)

    def _put_back(self, session: _native.Session) -> None:
        if not isinstance(self._native, _Closed):
            self._idle.append(session)

    def _taken(self, inputs: Any) -> list[tuple[Any, Any]]:
        """Inputs in the engine's order for the native part, each with the object that owns its memory; empty for None."""
        if inputs is None:
            return []
        by_name = _by_name(inputs, self._inputs, "input")
        missing = [port.name for port in self._inputs if by_name.get(port.name) is None]
        if missing:
            raise wrong_usage("this input is not given", node=missing[0])
        return [arrays.given(by_name[port.name], port.name, port.dtype) for port in self._inputs]

    def _run_on(self, session: _native.Session, inputs: Any, outputs: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        places = _by_name(outputs, self._outputs, "output") if outputs is not None else {}
        if inputs is None and self._inputs:
            ports = shown(", ".join(f"{port.name} {port.dtype}[{','.join(port.dims)}]" for port in self._inputs))
            raise TypeError(f"a run takes its inputs, by name: {{name: array}}; they are {ports}; None is no input")
        taken = self._taken(inputs)
        put = [arrays.place(places[p.name], p.name, p.dtype, p.shape, p.dims) if p.name in places else (None, None) for p in self._outputs]
        for port in self._outputs:
            if port.name not in places:
                arrays.numpy_type(port.dtype, port.name)  # checked before the run
        made = session.run([t[0] for t in taken], [p[0] for p in put])
        return {port.name: arrays.of_output(array, port.dtype, port.name, places.get(port.name)) for port, array in zip(self._outputs, made)}

    def run(self, inputs: Any, outputs: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """Returns the outputs by name, for inputs by name (or in the engine's order, or a single one).

        Arrays of NumPy, of PyTorch and of other libraries with DLPack are read in place. An output is a new array, owned by the
        caller; an output listed in `outputs` is written to the given array. Arrays are never cast. Texts are arrays of str or
        bytes (objects, <U, <S) and lists; outputs of texts are object arrays of str."""
        return self._with_session(lambda session: self._run_on(session, inputs, outputs))

    __call__ = run

    async def run_async(self, inputs: Any, outputs: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """As run(), in a thread of the event loop's executor: `await engine.run_async(...)`; many can run concurrently.
        Cancelling the task ends its run before the next step."""
        loop, session, lock = asyncio.get_running_loop(), self._session(), threading.Lock()
        mine = [session]  # empty once the session is returned
        begun, stopped = threading.Event(), threading.Event()

        def work() -> dict[str, np.ndarray]:
            begun.set()
            try:
                if stopped.is_set():
                    raise CancelledError("the task was cancelled")
                return self._run_on(session, inputs, outputs)
            finally:
                with lock:
                    self._put_back(mine.pop())

        def cancel() -> None:
            """Until the session is back: one that still takes its inputs does not hear it."""
            with lock:
                for held in mine:
                    held.cancel()
                    if begun.is_set():
                        loop.call_later(0.01, cancel)

        future = loop.run_in_executor(None, work)
        try:
            return await future
        except asyncio.CancelledError:
            stopped.set()
            cancel()
            raise

    def tokenize(self, texts: Iterable[str], *, prompt: str | None = None, prompt_name: str | None = None) -> dict[str, np.ndarray]:
        """Inputs of a text model, made of texts by the tokenizer that travels in its engine.

        `prompt` stands before each text in place of the model's default prompt ("": nothing does), or that of `prompt_name`."""
        words, before = arguments.texts(texts), arguments.prompt(prompt, prompt_name)
        made = self._with_session(lambda session: session.tokenize(words, *before))
        return {port.name: array for port, array in zip(self._inputs, made)}

    def embed(self, texts: Iterable[str], *, prompt: str | None = None, prompt_name: str | None = None) -> np.ndarray:
        """The answers of a text model to texts, one row each; prompts as those of tokenize()."""
        words, before = arguments.texts(texts), arguments.prompt(prompt, prompt_name)
        return self._with_session(lambda session: session.embed(words, *before))

    # ---- evidence

    def verify(
        self, inputs: Any = None, *, seeds: Iterable[int] | None = None, dims: Mapping[str, int] | None = None, max_error: float | None = None,
        min_cosine: float = 0, max_change: float = 0, rtol: float | None = None, atol: float | None = None, bisect: bool = False,
        steps_only: bool = False, nan_equal: bool = False, against: Path | None = None, threads: int = 0, progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Verification:  # fmt: skip
        """Compares outputs on seeded inputs, or on `inputs`, with the float64 reference, or with ONNX Runtime's of the model
        `against`. `max_error`: the largest error allowed, as a share of an output's range (default: 1e-4). `rtol` and `atol`
        (default: 1e-3 and 1e-5) decide nothing: `l0` of an output is the share of its elements outside atol + rtol * |wanted|.
        `bisect` judges every step of the last run too, on its actual inputs; `steps_only` does that and compares no output, for
        sizes at which the float64 run of the whole would take hours.
        The result is true if all outputs are within the budget; an output outside raises no exception. `stop`: true ends the
        call with a CancelledError; Ctrl-C ends it with KeyboardInterrupt."""
        floats = {
            "max_error": _given(max_error), "min_cosine": min_cosine, "max_change": max_change, "rtol": _given(rtol), "atol": _given(atol),
        }  # fmt: skip
        options = {
            **{name: float(value) for name, value in floats.items()},
            "threads": threads, "seeds": arguments.seeds(seeds), "dims": arguments.sizes(dims), "bisect": bisect, "steps_only": steps_only,
            "nan_equal": nan_equal, "against": b"" if against is None else arguments.path(against, "against"),
        }  # fmt: skip
        taken = self._taken(inputs)
        passed, outside, text = self._native.verify(options, [array for array, _ in taken], progress, stop)
        return Verification(json.loads(text), passed, in_words_of_python(outside))

    def bench(
        self, inputs: Any = None, *, seconds: float = 3, max_runs: int = 0, dims: Mapping[str, int] | None = None,
        layers: bool = False, processes: int = 0, warm_up: float | None = None, tolerance: float | None = None, threads: int = 0,
        progress: Progress | None = None, stop: Callable[[], bool] | None = None,
    ) -> Measurement:  # fmt: skip
        """Times runs on seeded inputs, or on `inputs`. `warm_up`: seconds of runs before sampling (default: 0.3); `tolerance`: the
        largest disagreement of samples, as a share of their median (default: 0.25). A comparison needs processes=5."""
        options = {
            "seconds": _given(seconds), "max_runs": max_runs, "dims": arguments.sizes(dims), "layers": layers, "processes": processes,
            "warm_up": _given(warm_up), "tolerance": _given(tolerance), "threads": threads,
        }  # fmt: skip
        taken = self._taken(inputs)
        return Measurement(json.loads(self._native.bench(options, [array for array, _ in taken], progress, stop)))

    @overload
    def explain(self, *, compare: bool = ..., measured: Literal[False] = ..., dims: None = ...) -> Explanation: ...

    @overload
    def explain(self, *, compare: bool = ..., measured: Literal[True], dims: Mapping[str, int] | None = ...) -> MeasuredSteps: ...

    def explain(self, *, compare: bool = False, measured: bool = False, dims: Mapping[str, int] | None = None) -> Explanation | MeasuredSteps:
        """The time of each step, by the proof of the build. `compare`: also accept the proof of another machine.

        `measured`: measure the steps of an engine on a device within its runs, at these `dims` (default: the tuned sizes), in
        about 2 seconds; RefusedError if no step runs on a device."""
        if not measured:
            if dims is not None:
                raise UsageError("dims are those of measured runs: give measured=True")
            return Explanation(json.loads(self._native.explain(compare)))
        if compare:
            raise UsageError("compare is for the times of a proof, and measured=True takes its own")
        return MeasuredSteps(json.loads(self._native.measure_steps(arguments.sizes(dims))))

    def proof(self) -> Record:
        """What was verified and measured, and every choice with its alternatives."""
        return Record(json.loads(self._native.proof()))

    def describe(self) -> Record:
        """A description of the engine: backend, precision, the sizes it was tuned for, steps, and, where it has them, dimensions
        that are fixed (`fixed_dims`) or one with another (`same_dims`)."""
        return Record(json.loads(self._native.describe()))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Options of a build for the native part, without those that are None."""
    sizes = ("dims", "min_dims", "max_dims")
    paths = ("output", "lock", "locked", "cache_folder", "dump_folder")
    made = {name: value for name, value in given.items() if value is not None}
    made.update({name: arguments.dtype(made[name]) for name in ("dtype", "io_dtype") if name in made})
    made.update({name: arguments.choice(made[name], name) for name in arguments.CHOICES if isinstance(made.get(name), str)})
    made.update({name: arguments.sizes(made[name]) for name in sizes if name in made})
    made.update({name: arguments.path(made[name], name) for name in paths if name in made})
    if "fixed" in made:
        if not isinstance(made["fixed"], Mapping):
            raise TypeError(f"'fixed' is a mapping such as {{'sr': 16000}}, not {type(made['fixed']).__name__}")
        made["fixed"] = [(arguments.word(name, "an input's name"), arguments.word(value, f"the value of '{name}'")) for name, value in made["fixed"].items()]
    return made


def build(
    model: Path, *, dims: Mapping[str, int] | None = None, min_dims: Mapping[str, int] | None = None,
    max_dims: Mapping[str, int] | None = None, dtype: DType | None = None, io_dtype: DType | None = None,
    backend: str | None = None, device: str | None = None, provider: str | None = None, threads: int = 0,
    tune: bool = True, verify: bool = True, budget: float = 0.0, settings: int = 0, retune: bool = False,
    cache: bool = True, cache_folder: Path | None = None, worker: bool = True, output: Path | None = None,
    lock: Path | None = None, locked: Path | None = None, force: bool = False, disabled_passes: Sequence[str] = (),
    dump_folder: Path | None = None, fixed: Mapping[str, object] | None = None, max_iterations: int = 0,
    strict_placement: bool = False, progress: Progress | None = None, stop: Callable[[], bool] | None = None,
) -> Engine:  # fmt: skip
    """Builds an engine from an ONNX file or a Hugging Face folder: imports it, verifies every kernel, times the correct ones,
    and verifies the whole engine. Takes seconds.

    `dims`: the shape to tune for, by a dimension's name, INPUT.AXIS, "batch" or "sequence"; `min_dims`, `max_dims`: limits of
    the sizes that the engine runs (default: none). `fixed`: inputs to replace by constants (`--fix`). `tune`, `verify`, `cache`,
    `worker`: False is `--no-tune` and so on. `disabled_passes`, `dump_folder`: `--disable-pass`, `--dump-passes`. `output`: also
    write the engine to this file, and its proof beside it. `progress`: called with (done, total, what). `stop`: true ends the
    build with the best engine so far; Ctrl-C ends it with KeyboardInterrupt. The other arguments are the flags of `peri build`
    of these names."""
    options = _options({**locals(), "disabled_passes": arguments.names(disabled_passes, "disabled_passes"), "budget": float(budget or 0)})
    for name in ("model", "progress", "stop"):
        options.pop(name, None)
    return Engine._of(_native.build(arguments.path(model, "the model"), options, progress, stop, _log))


def inspect(
    model: Path, *, dims: Mapping[str, int] | None = None, backend: str | None = None, dtype: DType | None = None,
    disabled_passes: Sequence[str] = (),
) -> Record:  # fmt: skip
    """What a model needs and whether it runs here, before anything is built: inputs, operators, memory, `runs`."""
    options = _options({"dims": dims, "backend": backend, "dtype": dtype, "disabled_passes": arguments.names(disabled_passes, "disabled_passes")})
    return Record(json.loads(_native.inspect(arguments.path(model, "the model"), options)))


def add_kernel(manifest: Path) -> None:
    """Adds a kernel from outside, as `--kernel` does, for all that this process builds, loads and runs from then on. Not while
    any thread builds, loads or runs an engine: the list of kernels that they read has no lock."""
    _native.add_kernel(arguments.path(manifest, "the manifest"))


def _measured(given: Measurement | Mapping[str, Any], what: str) -> str:
    if not isinstance(given, Mapping):
        raise TypeError(f"'{what}' must be a result of Engine.bench(), or its JSON object, not {type(given).__name__}")
    return json.dumps(dict(given), default=Record.to_dict)


def compare(before: Measurement | Mapping[str, Any], after: Measurement | Mapping[str, Any], *, limit: float = 1.03) -> Comparison:
    """Whether `after` took more than `limit` of `before` by more than chance. Both need processes=5 to tell. Each is what
    Engine.bench() gave, or the object that `peri bench --json` wrote."""
    passed, outside, text = _native.compare(_measured(before, "before"), _measured(after, "after"), float(limit))
    return Comparison(json.loads(text), passed, in_words_of_python(outside))
