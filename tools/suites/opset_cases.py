"""What the opset suite's tables are written in: an operator version, samples of it, and seeded values of any type."""
import dataclasses
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, defs, helper

FIRST_OPSET = 7
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = (np.dtype(np.float16), BFLOAT16)


@dataclasses.dataclass
class Sample:
    """One node with its inputs (None = left out), of which those numbered in `const` become initializers."""

    name: str
    inputs: list
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    const: tuple = ()
    fixed: tuple = ()  # inputs whose dims never become symbolic: an operator's rank depends on them
    widen: bool = True  # float16 and bfloat16 may be evaluated in float32 and rounded
    both: bool = False  # keep only when two oracles agree (NaN, infinities, what the definition leaves open)
    prefer: str = "onnxruntime"
    out_types: tuple = ()  # TensorProto types of the outputs where inference cannot know them


class Version:
    """One operator at one schema version, seen through the opset where that version came into force (at least 7)."""

    def __init__(self, schema, opset, before, newest):
        self.schema, self.op, self.version, self.opset = schema, schema.name, schema.since_version, opset
        self.before, self.newest = before, newest
        self.seed = 0

    def rng(self, key=""):
        return np.random.default_rng([self.seed, zlib.crc32(f"{self.op}:{self.version}:{key}".encode())])

    def has(self, attribute):
        return attribute in self.schema.attributes

    def types(self, param="T"):
        """numpy types a type parameter allows, those with a numpy form only; a fixed-type schema allows none."""
        return tuple(sorted(map(numpy_type, type_names(self.schema, param)), key=lambda t: t.name))

    def sweep(self, param="T"):
        """Types to try here: all at the newest version, those new since the version before otherwise."""
        old = set() if self.before is None or self.newest else set(type_names(self.before, param))
        return tuple(sorted((numpy_type(n) for n in type_names(self.schema, param) if n not in old), key=lambda t: t.name))

    def floats(self, param="T"):
        return tuple(t for t in self.types(param) if is_float(t))


def type_names(schema, param):
    found = [c for c in schema.type_constraints if c.type_param_str == param]
    return [s for s in (found[0].allowed_type_strs if found else []) if s.startswith("tensor(") and "complex" not in s]


def numpy_type(name):
    inner = name[len("tensor(") : -1].upper()
    return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(inner)))


def is_float(dtype):
    dtype = np.dtype(dtype)
    return dtype.kind == "f" or dtype == BFLOAT16 or dtype.name.startswith("float")


def is_narrow(dtype):
    """Types of less than a byte or of eight floating-point bits, for which numpy has no arithmetic of its own."""
    return np.dtype(dtype).name.startswith(("float8_", "float6_", "float4_", "int4", "uint4", "int2", "uint2"))


def onnx_type(dtype):
    return TensorProto.STRING if np.dtype(dtype).kind in "OUS" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def versions(op, seed=0):
    """The versions of an operator in force at some opset from 7 on, oldest first; deprecated ones that only say so left out."""
    history = sorted((s for s in defs.get_all_schemas_with_history() if s.name == op and s.domain == ""), key=lambda s: s.since_version)
    last_old = max((s.since_version for s in history if s.since_version <= FIRST_OPSET), default=0)
    alive = [s for s in history if s.since_version >= last_old]
    alive = [s for s in alive if not (s.deprecated and not s.inputs and not s.outputs) and not (s.deprecated and s is history[-1])]
    out = []
    for i, schema in enumerate(alive):
        v = Version(schema, max(FIRST_OPSET, schema.since_version), alive[i - 1] if i else None, i == len(alive) - 1)
        v.seed = seed
        out.append(v)
    return out


def values(rng, shape, dtype=np.float32, kind="any"):
    """Seeded values: `any`, `unit` (inside -1..1), `positive`, `ge1` (from 1), `few` (small whole numbers, with repeats)."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "OUS":
        words = np.array(["", "a", "bc", "déjà", "x y", "0"], dtype=object)
        return np.asarray(words[rng.integers(0, len(words), shape)], dtype=object).reshape(shape)
    if not is_float(dtype):
        low = 0 if dtype.kind == "u" or dtype.name.startswith("uint") else -6
        if dtype.name in ("int2", "uint2", "int4", "uint4"):
            low, high = (low and -1, 2) if dtype.name.endswith("2") else (low and -6, 7)
        else:
            high = 7
        if kind in ("positive", "ge1"):
            low = 1
        return rng.integers(low, high, shape).astype(np.int64).astype(dtype)
    made = {
        "any": lambda: rng.standard_normal(shape) * 2,
        "unit": lambda: rng.uniform(-0.95, 0.95, shape),
        "positive": lambda: rng.uniform(0.1, 4, shape),
        "ge1": lambda: rng.uniform(1, 5, shape),
        "few": lambda: rng.integers(-3, 4, shape).astype(np.float64),
    }[kind]()
    return np.asarray(made, np.float64).astype(np.float32).astype(dtype) if dtype != np.float64 else np.asarray(made, np.float64)


def f32(*numbers):
    return np.array(numbers, np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


def build(v, sample, symbolic, name, inputs=None, out_types=None):
    """The one-node model of a sample; `inputs` replaces its values (same places); symbolic dims are named after their size."""
    arrays = sample.inputs if inputs is None else inputs
    graph_inputs, initializers, names = [], [], []
    for i, array in enumerate(arrays):
        names.append("" if array is None else f"x{i}")
        if array is None:
            continue
        if i in sample.const:
            initializers.append(onnx.numpy_helper.from_array(array, names[-1]))
        else:
            shape = [f"s{d}" if symbolic and d > 1 and i not in sample.fixed else d for d in array.shape]
            graph_inputs.append(helper.make_tensor_value_info(names[-1], onnx_type(array.dtype), shape))
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{i}" for i in range(sample.outputs)]
    node = helper.make_node(v.op, names, outputs, name=f"{v.op}_0", **sample.attrs)
    infos = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph([node], name, graph_inputs, infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", v.opset)], producer_name="opset_suite", ir_version=ir_version(v.opset))
    for info, (kind, shape) in zip(model.graph.output, out_types or []):
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shape))
    return model


def ir_version(opset):
    return 8 if opset < 19 else 10 if opset < 23 else 11 if opset < 25 else 13
