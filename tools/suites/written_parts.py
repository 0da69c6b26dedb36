"""Parts of models written by hand in the manner of exported ones: a graph that grows node by node, and the blocks that
networks for sound, pages, images, molecules and text are made of. Weights are seeded by the model's name."""
import math
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Net:
    """`net.Conv(x, w, pads=[...])` adds a node and gives the name of its result, or a list of names."""

    def __init__(self, name):
        self.name, self.rng = name, np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.weights, self.inputs, self.outputs, self.feeds = [], [], [], [], {}

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *inputs, outs=1, **attributes: self.add(op, inputs, outs, attributes)

    def add(self, op, inputs, outs, attributes):
        names = [f"{op.lower()}_{len(self.nodes)}" + (f"_{k}" if outs > 1 else "") for k in range(outs)]
        self.nodes.append(helper.make_node(op, [self.value(x) for x in inputs], names, name=names[0], **attributes))
        return names if outs > 1 else names[0]

    def value(self, x):
        if x is None:
            return ""
        return x if isinstance(x, str) else self.held(np.asarray(x, np.float32) if isinstance(x, float) else np.asarray(x))

    def held(self, array):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def w(self, *dims, gain=1.0):
        """Weights that keep the size of what they are multiplied with: all dims but the first (or the first of two) count."""
        fan = dims[0] if len(dims) == 2 else math.prod(dims[1:]) or 1
        return self.held((self.rng.standard_normal(dims) * gain / math.sqrt(fan)).astype(np.float32))

    def b(self, n):
        return self.held((self.rng.standard_normal(n) * 0.1).astype(np.float32))

    def one(self, n):
        return self.held((1 + 0.1 * self.rng.standard_normal(n)).astype(np.float32))

    def input(self, name, dims, make=None):
        """An input; `make(rng, dims)` gives its values, normal floats where it is left out."""
        value = (make or (lambda rng, d: rng.standard_normal(d).astype(np.float32)))
        self.feeds[name] = (dims, value)
        kind = helper.np_dtype_to_tensor_dtype(value(np.random.default_rng(0), [2 if isinstance(d, str) else d for d in dims]).dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, *names):
        self.outputs += names

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [onnx.ValueInfoProto(name=n) for n in self.outputs], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)

    def feed(self, sizes, seed):
        rng = np.random.default_rng(seed)
        return {name: make(rng, [sizes[d] if isinstance(d, str) else d for d in dims]) for name, (dims, make) in self.feeds.items()}

    # ---- blocks ----
    def conv(self, x, i, o, k=3, s=1, g=1, d=1, act="Relu", bias=True):
        p = d * (k - 1) // 2
        y = self.Conv(x, self.w(o, i // g, k, k, gain=1.4), *([self.b(o)] if bias else []), kernel_shape=[k, k], strides=[s, s], pads=[p] * 4, group=g, dilations=[d, d])
        return self.act(y, act)

    def conv1(self, x, i, o, k=3, s=1, g=1, d=1, act="Relu", causal=False):
        reach = d * (k - 1)
        y = self.Conv(x, self.w(o, i // g, k, gain=1.4), self.b(o), kernel_shape=[k], strides=[s], pads=[reach, 0] if causal else [reach // 2, reach - reach // 2], group=g, dilations=[d])
        return self.act(y, act)

    def norm2(self, x, n):
        return self.BatchNormalization(x, self.one(n), self.b(n), self.b(n), self.held(np.full(n, 0.9, np.float32)))

    def act(self, x, act):
        if act is None:
            return x
        if act == "Silu":
            return self.Mul(x, self.Sigmoid(x))
        if act == "Swish6":
            return self.Mul(x, self.Clip(self.Div(self.Add(x, 3.0), 6.0), 0.0, 1.0))
        if act == "Gelu":
            return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, math.sqrt(2))), 1.0)), 0.5)
        return getattr(self, act)(x)

    def squeeze(self, x, n, less):
        s = self.GlobalAveragePool(x)
        s = self.conv(self.conv(s, n, less, 1), less, n, 1, act="HardSigmoid")
        return self.Mul(x, s)

    def inverted(self, x, i, o, wide, k=3, s=1, act="HardSwish", gate=True):
        y = self.conv(self.conv(x, i, wide, 1, act=act), wide, wide, k, s, g=wide, act=act)
        y = self.conv(self.squeeze(y, wide, max(8, wide // 4)) if gate else y, wide, o, 1, act=None)
        return self.Add(x, y) if i == o and s == 1 else y

    def residual(self, x, i, o, s=1):
        y = self.norm2(self.conv(x, i, o, 3, s, act=None, bias=False), o)
        y = self.norm2(self.conv(self.Relu(y), o, o, 3, act=None, bias=False), o)
        return self.Relu(self.Add(y, x if i == o and s == 1 else self.norm2(self.conv(x, i, o, 1, s, act=None, bias=False), o)))

    def linear(self, x, i, o, act=None):
        return self.act(self.Add(self.MatMul(x, self.w(i, o)), self.b(o)), act)

    def layer_norm(self, x, n):
        """As exporters before opset 17 write it."""
        middle = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        spread = self.Sqrt(self.Add(self.ReduceMean(self.Pow(middle, 2.0), axes=[-1]), 1e-5))
        return self.Add(self.Mul(self.Div(middle, spread), self.one(n)), self.b(n))

    def heads(self, x, n, count):
        return self.Transpose(self.Reshape(x, [0, -1, count, n // count]), perm=[0, 2, 1, 3])

    def attention(self, x, n, count, mask=None, memory=None, turn=lambda q: q):
        source = memory or x
        q, k, v = (self.heads(self.linear(y, n, n), n, count) for y in (x, source, source))
        scores = self.Mul(self.MatMul(turn(q), self.Transpose(turn(k), perm=[0, 1, 3, 2])), float(1 / math.sqrt(n // count)))
        mixed = self.MatMul(self.Softmax(self.Add(scores, mask) if mask else scores, axis=-1), v)
        return self.linear(self.Reshape(self.Transpose(mixed, perm=[0, 2, 1, 3]), [0, -1, n]), n, n)

    def encoder(self, x, n, count, wide, mask=None, first=False):
        """A layer of a transformer; `first`: norms in front."""
        if first:
            x = self.Add(x, self.attention(self.layer_norm(x, n), n, count, mask))
            return self.Add(x, self.linear(self.linear(self.layer_norm(x, n), n, wide, "Gelu"), wide, n))
        x = self.layer_norm(self.Add(x, self.attention(x, n, count, mask)), n)
        return self.layer_norm(self.Add(x, self.linear(self.linear(x, n, wide, "Gelu"), wide, n)), n)

    def recurrent(self, op, x, i, n, both=False, batch="batch"):
        """x: [steps, batch, i] → [steps, batch, n or 2n]."""
        d, gates = 2 if both else 1, {"LSTM": 4, "GRU": 3}[op]
        weights = [self.held((self.rng.standard_normal(s) / math.sqrt(n)).astype(np.float32)) for s in ((d, gates * n, i), (d, gates * n, n), (d, 2 * gates * n))]
        more = {"linear_before_reset": 1} if op == "GRU" else {}
        y = self.add(op, [x, *weights], 1, {"hidden_size": n, "direction": "bidirectional" if both else "forward", **more})
        return self.Reshape(self.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1]) if both else self.Squeeze(y, [1])


def ids(high):
    return lambda rng, dims: rng.integers(0, high, dims)


def ones(rng, dims):
    return np.ones(dims, np.int64)


def uniform(rng, dims):
    return rng.random(dims).astype(np.float32)
