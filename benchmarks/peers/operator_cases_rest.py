"""The operators that operator_cases.py leaves: views, control flow, sequences, text, losses, ai.onnx.ml, com.microsoft."""
import math

import numpy as np
from onnx import helper, numpy_helper
from operator_cases import IMAGES, ROWS, F, Given, Held, K, L, Row, S, Text, U, W, each

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"

# What ONNX Runtime says at length, in short.
WITHOUT_PEER = {name: "ONNX Runtime 1.31 has no kernel for it on the CPU" for name in
                ("CausalConvWithState", "LinearAttention", "SwiGLU")}


def viewed():
    sizes = lambda d: K(d[0], math.prod(d[1:]))
    yield Row("Reshape", [[F(*d), sizes(d)] for d in IMAGES])
    yield each("Flatten", IMAGES)
    yield Row("Squeeze", [[F(1, *d[1:]), K(0)] for d in IMAGES])
    yield Row("Unsqueeze", [[F(*d), K(0)] for d in IMAGES])
    yield each("Shape", IMAGES)
    yield each("Size", IMAGES)
    yield each("Dropout", IMAGES)
    yield Row("Constant", [([], {"value": numpy_helper.from_array(np.ones(d, np.float32))}) for d in IMAGES])
    yield Row("CastLike", [[F(*d), S(1, np.int64)] for d in IMAGES])
    yield Row("BitCast", [[F(*d)] for d in IMAGES], opset=26, to=6)
    yield Row("Upsample", [[F(*d), Held(np.array([1, 1, 2, 2], np.float32))] for d in IMAGES], opset=9, mode="nearest")
    yield Row("Upsample", [[F(*d), Held(np.array([1, 1, 2, 2], np.float32))] for d in IMAGES], "linear", opset=9, mode="linear")
    yield Row("Scatter", [[F(*d), L(d[0], d[1], d[2] // 2, high=d[2], distinct=True), F(d[0], d[1], d[2] // 2)] for d in ROWS], opset=10, axis=2)
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        yield Row(op, [[Given("i64", (), n, n + 1)] for n in (64, 400, 4096)])
    yield Row("CumProd", [[U(*d), S(1, np.int64)] for d in ROWS], opset=26)
    yield each("Swish", IMAGES, opset=24)
    yield Row("SwiGLU", [[F(*d), F(*d)] for d in ROWS], opset=28)


def sequenced():
    """Each text takes dims as ONNX writes them."""
    def texts(text, dims=ROWS):
        return [text.replace("DIMS", ",".join(map(str, d))).replace("HALF", str(d[-1] // 2)) for d in dims]

    two = "g (float[DIMS] a, float[DIMS] b) => (float[DIMS] y) { "
    at = "k = Constant<value_int=1>() "
    yield Text("SequenceConstruct", texts(two + at + "s = SequenceConstruct(a, b) y = SequenceAt(s, k) }"))
    yield Text("SequenceAt", texts(two + "k = Constant<value_int=-1>() s = SequenceConstruct(a, b) y = SequenceAt(s, k) }"))
    yield Text("SequenceEmpty", texts(two + "k = Constant<value_int=0>() e = SequenceEmpty() s = SequenceInsert(e, a) t = SequenceAt(s, k) y = Add(t, b) }"))
    yield Text("SequenceInsert", texts(two + "k = Constant<value_int=0>() s = SequenceConstruct(a) r = SequenceInsert(s, b, k) y = SequenceAt(r, k) }"))
    yield Text("SequenceErase", texts(two + "k = Constant<value_int=0>() s = SequenceConstruct(a, b) r = SequenceErase(s, k) y = SequenceAt(r, k) }"))
    yield Text("SequenceLength", texts("g (float[DIMS] a, float[DIMS] b) => (int64 y) { s = SequenceConstruct(a, b) y = SequenceLength(s) }"))
    yield Text("ConcatFromSequence", texts("g (float[DIMS] a, float[DIMS] b) => (float[A,B,C] y) { s = SequenceConstruct(a, b) y = ConcatFromSequence<axis=1>(s) }"))
    yield Text("SplitToSequence", texts("g (float[DIMS] a) => (float[A,B,C] y) { h = Constant<value_int=HALF>() k = Constant<value_int=0>() "
                                        "s = SplitToSequence<axis=2>(a, h) y = SequenceAt(s, k) }"))
    yield Text("SequenceMap", texts(two + at + "s = SequenceConstruct(a, b) r = SequenceMap<body = each (float[DIMS] e) => (float[DIMS] f) { f = Relu(e) }>(s) "
                                               "y = SequenceAt(r, k) }"))
    one = "g (float[DIMS] a) => (float[DIMS] y) { "
    yield Text("Optional", texts(one + "o = Optional(a) y = OptionalGetElement(o) }"))
    yield Text("OptionalGetElement", texts(one + "o = Optional(a) t = OptionalGetElement(o) y = Relu(t) }"))
    yield Text("OptionalHasElement", texts("g (float[DIMS] a) => (bool y) { o = Optional(a) y = OptionalHasElement(o) }"))
    yield Text("If", texts("g (bool c, float[DIMS] a) => (float[DIMS] y) { y = If (c) <then_branch = t () => (float[DIMS] p) { p = Relu(a) }, "
                           "else_branch = e () => (float[DIMS] q) { q = Neg(a) }> }"))
    yield Text("Loop", texts("g (int64 n, float[DIMS] a) => (float[DIMS] y) { t = Constant<value = bool {1}>() y = Loop (n, t, a) <body = b (int64 i, bool c, float[DIMS] v) "
                             "=> (bool d, float[DIMS] w) { d = Identity(c) h = Constant<value_float=0.5>() r = Relu(v) w = Mul(r, h) }> }"), given={"n": 10})
    yield Text("Scan", [f"g (float[{b},{n}] s, float[{t},{b},{n}] x) => (float[{b},{n}] f, float[{t},{b},{n}] y) {{ f, y = Scan <num_scan_inputs=1, body = b "
                        f"(float[{b},{n}] p, float[{b},{n}] v) => (float[{b},{n}] q, float[{b},{n}] w) {{ m = Add(p, v) q = Tanh(m) w = Identity(q) }}> (s, x) }}"
                        for t, b, n in ((10, 1, 32), (50, 4, 128), (100, 16, 256))])


WORDS = ["lorem ipsum dolor", "sit amet", "consectetur adipiscing elit sed", "do 17 eiusmod", "tempor", "incididunt ut labore", "a1b2", "Et Dolore Magna"]


def written():
    T = lambda *d: Given("str", d, None, WORDS)
    yield Row("RegexFullMatch", [[T(n)] for n in (16, 256, 4096)], pattern=r"[a-z ]+[0-9]*.*")
    yield Row("StringConcat", [[T(n), T(n)] for n in (16, 256, 4096)], texts=True)
    yield Row("StringNormalizer", [[T(n)] for n in (16, 256, 4096)], texts=True, case_change_action="UPPER", locale="C")
    yield Row("StringSplit", [[T(n)] for n in (16, 256, 4096)], texts=True, outputs=2)
    pool = list(range(0, 100))
    yield Row("TfIdfVectorizer", [[L(*d)] for d in ((1, 64), (8, 512), (64, 2048))], opset=9, mode="TF", min_gram_length=1, max_gram_length=2,
              max_skip_count=0, ngram_counts=[0, 50], ngram_indexes=list(range(75)), pool_int64s=pool)


def lost():
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        yield Row(op, [[F(n, c), L(n, high=c)] for n, c in ((16, 10), (128, 1000), (512, 30000))], opset=13)
        yield Row(op, [[F(n, c, h, h), L(n, h, h, high=c)] for n, c, h in ((1, 4, 28), (1, 21, 128), (2, 21, 256))], "of pixels", opset=13)


def attended():
    heads = ((1, 4, 16, 32), (1, 12, 128, 64), (8, 12, 128, 64))
    yield Row("Attention", [[F(*d), F(*d), F(*d)] for d in heads], opset=23)
    yield Row("RotaryEmbedding", [[F(*d), F(d[0], d[2], d[3] // 2), F(d[0], d[2], d[3] // 2)] for d in heads], opset=23)
    yield Row("LinearAttention", [[F(d[0], d[2], d[1] * d[3])] * 3 for d in heads], opset=27, outputs=2,
              **{"q_num_heads": 4, "kv_num_heads": 4, "update_rule": "linear"})
    yield Row("CausalConvWithState", [[F(*d), W(d[1], 1, 4), W(d[1])] for d in ((1, 64, 16), (1, 768, 128), (8, 768, 128))], opset=27, outputs=2)
    yield Row("SimplifiedLayerNormalization", [[F(*d), W(d[-1])] for d in ROWS], axis=-1, epsilon=1e-5)


def bytes_at_work():
    """Quantised operators of ONNX: scales and zero points of a network's size."""
    s, z, zs = S(0.02), S(128, np.uint8), S(0, np.int8)
    w = lambda *d: Held(np.random.default_rng(3).integers(-100, 100, d).astype(np.int8))
    bytes_of = lambda *d: L(*d, high=255, kind="u8")
    conv = [(1, 16, 16, 28), (1, 64, 64, 56), (4, 128, 128, 56)]
    yield Row("ConvInteger", [[bytes_of(n, c, h, h), w(o, c, 3, 3), z] for n, c, o, h in conv], pads=[1] * 4)
    yield Row("QLinearConv", [[bytes_of(n, c, h, h), s, z, w(o, c, 3, 3), S(0.01), zs, S(0.5), z] for n, c, o, h in conv], pads=[1] * 4)
    sizes = ((16, 64, 64), (128, 768, 768), (256, 768, 3072))
    yield Row("QLinearMatMul", [[bytes_of(m, k), s, z, w(k, n), S(0.01), zs, S(0.5), z] for m, k, n in sizes])
    M = lambda op, cases, **more: Row(op, cases, domain=MICROSOFT, **more)
    yield M("QGemm", [[bytes_of(m, k), s, z, w(k, n), S(0.01), zs, None, S(0.5), z] for m, k, n in sizes])
    yield M("MatMulIntegerToFloat", [[bytes_of(m, k), w(k, n), s, S(0.01), z, zs] for m, k, n in sizes])
    yield M("DynamicQuantizeMatMul", [[F(m, k), w(k, n), S(0.01), zs] for m, k, n in sizes])
    for op in ("QLinearAdd", "QLinearMul"):
        yield M(op, [[bytes_of(*d), s, z, bytes_of(*d), S(0.03), z, S(0.05), z] for d in IMAGES])
    yield M("QLinearConcat", [[s, z, bytes_of(*d), S(0.03), z, bytes_of(*d), S(0.01), z] for d in IMAGES], axis=1)
    yield M("QLinearAveragePool", [[bytes_of(*d), s, z, S(0.02), z] for d in IMAGES], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield M("QLinearGlobalAveragePool", [[bytes_of(*d), s, z, S(0.02), z] for d in IMAGES], channels_last=0)
    yield M("QLinearLeakyRelu", [[bytes_of(*d), s, z, s, z] for d in IMAGES], alpha=0.1)
    yield M("QLinearSigmoid", [[bytes_of(*d), s, z, S(1 / 256), S(0, np.uint8)] for d in IMAGES])
    yield M("QLinearSoftmax", [([bytes_of(*d), s, z, S(1 / 256), S(0, np.uint8)], {"opset": 13}) for d in ROWS])


def of_microsoft():
    M = lambda op, cases, note="", **more: Row(op, cases, note, domain=MICROSOFT, **more)
    for op in ("Gelu", "QuickGelu", "FastGelu"):
        yield M(op, [[F(*d)] for d in ROWS])
    yield M("BiasGelu", [[F(*d), W(d[-1])] for d in ROWS])
    yield M("FusedMatMul", [[F(1, 4, 16, 32), F(1, 4, 16, 32)], [F(1, 12, 128, 64), F(1, 12, 128, 64)], [F(8, 12, 128, 64), F(8, 12, 128, 64)]], transB=1, alpha=0.125)
    scaled = lambda d, *more: [F(*d), F(*d), W(d[-1]), *more]
    yield M("SkipLayerNormalization", [scaled(d, W(d[-1])) for d in ROWS])
    yield M("SkipSimplifiedLayerNormalization", [scaled(d) for d in ROWS])
    yield M("EmbedLayerNormalization", [[L(b, t, kind="i32"), L(b, t, high=2, kind="i32"), W(1000, n), W(512, n), W(2, n), W(n), W(n)]
                                        for b, t, n in ((1, 16, 64), (1, 128, 768), (8, 128, 768))], outputs=2)
    yield M("Attention", [([F(b, t, n), W(n, 3 * n), W(3 * n)], {"num_heads": h}) for b, t, n, h in ((1, 16, 64, 4), (1, 128, 768, 12), (4, 128, 768, 12))])
    yield M("MultiHeadAttention", [([F(b, t, n)] * 3, {"num_heads": h}) for b, t, n, h in ((1, 16, 64, 4), (1, 128, 768, 12), (8, 128, 768, 12))])
    grouped = lambda b, t, h, g, n: [F(b, t, h * n), F(b, t, g * n), F(b, t, g * n), None, None, Held(np.full(b, t - 1, np.int32)), S(t, np.int32)]
    yield M("GroupQueryAttention", [(grouped(b, t, h, g, n), {"num_heads": h, "kv_num_heads": g})
                                    for b, t, h, g, n in ((1, 16, 4, 2, 16), (1, 128, 12, 4, 64), (4, 128, 16, 4, 64))], outputs=3)
    yield M("RotaryEmbedding", [[F(*d), Held(np.zeros((1,), np.int64)), W(512, d[3] // 2), W(512, d[3] // 2)] for d in ((1, 4, 16, 32), (1, 12, 128, 64), (8, 12, 128, 64))])
    packed = lambda k, n: [Held(np.random.default_rng(5).integers(0, 256, (n, k // 32, 16)).astype(np.uint8)), W(n * (k // 32))]
    yield M("MatMulNBits", [([F(m, k), *packed(k, n)], {"K": k, "N": n}) for m, k, n in ((1, 64, 64), (1, 1024, 1024), (128, 1024, 1024))], bits=4, block_size=32)
    yield M("DynamicQuantizeLSTM", [([F(t, b, n), Held(np.random.default_rng(1).integers(-100, 100, (1, n, 4 * n)).astype(np.int8)),
                                      Held(np.random.default_rng(2).integers(-100, 100, (1, n, 4 * n)).astype(np.int8)), W(1, 8 * n), None, None, None, None,
                                      Held(np.full(1, 0.001, np.float32)), Held(np.zeros(1, np.int8)), Held(np.full(1, 0.001, np.float32)), Held(np.zeros(1, np.int8))],
                                     {"hidden_size": n}) for t, b, n in ((10, 1, 32), (50, 1, 128), (100, 8, 256))])


def trees(count, depth, features, targets, classes):
    """Full trees with seeded thresholds, as TreeEnsembleRegressor or -Classifier states them."""
    rng = np.random.default_rng(11)
    inner, every = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = np.arange(every)
    leaf = nodes >= inner
    kind = "class" if classes else "target"
    own = {"nodes_treeids": np.repeat(np.arange(count), every), "nodes_nodeids": np.tile(nodes, count),
           "nodes_featureids": rng.integers(0, features, count * every), "nodes_values": rng.standard_normal(count * every).astype(np.float32),
           "nodes_truenodeids": np.tile(np.where(leaf, 0, 2 * nodes + 1), count), "nodes_falsenodeids": np.tile(np.where(leaf, 0, 2 * nodes + 2), count),
           f"{kind}_treeids": np.repeat(np.arange(count), inner + 1), f"{kind}_nodeids": np.tile(nodes[leaf], count),
           f"{kind}_ids": rng.integers(0, targets, count * (inner + 1)), f"{kind}_weights": rng.random(count * (inner + 1)).astype(np.float32)}
    own = {name: value.tolist() for name, value in own.items()} | {"nodes_modes": np.tile(np.where(leaf, "LEAF", "BRANCH_LEQ"), count).tolist()}
    return own | ({"classlabels_int64s": list(range(targets))} if classes else {"n_targets": targets})


def tree_nodes(count, depth, features):
    """The same as TreeEnsemble states them: inner nodes and leaves in lists of their own."""
    rng = np.random.default_rng(12)
    inner, last = 2**depth - 1, 2 ** (depth - 1) - 1
    k = np.tile(np.arange(inner), count)
    base, leaves = np.repeat(np.arange(count), inner) * inner, np.repeat(np.arange(count), inner) * (inner + 1)
    low = k >= last  # its children are leaves
    left = np.where(low, leaves + 2 * (k - last), base + 2 * k + 1)
    tensor = lambda name, values: numpy_helper.from_array(np.asarray(values), name)
    return {"tree_roots": (np.arange(count) * inner).tolist(), "nodes_featureids": rng.integers(0, features, count * inner).tolist(),
            "nodes_splits": tensor("splits", rng.standard_normal(count * inner).astype(np.float32)), "nodes_modes": tensor("modes", np.zeros(count * inner, np.uint8)),
            "nodes_truenodeids": left.tolist(), "nodes_falsenodeids": (left + 1).tolist(), "nodes_trueleafs": low.astype(int).tolist(),
            "nodes_falseleafs": low.astype(int).tolist(), "leaf_targetids": [0] * (count * (inner + 1)),
            "leaf_weights": tensor("weights", rng.random(count * (inner + 1)).astype(np.float32)), "n_targets": 1}


def machine(vectors, features, classes):
    """A support vector machine with seeded vectors; of `classes` classes, or a regressor."""
    rng = np.random.default_rng(13)
    own = {"support_vectors": rng.standard_normal(vectors * features), "coefficients": rng.standard_normal(vectors * max(1, classes - 1)),
           "rho": rng.standard_normal(max(1, classes * (classes - 1) // 2))}
    own = {name: value.astype(np.float32).tolist() for name, value in own.items()} | {"kernel_params": [1.0 / features, 0.0, 3.0]}
    each = [len(part) for part in np.array_split(np.arange(vectors), classes or 1)]
    return own | ({"vectors_per_class": each, "classlabels_ints": list(range(classes))} if classes else {"n_supports": vectors})


def classical():
    M = lambda op, cases, note="", **more: Row(op, cases, note, domain=ML, **{"version": 3, **more})
    flat = ((1, 16), (128, 64), (4096, 128))
    yield M("ArrayFeatureExtractor", [[F(*d), K(*range(0, d[1], 2))] for d in flat])
    yield M("Binarizer", [[F(*d)] for d in flat], threshold=0.1)
    yield M("FeatureVectorizer", [([F(*d), F(*d)], {"inputdimensions": [d[1], d[1]]}) for d in flat])
    yield M("Imputer", [[F(*d)] for d in flat], imputed_value_floats=[0.5], replaced_value_float=-1.0)
    yield M("LabelEncoder", [[L(*d)] for d in flat], version=4, keys_int64s=list(range(100)), values_int64s=list(range(100, 0, -1)))
    for post in ("NONE", "SOFTMAX"):
        yield M("LinearClassifier", [([F(*d)], {"coefficients": np.linspace(-1, 1, 10 * d[1]).astype(np.float32).tolist()}) for d in flat], post, outputs=2,
                intercepts=[0.1] * 10, classlabels_ints=list(range(10)), post_transform=post)
    yield M("LinearRegressor", [([F(*d)], {"coefficients": np.linspace(-1, 1, d[1]).astype(np.float32).tolist()}) for d in flat], intercepts=[0.1], targets=1)
    for norm in ("L1", "L2", "MAX"):
        yield M("Normalizer", [[F(*d)] for d in flat], norm, norm=norm)
    yield M("OneHotEncoder", [[L(n, high=20)] for n in (16, 128, 4096)], cats_int64s=list(range(20)), zeros=1)
    yield M("Scaler", [([F(*d)], {"offset": [0.1] * d[1], "scale": [2.0] * d[1]}) for d in flat])
    machines = ((1, 16, 50), (128, 64, 300), (1024, 128, 1000))
    for kernel in ("RBF", "POLY"):
        yield M("SVMRegressor", [([F(n, f)], machine(count, f, 0)) for n, f, count in machines], kernel, kernel_type=kernel)
        yield M("SVMClassifier", [([F(n, f)], machine(count, f, 4)) for n, f, count in machines], kernel, outputs=2, kernel_type=kernel)
    forests = ((1, 16, 10, 4), (128, 64, 100, 6), (4096, 128, 100, 6))
    yield M("TreeEnsembleRegressor", [([F(n, f)], trees(count, depth, f, 1, False)) for n, f, count, depth in forests])
    yield M("TreeEnsembleClassifier", [([F(n, f)], trees(count, depth, f, 5, True)) for n, f, count, depth in forests], outputs=2)
    yield M("TreeEnsemble", [([F(n, f)], tree_nodes(count, depth, f)) for n, f, count, depth in forests], version=5)


FAMILIES = (viewed, sequenced, written, lost, attended, bytes_at_work, of_microsoft, classical)
