#!/usr/bin/env python3
"""Write an ONNX model again in float16 or bfloat16: weights, inputs, outputs and what is computed between them.

Weights are rounded to nearest even and saturated; casts to float32, constants and everything else that names the type
name the narrow one. Ops whose scales must be float32 (Resize) keep them.
Usage: to_narrow.py MODEL.onnx OUT.onnx [--dtype float16|bfloat16]
"""
import argparse
import pathlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float16": (TensorProto.FLOAT16, np.dtype(np.float16)), "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16))}
TYPE_ATTRIBUTES = {"to", "dtype", "stash_type"}
# Inputs that stay float32 whatever the data is.
WIDE = {"Resize": (1, 2)}


def narrow(array, dtype):
    """Nearest even; finite values beyond the type's largest become that."""
    most = float(ml_dtypes.finfo(dtype).max)
    finite = np.isfinite(array)
    return np.where(finite, np.clip(array, -most, most), array).astype(dtype)


def narrow_tensor(tensor, dtype):
    if tensor.data_type == TensorProto.FLOAT:
        name, doc = tensor.name, tensor.doc_string
        tensor.CopyFrom(numpy_helper.from_array(narrow(numpy_helper.to_array(tensor), dtype), name))
        tensor.doc_string = doc


def narrow_type(value, kind):
    if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type == TensorProto.FLOAT:
        value.type.tensor_type.elem_type = kind


def narrow_graph(graph, kind, dtype):
    wide = {n.input[k] for n in graph.node for k in WIDE.get(n.op_type, ()) if k < len(n.input)}
    for tensor in graph.initializer:
        if tensor.name not in wide:
            narrow_tensor(tensor, dtype)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        narrow_type(value, kind)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in TYPE_ATTRIBUTES and attribute.name != "stash_type" and attribute.i == TensorProto.FLOAT:
                attribute.i = kind
            if attribute.HasField("t") and not set(node.output) & wide:
                narrow_tensor(attribute.t, dtype)
            for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                narrow_graph(body, kind, dtype)
        if node.op_type == "ConstantOfShape" and not any(a.name == "value" for a in node.attribute):
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, dtype))))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=pathlib.Path)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--dtype", choices=sorted(TYPES), default="float16")
    given = arguments.parse_args()
    model = onnx.load(given.model)
    narrow_graph(model.graph, *TYPES[given.dtype])
    given.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, given.out)
    print(f"{given.out}: {given.out.stat().st_size} bytes in {given.dtype}")


if __name__ == "__main__":
    main()
