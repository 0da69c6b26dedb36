"""Expected outputs: ONNX Runtime where it takes the opset and the types, the onnx package's ReferenceEvaluator else.

float16 and bfloat16 samples are evaluated in float32 and rounded once where the operator allows it, so that an oracle's
own arithmetic in a narrow type does not become the answer. Types without a numpy form of ONNX Runtime's own go in as
initializers and come out through a Cast.
"""
import os
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from opset_cases import BFLOAT16, HALVES, build, is_float, is_narrow, onnx_type

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # ONNX Runtime then tries opsets newer than itself
import onnxruntime as ort  # noqa: E402

ort.set_default_logger_severity(4)


class NoAnswer(Exception):
    """An oracle cannot run a sample; the text says why."""


def options():
    o = ort.SessionOptions()
    o.log_severity_level, o.intra_op_num_threads = 4, 1
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return o


OPTIONS = options()


def first_line(error):
    text = " ".join(str(error).split())
    return (text[: text.index("Status Message:")] if text.startswith("Non-zero") and "Status Message:" in text else text)[:160]


def foreign(dtype):
    return dtype == BFLOAT16 or is_narrow(dtype)


def ask_ort(model, inputs):
    """Outputs by ONNX Runtime. Foreign types: inputs become initializers, outputs pass through Cast to float32 or int32."""
    arrays = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    odd = {n for n, a in arrays.items() if foreign(a.dtype)}
    model = onnx.ModelProto.FromString(model.SerializeToString())
    casts = {}
    if odd:
        given = {t.name for t in model.graph.initializer}
        model.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[n], n) for n in sorted(odd - given))
        kept = [i for i in model.graph.input if i.name not in odd]
        del model.graph.input[:]
        model.graph.input.extend(kept)
    for output in model.graph.output:
        kind = output.type.tensor_type.elem_type
        if kind and foreign(np.dtype(helper.tensor_dtype_to_np_dtype(kind))):
            casts[output.name] = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
            wide = TensorProto.FLOAT if is_float(casts[output.name]) else TensorProto.INT32
            model.graph.node.append(helper.make_node("Cast", [output.name], [output.name + "_wide"], to=wide))
            output.name += "_wide"
            output.type.tensor_type.elem_type = wide
    try:
        session = ort.InferenceSession(model.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])
        wanted = {i.name for i in session.get_inputs()}
        out = session.run(None, {n: a for n, a in arrays.items() if n in wanted})
    except Exception as error:  # a class of its own per status
        raise NoAnswer(first_line(error)) from error
    names = [o.name.removesuffix("_wide") for o in model.graph.output]
    return [np.asarray(o).astype(casts[n]) if n in casts else np.asarray(o) for n, o in zip(names, out)]


def ask_reference(model, inputs, kinds):
    initial = {t.name for t in model.graph.initializer}
    feed = {f"x{i}": a for i, a in enumerate(inputs) if a is not None and f"x{i}" not in initial}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            out = ReferenceEvaluator(model).run(None, feed)
    except Exception as error:  # any error of any operator's Python
        raise NoAnswer(f"{type(error).__name__}: {first_line(error)}") from error
    out = [np.asarray(o) for o in out]
    for i, (o, kind) in enumerate(zip(out, kinds)):
        wanted = np.dtype(helper.tensor_dtype_to_np_dtype(kind)) if kind else o.dtype
        if onnx_type(wanted) == TensorProto.STRING:
            out[i] = o.astype(object)
            if not all(isinstance(x, (str, bytes)) for x in out[i].flat):
                raise NoAnswer("reference gave no strings")
        elif o.dtype != wanted:
            if o.dtype.kind in "OUS" or is_float(o.dtype) != is_float(wanted):
                raise NoAnswer(f"reference gave {o.dtype}, the definition says {wanted}")
            out[i] = o.astype(wanted)
    return out


def inferred_types(model):
    """Output element types by the package's own inference; 0 where it does not say."""
    try:
        return [o.type.tensor_type.elem_type for o in onnx.shape_inference.infer_shapes(model).graph.output]
    except Exception:  # inference refuses what the oracles may still answer
        return [0] * len(model.graph.output)


def wide_inputs(inputs):
    return [a.astype(np.float32) if a is not None and a.dtype in HALVES else a for a in inputs]


def agree(a, b, rtol, atol):
    for x, y in zip(a, b):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype == object:
            if x.tolist() != y.tolist():
                return False
        elif not is_float(x.dtype):
            if not (x == y).all():
                return False
        elif not np.allclose(x.astype(np.float64), y.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True):
            return False
    return True


def typed(model, kinds):
    for output, kind in zip(model.graph.output, kinds):
        if kind:  # an unknown one is left to the oracle
            output.type.tensor_type.elem_type = kind
    return model


def ask(asker, v, sample, kinds, narrow):
    """One oracle's outputs for a sample: in float32 and rounded where that is allowed, else as it stands."""
    if narrow:
        inputs = wide_inputs(sample.inputs)
        model = build(v, sample, False, "wide", inputs)
        wide = inferred_types(model)
        out = asker(typed(model, wide), inputs, wide)
        with np.errstate(all="ignore"):
            return [o.astype(helper.tensor_dtype_to_np_dtype(k)) if k and is_float(o.dtype) else o for o, k in zip(out, kinds)]
    model = build(v, sample, False, "plain")
    return asker(typed(model, kinds), sample.inputs, kinds)


def expected(v, sample, rtol, atol):
    """(outputs, facts) of a sample; raises NoAnswer when no oracle has one or when both must agree and do not."""
    kinds = list(sample.out_types) or inferred_types(build(v, sample, False, "types"))
    halves = [a.dtype for a in sample.inputs if a is not None and a.dtype in HALVES]
    narrow = sample.widen and bool(halves)
    if narrow:
        kinds = [k or onnx_type(halves[0]) for k in kinds]
    askers = {"onnxruntime": lambda m, i, k: ask_ort(m, i), "reference": ask_reference}
    text = any(a is not None and a.dtype == object for a in sample.inputs)  # ONNX Runtime 1.31.1 gathers the wrong strings
    order = sorted(askers, key=lambda n: n != ("reference" if text else sample.prefer))
    answers, reasons = {}, []
    for name in order:
        for small in (True, False) if narrow else (False,):
            try:
                answers[name] = (ask(askers[name], v, sample, kinds, small), small)
                break
            except NoAnswer as reason:
                reasons.append(f"{name}: {reason}")
    if not answers:
        raise NoAnswer("; ".join(reasons))
    if v.op == "LRN" and list(answers) == ["reference"]:
        raise NoAnswer("the reference's LRN does not sum over the channels its definition names")
    same = len(answers) == 2 and agree(answers["onnxruntime"][0], answers["reference"][0], rtol, atol)
    if sample.both and not same:
        raise NoAnswer("oracles disagree" if len(answers) == 2 else f"needs both oracles: {reasons[0]}")
    chosen = next(n for n in order if n in answers)
    outputs, small = answers[chosen]
    facts = {"oracle": chosen + (", float32 rounded once" if small else "")}
    if len(answers) == 2:
        facts["other_oracle"] = "agrees" if same else "differs"
    return outputs, facts
