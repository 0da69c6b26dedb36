"""ONNX Runtime as the witness: what it answers with its optimisations off, and how near that is to a float64 answer."""
import copy
import json

import numpy as np
import onnx
from onnx import numpy_helper


def constants(graph, outer):
    """Initialisers and Constant nodes that the graph sees, by name."""
    own = {t.name: t for t in graph.initializer}
    for n in graph.node:
        value = [a.t for a in n.attribute if a.name == "value"] if n.op_type == "Constant" else []
        own |= {n.output[0]: t for t in value}
    return outer | own


def unsigned(tensor, name):
    """int8 values v as uint8 v + 128."""
    return numpy_helper.from_array((numpy_helper.to_array(tensor).astype(np.int16) + 128).astype(np.uint8), name)


def exact_bytes(graph, outer=None):
    """MatMulInteger by constant s8 becomes one by u8 with its zero point moved too, which is the same product: on processors
    without VNNI ONNX Runtime adds two products of u8 by s8 in 16 bits, which saturate."""
    seen = constants(graph, outer or {})
    for place, n in enumerate(graph.node):
        for a in n.attribute:
            for body in [a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs:
                exact_bytes(body, seen)
        weight = seen.get(n.input[1]) if n.op_type == "MatMulInteger" else None
        zero_named = n.input[3] if weight is not None and len(n.input) > 3 else ""
        if weight is None or weight.data_type != onnx.TensorProto.INT8 or (zero_named and zero_named not in seen):
            continue
        zero = seen[zero_named] if zero_named else numpy_helper.from_array(np.array(0, np.int8))
        stem = f"exact_{place}_{n.output[0]}"
        graph.initializer.extend([unsigned(weight, f"{stem}_weight"), unsigned(zero, f"{stem}_zero")])
        inputs_ = [n.input[0], f"{stem}_weight", n.input[2] if len(n.input) > 2 else "", f"{stem}_zero"]
        del n.input[:]
        n.input.extend(inputs_)


def plain_sums(graph):
    """QLinearAdd becomes what it is defined as: ONNX Runtime adds a constant of both zero points that is larger than the sum, and rounds
    that in float32, which moves a sum within 1e-5 of a tie to the other byte."""
    nodes = []
    for place, n in enumerate(graph.node):
        for a in n.attribute:
            for body in [a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs:
                plain_sums(body)
        if n.op_type != "QLinearAdd" or len(n.input) < 8 or "" in n.input:
            nodes.append(n)
            continue
        stem = f"plain_{place}_{n.output[0]}"
        for k, name in enumerate(("a", "b")):
            nodes.append(onnx.helper.make_node("DequantizeLinear", n.input[3 * k : 3 * k + 3], [f"{stem}_{name}"]))
        nodes.append(onnx.helper.make_node("Add", [f"{stem}_a", f"{stem}_b"], [f"{stem}_sum"]))
        nodes.append(onnx.helper.make_node("QuantizeLinear", [f"{stem}_sum", n.input[6], n.input[7]], [n.output[0]]))
    del graph.node[:]
    graph.node.extend(nodes)


def session(model):
    """ONNX Runtime without optimisations, with exact products and plain sums of bytes on every processor; the model is not changed."""
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    model = copy.deepcopy(model)
    exact_bytes(model.graph)
    plain_sums(model.graph)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def inputs(folder, case, size):
    return {spec["name"]: np.load(folder / size / f"{i}.npy") for i, spec in enumerate(case["inputs"])}


def answers(folder, case, size):
    """ONNX Runtime's outputs of this case at a size."""
    return session(onnx.load(folder / "model.onnx")).run(None, inputs(folder, case, size))


def distance(got, want, open_=None, bound=None):
    """Largest difference as a share of the range of `want`; for integers and booleans the share that differs. What nobody can
    decide, `open_`, and what lies within its `bound` is not looked at."""
    if open_ is not None and open_.size and open_.all():
        return 0.0
    if got.shape != want.shape:
        return float("inf")
    if open_ is not None:
        got = np.where(open_, want, got)
    if bound is not None:
        within = np.abs(got - want) <= bound
        if got.dtype.kind == "f":  # a variance of 0 that rounding made negative: where the bound passes all values, NaN tells as little as a number
            within |= np.isnan(got) & (bound > max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0))))
        got = np.where(within, want, got)
    if not want.size:
        return 0.0
    if want.dtype.kind != "f":
        return float((got.astype(np.int64) != want.astype(np.int64)).mean())
    w, g = want.astype(np.float64), got.astype(np.float64)
    same = (w == g) | (np.isnan(w) & np.isnan(g))
    if same.all():
        return 0.0
    finite = w[np.isfinite(w)]
    span = float(finite.max() - finite.min()) if finite.size else 0.0
    # Values of a model are about one: what cancels to less than 1e-4 is noise in float32.
    span = max(span, 0.1 * float(np.abs(finite).max()) if finite.size else 0.0, 1e-4)
    error = np.abs(w - g)[~same]
    return float("inf") if np.isnan(error).any() else float(error.max() / span)


