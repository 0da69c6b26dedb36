"""One row of the matrix of operators at one size: its model, both programs on the same inputs, and their times."""
import json
import statistics
import subprocess
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper
from operator_cases import Given
from peer_cpu import Failure

MOST_SAMPLES = 20000
# Threads of ONNX Runtime wait for the next run in a loop of 2^20 pauses, up to 50 ms on an Intel Xeon, in the same process and on
# the processors that peri's run on: either program begins when the other's threads sleep.
SETTLE_S = 0.06
__all__ = ["Failure", "measure", "model", "peri", "peri_answers"]


def node_model(row, case, rng):
    """The model of one node, and the inputs of a run."""
    arguments, attributes = row.cases[case]
    names, inputs, held, feed = [], [], [], {}
    for k, argument in enumerate(arguments):
        names.append(f"x{k}" if argument is not None else "")
        if argument is None:
            continue
        value = argument.make(rng)
        if isinstance(argument, Given):
            feed[names[-1]] = value
            inputs.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape)))
        else:
            held.append(numpy_helper.from_array(value, names[-1]))
    outputs = [f"y{k}" for k in range(row.outputs)]
    node = helper.make_node(row.op, names, outputs, domain=row.domain, **attributes)
    graph = helper.make_graph([node], row.op, inputs, [onnx.ValueInfoProto(name=name) for name in outputs], held)
    opsets = [helper.make_opsetid("", row.opset)] + ([helper.make_opsetid(row.domain, row.version)] if row.domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


def text_model(row, case, rng):
    """The model of a text, whose inputs have numbers for sizes."""
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {row.opset}]>\n{row.cases[case][0]}')
    feed = {}
    for info in made.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if info.name in row.given:
            feed[info.name] = np.full(dims, row.given[info.name], kind)
        elif np.issubdtype(kind, np.floating):
            feed[info.name] = rng.standard_normal(dims).astype(kind)
        else:
            feed[info.name] = rng.integers(0, 2, dims).astype(kind)
    return made, feed


def model(row, case, rng):
    made, feed = (text_model if row.is_text() else node_model)(row, case, rng)
    try:
        return onnx.shape_inference.infer_shapes(made, strict_mode=True), feed
    except Exception:  # noqa: BLE001: of com.microsoft nothing is known there; either program infers it
        return made, feed


def timed(run, seconds):
    """Times of calls in ms, after some to warm up."""
    end = time.perf_counter() + min(0.01, seconds)
    run()
    while time.perf_counter() < end:
        run()
    times, end = [], time.perf_counter() + seconds
    while (time.perf_counter() < end and len(times) < MOST_SAMPLES) or len(times) < 2:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def difference(right, ours):
    """The largest difference between the two answers, over the largest magnitude; None where shapes or types differ."""
    worst = 0.0
    for name, theirs in right.items():
        mine = ours.get(name)
        if mine is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return None
        if theirs.size and theirs.dtype != object:
            left, answer = mine.astype(np.float64), theirs.astype(np.float64)
            top = np.max(np.abs(answer[np.isfinite(answer)]), initial=1e-30)
            apart = np.where(left == answer, 0, np.nan_to_num(np.abs(left - answer), nan=0 if np.isnan(left).any() else np.inf))
            worst = max(worst, float(np.max(apart)) / top)
    return worst


class Peer:
    """ONNX Runtime on a model: bound inputs and outputs, or plain runs where an input or an output is of text."""

    def __init__(self, path, feed, threads):
        import onnxruntime as ort

        ort.set_default_logger_severity(4)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.names = [info.name for info in self.session.get_outputs()]
        self.feed = feed
        self.bound = None
        if all(info.type.startswith("tensor") and "string" not in info.type for info in [*self.session.get_inputs(), *self.session.get_outputs()]):
            self.bound = self.session.io_binding()
            self.values = {name: ort.OrtValue.ortvalue_from_numpy(value) for name, value in feed.items()}
            for name, value in self.values.items():
                self.bound.bind_ortvalue_input(name, value)
            for name in self.names:
                self.bound.bind_output(name, "cpu")

    def answers(self):
        return dict(zip(self.names, self.session.run(None, self.feed)))

    def run(self):
        if self.bound is None:
            self.session.run(None, self.feed)
        else:
            self.session.run_with_iobinding(self.bound)


