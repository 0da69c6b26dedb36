#!/usr/bin/env python3
"""Write models with control flow in the manner of exported ones, their answers computed by ONNX Runtime.

A voice detector that takes one of two networks by the sampling rate, a decoder whose tokens grow, detections class by
class, scans in every direction, loops without a trip count or an iteration, ifs that sizes or constants decide, ifs in
loops in ifs, lists (sequence_cases.py). Every model runs on two sets of inputs, of two sizes where a size is free.
"""
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser as text
import sequence_cases
from suite_files import Suite, parser, run

IR = 10


def model(body, weights=(), opset=17, functions=""):
    """A model of the text form of onnx.parser; `weights` are (name, array)."""
    m = text.parse_model(f'<ir_version: {IR}, opset_import: ["" : {opset}, "own" : 1]>\n{body}\n{functions}')
    m.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights)
    return m


def rng_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def f32(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def voice(rng):
    """An If on the sampling rate; each branch has its own convolution and LSTM, whose weights stand outside of it."""
    weights = []
    for rate, window in (("a", 16), ("b", 8)):
        weights += [
            (f"conv_{rate}", f32(rng, 12, 1, window, scale=0.3)),
            (f"w_{rate}", f32(rng, 1, 32, 12, scale=0.3)),
            (f"r_{rate}", f32(rng, 1, 32, 8, scale=0.3)),
            (f"bias_{rate}", f32(rng, 1, 64, scale=0.1)),
            (f"head_{rate}", f32(rng, 8, 1)),
        ]

    def branch(name, rate, window):
        return f"""{name} = g_{rate} () => (float[n] p_{rate}, float[1,n,8] h_{rate}, float[1,n,8] c_{rate}) {{
            f_{rate} = Conv <strides = [{window // 2}]> (x1, conv_{rate})
            e_{rate} = Relu (f_{rate})
            t_{rate} = Transpose <perm = [2, 0, 1]> (e_{rate})
            y_{rate}, h_{rate}, c_{rate} = LSTM <hidden_size = 8> (t_{rate}, w_{rate}, r_{rate}, bias_{rate}, , h, c)
            s_{rate} = Squeeze (h_{rate}, axis0)
            l_{rate} = MatMul (s_{rate}, head_{rate})
            g_{rate} = Sigmoid (l_{rate})
            p_{rate} = Squeeze (g_{rate}, axis1) }}"""

    m = model(
        f"""voice (float[n, 64] x, int64 sr, float[1, n, 8] h, float[1, n, 8] c) => (float[n] p, float[1, n, 8] hn, float[1, n, 8] cn) {{
            x1 = Unsqueeze (x, axis1)
            is16 = Equal (sr, rate16)
            p, hn, cn = If (is16) < {branch("then_branch", "a", 16)}, {branch("else_branch", "b", 8)} > }}""",
        [*weights, ("rate16", np.array(16000, np.int64)), ("axis0", np.array([0], np.int64)), ("axis1", np.array([1], np.int64))],
    )
    for n, sr in ((1, 16000), (3, 8000)):
        yield m, [f32(rng, n, 64), np.array(sr, np.int64), f32(rng, 1, n, 8), f32(rng, 1, n, 8)]


def decoder(rng):
    """Tokens grow by one in each iteration, greedily; it ends by the trip count or where all have reached the end."""
    m = model(
        """decode (int64[n, 1] start, float[n, 6] state, int64 most) => (int64[n, length] tokens, float[steps, n] best, float[n, 6] last) {
            tokens, last, best = Loop (most, , start, state) <
              body = step (int64 i, bool go, int64[n, l] seen, float[n, 6] s) => (bool more, int64[n, k] grown, float[n, 6] next, float[n] score) {
                newest = Slice (seen, minus1, large, axis1)
                one = Squeeze (newest, axis1)
                e = Gather (table, one)
                mixed = Add (e, s)
                r = MatMul (mixed, recur)
                next = Tanh (r)
                logits = MatMul (next, out)
                score = ReduceMax <axes = [1], keepdims = 0> (logits)
                id = ArgMax <axis = 1, keepdims = 1> (logits)
                grown = Concat <axis = 1> (seen, id)
                open = Equal (id, eos)
                shut = Not (open)
                n32 = Cast <to = 6> (shut)
                any = ReduceMax <keepdims = 0> (n32)
                more = Cast <to = 9> (any) }> }""",
        [
            ("table", f32(rng, 11, 6)),
            ("recur", f32(rng, 6, 6)),
            ("out", f32(rng, 6, 11)),
            ("minus1", np.array([-1], np.int64)),
            ("large", np.array([2**31 - 1], np.int64)),
            ("axis1", np.array([1], np.int64)),
            ("eos", np.array(10, np.int64)),
        ],
    )
    for n, most in ((1, 9), (4, 5)):
        yield m, [rng.integers(0, 10, (n, 1)), f32(rng, n, 6), np.array(most, np.int64)]


def detections(rng):
    """Suppression class by class, what is kept grows by what the data decides."""
    m = model(
        """detect (float[n, 4] raw, float[3, n] scores) => (float[k, 4] boxes, float[k] confidence, int64[k] labels) {
            corner = Slice (raw, c0, c2, axis1)
            size = Slice (raw, c2, c4, axis1)
            positive = Abs (size)
            other = Add (corner, positive)
            all_boxes = Concat <axis = 1> (corner, other)
            batched = Unsqueeze (all_boxes, axis0)
            trips = Constant <value_int = 3> ()
            boxes, confidence, labels = Loop (trips, , none4, none1, none_label) <
              body = one (int64 i, bool go, float[a, 4] b, float[a] s, int64[a] l) => (bool more, float[d, 4] b2, float[d] s2, int64[d] l2) {
                row = Gather <axis = 0> (scores, i)
                row3 = Unsqueeze (row, axes01)
                kept = NonMaxSuppression (batched, row3, most, overlap, least)
                index2 = Slice (kept, c2, c3, axis1)
                index = Squeeze (index2, axis1)
                new_b = Gather <axis = 0> (all_boxes, index)
                new_s = Gather <axis = 0> (row, index)
                zeros = Mul (index, zero)
                new_l = Add (zeros, i)
                b2 = Concat <axis = 0> (b, new_b)
                s2 = Concat <axis = 0> (s, new_s)
                l2 = Concat <axis = 0> (l, new_l)
                more = Identity (go) }> }""",
        [
            *((f"c{k}", np.array([k], np.int64)) for k in (0, 2, 3, 4)),
            ("axis0", np.array([0], np.int64)),
            ("axis1", np.array([1], np.int64)),
            ("axes01", np.array([0, 1], np.int64)),
            ("most", np.array([5], np.int64)),
            ("overlap", np.array([0.3], np.float32)),
            ("least", np.array([0.2], np.float32)),
            ("zero", np.array(0, np.int64)),
            ("none4", np.zeros((0, 4), np.float32)),
            ("none1", np.zeros(0, np.float32)),
            ("none_label", np.zeros(0, np.int64)),
        ],
    )
    for n in (7, 20):
        yield m, [f32(rng, n, 4), rng.random((3, n), np.float32)]


def scans(rng):
    """Scan inputs and outputs along other axes, forwards and backwards, with a weight from outside."""
    m = model(
        """scan (float[n, 3] first, float[n, t, 3] x, float[t, n] gate) => (float[n, 3] last, float[n, t, 3] all, float[t, n] sums) {
            last, all, sums = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0], scan_output_axes = [1, 0], scan_output_directions = [0, 1],
              body = step (float[n, 3] s, float[n, 3] e, float[n] g) => (float[n, 3] s2, float[n, 3] o, float[n] q) {
                m = MatMul (s, w)
                a = Add (m, e)
                s2 = Tanh (a)
                g1 = Unsqueeze (g, axis1)
                o = Mul (s2, g1)
                q = ReduceSum <keepdims = 0> (o, axis1) }> (first, x, gate) }""",
        [("w", f32(rng, 3, 3)), ("axis1", np.array([1], np.int64))],
    )
    for n, t in ((1, 4), (3, 7)):
        yield m, [f32(rng, n, 3), f32(rng, n, t, 3), f32(rng, t, n)]


def scan_with_batch(rng):
    """The form of opset 8: state and inputs have a batch in front."""
    m = model(
        """scan (float[b, 2] first, float[b, t, 2] x) => (float[b, 2] last, float[b, t, 2] all) {
            last, all = Scan <num_scan_inputs = 1, body = step (float[2] s, float[2] e) => (float[2] s2, float[2] o) {
                s2 = Add (s, e)
                o = Mul (s2, e) }> ( , first, x) }""",
        opset=8,
    )
    for b, t in ((1, 3), (2, 5)):
        yield m, [f32(rng, b, 2), f32(rng, b, t, 2)]


def while_loop(rng):
    """No trip count: halves until the largest is below one, and says how often."""
    m = model(
        """halve (float[n] x) => (float[n] y, int64 times) {
            yes = Constant <value = bool {1}> ()
            y, times = Loop ( , yes, x, zero) <
              body = step (int64 i, bool go, float[n] v, int64 t) => (bool more, float[n] w, int64 t2) {
                w = Mul (v, half)
                t2 = Add (t, one)
                a = Abs (w)
                top = ReduceMax <keepdims = 0> (a)
                more = Greater (top, limit) }> }""",
        [("half", np.array(0.5, np.float32)), ("zero", np.array(0, np.int64)), ("one", np.array(1, np.int64)), ("limit", np.array(1, np.float32))],
    )
    for n in (3, 8):
        yield m, [f32(rng, n, scale=50)]


def no_iteration(rng):
    """A trip count that is an input and may be zero: scan outputs without a part, carried values as they were."""
    m = model(
        """none (int64 trips, float[3, 2] x) => (float[3, 2] last, float[t, 3, 2] parts) {
            last, parts = Loop (trips, , x) <
              body = step (int64 i, bool go, float[3, 2] v) => (bool more, float[3, 2] w, float[3, 2] part) {
                w = Add (v, v)
                part = Neg (v)
                more = Identity (go) }> }"""
    )
    for trips in (0, 4):
        yield m, [np.array(trips, np.int64), f32(rng, 3, 2)]


def nested(rng):
    """An if in a loop in a branch, which reads values two and three graphs away; one loop's body has another loop."""
    m = model(
        """nest (bool c, float[n, 3] x, int64 k) => (float[n, 3] y) {
            twice = Add (x, x)
            y = If (c) <
              then_branch = yes () => (float[n, 3] a) {
                a = Loop (k, , x) <body = outer (int64 i, bool go, float[n, 3] v) => (bool more, float[n, 3] w) {
                  two = Constant <value_int = 2> ()
                  rest = Mod (i, two)
                  odd = Cast <to = 9> (rest)
                  u = If (odd) <
                    then_branch = odd_step () => (float[n, 3] p) { p = Sub (v, twice) },
                    else_branch = even_step () => (float[n, 3] q) {
                      q = Loop (two, , v) <body = inner (int64 j, bool on, float[n, 3] r) => (bool also, float[n, 3] s) {
                        m = MatMul (r, w3)
                        s = Add (m, x)
                        also = Identity (on) }> }>
                  w = Tanh (u)
                  more = Identity (go) }> },
              else_branch = no () => (float[n, 3] b) { b = Mul (twice, x) }> }""",
        [("w3", f32(rng, 3, 3))],
    )
    for c, n, k in ((True, 2, 3), (False, 4, 1)):
        yield m, [np.array(c), f32(rng, n, 3), np.array(k, np.int64)]


def squeezed(rng):
    """An if that a size decides, whose branches differ in rank, as exporters of torch.squeeze write it."""
    m = model(
        """squeeze (float[n, 1, 4] x) => (float[n, 4] y) {
            s = Shape (x)
            d = Gather <axis = 0> (s, one)
            is_one = Equal (d, one)
            z = If (is_one) <
              then_branch = yes () => (float[n, 4] a) { a = Squeeze (x, axis1) },
              else_branch = no () => (float[n, 1, 4] b) { b = Identity (x) }>
            y = Relu (z) }""",
        [("one", np.array(1, np.int64)), ("axis1", np.array([1], np.int64))],
    )
    for n in (2, 5):
        yield m, [f32(rng, n, 1, 4)]


def other_sizes(rng):
    """Branches whose results have other sizes, and sizes computed outside that a branch reads."""
    m = model(
        """sizes (bool c, float[n, 4] x) => (float[a, b] y) {
            s = Shape (x)
            t = Transpose <perm = [1, 0]> (x)
            y = If (c) <
              then_branch = yes () => (float[p, q] u) {
                flat = Reshape (t, flat_shape)
                back = Reshape (flat, s)
                u = Concat <axis = 0> (back, x) },
              else_branch = no () => (float[p, q] v) { v = Slice (x, c0, c2, axis1) }> }""",
        [("flat_shape", np.array([-1], np.int64)), ("c0", np.array([0], np.int64)), ("c2", np.array([2], np.int64)), ("axis1", np.array([1], np.int64))],
    )
    for c, n in ((True, 3), (False, 2)):
        yield m, [np.array(c), f32(rng, n, 4)]


def called(rng):
    """A loop within a function of the model, called twice; its body reads the function's input."""
    m = model(
        """calls (float[n] x) => (float[n] y) {
            a = own.power (x)
            y = own.power (a) }""",
        functions="""<domain: "own", opset_import: ["" : 17]>
            power (v) => (w) {
              three = Constant <value_int = 3> ()
              zero = Sub (v, v)
              w = Loop (three, , zero) <body = step (int64 i, bool go, float[n] s) => (bool more, float[n] t) {
                half = Constant <value_float = 0.5> ()
                p = Mul (s, half)
                t = Add (p, v)
                more = Identity (go) }> }""",
    )
    for n in (2, 6):
        yield m, [f32(rng, n)]


MODELS = [voice, decoder, detections, scans, scan_with_batch, while_loop, no_iteration, nested, squeezed, other_sizes, called]


def answers(m, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs)))


def main():
    p = parser(__doc__)
    a = p.parse_args()
    suite = Suite(a.out, "make_control_suite.py")
    for name, make in [(f.__name__, f) for f in MODELS] + sequence_cases.cases(model, f32):
        sets = list(make(rng_of(name)))
        m = sets[0][0]
        onnx.checker.check_model(m)
        suite.add(name, m, [(inputs, answers(m, inputs)) for _, inputs in sets], rtol=1e-4, atol=1e-5)
    return 0 if suite.close() else 1


if __name__ == "__main__":
    run(main)