def dumped(folder, size, stem, count):
    return [np.load(folder / size / f"{stem}_{k}.npy") for k in range(count)]


def facts(folder):
    return json.loads((folder / "case.json").read_text())


def goes_its_own_way(node):
    """Resize by scales with align_corners: ONNX Runtime rounds the width, ONNX's node tests do not (docs/operators.md)."""
    modes = {a.name: a.s.decode() for a in node.attribute if a.name == "coordinate_transformation_mode"}
    return node.op_type == "Resize" and "align_corners" in modes.values() and len(node.input) > 2 and node.input[2] != ""


class Witness:
    """One session for all sizes of a case; answers are made once."""

    def __init__(self, folder, case):
        model = onnx.load(folder / "model.onnx")
        self.folder, self.case, self.session, self.kept = folder, case, session(model), {}
        self.differs = any(goes_its_own_way(n) for n in model.graph.node)
        # How near float32 answers must be to float64 ones, as a share of the range; the reference does not round to float16.
        half = onnx.TensorProto.FLOAT16
        self.agrees = 2e-2 if any(a.i == half for n in model.graph.node if n.op_type == "Cast" for a in n.attribute) else 1e-3

    def answers(self, size):
        if size not in self.kept:
            self.kept[size] = self.session.run(None, inputs(self.folder, self.case, size))
        return self.kept[size]

    def against(self, size, stem):
        """Largest distance of the dumped answers `stem` from ONNX Runtime's; 0 where it is known to go its own way."""
        if self.differs:
            return 0.0
        told = self.answers(size)
        return max((distance(*x) for x in zip(told, dumped(self.folder, size, stem, len(told)), self.known("open", size), self.known("bound", size))), default=0.0)

    def known(self, stem, size):
        files = [self.folder / size / f"{stem}_{k}.npy" for k in range(len(self.answers(size)))]
        return [np.load(f) if f.exists() else None for f in files]

    def fault(self, size, mode):
        """Whose fault a wrong answer is: ONNX Runtime sides with the reference (engine), with the engine (reference), or with
        neither. Where answers pass 1e30, what lies before them may overflow in one order and not in another."""
        told = self.answers(size)
        count = len(told)
        want, got = dumped(self.folder, size, "want", count), dumped(self.folder, size, f"got_{mode}", count)
        far = [k for k in range(count) if distance(got[k], want[k]) > 0]
        ref, eng = (max((distance(told[k], d[k]) for k in far), default=0.0) for d in (want, got))
        if far and all(want[k].dtype.kind == "f" and got[k].shape == want[k].shape and
                       np.nanmax(np.abs(got[k].astype(np.float64) - want[k].astype(np.float64)), initial=0) < 1e-6 and
                       np.abs(want[k][np.isfinite(want[k])]).max(initial=0) < 1e-6 for k in far):
            return "cancelled"  # values of about one that leave nothing but their rounding
        bounds = [self.folder / size / f"bound_{k}.npy" for k in far]
        if any(b.exists() and np.load(b).max(initial=0) > 1e30 for b in bounds):
            return "overflow"  # a value on the way passes what float32 holds, in one order of a sum and not in another
        if any(want[k].dtype.kind == "f" and np.abs(want[k][np.isfinite(want[k])]).max(initial=0) > 1e30 for k in far):
            return "overflow"
        return "engine" if ref < 0.2 * eng else "reference" if eng < 0.2 * ref else f"neither ({ref:.2g} from the reference, {eng:.2g} from the engine)"
