"""LSTM, GRU and RNN as operators: directions, activations, states and lengths that are given or not, and any of their results."""
import math

import numpy as np
from elementwise import activation
from graph import Skip, elements, fixed, is_fixed

FIRST = ["Sigmoid", "Sigmoid", "HardSigmoid"]  # of a gate
INNER = ["Tanh", "Tanh", "Softsign", "Relu", "Elu", "LeakyRelu", "ScaledTanh", "Affine"]
WORDS = {"HardSigmoid": (0.25, 0.5), "Elu": (0.7, None), "LeakyRelu": (0.1, None), "ScaledTanh": (1.2, 0.7), "Affine": (0.5, 0.1)}
KINDS = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 1)}  # gates, activations of one direction


def sequence(b, x):
    """x as [steps, batch, width]."""
    if x.rank != 3 or elements(x.shape) > 6000:
        raise Skip
    if b.chance(0.7):
        return b.op("Transpose", [x], (x.shape[1], x.shape[0], x.shape[2]), perm=[1, 0, 2])
    return x


def activations(b, kind, directions):
    """The attributes that name other activations than the usual ones, in one direction each."""
    if b.chance(0.6):
        return {}
    count = KINDS[kind][1]
    names = [b.random.choice(FIRST if count > 1 and k == 0 else INNER) for _ in range(directions) for k in range(count)]
    # ONNX takes alpha and beta one after another, for those activations that have them.
    alpha = [WORDS[n][0] for n in names if n in WORDS]
    beta = [WORDS[n][1] for n in names if n in WORDS and WORDS[n][1] is not None]
    return {"activations": names} | ({"activation_alpha": alpha} if alpha else {}) | ({"activation_beta": beta} if beta else {})


def lengths(b, steps, batch):
    """How far each sequence of the batch goes, where it is known that all sizes have so many steps."""
    low, high = 1, min(steps)
    if b.chance(0.7) or high < 1:
        return None
    if is_fixed(batch) and b.chance(0.5):
        return b.const(np.array([b.between(low, high) for _ in range(batch[0])], np.int32), "lengths")
    if b.name_of(batch) is None:
        return None
    return b.input((batch,), "i32", low=low, high=high + 1, stem="lengths")


def given(b, shape, share=0.4):
    """A state to begin with: an input or nothing."""
    if b.chance(1 - share) or any(b.name_of(d) is None for d in shape):
        return None
    return b.input(shape, std=0.5, stem="state")


def cell(b, x, kind):
    x = sequence(b, x)
    steps, batch, wide = x.shape[0], x.shape[1], x.size(2)
    if max(steps[:3]) > 24:  # the bounds of a long chain say nothing
        raise Skip
    gates, n = KINDS[kind][0], b.pick(1, 3, 4, 8, 8, 16, 17)
    direction = b.pick("forward", "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    b.fits(flops=2 * elements(x.shape) * gates * n * d)
    inputs = [x, b.weight((d, gates * n, wide), 1 / math.sqrt(wide)), b.weight((d, gates * n, n), 1 / math.sqrt(n)),
              b.weight((d, 2 * gates * n), 0.2) if b.chance(0.7) else None, lengths(b, steps, batch), given(b, (fixed(d), batch, fixed(n)))]
    words = {"hidden_size": n, "direction": direction if direction != "forward" or b.chance(0.5) else None, "clip": 3.0 if b.chance(0.15) else None} | activations(b, kind, d)
    if kind == "GRU":
        words["linear_before_reset"] = b.pick(0, 1)
    state = (fixed(d), batch, fixed(n))
    shapes = [(steps, fixed(d), batch, fixed(n)), state]
    if kind == "LSTM":
        inputs += [given(b, state), b.weight((d, 3 * n), 0.2) if b.chance(0.3) else None]
        shapes.append(state)
    while inputs[-1] is None:
        inputs.pop()
    out = b.ops(kind, inputs, shapes, ["f32"] * len(shapes), 0.5, **words)
    for v in out[1:]:
        if b.chance(0.5):
            b.marked.append(v)
    return joined(b, out[0], steps, batch, d, n)


def joined(b, y, steps, batch, d, n):
    """The states as exporters hand them on: without the axis of directions, or both beside each other."""
    if b.chance(0.3):
        return y
    if d == 1:
        y = b.op("Squeeze", [y, b.ints(1)], (steps, batch, fixed(n)))
        return b.op("Transpose", [y], (batch, steps, fixed(n)), perm=[1, 0, 2]) if b.chance(0.5) else activation(b, y)
    y = b.op("Transpose", [y], (steps, batch, fixed(d), fixed(n)), perm=[0, 2, 1, 3])
    return b.op("Reshape", [y, b.ints(0, 0, d * n)], (steps, batch, fixed(d * n)))


def lstm(b, x):
    return cell(b, x, "LSTM")


def gru(b, x):
    return cell(b, x, "GRU")


def rnn(b, x):
    return cell(b, x, "RNN")


def stacked(b, x):
    """Two cells one after the other."""
    y = cell(b, x, b.pick("LSTM", "GRU"))
    while y.rank > 3:
        y = b.op("ReduceSum", [y, b.ints(1)], y.shape[:1] + y.shape[2:], keepdims=0)
    return cell(b, y, b.pick("LSTM", "GRU", "RNN"))


BLOCKS = [lstm, lstm, gru, gru, rnn, stacked]
