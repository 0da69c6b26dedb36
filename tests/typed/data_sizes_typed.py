#!/usr/bin/env python3
"""Sizes that the data decide, where they meet another size: kernels run there, at sizes that a build takes for them."""
import json

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper, parser

from typed import Typed, main

MASK = """z = Constant <value_int = 0> () one = Constant <value_int = 1> () last = Constant <value_ints = [-1]> () longest = ReduceMax <keepdims = 0> (length)
 place = Range (z, longest, one) column = Unsqueeze (length, last) real = Less (place, column)"""
# name: inputs, nodes, weights; the sizes of a second run
MODELS = {
    "lengths beside what they mask": ("float[b,t,32] x, int64[b] length", MASK + " r = Cast <to = 1> (real) m = Unsqueeze (r, last) y = Mul (x, m)", {}),
    "lengths in an attention": (
        "float[b,t,32] x, int64[b] length",
        MASK + """ no = Not (real) f = Cast <to = 1> (no) low = Constant <value_float = -10000.0> () a = Mul (f, low) middle = Constant <value_ints = [1]> () m = Unsqueeze (a, middle)
        k = Transpose <perm = [0, 2, 1]> (x) s = MatMul (x, k) u = Add (s, m) p = Softmax (u) y = MatMul (p, x)""",
        {},
    ),
    "a table of positions": ("float[b,t,32] x, int64[b] length", MASK + " zero = Constant <value_ints = [0]> () to = Unsqueeze (longest, zero) p = Slice (table, zero, to, zero) y = Add (x, p)", {"table": (200, 32)}),
    "a cut beside a size of its own": ("float[t,32] x, float[q,32] z, int64[1] n", "zero = Constant <value_ints = [0]> () c = Slice (x, zero, n, zero) s = Add (c, z) y = Relu (s)", {}),
    "the inner size of a product": ("float[b,512] x, int64[1] n", "zero = Constant <value_ints = [0]> () axis = Constant <value_ints = [1]> () c = Slice (x, zero, n, axis) y = MatMul (c, w)", {"w": (512, 8)}),
    "an inner size that is a product": (
        "float[b,3,h,w] x, int64[2] crop",
        "zero = Constant <value_ints = [0, 0]> () axes = Constant <value_ints = [2, 3]> () c = Slice (x, zero, crop, axes) f = Flatten (c) y = MatMul (f, w)",
        {"w": (3 * 12 * 10, 8)},
    ),
    "its own rows in another order": (
        "float[t,32] x, int64[1] n",
        "zero = Constant <value_ints = [0]> () last = Constant <value_ints = [9223372036854775807]> () a = Slice (x, n, last, zero) b = Slice (x, zero, n, zero) c = Concat <axis = 0> (a, b) y = Add (c, x)",
        {},
    ),
    "scores of a cut cache beside a mask": (
        "float[b,i,16] q, float[b,i,16] k, float[b,s,16] c, int64[1] n, float[b,i,tot] mask",
        """zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () kept = Slice (c, zero, n, one) all = Concat <axis = 1> (kept, k) t = Transpose <perm = [0, 2, 1]> (all)
        scores = MatMul (q, t) m = Add (scores, mask) y = Softmax (m)""",
        {},
    ),
    "an einsum of the rows that a mask names": ("float[t,32] x, float[t] m, float[3,32,8] h", "z = Constant <value_float = 0.0> () g = Greater (m, z) i = NonZero (g) l = Transpose <perm = [1, 0]> (i) r = GatherND (x, l) a = Einsum <equation = \"ki,ij->kj\"> (r, w) b = Einsum <equation = \"ki,hij->khj\"> (r, h) s = ReduceSum <keepdims = 0> (b) e = Einsum <equation = \"kj->j\"> (a) q = ReduceMax <keepdims = 0> (s) y = Mul (e, q)", {"w": (32, 8)}),
    "a crop whose list of places has known ones too": (
        "float[b,3,h,w] x, int64[2] at",
        """none = Constant <value_ints = [0, 0]> () all = Constant <value_ints = [4611686018427387904, 4611686018427387904]> () size = Constant <value_ints = [8, 8]> ()
        first = Concat <axis = 0> (none, at) behind = Add (at, size) end = Concat <axis = 0> (all, behind)
        c = Slice (x, first, end) to = Constant <value_ints = [0, -1]> () f = Reshape (c, to) y = MatMul (f, w)""",
        {"w": (3 * 8 * 8, 5)},
    ),
}
OTHERS = {  # of moves alone
    "half of the places, rounded up": (
        "float[b,n] x",
        """shape = Shape <start = 1> (x) f = Cast <to = 1> (shape) half = Constant <value_floats = [0.5]> () m = Mul (f, half) c = Ceil (m) k = Cast <to = 7> (c)
        v, i = TopK <axis = 1> (x, k) y = GatherElements <axis = 1> (x, i)""",
    ),
    "an expansion of one axis": ("float[b,1,4] x, int64[1] n", "one = Constant <value_ints = [1]> () s = Concat <axis = 0> (one, n, one) y = Expand (x, s)"),
    "repeats of one axis": ("float[b,3] x, int64[1] n", "one = Constant <value_ints = [1]> () s = Concat <axis = 0> (n, one) y = Tile (x, s)"),
    "repeats of the other axis": ("float[b,1] x, int64[1] n", "one = Constant <value_ints = [1]> () s = Concat <axis = 0> (one, n) y = Tile (x, s)"),
}


