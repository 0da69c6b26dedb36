"""Recurrent cells unrolled as exporters write them, gates, and attention in its many written forms."""
import math

import numpy as np
import norm
import product
import views
from elementwise import activation, hard_swish, swish
from graph import Skip, dims, elements, fixed, is_fixed


def rows(b, x):
    """x as [batch, width]; sometimes thousands wide."""
    if x.rank == 2:
        return product.long_value(b, x, b.random.choice(product.LONG)) if b.chance(0.12) else x
    if x.rank == 3:
        return b.op("ReduceMean", [x], (x.shape[0], x.shape[2]), axes=[1], keepdims=0) if b.opset < 18 else b.op("ReduceMean", [x, b.ints(1)], (x.shape[0], x.shape[2]), keepdims=0)
    raise Skip


def state(b, x, n):
    """A hidden state: an input, or computed of x."""
    shape = (x.shape[0], fixed(n))
    if b.chance(0.6) and b.name_of(x.shape[0]) is not None:
        return b.input(shape, std=0.5, stem="state")
    return b.op("Tanh", [product.dense(b, x, n)], std=0.6)


def gates(b, x, h, n, count):
    """`count` gate inputs of width n: one product each, or one wide product split."""
    if b.chance(0.5):
        wide = b.op("Add", [product.dense_bias(b, x, n * count), product.dense(b, h, n * count)])
        return views.parts(b, wide, 1, count)
    return [b.op("Add", [b.random.choice(product.ROWWISE)(b, x, n), b.random.choice(product.ROWWISE)(b, h, n)]) for _ in range(count)]


def width(b):
    return b.pick(4, 8, 12, 16, 17, 32, 33)


def gru(b, x):
    x = rows(b, x)
    n = width(b)
    h = state(b, x, n)
    for _ in range(b.pick(1, 1, 2)):
        r, z = (b.op("Sigmoid", [g], std=0.6) for g in gates(b, x, h, n, 2))
        if b.chance(0.5):  # the reset gate before or after the product
            inner = b.op("Add", [product.dense_bias(b, x, n), product.dense(b, b.op("Mul", [r, h]), n)])
        else:
            inner = b.op("Add", [product.dense_bias(b, x, n), b.op("Mul", [r, product.dense_bias(b, h, n)])])
        c = b.op("Tanh", [inner], std=0.6)
        if b.chance(0.5):
            keep = b.op("Sub", [b.scalar(1.0), z], z.shape, std=0.6)
            h = b.op("Add", [b.op("Mul", [keep, c]), b.op("Mul", [z, h])])
        else:
            h = b.op("Add", [c, b.op("Mul", [z, b.op("Sub", [h, c])])])
    return h


def lstm(b, x):
    x = rows(b, x)
    n = width(b)
    h, c = state(b, x, n), state(b, x, n)
    for _ in range(b.pick(1, 1, 2)):
        i, f, g, o = gates(b, x, h, n, 4)
        i, f, o = (b.op("Sigmoid", [v], std=0.6) for v in (i, f, o))
        c = b.op("Add", [b.op("Mul", [f, c]), b.op("Mul", [i, b.op("Tanh", [g], std=0.6)])])
        h = b.op("Mul", [o, b.op("Tanh", [c], std=0.6)])
    b.marked.append(c)
    return h


def rnn(b, x):
    x = rows(b, x)
    n = width(b)
    h = state(b, x, n)
    for _ in range(b.pick(1, 2, 3)):
        h = activation(b, b.op("Add", [product.dense_bias(b, x, n), product.dense(b, h, n)]))
    return h


