"""Branches and loops around blocks: an If on an input, loops of a fixed or given number of iterations, with values from
outside, carried values and stacked ones."""
import elementwise
import norm
import numpy as np
import onnx
from graph import Skip, Value, dims, elements, fixed, is_fixed
from onnx import TensorProto, helper


def body_of(b, make):
    """What `make` adds, as nodes of a body, and its values."""
    held = len(b.nodes)
    made = make()
    nodes = b.nodes[held:]
    del b.nodes[held:]
    return nodes, made


def graph_of(b, stem, nodes, inputs, outputs):
    infos = [helper.make_tensor_value_info(n, t, [None] * rank) for n, t, rank in inputs]
    return helper.make_graph(nodes, b.fresh(stem), infos, [onnx.ValueInfoProto(name=n) for n in outputs])


def small(x):
    if x.dtype != "f32" or None in x.shape or elements(x.shape) > 8000:
        raise Skip
    return x


def step(b, x, depth=0):
    """One value of x's shape, of x and of something from outside; sometimes a choice or a loop within, or a norm."""
    if depth == 0 and b.chance(0.15):
        return b.pick(branch, loop)(b, x, 1)
    if b.chance(0.15):
        y = b.attempt(b.random.choice(norm.SAME), x)
        if y is not None and y.shape == x.shape:
            return y
    y = elementwise.activation(b, x) if b.chance(0.5) else b.op("Mul", [x, b.scalar(b.pick(0.5, -1.0, 1.5))])
    if b.chance(0.4):
        others = [v for v in b.pool if v.shape == x.shape and v.dtype == "f32"]
        if others:
            y = b.op("Add", [y, b.random.choice(others)])
    return y if y.shape == x.shape else b.op("Tanh", [x], std=0.6)


def branch(b, x, depth=0):
    """An If: both ways give x's shape."""
    x = small(x)
    condition = b.input((), "bool", share=0.5, stem="which")
    attributes = {}
    for key in ("then_branch", "else_branch"):
        nodes, y = body_of(b, lambda: b.op("Identity", [step(b, x, depth)]))
        attributes[key] = graph_of(b, key, nodes, [], [y.name])
    return b.op("If", [condition], x.shape, "f32", x.std, **attributes)


def loop(b, x, depth=0):
    """A Loop that carries x; the number of iterations is a constant or an input; sometimes the states are stacked."""
    x = small(x)
    count = b.pick(1, 2, 3, 4)
    known = b.chance(0.5)
    trips = b.const(np.array(count, np.int64), "trips") if known else b.input((), "i64", low=1, high=4, stem="trips")
    state, go = Value(b.fresh("state"), "f32", x.shape, x.std), b.fresh("go")
    stacked = not depth and b.chance(0.4) and elements(x.shape) < 4000

    def make():
        y = b.op("Tanh", [b.op("Add", [step(b, state, depth), x])], std=0.6)
        out = [b.op("Identity", [y])]
        return out + [b.op("Identity", [b.op("Mul", [y, b.scalar(2.0)])])] if stacked else out

    nodes, made = body_of(b, make)
    more = b.fresh("more")
    nodes.append(helper.make_node("Identity", [go], [more]))
    inputs = [(b.fresh("i"), TensorProto.INT64, 0), (go, TensorProto.BOOL, 0), (state.name, TensorProto.FLOAT, x.rank)]
    body = graph_of(b, "body", nodes, inputs, [more] + [v.name for v in made])
    shapes = [x.shape] + ([(fixed(count) if known else None, *x.shape)] if stacked else [])
    out = b.ops("Loop", [trips, None, x], shapes, ["f32"] * len(shapes), 0.6, body=body)
    if stacked and known and b.chance(0.5):
        return b.op("ReduceSum", [out[1], b.ints(0)], x.shape, keepdims=0) if b.opset >= 13 else out[0]
    if stacked:
        b.marked.append(out[1])
    return out[0]


def sequence(b, x):
    """Parts of an axis as a list, one changed, joined again."""
    x = small(x)
    axis = b.between(0, x.rank - 1) if x.rank else 0
    if not x.rank or not is_fixed(x.shape[axis]) or not 2 <= x.shape[axis][0] <= 12:
        raise Skip
    parts = b.op("SplitToSequence", [x], x.shape, axis=axis)
    one = b.op("SequenceAt", [parts, b.const(np.array(b.pick(0, -1, 1), np.int64), "at")], x.shape[:axis] + dims(1) + x.shape[axis + 1:])
    less = b.op("SequenceErase", [parts, b.const(np.array(0, np.int64), "at")], x.shape)
    grown = b.op("SequenceInsert", [less, b.op("Relu", [one])], x.shape)
    return b.op("ConcatFromSequence", [grown], x.shape, axis=axis)


BLOCKS = [branch, loop, loop, sequence]
