"""Operators of ai.onnx.ml: scalers and encoders, linear models, support vector machines, ensembles of trees."""
import numpy as np
from graph import ML, Skip, dims, fixed, is_fixed
from onnx import numpy_helper
from signal_blocks import batch_of


def op(b, kind, inputs, shape=None, dtype="f32", std=1.0, **words):
    return b.op(kind, inputs, shape, dtype, std, domain=ML, **words)


def table(b, x, width=None):
    """Rows of features: x where it is that, else an input."""
    if x.rank == 2 and is_fixed(x.shape[1]) and x.size(1) < 40 and width in (None, x.size(1)) and b.chance(0.4):
        return x
    return b.input((batch_of(b, x), fixed(width or b.pick(1, 3, 5, 8))), stem="features")


def floats(b, count, low=-1.0, high=1.0):
    return [float(np.float32(v)) for v in low + (high - low) * b.numbers.random(count)]


def after(b, *more):
    return b.pick("NONE", "NONE", "LOGISTIC", "SOFTMAX", *more)


def scaled(b, x):
    x = table(b, x)
    n = x.size(1)
    kind = b.pick("Scaler", "Normalizer", "Binarizer", "Imputer")
    if kind == "Scaler":
        count = b.pick(1, n)
        return op(b, kind, [x], offset=floats(b, count), scale=floats(b, count, 0.5, 2.0))
    if kind == "Normalizer":
        return op(b, kind, [b.op("Add", [b.op("Abs", [x]), b.scalar(0.2)])] if b.chance(0.5) else [x], x.shape, std=0.4, norm=b.pick("L1", "L2", "MAX"))
    if kind == "Binarizer":
        return op(b, kind, [x], threshold=b.pick(0.1, -0.2, 0.0))
    marked = b.op("Where", [b.op("Greater", [x, b.scalar(0.4)], dtype="bool"), b.scalar(-9.0), x], x.shape, "f32")
    return op(b, kind, [marked], imputed_value_floats=floats(b, b.pick(1, n)), replaced_value_float=-9.0)


def joined(b, x):
    """FeatureVectorizer and ArrayFeatureExtractor."""
    x = table(b, x)
    n = x.size(1)
    if b.chance(0.5):
        other = b.op("Tanh", [x], std=0.6)
        return op(b, "FeatureVectorizer", [x, other], x.shape[:1] + dims(2 * n), inputdimensions=[n, n])
    at = b.ints(*(b.between(0, n - 1) for _ in range(b.pick(1, 2, 4))))
    return op(b, "ArrayFeatureExtractor", [x, at], x.shape[:1] + at.shape)


def encoded(b, x):
    kind = b.pick("LabelEncoder", "LabelEncoder", "OneHotEncoder")
    shape = (batch_of(b, x),) + (dims(3) if b.chance(0.5) and kind == "LabelEncoder" else ())
    v = b.input(shape, "i64", low=0, high=9, stem="classes")
    if kind == "OneHotEncoder":
        known = b.random.sample(range(10), b.pick(6, 10))  # of fewer than there are, the others are zeros
        return op(b, kind, [v], shape + dims(len(known)), cats_int64s=known, zeros=1 if len(known) == 6 else b.pick(0, 1))
    keys = b.random.sample(range(9), 6)
    if b.chance(0.5):
        return op(b, kind, [v], dtype="i64", keys_int64s=keys, values_int64s=[b.between(-50, 50) for _ in keys], default_int64=b.pick(None, 77))
    return op(b, kind, [v], keys_int64s=keys, values_floats=floats(b, 6), default_float=b.pick(None, 0.25))


def labels(b, classes):
    return {"classlabels_ints": b.random.sample(range(50), classes)}


def linear(b, x):
    x = table(b, x)
    n = x.size(1)
    if b.chance(0.4):
        targets = b.pick(1, 3)
        return op(b, "LinearRegressor", [x], x.shape[:1] + dims(targets), coefficients=floats(b, targets * n), intercepts=floats(b, targets), targets=targets)
    classes = b.pick(2, 3, 4)
    rows = b.pick(1, 2) if classes == 2 else classes
    words = {"coefficients": floats(b, rows * n), "intercepts": floats(b, rows), "post_transform": after(b, "SOFTMAX_ZERO")} | labels(b, classes)
    return classified(b, "LinearClassifier", x, classes, words)


def classified(b, kind, x, classes, words):
    label, scores = b.ops(kind, [x], [x.shape[:1], x.shape[:1] + dims(classes)], ["i64", "f32"], 1.0, domain=ML, **words)
    if b.chance(0.6):
        b.marked.append(label)
    return scores


