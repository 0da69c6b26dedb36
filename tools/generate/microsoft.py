"""Operators of com.microsoft that exporters and ONNX Runtime's optimiser write: activations, products, norms, embeddings,
attention with its masks and caches, rotary positions, and products by weights of few bits."""
import math

import numpy as np
from graph import MICROSOFT, Skip, dims, elements, fixed, is_fixed
from signal_blocks import batch_of


def op(b, kind, inputs, shape=None, dtype="f32", std=None, **words):
    return b.op(kind, inputs, shape, dtype, std, domain=MICROSOFT, **words)


def trimmed(inputs):
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def tokens(b, x, width=None, length=None):
    """[batch, places, width]: x where it is so, else an input."""
    if x.rank == 3 and width in (None, x.shape[2][0]) and is_fixed(x.shape[2]) and length is None and elements(x.shape) < 8000 and b.name_of(x.shape[0]) is not None:
        return x
    return b.input((batch_of(b, x), fixed(length or b.pick(1, 4, 7)), fixed(width or b.pick(8, 16, 24))), stem="tokens")


def activation(b, x):
    if not x.rank:
        raise Skip
    kind = b.pick("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "bias")
    if kind in ("Gelu", "FastGelu"):
        return op(b, kind, [x])
    if kind == "QuickGelu":
        return op(b, kind, [x], alpha=b.pick(1.0, 1.702, 0.5))
    if not is_fixed(x.shape[-1]):
        raise Skip
    return op(b, "FastGelu" if kind == "bias" else "BiasGelu", [x, b.weight((x.size(-1),), 0.3)])


def product(b, x):
    """FusedMatMul with either side turned, and a factor."""
    if x.rank < 2:
        raise Skip
    ta, tb = b.pick(0, 0, 1), b.pick(0, 1)
    rows, k = (x.shape[-1], x.shape[-2]) if ta else (x.shape[-2], x.shape[-1])
    n = b.pick(1, 3, 8, 17)
    if not is_fixed(k):
        raise Skip
    shape = x.shape[:-2] + (rows, fixed(n))
    b.fits(shape, flops=2 * elements(shape) * k[0])
    w = b.weight((n, k[0]) if tb else (k[0], n), 1 / math.sqrt(k[0]))
    return op(b, "FusedMatMul", [x, w], shape, alpha=b.pick(1.0, 0.5, 0.125), transA=ta, transB=tb)


def skip_norm(b, x):
    x = tokens(b, x)
    n = x.size(2)
    plain = b.chance(0.5)
    other = b.op("Tanh", [x], std=0.6) if b.chance(0.5) else b.input(x.shape, stem="skip")
    inputs = [x, other, b.weight((n,), 0.2, 1.0)] + ([] if plain else [b.weight((n,), 0.3) if b.chance(0.7) else None])
    inputs.append(b.weight((n,), 0.3) if b.chance(0.5) else None)
    kind = "SkipSimplifiedLayerNormalization" if plain else "SkipLayerNormalization"
    if b.chance(0.5):
        return op(b, kind, trimmed(inputs), std=1.0, epsilon=1e-5)
    out = b.ops(kind, trimmed(inputs), [x.shape, (), (), x.shape], ["f32"] * 4, 1.0, domain=MICROSOFT, epsilon=1e-5)
    b.nodes[-1].output[1] = b.nodes[-1].output[2] = ""
    b.marked.append(out[3])
    return out[0]


def simplified_norm(b, x):
    """An operator of the domain of ONNX that only ONNX Runtime has."""
    if x.rank < 2 or not is_fixed(x.shape[-1]):
        raise Skip
    return b.op("SimplifiedLayerNormalization", [x, b.weight((x.size(-1),), 0.2, 1.0)], std=1.0, axis=-1, epsilon=1e-5)


def embedding(b, x):
    batch, places, n = batch_of(b, x), fixed(b.pick(1, 4, 6)), b.pick(4, 8, 16)
    ids = b.input((batch, places), "i32", low=0, high=20, stem="ids")
    parts = b.chance(0.6)
    segments = b.input((batch, places), "i32", low=0, high=2, stem="segments") if parts else None
    inputs = [ids, segments, b.weight((20, n)), b.weight((12, n)), b.weight((2, n)) if parts else None, b.weight((n,), 0.2, 1.0), b.weight((n,), 0.3)]
    if b.chance(0.4):
        inputs.append(b.input((batch, places), "i32", low=0, high=2, seen=1, stem="mask"))
    shape = (batch, places, fixed(n))
    out = b.ops("EmbedLayerNormalization", inputs, [shape, (batch,)], ["f32", "i32"], 1.0, domain=MICROSOFT, epsilon=1e-5)
    if len(inputs) == 8:
        b.marked.append(out[1])
    return out[0]


def attention(b, x):
    """Attention with the product of queries, keys and values in it."""
    x = tokens(b, x)
    d, heads, w = x.size(2), b.pick(1, 2, 4), b.pick(2, 4, 8)
    n, places = heads * w, x.shape[1]
    causal = b.pick(0, 1)
    mask = past = None
    way = b.pick("none", "none", "mask", "wide", "past")
    if way == "mask":
        mask = b.input((x.shape[0], places), "i32", low=0, high=2, seen=1, stem="mask") if not causal and b.name_of(places) is not None else None
    if way == "wide" and b.name_of(places) is not None and not causal:
        mask = b.input((x.shape[0], places, places), "i32", low=0, high=2, seen=1, stem="mask")
    if way == "past" and is_fixed(places):
        past = b.input((fixed(2), x.shape[0], fixed(heads), fixed(3), fixed(w)), stem="past")
    inputs = [x, b.weight((d, 3 * n), 1 / math.sqrt(d)), b.weight((3 * n,), 0.3), mask, past]
    shape = (x.shape[0], places, fixed(n))
    b.fits(shape, flops=6 * elements(x.shape) * n)
    if past is None:
        return op(b, "Attention", trimmed(inputs), shape, std=0.6, num_heads=heads, unidirectional=causal)
    whole = (fixed(2), x.shape[0], fixed(heads), fixed(3 + places[0]), fixed(w))
    out = b.ops("Attention", inputs, [shape, whole], ["f32"] * 2, 0.6, domain=MICROSOFT, num_heads=heads, unidirectional=1)
    b.marked.append(out[1])
    return out[0]


def multi_head(b, x):
    heads, w = b.pick(1, 2, 4), b.pick(2, 4, 8)
    n = heads * w
    q = tokens(b, x, n)
    if b.name_of(q.shape[1]) is None:
        raise Skip
    causal = b.pick(0, 0, 1)
    keys = q.shape[1] if causal else fixed(b.pick(3, 7))
    k, v = (b.input((q.shape[0], keys, fixed(n)), stem="memory") for _ in range(2))
    bias = b.weight((3 * n,), 0.3) if b.chance(0.4) else None
    way = b.pick("none", "mask", "scores") if not causal else "none"
    mask = b.input((q.shape[0], keys), "i32", low=0, high=2, seen=1, stem="mask") if way == "mask" else None
    scores = b.input((fixed(1), fixed(heads), q.shape[1], keys), stem="scores") if way == "scores" else None
    b.fits(flops=4 * elements(q.shape) * max(keys[:3]))
    return op(b, "MultiHeadAttention", trimmed([q, k, v, bias, mask, scores]), q.shape, std=0.6, num_heads=heads, unidirectional=causal,
              scale=b.pick(None, 0.3))


def grouped(b, x):
    """Queries of more heads than keys, after a cache or at the beginning of one."""
    batch, groups, per, w = b.pick(1, 2), b.pick(1, 2), b.pick(1, 2), 16
    past, now = b.pick((0, 5), (4, 1), (3, 1), (0, 1))
    heads, whole = groups * per, past + now
    q = b.input(dims(batch, now, heads * w), stem="query")
    k, v = (b.input(dims(batch, now, groups * w), stem="key") for _ in range(2))
    # A cache of no places is an input of no elements: a constant.
    cache = [b.input(dims(batch, groups, past, w), stem="cache") for _ in range(2)] if past else [None, None]
    inputs = [q, k, v, *cache, b.const(np.full(batch, whole - 1, np.int32), "lengths"), b.const(np.array(whole, np.int32), "whole")]
    words = {"num_heads": heads, "kv_num_heads": groups, "local_window_size": b.pick(None, None, 2), "softcap": b.pick(None, None, 3.0), "scale": b.pick(None, 0.2)}
    if b.chance(0.4):
        angle = np.arange(16)[:, None] / 3.0 ** np.arange(w // 2)
        inputs += [b.const(np.cos(angle).astype(np.float32)), b.const(np.sin(angle).astype(np.float32))]
        words |= {"do_rotary": 1, "rotary_interleaved": b.pick(0, 1)}
    state = dims(batch, groups, whole, w)
    out = b.ops("GroupQueryAttention", inputs, [q.shape, state, state], ["f32"] * 3, 0.6, domain=MICROSOFT, **words)
    b.marked += out[1:] if b.chance(0.6) else []
    return out[0]


def rotary(b, x):
    batch, places, heads, w = b.pick(1, 2, 3), b.pick(1, 4), b.pick(1, 2, 3), b.pick(8, 16)
    v = b.input(dims(batch, heads, places, w) if b.chance(0.4) else dims(batch, places, heads * w), stem="turned")
    at = b.input(dims(batch, places), "i64", low=0, high=9, stem="places") if b.chance(0.6) else b.ints(b.between(0, 4))
    angle = np.arange(9)[:, None] / 3.0 ** np.arange(w // 2)
    return op(b, "RotaryEmbedding", [v, at, b.const(np.cos(angle).astype(np.float32)), b.const(np.sin(angle).astype(np.float32))], v.shape, interleaved=b.pick(0, 1))


def few_bits(b, x):
    bits, block, n = b.pick(4, 4, 8), b.pick(16, 32), b.pick(1, 5, 8, 16)
    k = b.pick(16, 32, 48, 64)
    v = b.input((batch_of(b, x),) + (dims(3) if b.chance(0.4) else ()) + dims(k), stem="wide")
    blocks = -(-k // block)
    packed = b.const(b.numbers.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8), "packed")
    scales = b.const((0.02 + 0.05 * b.numbers.random(n * blocks)).astype(np.float32), "scales")
    zeros = b.const(b.numbers.integers(0, 256, n * (-(-blocks * bits // 8))).astype(np.uint8), "zeros") if b.chance(0.5) else None
    shape = v.shape[:-1] + dims(n)
    b.fits(flops=2 * elements(shape) * k)
    return op(b, "MatMulNBits", trimmed([v, packed, scales, zeros]), shape, std=2.0, K=k, N=n, bits=bits, block_size=block, accuracy_level=b.pick(None, 1))


BLOCKS = [activation, activation, product, product, skip_norm, skip_norm, simplified_norm, embedding, attention, attention, multi_head, multi_head, grouped, grouped, rotary, few_bits, few_bits]
