"""Builder of one ONNX graph: values know their shapes at every binding of the free sizes, so a block can tell whether it
is valid everywhere before it adds a node; a block that is not leaves nothing behind."""
import math
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VERSION = 7  # of the generator: seed and version give the model's bytes
TYPES = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "i64": TensorProto.INT64, "i32": TensorProto.INT32,
         "i8": TensorProto.INT8, "u8": TensorProto.UINT8, "bool": TensorProto.BOOL, "i16": TensorProto.INT16, "u16": TensorProto.UINT16,
         "u32": TensorProto.UINT32, "u64": TensorProto.UINT64, "str": TensorProto.STRING}
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
         "i16": np.int16, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "str": np.dtype(object)}
OPSETS = (13, 17, 17, 18, 18, 20, 21, 22, 23, 24, 26)
ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"

SIZES = ("build", "small", "large")  # the bindings that are run; two more tell apart sizes that are equal by chance
BINDINGS = 5
MOST_ELEMENTS, MOST_FLOPS = 60_000, 4_000_000


class Skip(Exception):
    """This block does not fit here."""


def fixed(n):
    return (int(n),) * BINDINGS


def is_fixed(dim):
    return dim is not None and len(set(dim)) == 1


def dims(*items):
    """A shape of numbers and dims."""
    return tuple(fixed(i) if isinstance(i, int) else i for i in items)


def per_binding(f, *values):
    return tuple(int(f(*v)) for v in zip(*values))


def elements(shape):
    """Most elements at a size that is run."""
    if any(d is None for d in shape):
        return 1000
    return max(math.prod(d[k] for d in shape) for k in range(len(SIZES)))


def nodes_of(nodes):
    """These nodes and those of their bodies."""
    for n in nodes:
        yield n
        for a in n.attribute:
            yield from nodes_of(a.g.node)


class Value:
    """A tensor of the graph: a dim is its size at each binding, None where it depends on data. `std` is a guess of its
    magnitude, `const` its content if it is known."""

    def __init__(self, name, dtype, shape, std=1.0, const=None, kind="node"):
        self.name, self.dtype, self.shape, self.std, self.const, self.kind, self.uses = name, dtype, tuple(shape), std, const, kind, 0

    @property
    def rank(self):
        return len(self.shape)

    def size(self, axis):
        """The number of a fixed dim; Skip otherwise."""
        if not -self.rank <= axis < self.rank or not is_fixed(self.shape[axis]):
            raise Skip
        return self.shape[axis][0]