class InProcess:
    """peri through its package."""

    def __init__(self, path, feed, a):
        import peri

        tuned = {"tune": True, "budget": a.budget} if a.budget else {"tune": False}
        self.engine = peri.build(path, **tuned, verify=False, threads=a.threads, cache=False, worker=False)
        self.feed, self.threads = feed, a.threads

    def answers(self):
        return self.engine.run(self.feed)

    def times(self, seconds):
        return self.engine.bench(self.feed, seconds=seconds, warm_up=min(0.01, seconds), max_runs=MOST_SAMPLES, threads=self.threads).to_dict()["samples"]

    def kernels(self):
        steps = self.engine.proof().to_dict()["steps"]
        return sorted({step["chosen"].split()[0] for step in steps})


def peri(a, *words):
    """The JSON object that a command of the program prints."""
    done = subprocess.run([a.peri, *map(str, words), "--quiet", "--json", "-"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Failure((done.stderr or done.stdout).strip()[-600:] or f"exit code {done.returncode}") from error


def peri_answers(a, engine, folder, given):
    """Outputs by name of one run of an engine file; `given`: words that name the inputs."""
    wanted = folder / "answers"
    done = subprocess.run([a.peri, "run", str(engine), *given, "--output-dir", str(wanted), "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise Failure((done.stderr or done.stdout).strip()[-600:])
    return {path.stem: np.load(path) for path in wanted.glob("*.npy")}


class ByCommand:
    """peri through its commands: texts have no arrays."""

    def __init__(self, path, feed, a):
        self.a, self.engine, self.words = a, path.with_suffix(".engine"), []
        for name, value in feed.items():
            file = path.parent / f"{name}.pb"
            file.write_bytes(numpy_helper.from_array(value, name).SerializeToString())
            self.words += ["--input", f"{name}={file}"]
        tuned = ["--budget", a.budget] if a.budget else ["--no-tune"]
        self.built = self.said("build", path, "-o", self.engine, "--force", "--no-verify", "--no-cache", *tuned)

    def said(self, *words):
        return peri(self.a, *words, "--threads", self.a.threads)

    def times(self, seconds):
        report = self.said("bench", self.engine, "--seconds", seconds, "--warm-up", 10, *self.words)
        if "samples" not in report:
            raise Failure(str(report.get("error", report)))
        return report["samples"]

    def kernels(self):
        if "steps_in_order" not in self.built:
            raise Failure(str(self.built.get("error", self.built)))
        return sorted({step["chosen"].split()[0] for step in self.built["steps_in_order"]})


def peer_of(path, feed, a):
    try:
        peer = Peer(path, feed, a.threads)
        return peer, peer.answers()
    except Exception as error:  # noqa: BLE001: it has no such operator, or refuses it
        return None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def measure(row, case, a, folder):
    made, feed = model(row, case, np.random.default_rng(7))
    path = folder / "model.onnx"
    onnx.save(made, path)
    peer, right = peer_of(path, feed, a)
    texts = any(value.dtype == object for value in feed.values()) or row.texts
    mine = (ByCommand if texts else InProcess)(path, feed, a)
    found = {"kernels": mine.kernels()}
    if peer is None:
        return found | {"no_peer": right, "peri_ms": round(min(mine.times(a.seconds)), 5)}
    apart = 0.0 if texts else difference(right, mine.answers())
    ours, theirs = [], []
    for _ in range(a.rounds):
        time.sleep(SETTLE_S)
        theirs.append(statistics.median(timed(peer.run, a.seconds)))
        time.sleep(SETTLE_S)
        ours.append(statistics.median(mine.times(a.seconds)))
    ratios = [o / t for o, t in zip(ours, theirs)]
    return found | {"peri_ms": round(min(ours), 5), "onnxruntime_ms": round(min(theirs), 5), "ratio": float(f"{min(ours) / min(theirs):.4g}"),
                    "rounds": [round(min(ratios), 3), round(max(ratios), 3)], "difference": apart}
