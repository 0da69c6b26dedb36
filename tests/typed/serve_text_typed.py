#!/usr/bin/env python3
"""`peri serve` over text models: a Hugging Face folder as a model, generate, OpenAI's embeddings by its own client, answers bit for bit
those of `peri run`, and configurations in YAML."""
import base64
import json
import shutil

import numpy
import openai
import tokenizers

from served import Served
from typed import SOURCE, main

WORDS = "a cat sits on the mat kitten rests rug it rains".split()


def tiny_text_model(folder, config=None):
    """The random BERT of tests/hf with a tokenizer of a few words and mean pooling, as a Hugging Face folder."""
    shutil.copytree(SOURCE / "tests/hf/data/tiny_bert", folder)
    vocab = {w: k for k, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, "##s", "."])}
    t = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer = tokenizers.normalizers.BertNormalizer()
    t.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    t.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                                special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.save(str(folder / "tokenizer.json"))
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                                     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12}))
    if config:
        (folder / "config.yaml").write_text(config)
    return folder


class Texts(Served):
    def put_text(self, name="tiny", config=None):
        return tiny_text_model(self.repository / name, config)

    def openai(self):
        return self.closed(openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0))

    def as_run(self, folder, text):
        """The embedding as `peri run` gives it."""
        self.ends(0, "build", folder, "-o", self.folder / "t.engine", "--no-tune", "--quiet", "--force")
        self.ends(0, "run", self.folder / "t.engine", "--text", text, "--output-dir", self.folder / "out", "--quiet", "--force")
        return numpy.load(self.folder / "out/embedding.npy")[0]

    def test_embeddings_by_openais_client(self):
        folder = self.put_text()
        self.put("add")
        self.serve()
        c = self.openai()
        want = self.as_run(folder, "The cat sits on a mat.")
        texts = ["The cat sits on a mat.", "it rains", "", "rests " * 100]
        r = c.embeddings.create(model="tiny", input=texts)
        self.assertEqual([d.index for d in r.data], [0, 1, 2, 3])
        self.assertEqual((r.model, r.usage.prompt_tokens), ("tiny", 9 + 4 + 2 + 12))
        self.assertTrue((numpy.array(r.data[0].embedding, numpy.float32) == want).all())
        for k, text in enumerate(texts):  # its neighbours change no bit of a text's answer
            one = c.embeddings.create(model="tiny", input=text, encoding_format="float")
            self.assertTrue((numpy.array(one.data[0].embedding, numpy.float32) == numpy.array(r.data[k].embedding, numpy.float32)).all())
        ids = c.embeddings.create(model="tiny", input=[[2, 8, 5, 6, 7, 4, 9, 16, 3]])
        self.assertTrue((numpy.array(ids.data[0].embedding, numpy.float32) == want).all())
        many = c.embeddings.create(model="tiny", input=["cat"] * 300 + ["mat"])
        self.assertEqual(len(many.data), 301)
        self.assertEqual([m.id for m in c.models.list().data], ["tiny"])
        self.assertEqual(c.models.retrieve("tiny").object, "model")
        for error, words, more in ((openai.NotFoundError, "is not found", {"model": "none"}), (openai.BadRequestError, "no tokenizer", {"model": "add"}),
                                   (openai.BadRequestError, "embeddings have 16", {"dimensions": 8}), (openai.BadRequestError, "dimensions", {"dimensions": -16}),
                                   (openai.BadRequestError, "dimensions", {"dimensions": 0}), (openai.BadRequestError, "dimensions", {"dimensions": 2**63}),
                                   (openai.BadRequestError, "dimensions", {"dimensions": -2**63 - 1}), (openai.BadRequestError, "", {"input": [-1]}),
                                   (openai.BadRequestError, "", {"input": [2**63]}), (openai.BadRequestError, "not a token of the model", {"input": [1, 99]}),
                                   (openai.BadRequestError, "of 13 tokens", {"input": [4] * 13}), (openai.BadRequestError, "list of texts", {"input": []}),
                                   (openai.BadRequestError, "not known here", {"extra_body": {"stream": True}})):
            with self.assertRaisesRegex(error, words):
                c.embeddings.create(**{"model": "tiny", "input": "a", **more})
        for body in ("", "[]", '{"model":"tiny"}', '{"model":"tiny","input":[["a"]]}', '{"model":"tiny","input":"%s"}' % ("a" * 300_000),
                     '{"model":"tiny","input":[%s]}' % ",".join(['"a"'] * 3000), '{"model":"tiny","input":"a","encoding_format":"int8"}'):
            status, said, _ = self.ask("POST", "/v1/embeddings", body)
            self.assertEqual((status, json.loads(said)["error"]["type"]), (400, "invalid_request_error"), body[:60])
        status, said, _ = self.ask("POST", "/v1/embeddings", json.dumps({"model": "tiny", "input": "The cat sits on a mat.", "encoding_format": "base64"}))
        self.assertEqual(base64.b64decode(json.loads(said)["data"][0]["embedding"]), want.astype("<f4").tobytes())

    def test_embeddings_behind_a_prompt_that_is_named(self):
        config = {"prompts": {"query": "the kitten ", "document": ""}, "default_prompt_name": "query"}
        folder = self.put_text()
        (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
        self.put_text("bare")
        self.serve()

        def ask(model, text, **more):
            status, said, _ = self.ask("POST", "/v1/embeddings", json.dumps({"model": model, "input": text, **more}))
            return status, json.loads(said)

        want = {text: ask("bare", text)[1]["data"] for text in ("rests", "the kitten rests")}
        self.assertEqual(ask("tiny", "rests")[1]["data"], want["the kitten rests"])
        self.assertEqual(ask("tiny", "rests", prompt_name=None)[1]["data"], want["the kitten rests"])
        self.assertEqual(ask("tiny", "rests", prompt_name="query")[1]["data"], want["the kitten rests"])
        self.assertEqual(ask("tiny", "rests", prompt_name="document")[1]["data"], want["rests"])
        for model, more, words in (("tiny", {"prompt_name": "passage"}, "expected one of: query, document"), ("tiny", {"prompt_name": ""}, "no prompt of this name"),
                                   ("bare", {"prompt_name": "query"}, "it has no prompts"), ("tiny", {"prompt_name": 5}, "'prompt_name'"),
                                   ("tiny", {"prompt_name": "query", "input": [4, 5]}, "an input is token ids")):
            status, said = ask(model, **{"text": "rests", **more}) if "input" not in more else ask(model, more["input"], prompt_name=more["prompt_name"])
            self.assertEqual((status, said["error"]["type"]), (400, "invalid_request_error"), said)
            self.assertIn(words, said["error"]["message"])

        def generated(model, **parameters):
            status, said, _ = self.ask("POST", f"/v2/models/{model}/generate", json.dumps({"text_input": "rests", "parameters": parameters}))
            return status, json.loads(said)

        self.assertEqual(generated("tiny", prompt_name="document")[1]["embedding"], generated("bare")[1]["embedding"])
        self.assertNotEqual(generated("tiny")[1]["embedding"], generated("bare")[1]["embedding"])
        status, said = generated("tiny", prompt_name="passage")
        self.assertEqual((status, "expected one of: query, document" in said["error"]), (400, True), said)

    def test_a_text_of_no_tokens_is_told_with_its_index(self):
        folder = self.put_text()
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
        self.serve()
        for given, words in ((["the cat", ""], "'index 1': the text has no tokens: found an empty text"), (" ", "the text has no tokens")):
            status, said, _ = self.ask("POST", "/v1/embeddings", json.dumps({"model": "tiny", "input": given}))
            self.assertEqual((status, words in json.loads(said)["error"]["message"]), (400, True), said)

    def test_generate(self):
        folder = self.put_text(config="max_batch_size: 8\ndynamic_batching: {}\nparameters: {threads: 1}\n")
        self.serve()
        want = self.as_run(folder, "it rains")
        status, said, _ = self.ask("POST", "/v2/models/tiny/generate", json.dumps({"text_input": "it rains", "id": "a", "parameters": {"priority": 0}}))
        said = json.loads(said)
        self.assertEqual((status, said["model_name"], said["model_version"], said["id"]), (200, "tiny", "1", "a"))
        self.assertTrue((numpy.array(said["embedding"], numpy.float32) == want).all())
        status, said, headers = self.ask("POST", "/v2/models/tiny/versions/1/generate_stream", json.dumps({"text_input": ["a cat", "it rains"]}))
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
        self.assertTrue(said.startswith(b"data: ") and said.endswith(b"\n\n"))
        self.assertTrue((numpy.array(json.loads(said[6:])["embedding"][1], numpy.float32) == want).all())
        for body, words in (('{"text":"a"}', "'text' is not known here"), ('{"text_input":5}', "neither a text"), ('{"text_input":"a","parameters":{"sequence_id":4}}', "sequence_id")):
            status, said, _ = self.ask("POST", "/v2/models/tiny/generate", body)
            self.assertIn(status, (400, 501))
            self.assertIn(words, json.loads(said)["error"])
        self.assertEqual(self.ask("GET", "/v2/models/tiny/generate")[0], 405)
        self.assertEqual(self.ask("POST", "/v2/models/none/generate", "{}")[0], 404)

    def test_configurations(self):
        """YAML and its faults, two forms at once, warm-up by a file."""
        self.put("add")
        (self.repository / "add/config.yaml").write_text(
            "max_batch_size: 4\nmodel_warmup: [{name: w, batch_size: 3, inputs: {x: {data_type: TYPE_FP32, dims: [4], input_data_file: sample}}}]\n")
        (self.repository / "add/warmup").mkdir()
        (self.repository / "add/warmup/sample").write_bytes(bytes(16))
        for name, config in (("both", "max_batch_size: 2\n"), ("wrong", "max_batch_size: 2\nmax_batch: 2\n"),
                             ("short", "model_warmup: [{name: w, inputs: {x: {data_type: TYPE_FP32, dims: [2, 4], input_data_file: sample}}}]\n"),
                             ("type", "model_warmup: [{name: w, inputs: {x: {data_type: TYPE_INT32, dims: [2, 4], zero_data: true}}}]\n"),
                             ("other", "model_warmup: [{name: w, inputs: {x: {dims: [2, 4], zero_data: true}, z: {dims: [1], zero_data: true}}}]\n"),
                             ("fails", "model_warmup: [{name: w, inputs: {x: {dims: [2, 5], zero_data: true}}}]\n"),
                             ("path", "model_warmup: [{name: w, inputs: {x: {data_type: TYPE_FP32, dims: [2, 4], input_data_file: ../sample}}}]\n")):
            shutil.copytree(self.repository / "add", self.repository / name)
            (self.repository / name / "config.yaml").write_text(config)
        (self.repository / "both/config.pbtxt").write_text("max_batch_size: 2\n")
        self.serve(ready=False)
        said = {r["name"]: r.get("reason", "") for r in self.tried(8)}
        self.assertEqual(said["add"], "")
        self.assertIn("two configurations", said["both"])
        self.assertIn("line 2: 'max_batch'", said["wrong"])
        self.assertIn("takes 32 bytes", said["short"])
        self.assertIn("plain file name", said["path"])
        self.assertIn("model_warmup 'w': the input 'x' has another data_type: expected TYPE_FP32, found TYPE_INT32", said["type"])
        self.assertIn("model_warmup 'w': the model has no input 'z'", said["other"])
        self.assertIn("model_warmup 'w': ", said["fails"])
        self.assertEqual(json.loads(self.ask("GET", "/v2/models/add/config")[1])["max_batch_size"], 4)


if __name__ == "__main__":
    main()
