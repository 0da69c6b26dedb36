"""Lists and optionals of known length, maps over them, and Scan."""
import numpy as np
from control import body_of, graph_of, small, step
from elementwise import activation
from graph import Skip, Value, fixed, is_fixed, per_binding
from onnx import TensorProto, helper


def place(b, n):
    return b.const(np.array(n, np.int64), "at")


def optional(b, x):
    x = small(x)
    b.need(15)
    held = b.op("Optional", [x])
    if b.chance(0.3):
        b.marked.append(b.op("OptionalHasElement", [held], (), "bool"))
    y = b.op("OptionalGetElement", [held], x.shape)
    return activation(b, y) if b.chance(0.6) else y


def built(b, x):
    """A list of x and what it became, some taken away, joined or stacked."""
    x = small(x)
    if not x.rank:
        raise Skip
    more = [activation(b, x) for _ in range(b.pick(1, 2))]
    more = [v for v in more if v.shape == x.shape]
    if b.chance(0.5):
        items = b.op("SequenceConstruct", [x, *more], x.shape)
    else:
        items = b.op("SequenceEmpty", [], x.shape, "f32", dtype_=1)
        for v in [x, *more]:
            items = b.op("SequenceInsert", [items, v] + ([place(b, 0)] if b.chance(0.4) else []), x.shape)
    n = 1 + len(more)
    if b.chance(0.4):
        b.marked.append(b.op("SequenceLength", [items], (), "i64"))
    if n > 1 and b.chance(0.3):
        items, n = b.op("SequenceErase", [items, place(b, b.pick(0, -1))], x.shape), n - 1
    if b.opset >= 17 and b.chance(0.4) and all(v.op_type != "SequenceMap" for v in b.nodes):  # of two ONNX Runtime confuses the names
        items = mapped(b, items, x)
    if b.chance(0.4):
        return b.op("SequenceAt", [items, place(b, b.between(-n, n - 1))], x.shape)
    axis = b.between(0, x.rank - 1)
    if b.chance(0.4):
        return b.op("ConcatFromSequence", [items], x.shape[:axis] + (fixed(n),) + x.shape[axis:], axis=axis, new_axis=1)
    return b.op("ConcatFromSequence", [items], x.shape[:axis] + (per_binding(lambda d: d * n, x.shape[axis]),) + x.shape[axis + 1 :], axis=axis)


def mapped(b, items, x):
    each = Value(b.fresh("each"), "f32", x.shape, x.std)
    # No operator that is a function itself: ONNX Runtime puts one into the other in the wrong order.
    nodes, y = body_of(b, lambda: b.op("Identity", [b.op(b.pick("Relu", "Tanh", "Sigmoid", "Neg"), [each])]))
    body = graph_of(b, "each", nodes, [(each.name, TensorProto.FLOAT, x.rank)], [])
    body.output.append(helper.make_tensor_value_info(y.name, TensorProto.FLOAT, [None] * x.rank))
    return b.op("SequenceMap", [items], x.shape, body=body)


def parts(b, x):
    """An axis in parts of given sizes, without its axis or with it."""
    x = small(x)
    axes = [k for k, d in enumerate(x.shape) if is_fixed(d) and 2 <= d[0] <= 8]
    if not axes:
        raise Skip
    axis = b.random.choice(axes)
    n = x.size(axis)
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    if b.chance(0.4):
        items = b.op("SplitToSequence", [x], rest, axis=axis, keepdims=0)
        return b.op("SequenceAt", [items, place(b, b.between(-n, n - 1))], rest)
    sizes = [b.between(1, n - 1)]
    sizes.append(n - sizes[0])
    items = b.op("SplitToSequence", [x, b.ints(*sizes)], x.shape, axis=axis)
    at = b.pick(0, 1)
    return b.op("SequenceAt", [items, place(b, at)], x.shape[:axis] + fixed_of(sizes[at]) + x.shape[axis + 1 :])


def fixed_of(n):
    return (fixed(n),)


def scan(b, x):
    """A state over the steps of an axis, forwards or backwards; the states are stacked."""
    x = small(x)
    if not 2 <= x.rank <= 4 or min(x.shape[0]) < 1 or max(x.shape[0][:3]) > 40:
        raise Skip
    inner = x.shape[1:]
    state, each = Value(b.fresh("state"), "f32", inner, 0.6), Value(b.fresh("each"), "f32", inner, x.std)

    def make():
        y = b.op("Tanh", [b.op("Add", [b.op("Mul", [state, b.scalar(0.5)]), each], inner)], std=0.6)
        return [b.op("Identity", [y]), b.op("Identity", [step(b, y)])]

    first = b.op("ReduceSum", [b.op("Mul", [x, b.scalar(0.1)]), b.ints(0)], inner, keepdims=0)
    nodes, made = body_of(b, make)
    body = graph_of(b, "body", nodes, [(state.name, TensorProto.FLOAT, len(inner)), (each.name, TensorProto.FLOAT, len(inner))], [])
    body.output.extend(helper.make_tensor_value_info(v.name, TensorProto.FLOAT, [None] * len(inner)) for v in made)
    back = b.pick(0, 0, 1)
    last, all_ = b.ops("Scan", [first, x], [inner, x.shape], ["f32"] * 2, 0.6, body=body, num_scan_inputs=1, scan_input_directions=[back],
                       scan_output_directions=[b.pick(0, back)])
    if b.chance(0.5):
        b.marked.append(last)
    return all_


BLOCKS = [optional, built, built, built, parts, scan, scan]
