"""Samples of reductions, arg-reductions, softmax and its kin, norms over axes, TopK and CumSum."""
import numpy as np
from opset_cases import HALVES, Sample, f32, i64, is_float, values

REDUCES = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
# name → shape, axes (None = not given), keepdims (None = default)
FORMS = {
    "all": ((2, 3, 4), None, None), "all_flat": ((2, 3, 4), None, 0), "first": ((2, 3, 4), (0,), 1), "middle": ((2, 3, 4), (1,), 0), "last": ((2, 3, 4), (2,), 1),
    "two": ((2, 3, 4), (0, 2), 0), "two_keep": ((2, 3, 4), (0, 2), 1), "unsorted": ((2, 3, 4), (2, 0), 0), "every": ((2, 3, 4), (0, 1, 2), 0), "vector": ((37,), (0,), 0),
    "tail": ((5, 67), (1,), 0), "columns": ((67, 5), (0,), 0), "spatial": ((2, 3, 5, 5), (2, 3), 1), "ones": ((1, 1, 3), (0, 1), 0),
}  # fmt: skip


def with_axes(v, x, axes, attrs, const=True):
    """Inputs, attributes and initializers: axes are an attribute or an input, by version."""
    if axes is None:
        return [x], attrs, ()
    if v.has("axes"):
        return [x], attrs | {"axes": list(axes)}, ()
    return [x, i64(*axes)], attrs, (1,) if const else ()


def reduce(v):
    kind = "positive" if v.op == "ReduceLogSum" else "unit" if v.op == "ReduceProd" else "any"
    for name, (shape, axes, keep) in FORMS.items():
        inputs, attrs, const = with_axes(v, values(v.rng(name), shape, kind=kind), axes, {} if keep is None else {"keepdims": keep}, name != "middle")
        yield Sample(name, inputs, attrs, const=const)
    if v.version >= 11:
        inputs, attrs, const = with_axes(v, values(v.rng("negative"), (2, 3, 4), kind=kind), (-2,), {})
        yield Sample("negative", inputs, attrs, const=const)
    if not v.has("axes"):
        x = values(v.rng("noop"), (2, 3), kind=kind)
        yield Sample("noop", [x], {"noop_with_empty_axes": 1}, prefer="reference", both=True)
        yield Sample("noop_empty", [x, i64()], {"noop_with_empty_axes": 1}, const=(1,), prefer="reference", both=True)
        yield Sample("empty_axes", [x, i64()], {"keepdims": 0}, const=(1,))
        yield Sample("empty_axes_input", [x, i64()], {"keepdims": 0})
    scalar = np.array(1.5, np.float32)
    yield Sample("scalar", [scalar], {"keepdims": 0}, both=True)
    inputs, attrs, const = with_axes(v, np.zeros((2, 0, 3), np.float32), (1,), {"keepdims": 0})
    yield Sample("empty", inputs, attrs, const=const, prefer="reference", both=v.version < 18 or v.op == "ReduceMean")
    inputs, attrs, const = with_axes(v, np.zeros((2, 0, 3), np.float32), (2,), {})
    yield Sample("empty_other", inputs, attrs, const=const, both=True)
    for t in v.sweep("T"):
        inputs, attrs, const = with_axes(v, values(v.rng(t.name), (3, 4), t, "positive" if kind != "any" else kind), (1,), {})
        yield Sample(t.name, inputs, attrs, const=const)
    x = f32(1, np.nan, 2, np.inf, -np.inf, 3, 0, -0.0).reshape(4, 2)
    inputs, attrs, const = with_axes(v, x, (1,), {"keepdims": 0})
    yield Sample("special", inputs, attrs, const=const, both=True)


def arg(v):
    x = values(v.rng(), (3, 4, 5), kind="few")
    for name, attrs in {"default": {}, "middle": {"axis": 1}, "flat": {"axis": 2, "keepdims": 0}}.items():
        yield Sample(name, [x], attrs)
    if v.version >= 11:
        yield Sample("negative", [x], {"axis": -1})
    if v.has("select_last_index"):
        yield Sample("last", [x], {"axis": 1, "select_last_index": 1})
        yield Sample("last_flat", [x], {"axis": 0, "keepdims": 0, "select_last_index": 1})
    yield Sample("vector", [values(v.rng("v"), (67,))], {"keepdims": 0})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (4, 5), t)], {"axis": 1})


