#!/usr/bin/env python3
"""Write small networks in float16, bfloat16 and float64 whose expected outputs come from float64 arithmetic.

The weights and inputs are values of the narrow type; the network is evaluated once in float64 throughout (the answer,
rounded once to the output's type) and once with every node's result rounded to the narrow type (what a plain backend
does). A case's tolerance is 4 x the largest distance between the two plus 2 roundings of the largest output, so that
sums accumulated in the narrow type fail. Batches 1 and 3 (sequences 5 and 9) go through the same model.
"""
import math
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from suite_files import Suite, parser, run

TYPES = {"float16": (np.dtype(np.float16), 2.0**-11), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 2.0**-8), "float64": (np.dtype(np.float64), 2.0**-53)}
EPSILON = 2.0**-16  # the attribute is a float32: a value that float64 reads back the same
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


class Erf(OpRun):
    """The package's own one computes in float32 (1.23.2)."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype),)


class Network:
    """A graph being written; every call of `op` adds a node and gives the name of its result."""

    def __init__(self, name, dtype):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.name, self.dtype, self.kind = name, dtype, helper.np_dtype_to_tensor_dtype(dtype)
        self.nodes, self.weights, self.inputs, self.result = [], [], [], None

    def op(self, op_type, *inputs, **attrs):
        out = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [self.named(i) for i in inputs], [out], name=f"/{out}", **attrs))
        return out

    def named(self, value):
        """The name of a value: a name, an array (kept as it is), or a number (in the network's type)."""
        if isinstance(value, str):
            return value
        array = value if isinstance(value, np.ndarray) else np.asarray(value, np.float64).astype(self.dtype)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape, spread=None):
        spread = (1 / np.sqrt(np.prod(shape[:-1]) if len(shape) == 2 else np.prod(shape[1:]) or 1)) if spread is None else spread
        return (self.rng.standard_normal(shape) * spread).astype(self.dtype)

    def input(self, shape, dtype=None):
        self.inputs.append((f"x{len(self.inputs)}", shape, dtype or self.dtype))
        return self.inputs[-1][0]

    def layer_norm(self, x, width):
        return self.op("LayerNormalization", x, (1 + self.weight(width, spread=0.1).astype(np.float64)).astype(self.dtype), self.weight(width, spread=0.1), axis=-1, epsilon=EPSILON)

    def model(self, opset):
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(d), s) for n, s, d in self.inputs]
        graph = helper.make_graph(self.nodes, self.name, infos, [onnx.ValueInfoProto(name=self.result)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="dtype_suite", ir_version=10)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def mlp(n):
    x = n.input(["batch", 16])
    x = n.op("Relu", n.op("Gemm", x, n.weight(16, 32), n.weight(32)))
    x = n.op("Gemm", x, n.weight(24, 32), n.weight(24), transB=1)
    half = n.op("Mul", x, 0.5)
    x = n.op("Mul", half, n.op("Add", n.op("Erf", n.op("Div", x, np.sqrt(2))), 1.0))
    return n.op("Softmax", n.op("Add", n.op("MatMul", x, n.weight(24, 10)), n.weight(10)), axis=-1)


def cnn(n):
    x = n.input(["batch", 3, 12, 12])
    x = n.op("Conv", x, n.weight(8, 3, 3, 3), n.weight(8, spread=0.1), pads=[1, 1, 1, 1])
    positive = np.abs(n.weight(8, spread=1).astype(np.float64)) + 0.5
    x = n.op("BatchNormalization", x, n.weight(8, spread=1), n.weight(8, spread=0.2), n.weight(8, spread=0.2), positive.astype(n.dtype), epsilon=EPSILON)
    x = n.op("MaxPool", n.op("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    y = n.op("Clip", n.op("Conv", x, n.weight(8, 1, 3, 3), pads=[1, 1, 1, 1], group=8), 0.0, 6.0)
    x = n.op("Add", n.op("Conv", y, n.weight(8, 8, 1, 1), n.weight(8, spread=0.1)), x)
    return n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.weight(8, 5), n.weight(5))


def attention(n, width=32, heads=4):
    x = n.input(["batch", "sequence", width])
    mask = n.input(["batch", 1, 1, "sequence"])
    y = n.layer_norm(x, width)

    def split(perm):
        z = n.op("Add", n.op("MatMul", y, n.weight(width, width)), n.weight(width, spread=0.1))
        return n.op("Transpose", n.op("Reshape", z, np.array([0, 0, heads, width // heads])), perm=perm)

    q, k, v = split([0, 2, 1, 3]), split([0, 2, 3, 1]), split([0, 2, 1, 3])
    scores = n.op("Add", n.op("Mul", n.op("MatMul", q, k), (width // heads) ** -0.5), mask)
    y = n.op("MatMul", n.op("Softmax", scores, axis=-1), v)
    y = n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, 0, width]))
    x = n.op("Add", x, n.op("MatMul", y, n.weight(width, width)))
    y = n.op("Tanh", n.op("MatMul", n.layer_norm(x, width), n.weight(width, 2 * width)))
    return n.op("Add", x, n.op("MatMul", y, n.weight(2 * width, width)))


def long_sums(n):
    """Sums of 4,096 terms: accumulating in the narrow type loses them."""
    x = n.input(["batch", 4096])
    product = n.op("MatMul", x, n.weight(4096, 3))
    means = n.op("ReduceMean", n.op("Mul", x, x), np.array([1]), keepdims=1)
    return n.op("Add", product, means)


def chain(n):
    x = n.input(["batch", 67])
    y = n.op("Sigmoid", n.op("Add", n.op("Mul", x, n.weight(67, spread=1)), 0.25))
    y = n.op("Sub", n.op("Exp", n.op("Mul", y, x)), n.op("Sqrt", n.op("Abs", x)))
    return n.op("Where", n.op("Greater", x, 0.0), n.op("Mul", y, n.op("Tanh", x)), n.op("Neg", y))


def island(n):
    """float32 outside, the narrow type inside, softmax back in float32: as mixed-precision exporters write."""
    x = n.op("Cast", n.input(["batch", 24], np.dtype(np.float32)), to=n.kind)
    x = n.op("Relu", n.op("Gemm", x, n.weight(24, 16), n.weight(16)))
    x = n.op("Cast", n.op("MatMul", x, n.weight(16, 6)), to=TensorProto.FLOAT)
    return n.op("Softmax", x, axis=-1)


NETWORKS = {"mlp": mlp, "cnn": cnn, "attention": attention, "long_sums": long_sums, "chain": chain, "island": island}


def in_double(model, rounded_to=None):
    """The same network on float64 values; with `rounded_to`, every float result passes through that type."""
    out = onnx.ModelProto.FromString(model.SerializeToString())
    del out.graph.value_info[:]
    for i, tensor in enumerate(out.graph.initializer):
        if tensor.data_type in FLOATS:
            out.graph.initializer[i].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for info in list(out.graph.input) + list(out.graph.output):
        info.type.tensor_type.elem_type = TensorProto.DOUBLE
    nodes, types = [], {v.name: v.type.tensor_type.elem_type for v in list(model.graph.value_info) + list(model.graph.output)}
    for node in out.graph.node:
        if node.op_type == "Cast":
            node.CopyFrom(helper.make_node("Identity", node.input, node.output))
        final = node.output[0]
        nodes.append(node)
        if rounded_to and types[final] == rounded_to:
            node.output[0] = final + "_wide"
            nodes.append(helper.make_node("Cast", [final + "_wide"], [final + "_narrow"], to=rounded_to))
            nodes.append(helper.make_node("Cast", [final + "_narrow"], [final], to=TensorProto.DOUBLE))
    del out.graph.node[:]
    out.graph.node.extend(nodes)
    return out


def feed(n, rng, batch, sequence):
    sizes = {"batch": batch, "sequence": sequence}
    out = []
    for _, shape, dtype in n.inputs:
        shape = [sizes.get(d, d) for d in shape]
        values = rng.standard_normal(shape)
        if len(shape) == 4 and shape[1:3] == [1, 1]:  # an attention mask: the last row's end is padding
            values = np.zeros(shape)
            values[-1, ..., shape[-1] - 2 :] = -30000.0
        out.append(values.astype(dtype))
    return out


def make(suite, name, build, type_name, opset):
    dtype, unit = TYPES[type_name]
    n = Network(f"{name}_{type_name}", dtype)
    n.result = build(n)
    model = n.model(opset)
    exact, plain = (ReferenceEvaluator(in_double(model, kind), new_ops=[Erf]) for kind in (None, n.kind))
    out_dtype = np.dtype(helper.tensor_dtype_to_np_dtype(model.graph.output[0].type.tensor_type.elem_type))
    rng, sets, atol = np.random.default_rng(zlib.crc32(f"{n.name} data".encode())), [], 0.0
    for batch, sequence in ((1, 5), (3, 5), (3, 9)) if name == "attention" else ((1, 0), (3, 0)):
        values = feed(n, rng, batch, sequence)
        wide = {i[0]: v.astype(np.float64) for i, v in zip(n.inputs, values)}
        answer, rounded = exact.run(None, wide)[0], plain.run(None, wide)[0]
        atol = max(atol, 4 * float(np.abs(answer - rounded).max()) + 2 * max(unit, 2.0**-24 if out_dtype == np.float32 else 0) * float(np.abs(answer).max()))
        sets.append((values, [answer.astype(out_dtype)]))
    if type_name == "float64":
        unit = 2.0**-24 if out_dtype == np.float32 else unit * (64 if name == "long_sums" else 1)
        atol = 64 * unit * max(float(np.abs(s[1][0]).max()) for s in sets)
    suite.add(f"{name}_{type_name}_opset{opset}", model, sets, rtol=0.0, atol=atol, network=name)


def main():
    p = parser(__doc__)
    p.add_argument("--types", default=",".join(TYPES), help=f"comma-separated (default {','.join(TYPES)})")
    a = p.parse_args()
    chosen = a.types.split(",")
    if unknown := [t for t in chosen if t not in TYPES]:
        p.error(f"unknown type {unknown[0]}; known are {', '.join(TYPES)}")
    suite = Suite(a.out, "make_dtype_suite.py")
    for name, build in NETWORKS.items():
        for type_name in chosen:
            for opset in (22,) if type_name == "bfloat16" else (18, 22):
                make(suite, name, build, type_name, opset)
    suite.close()
    return 0


if __name__ == "__main__":
    run(main)
