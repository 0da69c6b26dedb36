"""Smaller forms of a model with its facts: without what nothing reads, with numbers for free sizes, with narrower widths."""
import copy

import numpy as np
import onnx
from graph import TYPES
from onnx import helper, numpy_helper


def unconstant(model):
    """Constant nodes as initializers."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = []
    for n in out.graph.node:
        value = next((a.t for a in n.attribute if a.name == "value"), None) if n.op_type == "Constant" else None
        if value is None:
            kept.append(n)
            continue
        t = out.graph.initializer.add()
        t.CopyFrom(value)
        t.name = n.output[0]
    nodes = [copy.deepcopy(n) for n in kept]
    del out.graph.node[:]
    out.graph.node.extend(nodes)
    return out


def pruned(model, facts):
    """(model, facts) of what the outputs need; None where nothing is computed or no input is left."""
    wanted, kept = {o.name for o in model.graph.output}, []
    for n in reversed(model.graph.node):
        if any(o in wanted for o in n.output):
            kept.append(copy.deepcopy(n))
            wanted.update(n.input)
    inputs = [copy.deepcopy(i) for i in model.graph.input if i.name in wanted]
    if not kept or not inputs:
        return None
    weights = [copy.deepcopy(t) for t in model.graph.initializer if t.name in wanted]
    graph = model.graph
    for field, items in ((graph.node, kept[::-1]), (graph.input, inputs), (graph.initializer, weights)):
        del field[:]
        field.extend(items)
    del graph.value_info[:]
    by_name = {s["name"]: s for s in facts["inputs"]}
    specs = [by_name[i.name] for i in inputs]
    used = {d for s in specs for d in s["shape"] if isinstance(d, str)}
    return model, facts | {"inputs": specs, "symbols": {n: v for n, v in facts["symbols"].items() if n in used}}


def restated(model, facts):
    """The inputs as the facts say, the outputs' sizes left open."""
    del model.graph.input[:]
    model.graph.input.extend(helper.make_tensor_value_info(s["name"], TYPES[s["dtype"]], s["shape"]) for s in facts["inputs"])
    for o in model.graph.output:
        for d in o.type.tensor_type.shape.dim:
            d.Clear()
    return model, facts


def retyped(model, facts, numbers):
    """With numbers for some symbols."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    inputs = [s | {"shape": [numbers.get(d, d) for d in s["shape"]]} for s in facts["inputs"]]
    return restated(out, facts | {"inputs": inputs, "symbols": {n: v for n, v in facts["symbols"].items() if n not in numbers}})


def widths(model, facts):
    """Numbers above 1 that are sizes of inputs or weights, largest first."""
    found = {d for s in facts["inputs"] for d in s["shape"] if isinstance(d, int)}
    found |= {d for t in model.graph.initializer for d in t.dims if t.data_type == onnx.TensorProto.FLOAT}
    return sorted((d for d in found if d > 1), reverse=True)


def narrowed(model, facts, width, smaller):
    """Every size `width` becomes `smaller`, in the integers of the graph too, and as it is there."""
    for integers in (False, True):
        out = onnx.ModelProto()
        out.CopyFrom(model)
        for t in out.graph.initializer:
            array = numpy_helper.to_array(t)
            if integers and array.dtype == np.int64 and array.size < 16:
                array = np.where(array == width, smaller, array)
            index = tuple(slice(0, smaller) if d == width else slice(None) for d in array.shape)
            t.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array[index]), t.name))
        inputs = [s | {"shape": [smaller if d == width else d for d in s["shape"]]} for s in facts["inputs"]]
        yield restated(out, facts | {"inputs": inputs})
