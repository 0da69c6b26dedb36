"""Models with sequences and optionals in the manner of exported ones: lists that are split and joined, that unrolled
bodies and loops make grow, that loops read, maps over them."""
import numpy as np


def parts(model, f32, rng):
    """An axis in parts, some of them taken, one with the place from the front, one from the back, the rest joined."""
    m = model(
        """parts (float[n, 6] x) => (float[n, 2] a, float[n, 5] b, int64 count) {
            all = SplitToSequence <axis = 1> (x, two)
            a = SequenceAt (all, minus1)
            less = SequenceErase (all, zero)
            column = Slice (x, begin, end, axis1)
            more = SequenceInsert (less, column, zero)
            b = ConcatFromSequence <axis = 1> (more)
            count = SequenceLength (more) }""",
        [("two", np.array(2, np.int64)), ("minus1", np.array(-1, np.int64)), ("zero", np.array(0, np.int64)),
         ("begin", np.array([0], np.int64)), ("end", np.array([1], np.int64)), ("axis1", np.array([1], np.int64))])
    for n in (1, 5):
        yield m, [f32(rng, n, 6)]


def unrolled(model, f32, rng):
    """A cell three times, its states in a list."""
    steps = "\n".join(f"""x{k} = Gather <axis = 1> (x, i{k})
        u{k} = Add (x{k}, h{k})
        h{k + 1} = Tanh (u{k})
        l{k + 1} = SequenceInsert (l{k}, h{k + 1})""" for k in range(3))
    m = model(
        f"""cell (float[n, 3, 4] x, float[n, 4] h0) => (float[n, 3, 4] states) {{
            l0 = SequenceEmpty <dtype = 1> ()
            {steps}
            states = ConcatFromSequence <axis = 1, new_axis = 1> (l3) }}""",
        [(f"i{k}", np.array(k, np.int64)) for k in range(3)])
    for n in (1, 4):
        yield m, [f32(rng, n, 3, 4), f32(rng, n, 4)]


def grown(model, f32, rng):
    """A loop that adds to a list as often as an input says; the list stacked, in one, and one element of it."""
    m = model(
        """grow (float[n, 4] x, int64 trips) => (float[n, t, 4] stacked, float[n, k] joined, float[n, 4] second, int64 count) {
            begin = SequenceConstruct (x)
            last, list = Loop (trips, , x, begin) <
              body = step (int64 i, bool go, float[n, 4] s, seq(float[n, 4]) seen) => (bool more, float[n, 4] s2, seq(float[n, 4]) grown) {
                half = Mul (s, factor)
                s2 = Add (half, x)
                grown = SequenceInsert (seen, s2)
                more = Identity (go) }>
            stacked = ConcatFromSequence <axis = 1, new_axis = 1> (list)
            joined = ConcatFromSequence <axis = 1> (list)
            second = SequenceAt (list, one)
            count = SequenceLength (list) }""",
        [("factor", np.array(0.5, np.float32)), ("one", np.array(1, np.int64))])
    for n, trips in ((1, 1), (3, 4)):
        yield m, [f32(rng, n, 4), np.array(trips, np.int64)]


def repeated(model, f32, rng):
    """A loop of known length that takes a list apart: repeated at import, with a scan output."""
    m = model(
        """repeat (float[n, 6] x) => (float[n, 2] sum, float[t, n] means) {
            all = SplitToSequence <axis = 1> (x, two)
            count = SequenceLength (all)
            sum, rest, means = Loop (count, , none, all) <
              body = step (int64 i, bool go, float[n, 2] s, seq(float[n, 2]) left) => (bool more, float[n, 2] s2, seq(float[n, 2]) less, float[n] mean) {
                first = SequenceAt (left, zero)
                s2 = Add (s, first)
                mean = ReduceMean <axes = [1], keepdims = 0> (first)
                less = SequenceErase (left, zero)
                more = Identity (go) }> }""",
        [("two", np.array(2, np.int64)), ("zero", np.array(0, np.int64)), ("none", np.zeros((1, 2), np.float32))])
    for n in (2, 3):
        yield m, [f32(rng, n, 6)]


def read(model, f32, rng):
    """A loop and an If that read a list from outside, by a place that a run knows."""
    m = model(
        """read (float[2, n] x, int64 trips, bool up) => (float[n] sum, float[n] chosen) {
            a = Gather <axis = 0> (x, zero)
            b = Gather <axis = 0> (x, one)
            all = SequenceConstruct (a, b)
            sum = Loop (trips, , a) <
              body = step (int64 i, bool go, float[n] s) => (bool more, float[n] s2) {
                at = Mod (i, two)
                e = SequenceAt (all, at)
                s2 = Add (s, e)
                more = Identity (go) }>
            chosen = If (up) <
              then_branch = yes () => (float[n] p) { p = SequenceAt (all, one) },
              else_branch = no () => (float[n] q) { r = SequenceAt (all, zero)
                q = Neg (r) }> }""",
        [("zero", np.array(0, np.int64)), ("one", np.array(1, np.int64)), ("two", np.array(2, np.int64))])
    for n, trips, up in ((3, 3, True), (5, 4, False)):
        yield m, [f32(rng, 2, n), np.array(trips, np.int64), np.array(up)]


def mapped(model, f32, rng):
    """A body for every element, beside a tensor that all share."""
    m = model(
        """map (float[2, n] x, float[n] y) => (float[2, n] z, int64[t] sizes) {
            all = SplitToSequence <axis = 0, keepdims = 0> (x)
            sums, shapes = SequenceMap (all, y) <
              body = one (float[n] e, float[n] f) => (float[n] g, int64[k] s) {
                g = Add (e, f)
                s = Shape (g) }>
            z = ConcatFromSequence <axis = 0, new_axis = 1> (sums)
            sizes = ConcatFromSequence <axis = 0> (shapes) }""", opset=18)
    for n in (3, 4):
        yield m, [f32(rng, 2, n), f32(rng, n)]


def cases(model, f32):
    """(name, generator) of each; `model` and `f32` are those of make_control_suite.py."""
    return [(f.__name__, lambda rng, f=f: f(model, f32, rng)) for f in (parts, unrolled, grown, repeated, read, mapped)]
