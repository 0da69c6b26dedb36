#!/usr/bin/env python3
"""Text vectorisers as skl2onnx writes them: texts in lower case are divided into words or characters, counted, and told apart."""
import json
import re

import numpy
import onnx
from onnx import TensorProto, helper

from typed import Typed, main

MICROSOFT = "com.microsoft"
TEXTS = ["The cat sat on the mat", "", "dogs & cats, living together", "Mass hysteria: the END"]


class Texts(Typed):
    def save(self, name, nodes, kind, shape=("n",)):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.STRING, shape)], [value("y", kind, None)])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), self.folder / name)
        return name

    def answer(self, model, texts):
        numpy.save(self.folder / "x.npy", numpy.array(texts, "U"))
        self.ends(0, "run", model, "-i", "x=x.npy", "--output-dir", "out", "--no-tune", "--no-cache", "--quiet")
        return numpy.load(self.folder / "out/y.npy")

    def tokens(self, texts, mark=0, mincharnum=1, **division):
        node = helper.make_node("Tokenizer", ["x"], ["y"], domain=MICROSOFT, mark=mark, mincharnum=mincharnum, pad_value="#", **division)
        shape = ["rows", "texts"][-numpy.ndim(texts) :]
        return self.answer(self.save("t.onnx", [node], TensorProto.STRING, shape), texts).tolist()

    def test_texts_are_divided(self):
        self.assertEqual(self.tokens(["a cat, a", "", "dog"], mincharnum=2, tokenexp="[a-z]+"), [["cat"], ["#"], ["dog"]])
        self.assertEqual(self.tokens(["cat sat", "a"], mark=1, tokenexp="a|at|cat"), [["\x02", "cat", "at", "\x03"], ["\x02", "a", "\x03", "#"]])
        self.assertEqual(self.tokens(["a,b  c", "d"], separators=[" ", "[,;]"]), [["a", "b", "c"], ["d", "#", "#"]])
        self.assertEqual(self.tokens(["né", "x"], separators=[""]), [["n", "é"], ["x", "#"]])
        self.assertEqual(self.tokens([["a b", ""]], tokenexp="."), [[["a", " ", "b"], ["#", "#", "#"]]])
        self.assertEqual(self.tokens(["", " "], mark=1, tokenexp="[a-z]+"), [[], []])

    def test_words_are_counted(self):
        pool = ["cat", "cats", "the", "mat"]
        nodes = [helper.make_node("StringNormalizer", ["x"], ["low"], case_change_action="LOWER", is_case_sensitive=0, locale="en_US"),
                 helper.make_node("Tokenizer", ["low"], ["words"], domain=MICROSOFT, mark=0, mincharnum=1, pad_value="#", tokenexp="[a-zA-Z0-9_]+"),
                 helper.make_node("Flatten", ["words"], ["rows"]),
                 helper.make_node("TfIdfVectorizer", ["rows"], ["counts"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
                                  ngram_counts=[0], ngram_indexes=list(range(len(pool))), pool_strings=pool, weights=[1.0] * len(pool)),
                 helper.make_node("Normalizer", ["counts"], ["y"], domain="ai.onnx.ml", norm="L1")]  # fmt: skip
        model = self.save("count.onnx", nodes, TensorProto.FLOAT)
        words = [re.findall("[a-z0-9_]+", t.lower()) for t in TEXTS]
        counts = numpy.array([[w.count(p) for p in pool] for w in words], numpy.float32)
        numpy.testing.assert_allclose(self.answer(model, TEXTS), counts / numpy.maximum(counts.sum(1, keepdims=True), 1), rtol=1e-6)
        self.ends(0, "build", model, "-o", "c.engine", "--quiet")
        self.ends(0, "verify", "c.engine", "--dims", "n=5")

    def test_a_wrong_answer_is_named(self):
        """Of texts and of labels: which element, what was expected and what was found; there is no range of which it is a share."""
        upper = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")
        number = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[1, 2])
        cases = ((upper, TensorProto.STRING, numpy.array(["A", "x\x1b", "y"]), "element 1: expected 'x\\x1b', found 'B'; 2 of 3 elements differ"),
                 (upper, TensorProto.STRING, numpy.array(["A", "B", "é" * 40]), f"element 2: expected '{'é' * 32}...' (80 bytes), found 'C'; 1 of 3 elements differs"),
                 (number, TensorProto.INT64, numpy.array([1, 2, 0]), "element 2: expected 0, found -1; 1 of 3 elements differs"))  # fmt: skip
        for node, kind, wanted, said in cases:
            model = self.save("w.onnx", [node], kind)
            numpy.save(self.folder / "x.npy", numpy.array(["a", "b", "c"]))
            (self.folder / "wanted").mkdir(exist_ok=True)
            numpy.save(self.folder / "wanted/y.npy", wanted)
            told = self.ends(3, "verify", model, "-i", "x=x.npy", "--reference-dir", "wanted", "--no-tune", "--no-cache", "--json", "w.json")
            self.assertIn(f"output 'y' is outside its budget: {said}", told)
            self.assertNotIn("of its range", told)
            self.assertIn(json.loads((self.folder / "w.json").read_text())["outputs"][0]["first_outside"], said)

    def test_a_division_that_says_nothing_is_an_error(self):
        for division, said in (({}, "neither separators nor tokenexp"), ({"tokenexp": "("}, "not a regular expression"), ({"tokenexp": ".", "mincharnum": 2}, "mincharnum")):
            attributes = {"mark": 0, "mincharnum": 1, "pad_value": "", **division}
            model = self.save("bad.onnx", [helper.make_node("Tokenizer", ["x"], ["y"], domain=MICROSOFT, name="divide", **attributes)], TensorProto.STRING)
            told = self.ends(1, "inspect", model)
            self.assertIn(said, told)
            self.assertIn("divide", told)


if __name__ == "__main__":
    main()
