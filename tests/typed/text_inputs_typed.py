#!/usr/bin/env python3
"""Texts as inputs of bench and verify as of run: by a folder's tokenizer, behind its prompts, and for an ONNX file whose input is strings."""
import json

import numpy
import onnx

from serve_text_typed import tiny_text_model
from typed import Typed, main

CONFIG = {"prompts": {"query": "the kitten ", "document": ""}, "default_prompt_name": "query"}


class Texts(Typed):
    def folder_model(self):
        folder = tiny_text_model(self.folder / "tiny")
        (folder / "config_sentence_transformers.json").write_text(json.dumps(CONFIG))
        self.ends(0, "build", folder, "-o", "t.engine", "--no-tune", "--quiet")
        return folder, "t.engine"

    def strings_model(self, declared="n"):
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 20]> g (string[{declared}] x) => (string[{declared}] y) {{ y = StringConcat (x, x) }}')
        onnx.save(model, self.folder / "s.onnx")
        return "s.onnx"

    def test_bench_of_texts(self):
        folder, engine = self.folder_model()
        quick = ("--text", "a cat sits", "--text", "-it rains on the mat", "--seconds", "0.05", "--warm-up", "5", "--tolerance", "1000000", "--json", "-")
        for model in (engine, folder):
            record = json.loads(self.peri("bench", model, *quick).stdout)
            self.assertEqual((record["dims"], record["items_per_run"]), ({"batch": 2, "sequence": 10}, 2), model)
        for prompt, sequence in ((("--prompt", ""), 8), (("--prompt-name", "document"), 8), (("--prompt-name", "query"), 10)):
            for more in ((), ("--repeat", "2")):
                r = self.peri("bench", engine, *quick, *prompt, *more)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(json.loads(r.stdout)["dims"], {"batch": 2, "sequence": sequence}, prompt)

    def test_a_bench_that_is_not_of_texts(self):
        _, engine = self.folder_model()
        for words, said in ((("--text", "a", "-i", "input_ids=random:1"), "--text makes all inputs"), (("--prompt-name", "query"), "--prompt-name is for texts"),
                            (("--text", "a", "--prompt-name", "other"), "expected one of: query, document"), (("--text", "a", "--dims", "batch=2"), "--dims is for random inputs")):
            for command in ("bench", "verify"):
                self.assertIn(said, self.ends(2, command, engine, *words))
        self.model("a.onnx")
        for command in ("bench", "verify"):
            self.assertIn("a.onnx: this model has no tokenizer", self.ends(2, command, "a.onnx", "--text", "a"))
        self.assertIn("--text is for a model of this machine", self.ends(2, "bench", "-u", "127.0.0.1:1", "-m", "a", "--text", "a"))

    def test_verify_of_texts(self):
        folder, engine = self.folder_model()
        for model in (engine, folder):
            said = json.loads(self.peri("verify", model, "--text", "a cat sits", "--text", "it rains", "--json", "-").stdout)
            self.assertTrue(said["passed"])
            self.assertEqual([o["output"] for o in said["outputs"]], ["embedding", "last_hidden_state"])
        self.assertIn("there is one run", self.ends(2, "verify", engine, "--text", "a", "--seed", "1", "--seed", "2"))
        self.assertIn("all are given", self.ends(2, "verify", engine, "--text", "a", "--seed", "1"))
        self.ends(0, "run", engine, "--text", "rests", "--output-dir", "out", "--quiet")
        self.ends(0, "verify", engine, "--text", "rests", "--reference-dir", "out")
        self.ends(0, "verify", engine, "--text", "rests", "--prompt-name", "query", "--reference-dir", "out")
        self.ends(3, "verify", engine, "--text", "rests", "--prompt", "it ", "--reference-dir", "out")
        self.assertIn("--text is for a model", self.ends(2, "verify", "--suite", "none", "--text", "a"))

    def test_strings(self):
        for declared, texts in (("n", ("cat", "mat", "it's")), ("n", ("cat",)), ("3", ("cat", "mat", ""))):
            model = self.strings_model(declared)
            words = [w for t in texts for w in ("--text", t)]
            self.ends(0, "run", model, *words, "--output-dir", "out", "--quiet", "--force")
            self.assertEqual(numpy.load(self.folder / "out/y.npy", allow_pickle=True).tolist(), [t + t for t in texts])
            self.ends(0, "verify", model, *words)
            self.ends(0, "verify", model, *words, "--onnxruntime")
            self.ends(0, "bench", model, *words, "--seconds", "0.05", "--warm-up", "5", "--tolerance", "1000000")
        self.assertIn("input 'x' does not hold 2 texts: expected string[3]", self.ends(2, "run", model, "--text", "a", "--text", "b"))
        self.assertIn("this model takes strings", self.ends(2, "run", model, "--text", "a", "--prompt", "b"))

    def test_one_input_of_strings_of_several(self):
        model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (string[n] x, float[n] w) => (string[n] y, float[n] z) { y = Identity(x) z = Relu(w) }')
        onnx.save(model, self.folder / "two.onnx")
        self.assertIn("this model has no tokenizer", self.ends(2, "run", "two.onnx", "--text", "a"))


if __name__ == "__main__":
    main()
