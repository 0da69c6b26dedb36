#!/usr/bin/env python3
"""Write one-node models of the operators of com.microsoft that exporters and ONNX Runtime's quantiser write, with the
answers of ONNX Runtime.

A result in float32 may differ by 1e-4 of its size; one in bytes by one, where ONNX Runtime rounds another way at a tie;
one of DynamicQuantizeLSTM by what it is to round inputs and states to bytes.
"""
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from suite_files import Suite, parser, run

F, B = np.float32, np.uint8


class Case:
    """A node being written: inputs that are fed, and weights."""

    def __init__(self, op, name, outputs=1, **attrs):
        self.op, self.name, self.outputs, self.attrs = op, f"{op.lower()}_{name}", outputs, attrs
        self.rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        self.names, self.fed, self.weights, self.domain = [], [], [], "com.microsoft"
        self.taken = None  # which outputs the graph has; all
        self.named = False  # whether the node makes the others, too

    def normal(self, *shape, spread=1.0):
        return (self.rng.standard_normal(shape) * spread).astype(F)

    def bytes(self, *shape, kind=B):
        return self.rng.integers(0, 256, shape).astype(B).view(kind)

    def feed(self, array):
        self.names.append(f"x{len(self.names)}")
        self.fed.append((self.names[-1], np.asarray(array)))
        return self

    def weight(self, array):
        self.names.append(f"w{len(self.names)}")
        self.weights.append(numpy_helper.from_array(np.asarray(array), self.names[-1]))
        return self

    def none(self):
        self.names.append("")
        return self

    def quantised(self, array, scale, zero):
        """Bytes that are fed, with their scale and zero point as weights."""
        return self.feed(array).weight(F(scale)).weight(array.dtype.type(zero))

    def whole(self):
        """Whether results are bytes, or other numbers of that kind."""
        return self.op.startswith(("QLinear", "QGemm", "Quantize"))

    def model(self):
        names = [f"y{k}" for k in range(self.outputs)]
        taken = [n for k, n in enumerate(names) if self.taken is None or k in self.taken]
        nodes = [helper.make_node(self.op, self.names, [n if n in taken or self.named else "" for n in names], domain=self.domain, **self.attrs)]
        if self.whole():  # the tolerance of the suite is for floats
            nodes.append(helper.make_node("Cast", taken, ["y"], to=onnx.TensorProto.FLOAT))
            taken = ["y"]
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in self.fed]
        graph = helper.make_graph(nodes, self.name, infos, [onnx.ValueInfoProto(name=n) for n in taken], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


def activations():
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        c = Case(op, "plain")
        yield c.feed(c.normal(2, 5, 12, spread=2))
    for op in ("BiasGelu", "FastGelu"):
        c = Case(op, "bias")
        yield c.feed(c.normal(2, 5, 12)).weight(c.normal(12))
    c = Case("QuickGelu", "alpha", alpha=1.0)
    yield c.feed(c.normal(7))


def norms():
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        beta = op == "SkipLayerNormalization"
        c = Case(op, "plain", epsilon=1e-5)
        c.feed(c.normal(2, 5, 16)).feed(c.normal(2, 5, 16)).weight(c.normal(16))
        yield c.weight(c.normal(16)) if beta else c
        c = Case(op, "bias_and_sum", outputs=4, epsilon=1e-6)
        c.feed(c.normal(2, 5, 16)).feed(c.normal(2, 5, 16)).weight(c.normal(16))
        if beta:
            c.weight(c.normal(16))
        c.taken = (0, 3)
        yield c.weight(c.normal(16))
    c = Case("SimplifiedLayerNormalization", "last", axis=-1, epsilon=1e-5)
    c.domain = ""
    yield c.feed(c.normal(2, 5, 16)).weight(c.normal(16))
    for way in ("segments", "words", "sum"):
        c = Case("EmbedLayerNormalization", way, outputs=3 if way == "sum" else 2, epsilon=1e-5)
        c.feed(c.rng.integers(0, 30, (2, 6)).astype(np.int32))
        c.none() if way == "words" else c.feed(c.rng.integers(0, 2, (2, 6)).astype(np.int32))
        c.weight(c.normal(30, 8)).weight(c.normal(12, 8))
        c.none() if way == "words" else c.weight(c.normal(2, 8))
        c.weight(c.normal(8)).weight(c.normal(8))
        if way == "sum":
            c.feed(np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32))
        yield c