def softmax(v):
    x = values(v.rng(), (2, 3, 4), kind="any")
    axes = [None, 0, 1, 2] + ([-1, -2] if v.version >= 11 else [])
    for axis in axes:
        yield Sample("default" if axis is None else f"axis{axis}".replace("-", "_minus"), [x], {} if axis is None else {"axis": axis})
    yield Sample("large", [f32(1000, 1001, 999, -1000).reshape(1, 4)], {"axis": 1})
    yield Sample("tail", [values(v.rng("tail"), (3, 129))], {"axis": 1})
    yield Sample("masked", [f32(0, -np.inf, 1, -np.inf).reshape(1, 4)], {"axis": 1}, both=True)
    yield Sample("empty", [np.zeros((0, 3), np.float32)], {"axis": 1}, both=True)
    yield Sample("one", [f32(3.0).reshape(1, 1)], {"axis": 1})
    if v.op == "Hardmax":
        yield Sample("ties", [f32(1, 2, 2, 0, 0, 0).reshape(2, 3)], {"axis": 1})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (2, 7), t)], {"axis": 1})


def lp_normalization(v):
    x = values(v.rng(), (2, 3, 4))
    for name, attrs in {"default": {}, "l1": {"p": 1}, "l2_axis0": {"axis": 0, "p": 2}, "l1_axis1": {"axis": 1, "p": 1}}.items():
        yield Sample(name, [x], attrs)
    yield Sample("zeros", [np.zeros((2, 3), np.float32)], {"axis": 1}, both=True)
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (2, 5), t)])


def mean_variance(v):
    yield Sample("default", [values(v.rng("a"), (2, 3, 4, 4))])
    yield Sample("axes", [values(v.rng("b"), (2, 3, 4, 4))], {"axes": [1, 2, 3]})
    yield Sample("rank3", [values(v.rng("c"), (2, 5, 7))], {"axes": [2]}, prefer="reference")
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (2, 3, 4, 5), t)])


def cum_sum(v):
    x = values(v.rng(), (3, 4))
    for axis in (0, 1, -1):
        for i, attrs in enumerate(({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1})):
            yield Sample(f"axis{axis}_{i}".replace("-", "_minus"), [x, np.array(axis, np.int32 if i % 2 else np.int64)], attrs, const=() if i == 1 else (1,))
    yield Sample("vector", [values(v.rng("v"), (67,)), i64(0)])
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (2, 5), t), np.array(1, np.int64)])


def distinct(rng, shape, dtype=np.float32):
    """Different values, so that ties do not leave the order open."""
    count = int(np.prod(shape))
    return (rng.permutation(count).reshape(shape) - (0 if np.dtype(dtype).kind == "u" else count // 2)).astype(np.int64).astype(dtype)


def top_k(v):
    x = distinct(v.rng(), (3, 8))

    def sample(name, data, k, attrs, const=True, **more):
        if v.has("k"):
            return Sample(name, [data], attrs | {"k": k}, outputs=2, **more)
        return Sample(name, [data, i64(k)], attrs, outputs=2, const=(1,) if const else (), **more)

    for name, k, attrs in (("default", 3, {}), ("axis0", 2, {"axis": 0}), ("all", 8, {}), ("one", 1, {"axis": 1})):
        yield sample(name, x, k, attrs)
    if v.version >= 11:
        yield sample("smallest", x, 3, {"largest": 0})
        yield sample("negative", x, 2, {"axis": -2})
    if v.version >= 10:
        yield sample("input", x, 3, {}, const=False)
        yield sample("ties", f32(1, 3, 3, 2, 3, 0, 1), 4, {})
        yield sample("zero", x, 0, {}, both=True)
    yield sample("rank3", distinct(v.rng("r"), (2, 5, 3)), 2, {"axis": 1})
    for t in v.sweep("T"):
        if is_float(t) and t in HALVES:
            yield sample(t.name, distinct(v.rng(t.name), (2, 9), t), 3, {}, widen=True)
        else:
            yield sample(t.name, distinct(v.rng(t.name), (2, 9), t), 3, {})


def non_zero(v):
    for name, x in {"matrix": np.array([[1, 0, 2], [0, 0, 3]], np.float32), "vector": f32(0, 1, 0, 2), "none": np.zeros((2, 2), np.float32), "rank3": values(v.rng("3"), (2, 3, 2), kind="few")}.items():
        yield Sample(name, [x])
    yield Sample("scalar", [np.array(5, np.float32)], both=True)
    for t in v.sweep("T"):
        if t != object:
            yield Sample(t.name, [values(v.rng(t.name), (3, 4), t)])


SAMPLES = {op: reduce for op in REDUCES} | {
    "ArgMax": arg, "ArgMin": arg, "Softmax": softmax, "LogSoftmax": softmax, "Hardmax": softmax, "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance, "CumSum": cum_sum, "TopK": top_k, "NonZero": non_zero,
}  # fmt: skip
