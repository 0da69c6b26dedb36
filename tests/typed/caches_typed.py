#!/usr/bin/env python3
"""Keys and values of com.microsoft's GroupQueryAttention, as ONNX Runtime keeps them: a prompt, one token, a past that grows and one that
is a buffer longer than what it holds, with sizes that are free in one engine; and the cache's sizes at the build."""
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

from typed import Typed, main

WIDTH = 8


class Caches(Typed):
    def save(self, name, bias=False, counted=False, now=False, past=True, **words):
        """total_sequence_length is an input or, `counted`, the length of a mask, as exporters write it, or, `now`, of past and new keys."""
        def value(n, dims, kind=TensorProto.FLOAT):
            return helper.make_tensor_value_info(n, kind, dims)

        inputs = [value("q", ["b", "s", 4 * WIDTH]), value("k", ["b", "s", 2 * WIDTH]), value("v", ["b", "s", 2 * WIDTH])]
        inputs += [value(n, ["b", 2, "p", WIDTH]) for n in ("past_k", "past_v") if past] + [value("lengths", ["b"], TensorProto.INT32)]
        if not now:
            inputs.append(value("mask", ["b", "t"], TensorProto.INT64) if counted else value("total", [], TensorProto.INT32))
        nodes = []
        if counted:
            nodes = [helper.make_node("Shape", ["mask"], ["t1"], start=1, end=2), helper.make_node("Squeeze", ["t1"], ["t0"]),
                     helper.make_node("Cast", ["t0"], ["total"], to=TensorProto.INT32)]
        if now:
            ends = [helper.make_node("Shape", [n], [n + "_dims"], start=axis, end=axis + 1) for n, axis in (("k", 1), *([("past_k", 2)] if past else []))]
            nodes = [*ends, helper.make_node("Add" if past else "Identity", [n.output[0] for n in ends], ["t1"]),
                     helper.make_node("Squeeze", ["t1"], ["t0"]), helper.make_node("Cast", ["t0"], ["total"], to=TensorProto.INT32)]
        names = ["q", "k", "v", *(["past_k", "past_v"] if past else ["", ""]), "lengths", "total"]
        if bias:
            inputs.append(value("bias", [1, 4, "s", "t"]))
            names += ["", "", "", "bias"]
        nodes.append(helper.make_node("GroupQueryAttention", names, ["y", "k_now", "v_now"], domain="com.microsoft", num_heads=4, kv_num_heads=2, **words))
        graph = helper.make_graph(nodes, "g", inputs, [value(n, None) for n in ("y", "k_now", "v_now")])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), self.folder / name)
        return name

    def as_onnx_runtime(self, model, engine, batch, now, past, lengths, total=None, bias=False, counted=False):
        numbers = numpy.random.default_rng(7)

        def normal(*dims):
            return numbers.standard_normal(dims).astype(numpy.float32)

        total = max(lengths) if total is None else total
        values = {"q": normal(batch, now, 4 * WIDTH), "k": normal(batch, now, 2 * WIDTH), "v": normal(batch, now, 2 * WIDTH),
                  "past_k": normal(batch, 2, past, WIDTH), "past_v": normal(batch, 2, past, WIDTH),
                  "lengths": numpy.array(lengths, numpy.int32) - 1}
        values |= {"mask": numpy.ones((batch, total), numpy.int64)} if counted else {"total": numpy.array(total, numpy.int32)}
        if bias:
            values["bias"] = normal(1, 4, now, total)
        want = dict(zip(("y", "k_now", "v_now"), onnxruntime.InferenceSession(self.folder / model).run(None, values)))
        numpy.savez(self.folder / "in.npz", **values)
        words = [w for n in values for w in ("--input", f"{n}=in.npz")]
        self.ends(0, "run", engine, *words, "--output-dir", "out", "--force", "--quiet")
        for name, wanted in want.items():
            got = numpy.load(self.folder / f"out/{name}.npy")
            case = (name, batch, now, past, lengths, total)
            self.assertEqual(got.shape, wanted.shape, case)
            if name == "y":
                numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=str(case))
            else:
                self.assertTrue((got == wanted).all(), case)

    SIZES = ((1, 4, 8, [4]), (1, 4, 4, [4]), (2, 4, 8, [4, 2]), (1, 1, 8, [5]), (1, 1, 4, [5]), (2, 1, 8, [5, 3]), (2, 1, 4, [5, 3]), (1, 1, 8, [8]),
             (1, 1, 8, [9]), (1, 3, 8, [7]), (1, 3, 4, [7]), (1, 1, 8, [1]))

    def test_one_engine_of_free_sizes(self):
        for counted in (False, True):
            model = self.save("m.onnx", counted=counted)
            self.ends(0, "build", model, "-o", "m.engine", "--no-tune", "--force", "--dims", "b=2,s=1,p=8" + (",t=5" if counted else ""))
            for sizes in self.SIZES:
                self.as_onnx_runtime(model, "m.engine", *sizes, counted=counted)
            self.as_onnx_runtime(model, "m.engine", 1, 1, 8, [5], total=8, counted=counted)  # fewer valid than there may be

    def test_made_up_lengths_are_those_of_a_run(self):
        """ONNX Runtime refuses others: below as many keys as there are, and of several tokens behind a past all of them; so it does with another number of keys, which may be an input of its own."""
        for past, now in ((True, True), (False, True), (True, False), (False, False)):
            model = self.save("n.onnx", now=now, past=past)
            for dims in ("b=2,s=1", "b=3,s=1,p=8", "b=1,s=4,p=8", "b=1,s=4") if past else ("b=1,s=4", "b=2,s=4", "b=3,s=1"):
                self.ends(0, "verify", model, "--onnxruntime", "--no-tune", "--dims", dims, "--quiet")

    def test_a_bias_over_the_keys_that_there_are(self):
        model = self.save("b.onnx", bias=True, counted=True, local_window_size=3)
        self.ends(0, "build", model, "-o", "b.engine", "--no-tune", "--dims", "b=2,s=1,p=8,t=5")
        for sizes in self.SIZES:
            self.as_onnx_runtime(model, "b.engine", *sizes, bias=True, counted=True)

    def test_the_cache_is_as_long_as_its_past_or_its_keys(self):
        self.ends(0, "build", self.save("s.onnx", counted=True), "-o", "s.engine", "--no-tune", "--no-verify")
        said = self.peri("inspect", "s.engine").stdout.decode()
        self.assertIn("k_now f32[b,2,max(p?, t),8]", " ".join(said.split()))


if __name__ == "__main__":
    main()
