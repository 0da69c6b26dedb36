#!/usr/bin/env python3
"""Folders as optimum writes them: the ONNX file is the model, beside the tokenizer, the pooling and the configuration of a Hugging Face folder."""
import json
import shutil

import numpy
import onnx
import openai
import tokenizers
from onnx import TensorProto, helper, numpy_helper

from serve_text_typed import tiny_text_model
from served import Served
from typed import Typed, main

TABLE = numpy.random.default_rng(5).standard_normal((50, 16)).astype("f")
QUICK = ("--no-tune", "--no-cache", "--quiet")
TEXTS = ("a cat sits", "it rains on the mat")


def encoder(path, inputs=("input_ids", "attention_mask", "token_type_ids"), output="last_hidden_state", external=False, sequence="sequence_length"):
    """Token vectors of a table; types add one; all inputs are read."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["v0"])]
    for k, name in enumerate(inputs[1:]):
        nodes += [helper.make_node("Cast", [name], [f"f{k}"], to=TensorProto.FLOAT), helper.make_node("Mul", [f"f{k}", "half"], [f"h{k}"]),
                  helper.make_node("Unsqueeze", [f"h{k}", "last"], [f"u{k}"]), helper.make_node("Add", [f"v{k}", f"u{k}"], [f"v{k + 1}"])]
    nodes += [helper.make_node("Identity", [f"v{len(inputs) - 1}"], [output])]
    weights = [numpy_helper.from_array(a, n) for n, a in (("table", TABLE), ("half", numpy.float32(0.5)), ("last", numpy.array([2])))]
    graph = helper.make_graph(nodes, "g", [value(n, TensorProto.INT64, ["batch_size", sequence]) for n in inputs],
                              [value(output, TensorProto.FLOAT, ["batch_size", sequence, 16])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location=path.name + "_data", size_threshold=0)


def optimum(folder, at="model.onnx", **more):
    folder = tiny_text_model(folder)
    (folder / "model.safetensors").unlink()
    (folder / at).parent.mkdir(exist_ok=True)
    encoder(folder / at, **more)
    return folder


def pooled(folder):
    """Mean pooling of the tokens' vectors."""
    t = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return numpy.stack([(TABLE[t.encode(text).ids] + 0.5).mean(0) for text in TEXTS])