def unrolled(b, x):
    """A cell over the steps of a sequence of fixed length."""
    if x.rank != 3 or not is_fixed(x.shape[1]) or x.size(1) > 8:
        raise Skip
    n, steps = width(b), []
    h = b.const(np.zeros((1, n), np.float32))
    w, u, bias = b.weight((x.size(2), n), 1 / math.sqrt(x.size(2))), b.weight((n, n), 1 / math.sqrt(n)), b.weight((n,), 0.2)
    for k in range(x.size(1)):
        step = b.op("Gather", [x, b.const(np.array(k, np.int64))], (x.shape[0], x.shape[2]), axis=1)
        s = b.op("Add", [b.op("MatMul", [step, w], (x.shape[0], fixed(n))), b.op("MatMul", [h, u], h.shape[:1] + (fixed(n),), std=0.5)], (x.shape[0], fixed(n)))
        h = b.op("Tanh", [b.op("Add", [s, bias])], std=0.6)
        steps.append(b.op("Unsqueeze", [h, b.ints(1)], (x.shape[0], fixed(1), fixed(n))))
    return b.op("Concat", steps, (x.shape[0], x.shape[1], fixed(n)), axis=1)


def gated(b, x):
    """a * gate(b) with both products of x, or halves of one."""
    if x.rank < 2:
        raise Skip
    n = width(b)
    a, g = views.parts(b, product.dense_bias(b, x, 2 * n), x.rank - 1, 2) if b.chance(0.5) else (product.dense(b, x, n), product.dense(b, x, n))
    g = b.pick(swish, hard_swish, lambda b, v: b.op("Sigmoid", [v], std=0.6))(b, g)
    return product.dense(b, b.op("Mul", [a, g] if b.chance(0.5) else [g, a]), x.size(-1))


# ---- attention ----
def heads_of(b, x, heads, width_):
    """[batch, s, heads * width] -> [batch, heads, s, width]."""
    split = b.op("Reshape", [x, b.ints(0, 0, heads, width_) if b.chance(0.5) or not is_fixed(x.shape[1]) else b.ints(0, x.size(1), heads, width_)],
                 (x.shape[0], x.shape[1], fixed(heads), fixed(width_)))
    return b.op("Transpose", [split], (x.shape[0], fixed(heads), x.shape[1], fixed(width_)), perm=[0, 2, 1, 3])


def masked(b, scores, s_q, s_k, batch):
    """Scores with a mask: additive, boolean, causal; broadcast in every way."""
    kind = b.pick("none", "add", "bool", "causal", "add", "int")
    shape = b.pick((fixed(1), fixed(1), s_q, s_k), (batch, fixed(1), fixed(1), s_k), (batch, fixed(1), s_q, s_k), (s_q, s_k), (fixed(1), fixed(1), fixed(1), s_k))
    if kind == "none":
        return scores
    if kind == "causal":
        if not (is_fixed(s_q) and is_fixed(s_k)):
            raise Skip
        m = np.triu(np.full((s_q[0], s_k[0]), -np.inf if b.chance(0.5) else -1e9, np.float32), 1 + max(0, s_k[0] - s_q[0]))
        return b.op("Add", [scores, b.const(m)])
    if kind == "add":
        return b.op("Add", [scores, b.input(shape, std=1.0, stem="mask")])
    if kind == "bool":
        m = b.input(shape, "bool", share=0.8, seen=1, stem="mask")
        low = b.scalar(b.pick(-1e9, -1e4, -3.4028234663852886e38))
        return b.op("Where", [m, scores, low], scores.shape, "f32", std=scores.std)
    m = b.input((batch, s_k), "i64", low=0, high=2, seen=1, stem="mask")
    m = b.op("Unsqueeze", [b.op("Cast", [m], dtype="f32", to=1), b.ints(1, 2)], (batch, fixed(1), fixed(1), s_k))
    return b.op("Add", [scores, b.op("Mul", [b.op("Sub", [b.scalar(1.0), m], m.shape, "f32"), b.scalar(b.pick(-1e4, -1e9))])])