def machine(b, x):
    """Support vector machines; of the classifier the votes."""
    x = table(b, x)
    n, supports = x.size(1), b.pick(3, 5)
    kernel = b.pick("LINEAR", "POLY", "RBF", "SIGMOID")
    words = {"kernel_type": kernel, "kernel_params": [0.4, 0.3, float(b.pick(2, 3))]}
    if b.chance(0.5):
        words |= {"n_supports": supports, "coefficients": floats(b, supports), "support_vectors": floats(b, supports * n), "rho": floats(b, 1)}
        return op(b, "SVMRegressor", [x], x.shape[:1] + dims(1), **words)
    classes = 3
    per = [b.pick(1, 2) for _ in range(classes)]
    words |= {"vectors_per_class": per, "coefficients": floats(b, (classes - 1) * sum(per)), "support_vectors": floats(b, sum(per) * n), "rho": floats(b, 3)} | labels(b, classes)
    return classified(b, "SVMClassifier", x, classes, words)


MODES = ["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(b, features, ids, kind):
    """Full trees of one depth, with one weight in each leaf."""
    count, depth = b.pick(1, 3, 8), b.pick(1, 2, 3)
    inner, every = 2**depth - 1, 2 ** (depth + 1) - 1
    leaf = [k >= inner for k in range(every)]
    mode = b.pick("BRANCH_LEQ", None)
    nodes = range(every)
    return {"nodes_treeids": [t for t in range(count) for _ in nodes], "nodes_nodeids": [k for _ in range(count) for k in nodes],
            "nodes_featureids": [b.between(0, features - 1) for _ in range(count * every)], "nodes_values": floats(b, count * every),
            "nodes_modes": ["LEAF" if leaf[k] else mode or b.random.choice(MODES) for _ in range(count) for k in nodes],
            "nodes_truenodeids": [0 if leaf[k] else 2 * k + 1 for _ in range(count) for k in nodes],
            "nodes_falsenodeids": [0 if leaf[k] else 2 * k + 2 for _ in range(count) for k in nodes],
            f"{kind}_treeids": [t for t in range(count) for _ in range(inner + 1)], f"{kind}_nodeids": [k for _ in range(count) for k in nodes if leaf[k]],
            f"{kind}_ids": [b.between(0, ids - 1) for _ in range(count * (inner + 1))], f"{kind}_weights": floats(b, count * (inner + 1), 0.0, 1.0)}


def trees(b, x):
    if b.versions[ML] != 3:
        raise Skip
    x = table(b, x)
    n = x.size(1)
    if b.chance(0.5):
        targets = b.pick(1, 3)
        # What follows, and the base of a target that a row does not reach, ONNX Runtime leaves out.
        words = {"aggregate_function": b.pick("SUM", "AVERAGE", "MIN", "MAX") if targets == 1 else b.pick("SUM", "AVERAGE"), "n_targets": targets,
                 "base_values": floats(b, targets) if targets == 1 and b.chance(0.5) else None}
        return op(b, "TreeEnsembleRegressor", [x], x.shape[:1] + dims(targets), **words, **forest(b, n, targets, "target"))
    classes = b.pick(3, 4)
    words = {"classlabels_int64s": b.random.sample(range(50), classes), "post_transform": after(b), "base_values": floats(b, classes) if b.chance(0.5) else None}
    return classified(b, "TreeEnsembleClassifier", x, classes, words | forest(b, n, classes, "class"))


def later_trees(b, x):
    """TreeEnsemble, of version 5: inner nodes and leaves in lists of their own."""
    if any(n.domain == ML for n in b.nodes):
        raise Skip
    x = table(b, x)
    features, count, depth, targets = x.size(1), b.pick(1, 3), b.pick(1, 2, 3), b.pick(1, 2)
    inner, last = 2**depth - 1, 2 ** (depth - 1) - 1
    rows = [(t, k) for t in range(count) for k in range(inner)]
    left = [t * (inner + 1) + 2 * (k - last) if k >= last else t * inner + 2 * k + 1 for t, k in rows]
    low = [int(k >= last) for _, k in rows]
    tensor = lambda name, values: numpy_helper.from_array(np.asarray(values), name)
    words = {"tree_roots": [t * inner for t in range(count)], "nodes_featureids": [b.between(0, features - 1) for _ in rows],
             "nodes_splits": tensor("splits", np.array(floats(b, len(rows)), np.float32)),
             "nodes_modes": tensor("modes", np.array([b.pick(0, 0, 1, 2, 3) for _ in rows], np.uint8)), "nodes_truenodeids": left, "nodes_falsenodeids": [k + 1 for k in left],
             "nodes_trueleafs": low, "nodes_falseleafs": low, "leaf_targetids": [b.between(0, targets - 1) for _ in range(count * (inner + 1))],
             "leaf_weights": tensor("weights", np.array(floats(b, count * (inner + 1)), np.float32)), "n_targets": targets, "aggregate_function": b.pick(0, 1)}
    y = op(b, "TreeEnsemble", [x], x.shape[:1] + dims(targets), **words)
    b.versions[ML] = 5
    return y


BLOCKS = [scaled, scaled, scaled, joined, encoded, encoded, linear, linear, machine, machine, trees, trees, trees, later_trees]