class Folders(Typed):
    def folder_of(self, name="tiny", at="model.onnx", **more):
        return optimum(self.folder / name, at, **more)

    def embedding(self, model):
        quick = () if str(model).endswith(".engine") else QUICK
        self.ends(0, "run", model, *(w for t in TEXTS for w in ("--text", t)), "--output-dir", "out", "--force", *quick)
        return numpy.load(self.folder / "out/embedding.npy")

    def test_the_file_is_the_model(self):
        for name, more in (("plain", {}), ("data", {"external": True}), ("hub", {"at": "onnx/model.onnx"}), ("other", {"at": "model_quantized.onnx"}),
                           ("two", {"inputs": ("input_ids", "attention_mask")}), ("sentences", {"output": "token_embeddings"})):
            folder = self.folder_of(name, **more)
            numpy.testing.assert_allclose(self.embedding(folder), pooled(folder), rtol=1e-5, atol=1e-6)
        self.ends(0, "build", "data", "-o", "t.engine", *QUICK)
        numpy.testing.assert_allclose(self.embedding("t.engine"), pooled(self.folder / "data"), rtol=1e-5, atol=1e-6)
        for words in (("verify", "data", "--text", "a cat"), ("verify", "t.engine", "--text", "a cat"), ("bench", "data", "--text", "a cat", "--seconds", "0.05", "--tolerance", "1000000")):
            self.ends(0, *words)
        self.ends(0, "inspect", "data", "--json", "i.json")
        told = json.loads((self.folder / "i.json").read_text())
        self.assertEqual((told["kind"], [o["name"] for o in told["outputs"]]), ("hugging face folder", ["last_hidden_state", "embedding"]))
        self.assertIn("bert, in data/model.onnx", told["about"])
        self.assertTrue(told["about"].endswith("with its tokenizer"), told)

    def test_inputs_that_are_no_texts(self):
        for name, more, said in (("positions", {"inputs": ("input_ids", "position_ids")}, "its input 'position_ids' is none of input_ids, attention_mask and token_type_ids"),
                                 ("fixed", {"sequence": 8}, "its input 'input_ids' is i64[batch_size,8], and texts make i64[batch,sequence] of any length")):
            folder = self.folder_of(name, **more)
            self.assertIn(f"{name}/model.onnx: this model takes no texts, as {said}; give its inputs as tensors", self.ends(2, "run", name, "--text", "a"))
            r = self.peri("build", folder, "-o", "t.engine", "--force", *QUICK)
            self.assertEqual(r.returncode, 0)
            self.assertIn(f"it takes no texts, as {said}", r.stderr.decode())

    def test_beside_modules_that_are_not_supported(self):
        """The outputs are the file's own, the default prompt is put, and an engine says why it takes no texts."""
        folder = self.folder_of("dense")
        (folder / "modules.json").write_text(json.dumps([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]))
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"q": "a cat "}, "default_prompt_name": "q"}))
        r = self.peri("build", "dense", "-o", "d.engine", *QUICK)
        self.assertEqual(r.returncode, 0, r.stderr)
        said = (r.stdout + r.stderr).decode()
        self.assertIn("the outputs are those of the ONNX file, and no module is added", said)
        self.assertNotIn("export the model", said)
        vectors = []
        for prompt in ((), ("--prompt", "a cat "), ("--prompt", "")):
            self.ends(0, "run", "d.engine", "--text", TEXTS[1], *prompt, "--output-dir", "out", "--force")
            vectors.append(numpy.load(self.folder / "out/last_hidden_state.npy"))
        self.assertEqual(vectors[0].tolist(), vectors[1].tolist())
        self.assertNotEqual(vectors[0].shape, vectors[2].shape)
        (folder / "config.json").unlink()
        self.assertIn("it has no config.json; give the file itself", self.ends(1, "build", "dense", "-o", "n.engine", *QUICK))
        plain = self.folder_of("words")
        (plain / "tokenizer.json").rename(plain / "vocab.txt")
        self.ends(0, "build", "words", "-o", "w.engine", *QUICK)
        self.assertIn("found words/vocab.txt: the tokenizer is not read from this file", self.ends(2, "run", "w.engine", "--text", "a"))

    def test_onnx_runtime_judges_the_file(self):
        """Without the folder's pooling, which no ONNX Runtime has."""
        self.folder_of("pooled")
        self.assertIn("2 runs against ONNX Runtime", self.ends(0, "verify", "pooled", "--onnxruntime", *QUICK))
        self.assertIn("pooled: with --onnxruntime the folder's ONNX file is judged, which takes ids in place of texts; give --input", self.ends(2, "verify", "pooled", "--onnxruntime", "--text", "a"))
        self.ends(0, "build", "pooled", "-o", "p.engine", *QUICK)
        self.assertIn("pooled/model.onnx: the engine's output 'embedding' is none of this model's; ", self.ends(2, "verify", "p.engine", "--onnxruntime", "--model", "pooled"))
        self.ends(0, "build", "pooled/model.onnx", "-o", "f.engine", *QUICK)
        self.ends(0, "verify", "f.engine", "--onnxruntime", "--model", "pooled")
        tiny_text_model(self.folder / "weights")
        self.assertIn("weights: ONNX Runtime runs ONNX files, and the folder's model is its weights; verify a folder against the float64 reference", self.ends(2, "verify", "weights", "--onnxruntime"))

    def test_several_files_are_named(self):
        for at in ("", "onnx/"):
            folder = self.folder_of("several" + at.strip("/"), at=at + "model.onnx")
            encoder(folder / (at + "model_quantized.onnx"))
            said = self.ends(2, "build", folder.name, "-o", "t.engine", *QUICK)
            self.assertIn(f"{folder.name}: the folder has several ONNX files, and any of them may be the model: expected one .onnx file, found {at}model.onnx, {at}model_quantized.onnx", said)
            self.assertIn(f"give the one that is meant, which then takes ids in place of texts: {folder.name}/{at}model.onnx", said)
            self.ends(0, "build", f"{folder.name}/{at}model.onnx", "-o", "t.engine", "--force", *QUICK)

    def test_neither_weights_nor_a_file(self):
        (self.folder_of("none") / "model.onnx").unlink()
        self.assertIn("none: no weights in the folder: expected model.safetensors, model.safetensors.index.json or an .onnx file; ", self.ends(1, "build", "none", "-o", "t.engine"))

    def test_weights_come_first(self):
        """Unless they are of a kind that is not read."""
        folder = tiny_text_model(self.folder / "both")
        encoder(folder / "model.onnx")
        self.assertGreater(numpy.abs(self.embedding(folder) - pooled(folder)).max(), 0.01)
        config = json.loads((folder / "config.json").read_text())
        for change in ({"model_type": "mpnet"}, {"auto_map": {"AutoModel": "x.Y"}}, {"quantization_config": {"bits": 4}}):
            (folder / "config.json").write_text(json.dumps({**config, **change}))
            numpy.testing.assert_allclose(self.embedding(folder), pooled(folder), rtol=1e-5, atol=1e-6)
            r = self.peri("build", folder, "-o", "t.engine", "--force", *QUICK)
            self.assertIn("the folder's weights are not read (", r.stderr.decode())
            (folder / "model.onnx").rename(folder / "hidden")
            said = self.ends(1, "build", folder, "-o", "t.engine", "--force")
            self.assertIn("config.json: '" + next(iter(change)) + "': ", said)
            self.assertTrue(said.endswith("; export the model to ONNX and put that file into the folder, as model.onnx"), said)
            (folder / "hidden").rename(folder / "model.onnx")

    def test_its_files_are_not_overwritten(self):
        """Also where they lie elsewhere, behind links as a hub's cache has them."""
        folder = self.folder_of("real", at="onnx/model.onnx", external=True)
        (self.folder / "blobs").mkdir()
        for name, blob in (("model.onnx", "aa"), ("model.onnx_data", "bb")):
            shutil.move(folder / "onnx" / name, self.folder / "blobs" / blob)
            (folder / "onnx" / name).symlink_to(f"../../blobs/{blob}")
        numpy.testing.assert_allclose(self.embedding(folder), pooled(folder), rtol=1e-5, atol=1e-6)
        for target in ("real/onnx/model.onnx", "real/onnx/model.onnx_data", "real/tokenizer.json", "blobs/aa", "blobs/bb"):
            before = (self.folder / target).read_bytes()
            self.ends(2, "build", "real", "-o", target, "--force", *QUICK)
            self.assertEqual((self.folder / target).read_bytes(), before)


class Repository(Served):
    def test_a_version_answers_texts(self):
        """A folder without versions is one; so is the folder of a version."""
        folders = {"bare": optimum(self.repository / "bare"), "hub": optimum(self.repository / "hub", at="onnx/model.onnx")}
        (self.repository / "versions").mkdir()
        folders["versions"] = optimum(self.repository / "versions/1")
        self.serve()
        client = self.closed(openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0))
        for name, folder in folders.items():
            got = client.embeddings.create(model=name, input=list(TEXTS), encoding_format="float")
            numpy.testing.assert_allclose([d.embedding for d in got.data], pooled(folder), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main()
