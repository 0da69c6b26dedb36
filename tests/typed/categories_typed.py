#!/usr/bin/env python3
"""Pipelines of scikit-learn as exporters write them: encoders to which an unknown category is an error, and classifiers of two classes."""
import json

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from typed import Typed, main

COLOURS, SIZES, CODES = ["red", "green", "blue"], ["S", "M"], [10, 20, 30, 40]
ML = "ai.onnx.ml"


def ml(kind, inputs, outputs, **words):
    return helper.make_node(kind, inputs, outputs, kind + outputs[0], domain=ML, **words)


def pipeline(path):
    """Names in two columns and codes in a third, each with an encoder of its own; a logistic regression of two classes."""
    rng = numpy.random.default_rng(1)
    weights = rng.standard_normal(len(COLOURS) + len(SIZES) + len(CODES)).astype("f")
    nodes = [helper.make_node("Concat", ["colour", "size"], ["names"], axis=1)]
    for k, (column, categories) in enumerate([("c", COLOURS), ("s", SIZES)]):
        nodes += [ml("ArrayFeatureExtractor", ["names", "column" + column], [column]),
                  ml("OneHotEncoder", [column], [column + "1"], cats_strings=categories, zeros=0)]
    nodes += [ml("OneHotEncoder", ["code"], ["d1"], cats_int64s=CODES, zeros=0)]
    nodes += [helper.make_node("Reshape", [n + "1", "rows" + n], [n + "2"]) for n in "csd"]
    nodes += [helper.make_node("Concat", ["c2", "s2", "d2"], ["features"], axis=1),
              ml("LinearClassifier", ["features"], ["label", "scores"], coefficients=weights.tolist(), intercepts=[0.1], classlabels_strings=["no", "yes"],
                 post_transform="LOGISTIC")]
    constants = {"columnc": numpy.array([0]), "columns": numpy.array([1]), "rowsc": numpy.array([-1, len(COLOURS)]), "rowss": numpy.array([-1, len(SIZES)]),
                 "rowsd": numpy.array([-1, len(CODES)])}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "pipeline",
                              [value("colour", TensorProto.STRING, ["n", 1]), value("size", TensorProto.STRING, ["n", 1]), value("code", TensorProto.FLOAT, ["n", 1])],
                              [value("label", TensorProto.STRING, ["n"]), value("scores", TensorProto.FLOAT, ["n", 2])],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)], ir_version=8), path)
    return weights.astype(float)


class Categories(Typed):
    def given(self, colours, sizes, codes):
        for name, values, kind in ("colour", colours, str), ("size", sizes, str), ("code", codes, "f"):
            numpy.save(self.folder / f"{name}.npy", numpy.array(values, kind).reshape(-1, 1))
        return [word for name in ("colour", "size", "code") for word in ("-i", f"{name}={name}.npy")]

    def test_a_pipeline_is_built_and_answers(self):
        weights = pipeline(self.folder / "p.onnx")
        self.ends(0, "build", "p.onnx", "--json", "build.json")
        self.assertEqual(json.loads((self.folder / "build.json").read_text())["engine_judged"], "in this build")
        colours, sizes, codes = ["blue", "red", "green", "red"], ["M", "S", "S", "M"], [40, 10, 30, 20]
        self.ends(0, "run", "p.engine", *self.given(colours, sizes, codes), "--output-dir", "out")
        rows = numpy.array([[c == k for k in COLOURS] + [s == k for k in SIZES] + [d == k for k in CODES] for c, s, d in zip(colours, sizes, codes)], float)
        logits = rows @ weights + 0.1
        second = 1 / (1 + numpy.exp(-logits))
        numpy.testing.assert_allclose(numpy.load(self.folder / "out/scores.npy"), numpy.stack([1 - second, second], 1), atol=1e-6)
        self.assertEqual(numpy.load(self.folder / "out/label.npy").tolist(), ["yes" if v > 0 else "no" for v in logits])

    def test_made_up_inputs_are_categories(self):
        pipeline(self.folder / "p.onnx")
        self.ends(0, "build", "p.onnx", "--no-tune")
        drawn = [word for name in ("colour", "size", "code") for word in ("-i", f"{name}=random:5")]
        for words in ["run", "p.engine", "--dims", "n=7", *drawn], ["bench", "p.engine", "--iterations", "3", "--tolerance", "1e6"], ["verify", "p.engine", "--seed", "1", "--seed", "2"], ["verify", "p.onnx"]:
            self.ends(0, *words)

    def test_an_unknown_category_is_an_error(self):
        pipeline(self.folder / "p.onnx")
        self.ends(0, "build", "p.onnx", "--no-tune")
        for given, found in [(["pink"], ["S"], [10]), "'pink'"], [(["red"], ["red"], [10]), "'red'"], [(["red"], ["S"], [11]), "11"]:
            said = self.ends(1, "run", "p.engine", *self.given(*given), "--output-dir", "out", "--force")
            self.assertIn("none of the categories that the encoder knows", said)
            self.assertIn(found, said)

    def small(self, nodes, given, outputs, version=1):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", given, ["n"] if given != TensorProto.FLOAT else ["n", 2])], outputs)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, version)], ir_version=8), self.folder / "m.onnx")

    def answer(self, x, output="y"):
        numpy.save(self.folder / "x.npy", x)
        self.ends(0, "build", "m.onnx", "--no-tune", "--force")
        self.ends(0, "run", "m.engine", "-i", "x=x.npy", "--output-dir", "out", "--force")
        return numpy.load(self.folder / f"out/{output}.npy").tolist()

    def test_maps_of_scores_are_columns(self):
        """As skl2onnx writes classifiers by default; the columns are in the order of the classes, and ONNX Runtime agrees."""
        of_maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
        nodes = [helper.make_node("Softmax", ["x"], ["p"]), ml("ZipMap", ["p"], ["y"], classlabels_strings=["yes", "no"])]
        self.small(nodes, TensorProto.FLOAT, [helper.make_value_info("y", of_maps)])
        x = numpy.array([[0, 1], [2, -1]], "f")
        p = numpy.exp(x) / numpy.exp(x).sum(1, keepdims=True)
        numpy.testing.assert_allclose(self.answer(x), p[:, ::-1], rtol=1e-6)
        said = self.peri("inspect", "m.onnx")
        self.assertIn("a tensor with a column for each class: no, yes", (said.stdout + said.stderr).decode())
        self.ends(0, "verify", "m.onnx", "--onnxruntime")

    def test_older_encoders(self):
        text, number = helper.make_tensor_value_info("y", TensorProto.STRING, ["n"]), helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])
        self.small([ml("LabelEncoder", ["x"], ["y"], classes_strings=["a", "b"])], TensorProto.STRING, [number])
        self.assertEqual(self.answer(["b", "a", "c"]), [1, 0, -1])
        self.small([ml("LabelEncoder", ["x"], ["y"], classes_strings=["a", "b"], default_string="?")], TensorProto.INT64, [text])
        self.assertEqual(self.answer(numpy.array([1, 0, 7])), ["b", "a", "?"])
        words = {"cats_strings": ["cat", "dog"], "cats_int64s": [5, 9]}
        self.small([ml("CategoryMapper", ["x"], ["y"], default_int64=0, **words)], TensorProto.STRING, [number])
        self.assertEqual(self.answer(["dog", "cow", "cat"]), [9, 0, 5])
        self.small([ml("CategoryMapper", ["x"], ["y"], **words)], TensorProto.INT64, [text])
        self.assertEqual(self.answer(numpy.array([5, 6, 9])), ["cat", "_Unused", "dog"])


main()