def products():
    for metric in ("euclidean", "sqeuclidean"):
        c = Case("CDist", metric, metric=metric)
        yield c.feed(c.normal(7, 5)).weight(c.normal(9, 5))
    for ta in (0, 1):
        for tb in (0, 1):
            c = Case("FusedMatMul", f"{ta}{tb}", alpha=0.5, transA=ta, transB=tb)
            yield c.feed(c.normal(2, *((7, 5) if ta else (5, 7)))).feed(c.normal(2, *((3, 7) if tb else (7, 3))))
    for zero in (False, True):
        c = Case("DynamicQuantizeMatMul", "zero" if zero else "bias")
        c.feed(c.normal(5, 24)).weight(c.bytes(24, 9, kind=np.int8)).weight(F(0.02))
        yield c.weight(np.int8(3)) if zero else c.none().weight(c.normal(9))
    c = Case("MatMulIntegerToFloat", "columns")
    c.feed(c.bytes(5, 24)).weight(c.bytes(24, 9, kind=np.int8)).weight(F(0.03)).weight(abs(c.normal(9, spread=0.02)) + F(0.01))
    yield c.weight(B(120)).weight(c.bytes(9, kind=np.int8)).weight(c.normal(9))
    for bits, k, block, zero in ((4, 64, 32, False), (4, 72, 16, True), (4, 48, 32, True), (8, 64, 32, False)):
        blocks = -(-k // block)
        c = Case("MatMulNBits", f"{bits}_{k}_{block}{'_zero' if zero else ''}", K=k, N=10, bits=bits, block_size=block)
        c.feed(c.normal(5, k)).weight(c.bytes(10, blocks, block * bits // 8)).weight(abs(c.normal(10 * blocks, spread=0.1)))
        yield c.weight(c.bytes(10 * -(-blocks * bits // 8))) if zero else c
    for bits, k, zero, order in ((4, 64, "float", False), (4, 72, "float", False), (4, 64, "none", True), (4, 72, "float", True)):
        blocks = -(-k // 32)
        c = Case("MatMulNBits", f"{bits}_{k}_{zero}{'_order' if order else ''}", K=k, N=10, bits=bits, block_size=32)
        c.feed(c.normal(5, k)).weight(c.bytes(10, blocks, bits * 4)).weight(abs(c.normal(10 * blocks, spread=0.1)))
        c.none() if zero == "none" else c.weight(abs(c.normal(10 * blocks, spread=5)))
        yield c.weight(c.rng.integers(0, blocks, blocks * 32 if order else 0).astype(np.int32)) if order else c


def fused():
    for activation, parameters in (("", ()), ("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("LeakyRelu", (0.2,)), ("Clip", (-0.3, 0.4)), ("HardSigmoid", (0.3, 0.4))):
        c = Case("FusedConv", activation.lower() or "none", kernel_shape=[3, 3], pads=[1, 1, 1, 1], **({"activation": activation} if activation else {}),
                 **({"activation_params": parameters} if parameters else {}))
        c.feed(c.normal(2, 4, 6, 7)).weight(c.normal(6, 4, 3, 3, spread=0.3)).weight(c.normal(6))
        yield c.feed(c.normal(2, 6, 6, 7)) if activation in ("Relu", "") else c
    c = Case("FusedConv", "depthwise", group=4, strides=[2, 2], activation="Relu")
    yield c.feed(c.normal(2, 4, 6, 7)).weight(c.normal(4, 1, 3, 3))
    for activation, given in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Elu", {"activation_alpha": 0.7}), ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}),
                              ("Softsign", {}), ("ThresholdedRelu", {"activation_alpha": 0.3}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):
        c = Case("FusedGemm", activation.lower(), activation=activation, transB=1, alpha=0.5, **given)
        yield c.feed(c.normal(5, 12)).weight(c.normal(7, 12)).weight(c.normal(7))
    c = Case("FusedGemm", "no_bias", activation="Relu")
    yield c.feed(c.normal(5, 12)).weight(c.normal(12, 7))


def attention():
    for name, mask, causal, past in (("plain", None, 0, False), ("mask", (2, 6), 0, False), ("mask_3d", (2, 6, 6), 0, False), ("mask_counts", (2, 6), 0, False), ("causal", None, 1, False),
                                     ("past", None, 1, True), ("causal_padded", (2, 6), 1, False), ("causal_lowest", (2, 6), 1, False)):
        words = {"mask_filter_value": float(np.finfo(np.float32).min)} if name == "causal_lowest" else {}
        c = Case("Attention", name, outputs=2 if past else 1, num_heads=2, unidirectional=causal, **words)
        c.feed(c.normal(2, 6, 8)).weight(c.normal(8, 24, spread=0.4)).weight(c.normal(24, spread=0.3))
        if mask:
            m = np.ones(mask, np.int32)
            m[0, ..., slice(0, 3) if causal else slice(4, 6)] = 0  # what stands first is padding as texts of a decoder have it
            c.feed(c.rng.integers(-2, 4, mask).astype(np.int32) if name == "mask_counts" else m)
        if past:
            c.none().feed(c.normal(2, 2, 2, 3, 4))
        yield c
    for name, mask, causal, past, wide in (("plain", None, 0, False, False), ("columns", None, 0, False, True), ("mask", (2, 6), 0, False, False),
                                           ("causal", None, 1, False, False), ("past", None, 1, True, True)):
        c = Case("QAttention", name, outputs=2 if past else 1, num_heads=2, unidirectional=causal)
        c.feed(c.bytes(2, 6, 8)).weight(c.bytes(8, 24, kind=np.int8)).weight(c.normal(24, spread=0.3)).weight(F(0.008))
        c.weight(abs(c.normal(24, spread=0.003)) + F(0.002) if wide else F(0.004))
        c.feed(np.array([[1] * 4 + [0] * 2, [1] * 6], np.int32)) if mask else c.none()
        c.weight(B(128)).weight(np.zeros(24, np.int8) if wide else np.int8(0))
        yield c.feed(c.normal(2, 2, 2, 3, 4)) if past else c
    for op in ("Attention", "QAttention"):
        for name, ends in (("ends", [4, 6]), ("begins", [4, 6, 1, 2])):
            c = Case(op, name, num_heads=2)
            if op == "Attention":
                c.feed(c.normal(2, 6, 8)).weight(c.normal(8, 24, spread=0.4)).weight(c.normal(24, spread=0.3))
            else:
                c.feed(c.bytes(2, 6, 8)).weight(c.bytes(8, 24, kind=np.int8)).weight(c.normal(24, spread=0.3)).weight(F(0.008)).weight(F(0.004))
            yield c.feed(np.array(ends, np.int32))
    for name in ("plain", "bias", "mask", "counts", "ends", "lists", "scores", "causal", "causal_longer", "causal_shorter", "past"):
        c = Case("MultiHeadAttention", name, outputs=3 if name == "past" else 1, num_heads=2, unidirectional=int(name.startswith("causal")))
        keys = {"causal": 6, "past": 6, "causal_longer": 9, "causal_shorter": 3}.get(name, 7)
        c.feed(c.normal(2, 6, 8)).feed(c.normal(2, keys, 8)).feed(c.normal(2, keys, 8))
        c.weight(c.normal(24)) if name == "bias" else c.none()
        if name == "mask":
            c.feed(np.array([[1] * 5 + [0] * 2, [1] * 7], np.int32))
        if name == "counts":  # a key counts whose mask is above 0
            c.feed(np.array([[1, 2, 0, -1, 5, 0, 1], [0, 1, 1, 3, -2, 9, 0]], np.int32))
        if name in ("ends", "lists"):
            c.feed(np.array([5, 7] + [0, 6, 12, 0, 5, 12] * (name == "lists"), np.int32))
        if name in ("scores", "past"):
            c.none()
            c.feed(c.normal(1, 2, 6, 7)) if name == "scores" else c.none()
        if name == "past":
            c.feed(c.normal(2, 2, 3, 4)).feed(c.normal(2, 2, 3, 4))
        yield c
    for name, ids in (("ids", np.array([[0, 1, 2, 5], [3, 4, 5, 6]])), ("from", np.array([3]))):
        for pairs in (0, 1):
            c = Case("RotaryEmbedding", f"{name}_{pairs}", interleaved=pairs)
            yield c.feed(c.normal(2, 4, 24)).feed(ids.astype(np.int64)).weight(c.normal(9, 4)).weight(c.normal(9, 4))


def grouped_attention():
    """Queries of four heads over keys of two: a prompt, more places, one place, a window, packed, batches of other lengths."""
    angle = np.arange(16)[:, None] / 3.0 ** np.arange(8)
    for name, batch, past, now, lengths, attrs in (("prompt", 2, 0, 5, (5, 5), {}), ("next", 2, 4, 1, (5, 5), {}), ("more", 1, 3, 2, (5,), {"softcap": 3.0}),
                                                   ("window", 2, 6, 1, (7, 7), {"local_window_size": 3}), ("rotary", 2, 4, 1, (5, 5), {"do_rotary": 1}),
                                                   ("pairs", 2, 0, 4, (4, 4), {"do_rotary": 1, "rotary_interleaved": 1}), ("packed", 2, 2, 1, (3, 3), {}),
                                                   ("ragged", 2, 4, 1, (3, 5), {"do_rotary": 1}), ("buffer", 2, 9, 1, (4, 6), {"do_rotary": 1}),
                                                   ("buffer_prompt", 2, 9, 4, (4, 3), {}), ("buffer_more", 1, 9, 3, (7,), {"local_window_size": 4})):
        c = Case("GroupQueryAttention", name, outputs=3, num_heads=4, kv_num_heads=2, **attrs)
        if name == "packed":
            c.feed(c.normal(batch, now, 128)).none().none()
        else:
            c.feed(c.normal(batch, now, 64)).feed(c.normal(batch, now, 32)).feed(c.normal(batch, now, 32))
        c.feed(c.normal(batch, 2, past, 16)).feed(c.normal(batch, 2, past, 16))
        c.feed(np.array(lengths, np.int32) - 1).feed(np.array(max(lengths), np.int32))
        if "do_rotary" in attrs:
            c.weight(np.cos(angle).astype(F)).weight(np.sin(angle).astype(F))
        yield c


def recurrent():
    for columns in (False, True):
        c = Case("DynamicQuantizeLSTM", "columns" if columns else "one", outputs=3, hidden_size=6)
        scale = abs(c.normal(1, 24, spread=0.001)) + F(0.002) if columns else F([0.004])
        zero = np.zeros(scale.shape, np.int8)
        c.feed(c.normal(5, 2, 4)).weight(c.bytes(1, 4, 24, kind=np.int8)).weight(c.bytes(1, 6, 24, kind=np.int8)).weight(c.normal(1, 48, spread=0.1))
        for _ in range(4):
            c.none()
        yield c.weight(scale).weight(zero).weight(scale).weight(zero)


def quantised():
    for kind, zero in ((B, 120), (np.int8, -7), (np.uint16, 30000), (np.int16, -700)):
        scale = F(0.031 if np.dtype(kind).itemsize == 1 else 0.00031)
        c = Case("QuantizeLinear", np.dtype(kind).name)
        yield c.feed(c.normal(2, 3, 4, spread=2)).weight(scale).weight(kind(zero))
        c = Case("DequantizeLinear", np.dtype(kind).name)
        yield c.quantised(c.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (2, 3, 4), kind, endpoint=True), scale, zero)
    c = Case("QuantizeLinear", "columns", axis=1)
    yield c.feed(c.normal(2, 3, 4)).weight(F([0.01, 0.02, 0.04])).weight(B([0, 100, 255]))
    c = Case("DequantizeLinear", "columns", axis=-1)
    yield c.feed(c.bytes(2, 3, 4)).weight(F([0.01, 0.02, 0.04, 0.08])).weight(B([0, 100, 255, 8]))
    c = Case("DequantizeLinear", "i32")
    yield c.feed(c.rng.integers(-90000, 90000, (3, 4)).astype(np.int32)).weight(F(0.02))
    for op in ("QLinearAdd", "QLinearMul"):
        for kind in (B, np.int8):
            c = Case(op, np.dtype(kind).name)
            c.quantised(c.bytes(2, 3, 4, 5, kind=kind), 0.031, 7).quantised(c.bytes(2, 3, 4, 5, kind=kind), 0.017, 3)
            yield c.weight(F(0.043)).weight(kind(9))
    for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearGlobalAveragePool", {}), ("QLinearSoftmax", {"axis": -1, "opset": 13}),
                      ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]})):
        c = Case(op, "u8", **attrs)
        yield c.quantised(c.bytes(2, 3, 7, 6), 0.031, 120).weight(F(0.0043 if op in ("QLinearSigmoid", "QLinearSoftmax") else 0.033)).weight(B(4))
    for op, attrs in (("QLinearGlobalAveragePool", {}), ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]})):
        c = Case(op, "last", channels_last=1, **attrs)
        yield c.quantised(c.bytes(2, 7, 6, 3), 0.031, 120).weight(F(0.033)).weight(B(4))
    for last in (0, 1):
        shape = (2, 7, 6, 3) if last else (2, 3, 7, 6)
        c = Case("QLinearConv", "last" if last else "first", channels_last=last, pads=[1, 1, 1, 1], strides=[2, 1])
        # Weights of seven bits: ONNX Runtime's own form saturates at 16 bits without VNNI, and no option of it changes that.
        c.quantised(c.bytes(*shape), 0.031, 120).weight(c.rng.integers(-63, 64, (5, 3, 3, 3), np.int8)).weight(abs(c.normal(5, spread=0.02)) + F(0.01)).weight(np.zeros(5, np.int8))
        yield c.weight(F(0.4)).weight(B(100)).weight(c.rng.integers(-900, 900, 5).astype(np.int32))
    for kind in (B, np.int8):
        c = Case("QLinearWhere", np.dtype(kind).name)
        c.feed(c.rng.integers(0, 2, (2, 1, 5)).astype(bool)).quantised(c.bytes(2, 3, 5, kind=kind), 0.031, 7).quantised(c.bytes(3, 1, kind=kind), 0.05, 10)
        yield c.weight(F(0.04)).weight(kind(9))
    c = Case("QLinearConcat", "u8", axis=1)
    yield c.weight(F(0.05)).weight(B(100)).quantised(c.bytes(2, 3, 4), 0.031, 7).quantised(c.bytes(2, 5, 4), 0.05, 100)
    for transposed, words in ((0, {}), (1, {}), (0, {"alpha": 0.6})):
        c = Case("QGemm", f"bias_{transposed}" + ("_scaled" if words else ""), transB=transposed, **words)
        c.quantised(c.bytes(5, 24), 0.031, 120).weight(c.bytes(*((9, 24) if transposed else (24, 9)), kind=np.int8)).weight(F(0.02)).weight(np.int8(0))
        yield c.weight(c.rng.integers(-900, 900, 9).astype(np.int32)).weight(F(0.2)).weight(B(100))


def texts():
    """As skl2onnx divides texts."""
    rows = np.array(["The cat sat, on the  mat", "", "nés & ab_1;c"], object)
    for name, own in (("words", {"tokenexp": "[a-zA-Z0-9_]+"}), ("longest", {"tokenexp": "a|at|[ct]at", "mark": 1}), ("characters", {"tokenexp": "."}), ("marked", {"separators": [""], "mark": 1}),
                      ("separators", {"separators": [" ", "[,;]", "\\bs"]}), ("least", {"separators": ["[ ,]+"], "mincharnum": 3}), ("nothing", {"tokenexp": "x*"})):  # fmt: skip
        yield Case("Tokenizer", name, **{"mark": 0, "mincharnum": 1, "pad_value": "#", **own}).feed(rows)
    yield Case("Tokenizer", "rows", mark=0, mincharnum=1, pad_value="", separators=[" "]).feed(rows[:2].reshape(1, 2))


def main():
    a = parser(__doc__).parse_args()
    suite = Suite(a.out, "make_microsoft_suite.py")
    options = ort.SessionOptions()
    # Without VNNI its products of u8 by s8 saturate at 16 bits, unless an optimisation makes them products of u8 by u8.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level, options.log_severity_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, 4
    for family in (activations, norms, products, fused, attention, grouped_attention, recurrent, quantised, texts):
        for c in family():
            model = c.model()
            try:
                answers = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, dict(c.fed))
            except Exception as error:  # of ONNX Runtime's own kinds
                suite.skip(c.name, " ".join(str(error).split())[:160], op=c.op)
                continue
            for output, answer in zip(model.graph.output, answers):
                output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(answer.dtype), answer.shape))
            suite.add(c.name, model, [([x for _, x in c.fed], answers)], rtol=0.0 if c.whole() else 1e-4, atol=1.0 if c.whole() else 0.02 if c.op == "DynamicQuantizeLSTM" else 2e-5, op=c.op)
    suite.close()
    return 0


if __name__ == "__main__":
    run(main)
