#!/usr/bin/env python3
"""A pipeline whose exporter names the rows of each input apart: they are one dimension, by either name, and are served in batches."""
import json
import re

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from served import Served
from typed import main

COLUMNS = ("age", "fare", "size")


class Columns(Served):
    def columns(self, rows=None):
        """Three inputs of one column each, scaled, joined and classified, as a ColumnTransformer before a linear model is exported."""
        value = helper.make_tensor_value_info
        weights = {"w": numpy.arange(6, dtype=numpy.float32).reshape(3, 2) / 7, "b": numpy.array([0.5, -0.25], numpy.float32), "mean": numpy.array([[30.0]], numpy.float32)}
        nodes = [helper.make_node("Sub", ["age", "mean"], ["scaled"], name="scaler"),
                 helper.make_node("Concat", ["scaled", "fare", "size"], ["features"], axis=1, name="union"),
                 helper.make_node("Gemm", ["features", "w", "b"], ["scores"], name="linear"),
                 helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1, name="normalizer")]
        return helper.make_graph(nodes, "columns", [value(name, TensorProto.FLOAT, [rows, 1]) for name in COLUMNS], [value("probabilities", TensorProto.FLOAT, [rows, 2])],
                                 [numpy_helper.from_array(w, n) for n, w in weights.items()])

    def save(self):
        onnx.save(helper.make_model(self.columns(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "columns.onnx")

    def answer(self, columns):
        """The probabilities, in float64."""
        x = numpy.concatenate([columns["age"].astype(numpy.float64) - 30, columns["fare"], columns["size"]], axis=1)
        scores = x @ (numpy.arange(6).reshape(3, 2) / 7) + [0.5, -0.25]
        e = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def test_one_name_sets_all(self):
        self.save()
        said = self.peri("build", "columns.onnx", "-o", "c.engine", "--no-tune", "--dims", "fare_dim_0=5")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(b"note: 'fare_dim_0' and 'size_dim_0' are the dimension 'age_dim_0', as node 'union' requires", said.stderr)
        self.assertIn('"tuned_for":{"age_dim_0":5}', re.sub(r"\s", "", (self.folder / "c.engine.proof").read_text()))
        self.assertIn(b"symbol  age_dim_0                age.0, fare.0, size.0", self.peri("inspect", "columns.onnx").stdout)
        same = "'fare_dim_0' and 'size_dim_0' are the dimension 'age_dim_0'"
        self.assertIn(f"note: {same}, as node 'union' requires", self.peri("inspect", "columns.onnx").stdout.decode())
        self.assertIn(f"note: {same}", self.peri("inspect", "c.engine", "--json", "e.json").stdout.decode())
        self.assertEqual(json.loads((self.folder / "e.json").read_text())["same_dims"], {"fare_dim_0": "age_dim_0", "size_dim_0": "age_dim_0"})
        self.assertIn("its dimensions are age_dim_0 (age.0, fare.0, size.0)", self.ends(2, "build", "columns.onnx", "-o", "c.engine", "--dims", "rows=2"))
        for rows in (1, 2, 7, 300):
            given = {name: numpy.random.default_rng(k).normal(20, 9, (rows, 1)).astype(numpy.float32) for k, name in enumerate(COLUMNS)}
            for name, x in given.items():
                numpy.save(self.folder / f"{name}.npy", x)
            files = [w for name in COLUMNS for w in ("-i", f"{name}={name}.npy")]
            self.ends(0, "run", "c.engine", *files, "--output-dir", "out")
            numpy.testing.assert_allclose(numpy.load(self.folder / "out/probabilities.npy"), self.answer(given), atol=1e-5)
        seeded = [w for name in COLUMNS for w in ("-i", f"{name}=random:1")]
        for word in ("size_dim_0=4", "age_dim_0=4,fare_dim_0=4", "batch=4", "fare.0=4"):
            self.ends(0, "run", "c.engine", *seeded, "--dims", word, "--output-dir", "out")
            self.assertEqual(numpy.load(self.folder / "out/probabilities.npy").shape, (4, 2), word)
            r = self.peri("bench", "c.engine", "--dims", word, "--seconds", "0.1", "--json", "-")
            self.assertIn(r.returncode, (0, 5), r.stderr)  # 5: a busy machine, whose times are not stable
            self.assertIn(b"at age_dim_0=4:", r.stderr)
        for model in ("columns.onnx", "c.engine"):
            self.ends(0, "verify", model, "--dims", "size_dim_0=6")

    def test_contradictions_are_named(self):
        self.save()
        said = "'{}' and '{}' are the same dimension and are given different sizes: expected {}=2, found {}=3"
        self.assertIn(said.format("fare_dim_0", "size_dim_0", "fare_dim_0", "size_dim_0"), self.ends(2, "build", "columns.onnx", "--dims", "fare_dim_0=2,size_dim_0=3"))
        self.ends(0, "build", "columns.onnx", "-o", "c.engine", "--no-tune", "--min-shapes", "size:2x1", "--max-shapes", "fare:8x1", "--dims", "age_dim_0=4")
        self.assertIn(said.format("age_dim_0", "fare_dim_0", "age_dim_0", "fare_dim_0"), self.ends(2, "bench", "c.engine", "--dims", "age_dim_0=2,fare_dim_0=3"))
        for name, rows in (("age", 3), ("fare", 2), ("size", 3)):
            numpy.save(self.folder / f"{name}.npy", numpy.zeros((rows, 1), numpy.float32))
        self.assertIn("'fare': dimension 0 does not fit: expected 3 ('age_dim_0' from input 'age'), found 2", self.ends(2, "run", "c.engine", *[w for name in COLUMNS for w in ("-i", f"{name}={name}.npy")]))

    def test_it_is_served_in_batches(self):
        self.put("columns", config="max_batch_size: 8\ndynamic_batching { }\n", graph=self.columns())
        self.serve()
        given = {name: numpy.arange(k, k + 3, dtype=numpy.float32).reshape(3, 1) for k, name in enumerate(COLUMNS)}
        status, said = self.infer("columns", {"inputs": [{"name": n, "shape": [3, 1], "datatype": "FP32", "data": x.ravel().tolist()} for n, x in given.items()]})
        self.assertEqual(status, 200, said)
        numpy.testing.assert_allclose(numpy.reshape(said["outputs"][0]["data"], (3, 2)), self.answer(given), atol=1e-5)


if __name__ == "__main__":
    main()
