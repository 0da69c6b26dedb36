"""Random operators, whose numbers are nobody else's: what leaves the graph says only what their definition does; Dropout, which
does nothing; and losses."""
import numpy as np
from graph import dims
from signal_blocks import batch_of


def drawn(b, x):
    """Numbers of a range, whole parts of which are the same whatever was drawn."""
    b.need(13, 21)
    kind = b.pick("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
    like = kind.endswith("Like")
    if like:
        shape, inputs, words = x.shape, [x], {"dtype_": b.pick(None, 1)}
    else:
        shape, inputs, words = dims(b.pick(1, 3), 4), [], {"shape_": None, "dtype_": 1}
        words["shape_"] = [d[0] for d in shape]
    seed = float(b.between(1, 99)) if b.chance(0.5) else None
    if "Uniform" in kind:
        low = b.pick(0, 2)
        v = b.op(kind, inputs, shape, "f32", 1.0, low=low + 0.25, high=low + 0.75, seed=seed, **words)
        v = b.op("Floor", [v]) if b.chance(0.6) else b.op("Clip", [v, b.scalar(low), b.scalar(low)])
    else:
        v = b.op(kind, inputs, shape, "f32", 1.0, mean=5.0, scale=0.1, seed=seed, **words)
        v = b.op("Clip", [v, b.scalar(-1.0), b.scalar(1.0)])
    return b.op("Add", [x, v], x.shape) if like else v


def bernoulli(b, x):
    """Zeros and ones: v * v is v. ONNX Runtime draws a one as often as there should be a zero."""
    b.need(15, 21)
    y = b.op("Bernoulli", [b.op("Sigmoid", [x], std=0.6)], seed=float(b.between(1, 99)), dtype_=b.pick(None, 1))
    return b.op("Add", [x, b.op("Sub", [b.op("Mul", [y, y]), y])])


def multinomial(b, x):
    """One class that is all but sure."""
    b.need(13, 21)
    logits = np.full((1, b.pick(2, 4)), -1e4, np.float32)
    logits[0, b.between(0, logits.shape[1] - 1)] = 0
    rows = b.op("Add", [b.input((batch_of(b, x),) + dims(logits.shape[1]), stem="logits"), b.const(logits)], std=1.0)
    n = b.pick(1, 5)
    kind, code = b.pick(("i32", 6), ("i64", 7))
    return b.op("Multinomial", [rows], rows.shape[:1] + dims(n), kind, sample_size=n, dtype_=code, seed=float(b.between(1, 99)))


def dropout(b, x):
    """In inference what goes in, and a mask of ones."""
    inputs = [x] + ([b.scalar(0.3)] if b.chance(0.5) else [])
    if b.chance(0.5):
        return b.op("Dropout", inputs, x.shape)
    y, mask = b.ops("Dropout", inputs, [x.shape] * 2, ["f32", "bool"])
    b.marked.append(mask)
    return y


def loss(b, x):
    classes, places = b.pick(2, 3, 5), b.pick((), (4,), (2, 3))
    scores = b.input((batch_of(b, x),) + dims(classes, *places), stem="scores")
    shape = scores.shape[:1] + dims(*places)
    target = b.input(shape, b.pick("i64", "i32"), low=0, high=classes, stem="classes")
    way = b.pick("none", "mean", "sum")
    inputs = [scores, target] + ([b.const((0.5 + b.numbers.random(classes)).astype(np.float32))] if b.chance(0.4) else [])
    words = {"reduction": way, "ignore_index": b.pick(None, None, -1, 5)}
    out = shape if way == "none" else ()
    if b.chance(0.5):
        inputs[0] = b.op("LogSoftmax", [scores], axis=1)
        return b.op("NegativeLogLikelihoodLoss", inputs, out, **words)
    if b.chance(0.4):
        y, logs = b.ops("SoftmaxCrossEntropyLoss", inputs, [out, scores.shape], ["f32"] * 2, **words)
        b.marked.append(logs)
        return y
    return b.op("SoftmaxCrossEntropyLoss", inputs, out, **words)


BLOCKS = [drawn, drawn, drawn, bernoulli, multinomial, dropout, loss, loss]
