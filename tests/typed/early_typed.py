#!/usr/bin/env python3
"""What is wrong with a command is told before a model is built for it: a build takes minutes, and so it would be told minutes later."""
import json
import shutil

import numpy

from typed import DIGITS, SOURCE, Typed, main

FOLDERS = SOURCE / "tests/hf/data"


class Early(Typed):
    def setUp(self):
        super().setUp()
        (self.folder / "passes").mkdir()

    def early(self, words, *command, code=2):
        """The command ends with these words before the first pass over the model's graph."""
        with self.subTest(command=command):
            self.assertIn(words, self.ends(code, *command, "--dump-passes", "passes", "--no-tune", "--no-cache", "--no-verify"))
            self.assertFalse(list(self.folder.glob("passes/*")), "the model was built first")

    def test_inputs(self):
        numpy.save(self.folder / "image.npy", numpy.zeros((2, 1, 8, 8), numpy.float32))
        numpy.save(self.folder / "double.npy", numpy.zeros((2, 1, 8, 8)))
        numpy.save(self.folder / "flat.npy", numpy.zeros((2, 64), numpy.float32))
        numpy.save(self.folder / "wide.npy", numpy.zeros((2, 1, 8, 9), numpy.float32))
        (self.folder / "cut.npy").write_bytes((self.folder / "image.npy").read_bytes()[:200])
        (self.folder / "text.txt").write_text("1 2 3")
        for command in ("run", "verify", "bench"):
            for given, words in (("imgae=image.npy", "the model has no input 'imgae'; did you mean 'image'?"), ("image", "--input is not NAME=FILE"),
                                 ("image=", "names no file"), ("image=random:x", "the seed is not a whole number"), ("image=random:-1", "the seed is not"),
                                 ("image=raw:f32:2x1x8x8", "a raw input has"), ("image=raw:f33:2:image.npy", "raw elements"),
                                 ("image=text.txt", "unknown type of input file"), ("image=double.npy", "input 'image' has the wrong type")):
                self.early(words, command, DIGITS, "-i", given)
            for given, words in (("image=none.npy", "none.npy: 'image': cannot open"), ("image=.", "unknown type of input file"), ("image=cut.npy", "cut.npy")):
                self.early(words, command, DIGITS, "-i", given, code=2 if given == "image=." else 1)
            self.early("--cast is for the files of --input", command, DIGITS, "--cast")
        for given, words in (("image=flat.npy", "flat.npy: 'image': wrong rank"), ("image=wide.npy", "wide.npy: 'image': dimension 3 does not fit")):
            self.early(words, "run", DIGITS, "-i", given)
        self.early("input 'image' is not given", "run", DIGITS)
        self.ends(0, "run", DIGITS, "-i", "image=double.npy", "--cast", "--no-tune", "--no-cache", "--no-verify")
        self.ends(0, "run", DIGITS, "-i", "image=image.npy", "--io-dtype", "f32", "--no-tune", "--no-cache", "--no-verify")
        numpy.save(self.folder / "half.npy", numpy.zeros((2, 1, 8, 8), numpy.float16))
        self.ends(0, "run", DIGITS, "-i", "image=half.npy", "--io-dtype", "f16", "--no-tune", "--no-cache", "--no-verify")

    def test_what_is_shown(self):
        (self.folder / "empty.txt").write_text("\n\n")
        image = ("-i", "image=random:1")
        for flags, words, code in ((("--top-k", "0"), "--top-k is not in range", 2), (("--labels", "empty.txt"), "--labels is for --top-k", 2),
                                   (("--top-k", "2", "--labels", "empty.txt"), "--labels holds no names", 2), (("--top-k", "2", "--labels", "none"), "none", 1)):
            self.early(words, "run", DIGITS, *image, *flags, code=code)

    def test_places_for_passes_and_rounds(self):
        self.early("--paced is for engines on a device", "bench", DIGITS, "--paced")
        self.early("--paced is for engines on a device", "bench", DIGITS, "--paced", "--device", "cpu")
        self.model("m.onnx")
        self.assertIn("m.onnx: cannot write into the folder: Not a directory", self.ends(1, "build", "m.onnx", "--dump-passes", "m.onnx", "--no-cache"))

    def test_terms_of_a_measurement(self):
        for flags in (("--seconds", "-1"), ("--warm-up", "x"), ("--iterations", "0"), ("--tolerance", "nan"), ("--repeat", "0")):
            self.early(f"{flags[0]} is not in range", "bench", DIGITS, *flags)
        for flag in (("--seconds", "1"), ("--repeat", "2"), ("--layers",), ("--warm-up", "1"), ("--tolerance", "1")):
            self.early(f"{flag[0]} is for a measurement", "bench", DIGITS, "--paced", *flag)

    def test_texts(self):
        shutil.copytree(FOLDERS / "tiny_bert", self.folder / "bert")
        for model in ("bert", DIGITS):
            self.early(f"{model}: this model has no tokenizer", "run", model, "--text", "a")
        self.early("--text makes all inputs", "run", "bert", "--text", "a", "-i", "input_ids=random:1")
        self.early("text 2 is not valid UTF-8: found \\xff", "run", "bert", "--text", "a", "--text", b"\xff".decode(errors="surrogateescape"))
        (self.folder / "bert/tokenizer.json").touch()
        for command in (("inspect", "bert"), ("run", "bert", "--text", "a")):
            self.early("bert/tokenizer.json: the file is empty; download it again", *command, code=1)
        (self.folder / "bert/tokenizer.json").write_text('{"model":{"type":"BPE"}}')
        self.early("this model has no tokenizer: found bert/tokenizer.json: 'model': model \"BPE\" is not supported; give its inputs", "run", "bert", "--text", "a")
        self.ends(0, "build", "bert", "-o", "bert.engine", "--no-tune", "--no-verify", "--no-cache")
        said = self.ends(2, "run", "bert.engine", "--text", "a")
        self.assertIn("this model has no tokenizer: found bert/tokenizer.json: 'model': model \"BPE\" is not supported; give its inputs", said)
        self.assertIn("no/such: ", self.ends(1, "run", "no/such", "--text", "a"))
        self.early("bert/config.json: not a model: expected an ONNX file, a Hugging Face folder or an engine, found a JSON file; of a Hugging Face model give the folder",
                   "run", "bert/config.json", "--text", "a", code=1)

    def test_a_suite(self):
        """Its flags are looked at before the first case is run."""
        shutil.copytree(FOLDERS / "tiny_bert", self.folder / "suite/case")
        shutil.copy(DIGITS, self.folder / "suite/case/model.onnx")
        for flag, value, words in (("--min-passed", "x", "--min-passed is not in range"), ("--memory", "x", "--memory has an invalid value"), ("--at-once", "0", "--at-once is not"),
                                   ("--backend", "nope", "there is no backend 'nope'"), ("--provider", "nope", "has no provider 'nope'"),
                                   ("--disable-pass", "nope", "no pass is named 'nope'"), ("--dtype", "f8", "expected f32, f16 or bf16"),
                                   ("--budget", "3", "--budget is for tuning"), ("--settings", "1", "--settings is for tuning")):
            r = self.peri("verify", "--suite", "suite", flag, value)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(words, r.stderr.decode())
            self.assertNotIn("case", r.stdout.decode())
        self.assertIn("--retune is for tuning", self.ends(2, "verify", "--suite", "suite", "--retune"))

    def test_names_that_there_are_not(self):
        """A backend, a provider, a pass: wrong usage on every command."""
        for command in (("build", DIGITS), ("inspect", DIGITS), ("explain", DIGITS), ("verify", DIGITS), ("bench", DIGITS), ("run", DIGITS, "-i", "image=random:1")):
            self.early("there is no backend 'nope': expected auto, cpu, cuda", *command, "--backend", "nope")
            self.early("has no provider 'nope'", *command, "--provider", "nope")
            self.early("no pass is named 'nope'", *command, "--disable-pass", "nope")
        for flag in ("--backend", "--provider"):
            self.assertIn("nope", self.ends(2, "replay", "relu x=f32[4]", flag, "nope"))
        r = self.peri("build", DIGITS, "--backend", "nope", "--json", "-")
        self.assertEqual(json.loads(r.stdout)["error"]["kind"], "usage")

    def test_what_a_folders_configuration_says(self):
        shutil.copytree(FOLDERS / "tiny_bert", self.folder / "bert")
        shutil.copytree(FOLDERS / "tiny_distilbert", self.folder / "distilbert")
        for folder, key in (("bert", "hidden_act"), ("distilbert", "activation"), ("bert", "model_type")):
            path = self.folder / folder / "config.json"
            kept = path.read_text()
            path.write_text(json.dumps({**json.loads(kept), key: "swish"}))
            words = f"FAILED inspect: {folder}/config.json: '{key}': {'model_type' if key == 'model_type' else 'activation'} \"swish\" is not supported: expected "
            self.assertIn(words, self.ends(1, "inspect", folder))
            path.write_text(kept)
        for key, value, words in (("is_decoder", True, "BERT as a decoder is not supported; export"), ("position_embedding_type", "relative_key", "is not supported: expected absolute; export")):
            path = self.folder / "bert/config.json"
            kept = path.read_text()
            path.write_text(json.dumps({**json.loads(kept), key: value}))
            self.assertIn(words, self.ends(1, "inspect", "bert"))
            path.write_text(kept)
        (self.folder / "exported").mkdir()
        shutil.copy(DIGITS, self.folder / "exported/model.onnx")
        self.assertIn("it has no config.json; give the file itself: exported/model.onnx", self.ends(1, "build", "exported"))
        shutil.copy(DIGITS, self.folder / "exported/other.onnx")
        self.assertIn("give the folder of a model, or an .onnx file", self.ends(1, "build", "exported"))


if __name__ == "__main__":
    main()