class Builder:
    def __init__(self, seed, opset=None):
        self.seed, self.random = seed, random.Random(f"{VERSION}/{seed}")
        self.numbers = np.random.Generator(np.random.PCG64(seed))
        self.opset = opset or self.random.choice(OPSETS)
        self.versions, self.closed = {ML: 3, MICROSOFT: 1}, False
        self.nodes, self.weights, self.inputs, self.pool = [], {}, [], []
        self.symbols, self.specs, self.count, self.flops, self.marked = {}, {}, 0, 0, []
        self.primes = [61, 67, 71, 73, 79, 83, 89, 97, 101, 103]
        self.random.shuffle(self.primes)

    # ---- chance ----
    def pick(self, *items):
        if not items:
            raise Skip("nothing to pick from")
        return self.random.choice(items)

    def chance(self, p):
        return self.random.random() < p

    def between(self, low, high):
        return self.random.randint(low, high)

    def need(self, opset, last=100):
        """Skip unless the version is one of these; `last`: that ONNX Runtime has."""
        if not opset <= self.opset <= last:
            raise Skip

    def alone(self, opset):
        """For an operator that only old versions have: the graph is this block, of this version."""
        if self.nodes:
            raise Skip
        self.opset, self.closed = opset, True

    # ---- sizes ----
    def symbol(self, name, build, small, large):
        self.symbols[name] = (build, small, large, self.primes.pop(), self.primes.pop())
        return self.symbols[name]

    def name_of(self, dim):
        """How an interface names this dim: a number, a symbol, or None."""
        if dim is None:
            return None
        if is_fixed(dim):
            return dim[0]
        return next((n for n, d in self.symbols.items() if d == dim), None)

    def fits(self, *shapes, flops=0):
        """Skip if a shape is empty or large, or the work too much."""
        for s in shapes:
            if any(d is not None and min(d) < 1 for d in s) or elements(s) > MOST_ELEMENTS:
                raise Skip
        if self.flops + flops > MOST_FLOPS:
            raise Skip
        self.flops += flops

    # ---- values ----
    def fresh(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, shape, dtype="f32", std=1.0, stem="in", **spec):
        """`spec`: low and high for integers, share for booleans; seen: the first element of each row is 1."""
        if any(self.name_of(d) is None for d in shape):
            raise Skip
        self.fits(shape)
        v = Value(self.fresh(stem), dtype, shape, std, kind="input")
        self.inputs.append(v)
        self.specs[v.name] = {"std": std} | spec
        return v

    def const(self, array, stem="c"):
        array = np.asarray(array)
        dtype = next(k for k, t in NUMPY.items() if t == array.dtype)
        std = float(np.sqrt(np.mean(np.square(array.astype(np.float64))))) if array.size and dtype != "str" else 1.0
        v = Value(self.fresh(stem), dtype, dims(*array.shape), std, const=array, kind="weight")
        if self.chance(0.08) and array.size < 64:
            self.nodes.append(helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(array, v.name)))
        else:
            self.weights[v.name] = array
        return v

    def ints(self, *values):
        return self.const(np.array(values, np.int64), "k")

    def scalar(self, x, shape=()):
        return self.const(np.full(shape, x, np.float32), "s")

    def weight(self, shape, std=1.0, mean=0.0):
        """Uniform numbers of this deviation. Sizes are numbers."""
        a = (self.numbers.random(shape) - 0.5) * (math.sqrt(12) * std) + mean
        return self.const(a.astype(np.float32), "w")

    # ---- nodes ----
    def op(self, kind, inputs, shape=None, dtype=None, std=None, **attrs):
        """A node with one output; shape, type and magnitude are those of its first input unless given. An attribute of such a
        name has a line behind it: `dtype_`."""
        return self.ops(kind, inputs, [inputs[0].shape if shape is None else shape], [dtype or inputs[0].dtype], std, **attrs)[0]

    def ops(self, kind, inputs, shapes, types, std=None, **attrs):
        std = inputs[0].std if std is None and inputs and inputs[0] else std or 1.0
        self.fits(*shapes)
        for v in inputs:
            if v:
                v.uses += 1
        out = [Value(self.fresh(kind.lower()), t, s, std) for t, s in zip(types, shapes)]
        attrs = {k.rstrip("_"): v for k, v in attrs.items() if v is not None}
        self.nodes.append(helper.make_node(kind, [v.name if v else "" for v in inputs], [v.name for v in out], **attrs))
        return out

    def attempt(self, block, *args):
        """The block's result, or None and nothing changed where it does not fit."""
        held = len(self.nodes), dict(self.weights), list(self.inputs), list(self.pool), self.flops, dict(self.specs), list(self.marked), self.opset, self.closed
        uses = {id(v): v.uses for v in self.pool + self.inputs}
        try:
            return block(self, *args)
        except Skip:
            self.nodes, count = self.nodes[: held[0]], self.count
            self.weights, self.inputs, self.pool, self.flops, self.specs, self.marked, self.opset, self.closed = held[1:]
            for v in self.pool + self.inputs:
                v.uses = uses.get(id(v), v.uses)
            self.count = count
            return None

    # ---- the model ----
    def info(self, v, typed=True):
        shape = [self.name_of(d) if typed else None for d in v.shape]
        return helper.make_tensor_value_info(v.name, TYPES[v.dtype], shape)

    def model(self, outputs, family):
        """`outputs`: values, each once."""
        graph = helper.make_graph(self.nodes, f"generated_{self.seed}", [self.info(v) for v in self.inputs],
                                  [self.info(v, typed=self.chance(0.7)) for v in outputs],
                                  [numpy_helper.from_array(a, n) for n, a in self.weights.items()])
        used = sorted({n.domain for n in nodes_of(self.nodes)} - {""})
        versions = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, self.versions[d]) for d in used]
        model = helper.make_model(graph, opset_imports=versions, producer_name="generate")
        model.ir_version = 8 if self.opset < 20 else 10
        helper.set_model_props(model, {"seed": str(self.seed), "version": str(VERSION), "family": family})
        return model


def save(model):
    return model.SerializeToString(deterministic=True)


def load(path):
    return onnx.load(str(path))