def attend(b, q, k, v, width_):
    scale = 1 / math.sqrt(width_)
    turned = b.op("Transpose", [k], k.shape[:2] + (k.shape[3], k.shape[2]), perm=[0, 1, 3, 2])
    where = b.pick("q", "scores", "div", "k")
    if where == "q":
        q = b.op("Mul", [q, b.scalar(scale)])
    if where == "k":
        turned = b.op("Mul", [turned, b.scalar(scale)])
    shape = q.shape[:3] + (k.shape[2],)
    b.fits(shape, flops=2 * elements(shape) * width_)
    s = b.op("MatMul", [q, turned], shape, std=1.0)
    if where in ("scores", "div"):
        s = b.op("Mul", [s, b.scalar(scale)]) if where == "scores" else b.op("Div", [s, b.scalar(math.sqrt(width_))])
    s = masked(b, s, q.shape[2], k.shape[2], q.shape[0])
    p = norm.softmax(b, s, 3) if b.chance(0.15) else b.op("Softmax", [s], std=0.3, axis=b.pick(3, -1))
    return b.op("MatMul", [p, v], q.shape[:3] + (v.shape[3],), std=v.std)


def attention(b, x):
    """Multi-head attention over x, or from x to a memory; sometimes few keys for many queries."""
    if x.rank != 3:
        raise Skip
    d = x.size(2)
    heads, w = b.pick(1, 2, 3, 4), b.pick(4, 8, 8, 16, 5)
    n = heads * w
    memory = x
    if b.chance(0.3) and b.name_of(x.shape[0]) is not None:
        length = fixed(b.pick(3, 9, 16)) if not b.symbols or b.chance(0.5) else b.random.choice([*b.symbols.values()])
        memory = b.input((x.shape[0], length, fixed(b.pick(d, 12))), stem="memory")
    if memory is x and b.chance(0.3):
        q, k, v = views.parts(b, product.dense_bias(b, x, 3 * n), 2, 3)
    else:
        q, k, v = (product.dense_bias(b, s, n) for s in (x, memory, memory))
    q, k, v = (heads_of(b, t, heads, w) for t in (q, k, v))
    y = attend(b, q, k, v, w)
    y = b.op("Transpose", [y], (x.shape[0], x.shape[1], fixed(heads), fixed(w)), perm=[0, 2, 1, 3])
    y = b.op("Reshape", [y, b.ints(0, 0, n)], x.shape[:2] + (fixed(n),))
    return product.dense_bias(b, y, d)


def image_attention(b, x):
    """Attention over the places of an image, one head."""
    if x.rank != 4:
        raise Skip
    c = x.size(1)
    places = views.product(x.shape[2], x.shape[3])
    flat = b.op("Reshape", [x, b.ints(0, c, -1)], (x.shape[0], fixed(c), places))
    turned = b.op("Transpose", [flat], (x.shape[0], places, fixed(c)), perm=[0, 2, 1])
    b.fits((x.shape[0], places, places), flops=4 * elements((x.shape[0], places, places)) * c)
    s = b.op("Softmax", [b.op("Mul", [b.op("MatMul", [turned, flat], (x.shape[0], places, places)), b.scalar(0.3 / c)])], axis=-1, std=0.1)
    return b.op("MatMul", [s, turned], turned.shape, std=x.std)


def transformer_layer(b, x):
    """Attention and a feed-forward part, each with its residual, normalised before or after."""
    if x.rank != 3:
        raise Skip
    before = b.chance(0.5)
    for inner in (attention, lambda b, v: product.dense_bias(b, activation(b, product.dense_bias(b, v, b.pick(16, 32, 48))), x.size(2))):
        y = inner(b, norm.layer_norm(b, x) if before else x)
        x = b.op("Add", [x, y] if b.chance(0.5) else [y, x], x.shape)
        x = x if before else norm.layer_norm(b, x)
    return x


def cross_product(b, x):
    """Pairwise scores of two products of x, as in a pointer."""
    if x.rank != 3:
        raise Skip
    p, q = product.dense(b, x, 8), product.dense(b, x, 8)
    shape = (x.shape[0], x.shape[1], x.shape[1])
    b.fits(shape, flops=16 * elements(shape))
    q = b.op("Transpose", [q], (x.shape[0], dims(8)[0], x.shape[1]), perm=[0, 2, 1])
    return norm.softmax(b, b.op("MatMul", [p, q], shape), b.pick(1, 2))


BLOCKS = [gru, gru, lstm, rnn, unrolled, gated]
ATTENTION = [attention, attention, image_attention, transformer_layer, cross_product]