class DataSizes(Typed):
    def model(self, name):
        inputs, nodes, weights = MODELS[name] if name in MODELS else (*OTHERS[name], {})
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[?] y) {{ {nodes} }}')
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        rng = numpy.random.default_rng(3)
        model.graph.initializer.extend(numpy_helper.from_array(rng.normal(size=shape).astype(numpy.float32), w) for w, shape in weights.items())
        onnx.save(model, self.folder / "m.onnx")

    def answer(self, **given):
        for name, x in given.items():
            numpy.save(self.folder / f"{name}.npy", x)
        self.ends(0, "run", "a.engine", *[w for name in given for w in ("-i", f"{name}={name}.npy")], "--output-dir", "out")
        theirs = onnxruntime.InferenceSession(self.folder / "m.onnx").run(None, given)[0]
        numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), theirs, rtol=1e-4, atol=1e-4)

    def test_no_float_step_is_left_on_the_reference(self):
        for name in MODELS:
            with self.subTest(name):
                self.model(name)
                sizes = ("--dims", "b=2,h=20,w=20") if "h,w" in MODELS[name][0] else ("--dims", "b=2") if "float[b" in MODELS[name][0] and "tot" not in MODELS[name][0] else ()
                self.ends(0, "build", "m.onnx", "-o", "a.engine", "--json", "a.json", "--quiet", "--force", *sizes)
                said = json.loads((self.folder / "a.json").read_text())
                self.assertEqual((said["reference_steps"], said["slow_steps"]), (0, 0))

    def test_answers_are_those_of_onnx_runtime_at_other_sizes(self):
        rng = numpy.random.default_rng(5)
        x = lambda *shape: rng.normal(size=shape).astype(numpy.float32)
        for name in list(MODELS)[:3]:
            self.model(name)
            self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune")
            for t, length in ((128, [128, 7]), (9, [3, 9, 1]), (1, [1]), (7, [1, 1])):
                with self.subTest(name, t=t, length=length):
                    self.answer(x=x(len(length), t, 32), length=numpy.array(length))
        self.model("an inner size that is a product")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune", "--dims", "b=2,h=20,w=20")
        for crop in ((12, 10), (10, 12), (20, 6)):
            with self.subTest(crop=crop):
                self.answer(x=x(3, 3, 20, 20), crop=numpy.array(crop))

    def test_sums_of_sizes_beside_others(self):
        """Steps that cannot have the tuned sizes, where a list of one row at least and the rest of it are more than one."""
        rng = numpy.random.default_rng(7)
        x = lambda *shape: rng.normal(size=shape).astype(numpy.float32)
        self.model("its own rows in another order")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune")
        for t, n in ((9, 4), (1, 0), (1, 1), (300, 299), (2, 1)):
            with self.subTest(t=t, n=n):
                self.answer(x=x(t, 32), n=numpy.array([n]))
        self.model("scores of a cut cache beside a mask")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune")
        for b, i, s, n in ((2, 3, 9, 4), (1, 1, 5, 5), (1, 1, 1, 0), (3, 2, 40, 0)):
            with self.subTest(b=b, i=i, s=s, n=n):
                self.answer(q=x(b, i, 16), k=x(b, i, 16), c=x(b, s, 16), n=numpy.array([n]), mask=x(b, i, n + i))

    def test_what_a_list_holds_is_known_element_by_element(self):
        rng = numpy.random.default_rng(7)
        for name in OTHERS:
            self.model(name)
            self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune")
            for b, n in ((1, 2), (3, 5), (2, 1)):
                with self.subTest(name, b=b, n=n):
                    wide = {"half of the places, rounded up": (b, 2 * n + 1), "an expansion of one axis": (b, 1, 4), "repeats of one axis": (b, 3)}.get(name, (b, 1))
                    given = {} if "rounded" in name else {"n": numpy.array([n])}
                    self.answer(x=rng.normal(size=wide).astype(numpy.float32), **given)
        self.model("a crop whose list of places has known ones too")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--force", "--no-tune", "--dims", "b=2,h=20,w=20")
        steps = json.loads((self.folder / "a.engine.proof").read_text())["steps"]
        self.assertEqual(len(set().union(*(s.get("assumed_sizes", {}) for s in steps))), 2, "the other two axes are whole")
        for at in ((0, 0), (3, 12), (11, 1)):
            self.answer(x=rng.normal(size=(2, 3, 20, 20)).astype(numpy.float32), at=numpy.array(at))

    def test_made_up_lengths_fit_what_they_mask(self):
        self.model("lengths beside what they mask")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet")
        for words in (("bench", "a.engine", "--duration", "0.1", "--tolerance", "1000"), ("verify", "a.engine"), ("verify", "m.onnx", "--onnxruntime"), ("verify", "a.engine", "--dims", "b=4,t=31")):
            with self.subTest(words):
                self.assertIn("PASSED", self.ends(0, *words))

    def test_a_mask_that_must_choose_as_many_as_there_are(self):
        """Rows of another input replace those that a mask names, as pictures do placeholders in a text: the one that a mask of ones or zeros lets run."""
        text = '<ir_version: 8, opset_import: ["" : 17]> g (bool[t] mask, float[t,4] x, float[t,4] s) => (float[t,4] y) { i = NonZero (mask) p = Transpose <perm = [1, 0]> (i) y = ScatterND (x, p, s) }'
        onnx.save(parser.parse_model(text), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--no-tune")
        for words in (("bench", "a.engine", "--duration", "0.1", "--tolerance", "1000"), ("verify", "a.engine")):
            self.assertIn("PASSED", self.ends(0, *words))

    def test_the_assumed_sizes_are_stated(self):
        self.model("lengths beside what they mask")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--quiet", "--dims", "b=2,t=50")
        steps = json.loads((self.folder / "a.engine.proof").read_text())["steps"]
        [mask] = [s for s in steps if s["name"] == "y"]
        self.assertEqual(list(mask["assumed_sizes"].values()), [50])

    def test_memory_counts_them(self):
        self.model("lengths beside what they mask")
        self.ends(0, "inspect", "m.onnx", "--json", "i.json", "--quiet", "--dims", "b=4,t=1000")
        self.assertGreater(json.loads((self.folder / "i.json").read_text())["arena_bytes"], 4 * 1000 * 32 * 4)


if __name__ == "__main__":
    main()
