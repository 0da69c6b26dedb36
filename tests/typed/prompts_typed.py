#!/usr/bin/env python3
"""Texts as sentence-transformers prepares them: in lower case where the folder says so, behind the default prompt, and told where the
folder's tokenizer is not read."""
import json

import numpy
import tokenizers

from serve_text_typed import tiny_text_model
from typed import Typed, main

GREEK = ["ΣΑΣ", "ΟΔΥΣΣΕΥΣ, Ὀ", "Σ", "aΣ'", "aΣ'b", "aΣ\u0301 b", "a.Σ", "ΐΣ", "İI", "1Σ", "ΑΣ1", "Σ Σ", "ᾳΣ", "Ǆ ẞ Ω", "ΑΣ\u00adΣ"]


class Prompts(Typed):
    def folder_with(self, name="tiny", **files):
        folder = tiny_text_model(self.folder / name)
        for file, content in files.items():
            (folder / (file + ".json")).write_text(json.dumps(content))
        return folder

    def cased(self, folder, words):
        """A tokenizer that tells upper from lower case, over these words."""
        vocab = {w: k for k, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
        t = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
        t.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False, strip_accents=False, clean_text=False)
        t.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        t.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        t.save(str(folder / "tokenizer.json"))

    def embedding(self, engine, *texts, more=()):
        words = [w for t in texts for w in ("--text", t)]
        self.ends(0, "run", engine, *words, *more, "--output-dir", "out", "--force", "--quiet")
        return numpy.load(self.folder / "out/embedding.npy")

    def build(self, folder, name="t.engine"):
        r = self.peri("build", folder, "-o", name, "--no-tune", "--force")
        self.assertEqual(r.returncode, 0, r.stderr.decode())
        return name, r.stderr.decode()

    def test_lower_case_before_the_tokenizer(self):
        words = sorted({p for t in GREEK for p, _ in tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(t.lower())})
        self.assertLess(len(words) + 4, 50)
        plain = self.folder_with("plain")
        lowered = self.folder_with("lowered", sentence_bert_config={"max_seq_length": 12, "do_lower_case": True})
        for folder in (plain, lowered):
            self.cased(folder, words)
        p, l = self.build(plain, "p.engine")[0], self.build(lowered, "l.engine")[0]
        got = self.embedding(l, *GREEK)
        self.assertTrue((got == self.embedding(p, *(t.lower() for t in GREEK))).all())
        self.assertFalse((got == self.embedding(p, *GREEK)).all())

    def test_the_default_prompt_stands_before_each_text(self):
        bare, _ = self.build(self.folder_with("bare"), "bare.engine")
        config = {"prompts": {"query": "the kitten ", "other": "it"}, "default_prompt_name": "query"}
        engine, said = self.build(self.folder_with("asked", config_sentence_transformers=config))
        self.assertIn('"the kitten ", the default prompt of config_sentence_transformers.json, is put before each text', said)
        got = self.embedding(engine, "sits on the mat", "rests")
        self.assertTrue((got == self.embedding(bare, "the kitten sits on the mat", "the kitten rests")).all())
        self.assertTrue((self.embedding(engine, "rests", more=["--prompt", ""]) == self.embedding(bare, "rests")).all())
        self.assertTrue((self.embedding(engine, "rests", more=["--prompt", "a "]) == self.embedding(bare, "a rests")).all())
        self.assertIn("--prompt is for texts", self.ends(2, "run", engine, "--prompt", "a"))

    def test_a_text_of_no_tokens_is_told(self):
        folder = self.folder_with("plain")
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
        engine, _ = self.build(folder)
        said = self.ends(0, "run", engine, "--text", "the cat", "--text", "", "--text", "the mat")
        self.assertRegex(said, r"text 1 is most like text 3 \(.*; text 2 is like none; text 3 is most like text 1 \(")
        self.assertIn("the text has no tokens: found an empty text", self.ends(1, "run", engine, "--text", ""))
        self.assertIn("none of the texts has a token", self.ends(1, "run", engine, "--text", " ", "--text", ""))

    def test_a_prompt_is_named(self):
        bare, _ = self.build(self.folder_with("bare"), "bare.engine")
        config = {"prompts": {"query": "the kitten ", "document": "", "it's": "it ", "none": None}, "default_prompt_name": "query"}
        engine, _ = self.build(self.folder_with("named", config_sentence_transformers=config))
        for name, before in (("query", "the kitten "), ("document", ""), ("it's", "it ")):
            self.assertTrue((self.embedding(engine, "rests", more=["--prompt-name", name]) == self.embedding(bare, before + "rests")).all(), name)
        for name in ("passage", "none"):
            said = self.ends(2, "run", engine, "--text", "a", "--prompt-name", name)
            self.assertIn("the model has no prompt of this name: expected one of: query, document, it's", said)
        self.assertIn("it has no prompts", self.ends(2, "run", bare, "--text", "a", "--prompt-name", "query"))
        self.assertIn("--prompt-name is for texts", self.ends(2, "run", engine, "--prompt-name", "query"))
        self.assertIn("exclude each other", self.ends(2, "run", engine, "--text", "a", "--prompt-name", "query", "--prompt", "a"))

    def test_a_prompt_that_the_pooling_leaves_out(self):
        folder = self.folder_with("left", config_sentence_transformers={"prompts": {"q": "a "}, "default_prompt_name": "q"})
        pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True, "include_prompt": False}
        (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
        engine, said = self.build(folder)
        self.assertIn("is not put before texts", said)
        for command in (("run", folder, "--text", "rests"), ("verify", folder, "--seed", "1"), ("bench", folder, "--seconds", "0.1")):
            r = self.peri(*command, "--no-tune", "--quiet")
            self.assertEqual(r.returncode, 0, r.stderr.decode())
            self.assertIn("is not put before texts", r.stderr.decode(), "a note of the import is told wherever a model is built")
        bare, _ = self.build(self.folder_with("bare"), "bare.engine")
        self.assertTrue((self.embedding(engine, "rests") == self.embedding(bare, "rests")).all())
        self.assertIn("it has no prompts", self.ends(2, "run", engine, "--text", "a", "--prompt-name", "q"))

    def test_a_vocabulary_that_is_not_read(self):
        folder = self.folder_with()
        (folder / "tokenizer.json").rename(folder / "vocab.txt")
        engine, said = self.build(folder)
        self.assertIn("tiny/vocab.txt: the tokenizer is not read from this file", said)
        self.assertIn("AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)", said)
        said = self.ends(2, "run", folder, "--text", "a")
        self.assertIn("tiny/vocab.txt: this model has no tokenizer that is read: expected tokenizer.json beside it", said)
        self.assertIn("save_pretrained(FOLDER)", said)

    def test_a_name_of_the_hub(self):
        for command in (("build", "-o", "x.engine"), ("inspect",), ("run", "--input", "x=random:1")):
            said = self.ends(1, command[0], "acme/tiny-bert_v1.5", *command[1:])
            self.assertIn("acme/tiny-bert_v1.5: there is no such file or folder", said)
            self.assertIn("hf download acme/tiny-bert_v1.5 --local-dir FOLDER", said)
        (self.folder / "acme").mkdir()
        for name in ("acme/tiny", "none/a.onnx", "./tiny", "a/b/c"):
            self.assertNotIn("hf download", self.ends(1, "build", name, "-o", "x.engine"))


if __name__ == "__main__":
    main()
