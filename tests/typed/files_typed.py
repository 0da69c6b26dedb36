#!/usr/bin/env python3
"""No command replaces a file that it reads, or one of another kind; what cannot be written fails."""
import json
import os
import shutil
import subprocess
import threading

import numpy
import onnx

from typed import DIGITS, SOURCE, Typed, main


class Files(Typed):
    def setUp(self):
        super().setUp()
        shutil.copy(DIGITS, self.folder / "m.onnx")
        self.before = (self.folder / "m.onnx").read_bytes()
        self.quick = ("--no-tune", "--no-cache", "--no-verify", "--quiet")

    def kept(self):
        self.assertEqual((self.folder / "m.onnx").read_bytes(), self.before)

    def test_two_names_of_one_file_are_wrong_usage(self):
        os.symlink("m.onnx", self.folder / "link")
        os.link(self.folder / "m.onnx", self.folder / "hard")
        shutil.copy(DIGITS, self.folder / "m.proof")
        for words in (("build", "m.onnx", "-o", "m.onnx"), ("build", "m.onnx", "-o", "./m.onnx"), ("build", "m.onnx", "-o", "link"),
                      ("build", "m.onnx", "-o", "hard"), ("build", "m.onnx", "-o", "a.engine", "--lock", "m.onnx"),
                      ("build", "m.onnx", "-o", "a.engine", "--json", "m.onnx"), ("build", "m.onnx", "-o", "a.engine", "--json", "a.engine"),
                      ("build", "m.onnx", "-o", "a.engine", "--lock", "a.engine.proof"), ("build", "m.proof", "-o", "m"),
                      ("inspect", "m.onnx", "--json", "m.onnx"), ("verify", "m.onnx", "--json", "link"),
                      ("bench", "m.onnx", "--json", "m.onnx"), ("run", "m.onnx", "-i", "image=random:1", "--json", "m.onnx")):
            with self.subTest(words=words):
                more = self.quick if words[0] != "inspect" else ("--quiet",)
                self.assertIn("one file", self.ends(2, *words, *more))
                self.assertIn("one file", self.ends(2, *words, *more, "--force"))
                self.kept()
        self.assertEqual((self.folder / "m.proof").read_bytes(), self.before)

    def test_the_proof_of_an_engine_is_read_too(self):
        self.ends(0, "build", "m.onnx", "-o", "p.engine", *self.quick)
        before = (self.folder / "p.engine.proof").read_bytes()
        for words in (("explain", "p.engine", "--json"), ("explain", "p.engine", "--html"), ("inspect", "p.engine", "--json")):
            self.assertIn("the proof of 'p.engine' and ", self.ends(2, *words, "p.engine.proof", "--force"))
        self.assertEqual((self.folder / "p.engine.proof").read_bytes(), before)

    def test_two_names_of_a_file_that_is_not_there_yet(self):
        (self.folder / "sub").mkdir()
        for a, b in (("x.engine", "./x.engine"), ("./x.engine", "x.engine"), ("x.engine", "sub/../x.engine"), ("x.engine", self.folder / "x.engine")):
            for flag in ("--json", "--lock", "--log"):
                with self.subTest(a=a, b=b, flag=flag):
                    self.assertIn("one file", self.ends(2, "build", "m.onnx", "-o", a, flag, b, *self.quick))
        self.ends(0, "build", "m.onnx", "-o", "f.engine", *self.quick)
        self.assertIn("one file", self.ends(2, "run", "f.engine", "-i", "image=random:1", "--output-dir", ".", "--json", "logits.npy"))
        self.kept()

    def test_a_model_that_is_touched_is_the_same(self):
        model = onnx.load(self.model("small.onnx", op="Sin", size=4096))
        weight = model.graph.initializer[0]
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))  # only raw data may lie beside the model
        onnx.save(model, self.folder / "beside.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        over = threading.Event()

        def touch():
            while not over.wait(0.001):
                os.utime(self.folder / "w.bin")

        toucher = threading.Thread(target=touch)
        toucher.start()
        try:
            for words in (("build", "beside.onnx", "-o", "beside.engine"), ("verify", "beside.onnx")):
                self.assertIn("PASSED", self.ends(0, *words, "--no-tune", "--no-cache"))
        finally:
            over.set()
            toucher.join()

    def test_a_file_of_another_kind_stays(self):
        (self.folder / "letter.txt").write_text("dear reader")
        for words in (("-o", "letter.txt"), ("-o", "a.engine", "--lock", "letter.txt"), ("-o", "a.engine", "--json", "letter.txt")):
            with self.subTest(words=words):
                self.assertIn("--force", self.ends(1, "build", "m.onnx", *words, *self.quick))
                self.assertEqual((self.folder / "letter.txt").read_text(), "dear reader")
        self.assertFalse((self.folder / "a.engine").exists())
        self.ends(0, "build", "m.onnx", "-o", "letter.txt", "--force", *self.quick)
        self.ends(0, "inspect", "letter.txt")

    def test_files_of_the_same_kind_give_way(self):
        words = ("build", "m.onnx", "-o", "a.engine", "--lock", "a.lock", "--json", "a.json", *self.quick)
        (self.folder / "a.json").touch()
        for _ in range(2):
            self.ends(0, *words)
        self.assertEqual(json.loads((self.folder / "a.json").read_text())["command"], "build")
        for words in (("run", "a.engine", "-i", "image=random:1"), ("inspect", "a.engine"), ("doctor",)):  # results of another command
            self.assertIn("expected a result of peri " + words[0], self.ends(1, *words, "--json", "a.json", "--quiet"))
        self.assertEqual(json.loads((self.folder / "a.json").read_text())["command"], "build")
        self.ends(0, "run", "a.engine", "-i", "image=random:1", "--json", "a.json", "--quiet", "--force")
        self.ends(0, "run", "a.engine", "-i", "image=random:2", "--json", "a.json", "--quiet")
        self.ends(1, "run", "a.engine", "-i", "image=random:1", "--json", "a.lock", "--quiet")
        self.ends(0, "build", "m.onnx", "-o", "b.engine", "--locked", "a.lock", "--quiet")

    def test_outputs_replace_no_input(self):
        model = self.model("small.onnx", output="x", given="y")
        numpy.save(self.folder / "x.npy", numpy.ones((2, 4), numpy.float32))
        before = (self.folder / "x.npy").read_bytes()
        self.assertIn("one file", self.ends(2, "run", model, "-i", "y=x.npy", "--output-dir", ".", *self.quick))
        self.assertEqual((self.folder / "x.npy").read_bytes(), before)
        (self.folder / "outputs.json").write_text("my own")
        self.assertIn("--force", self.ends(1, "run", model, "-i", "y=random:1", "--output-dir", ".", *self.quick))
        self.ends(0, "run", model, "-i", "y=x.npy", "--output-dir", "out", *self.quick)
        self.ends(0, "run", model, "-i", "y=x.npy", "--output-dir", "out", *self.quick)

    def test_a_log_of_requests_goes_to_no_other_file(self):
        (self.folder / "models").mkdir()
        words = ("serve", "--model-repository", "models", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1")
        for flags in (("--access-log", "m.onnx"), ("--profile", "serve.yaml")):
            (self.folder / "serve.yaml").write_text("access-log: m.onnx\n")
            self.assertIn("will not be overwritten: expected an access log", self.ends(1, *words, *flags))
        self.kept()

    def test_a_folder_that_is_a_file_is_told_before_the_run(self):
        self.ends(0, "build", "m.onnx", "-o", "f.engine", "--no-tune", "--no-verify", "--no-cache", "--quiet")
        self.assertIn("--output-dir is a file", self.ends(2, "run", "f.engine", "-i", "image=random:1", "--output-dir", "m.onnx"))
        self.kept()

    def test_standard_output_that_takes_nothing_is_a_failure(self):
        self.ends(0, "build", "m.onnx", "-o", "a.engine", *self.quick)
        for words in (("--help",), ("--version",), ("build", "--help"), ("run", "--help"), ("help", "bench"), ("inspect", "m.onnx"), ("inspect", "a.engine"), ("explain", "a.engine"),
                      ("inspect", "--operators"), ("completion", "bash"), ("cache", "list"), ("run", "a.engine", "-i", "image=random:1", "--json", "-"),
                      ("verify", "a.engine"), ("bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6", "--layers")):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                r = self.peri(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(r.returncode, 1, r.stderr)
                self.assertIn(b"FAILED", r.stderr)
                self.assertNotIn(b"PASSED", r.stderr)

    def test_a_reader_that_is_gone_is_named(self):
        read, write = os.pipe()
        os.close(read)
        for words in (("--help",), ("inspect", "m.onnx"), ("inspect", "m.onnx", "--json", "-")):
            # Where SIGPIPE is ignored, as by Python; else it ends the program.
            r = self.peri(*words, capture_output=False, stdout=write, stderr=subprocess.PIPE, restore_signals=False)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn(b"the reader of standard output is gone", r.stderr)
        os.close(write)

    def test_standard_streams_that_came_closed_are_no_file(self):
        """What is opened first would get their numbers: a log, an engine or a client's socket would get what is printed."""
        for closed in ((1,), (0, 1), (0, 1, 2)):
            with self.subTest(closed=closed):
                r = self.peri("build", "m.onnx", "-o", "a.engine", "--log", "a.log", "--no-tune", "--no-cache", capture_output=False,
                              stderr=subprocess.PIPE, preexec_fn=lambda: [os.close(n) for n in closed])
                self.assertEqual(r.returncode, 1, r.stderr)
                said = (self.folder / "a.log").read_text()
                self.assertNotIn("steps      ", said)
                self.assertEqual(said.count("FAILED build: standard output is closed"), 1, said)
        self.peri("build", "m.onnx", "-o", "a.engine", "--log", "a.log", "--no-tune", "--no-cache", capture_output=False,
                  stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(2))
        self.assertEqual((self.folder / "a.log").read_text().count("PASSED"), 1)

    def test_standard_output_is_a_file_as_another(self):
        """By any of its names it gets one answer."""
        self.ends(0, "build", "m.onnx", "-o", "p.engine", *self.quick)
        for words in (("build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--lock"), ("explain", "p.engine", "--html"),
                      ("inspect", "m.onnx", "--log")):
            for name in ("/dev/stdout", "out.txt"):
                with self.subTest(words=words, name=name), open(self.folder / "out.txt", "w") as out:
                    r = self.peri(*words, name, "--json", "-", capture_output=False, stdout=out, stderr=subprocess.PIPE)
                    self.assertEqual(r.returncode, 2, r.stderr)
                    self.assertIn("are one file", r.stderr.decode())
        with open(os.devnull, "w") as none:  # where nothing is kept nothing is lost
            r = self.peri("build", "m.onnx", "-o", "n.engine", "--lock", "/dev/null", "--json", "-", *self.quick, capture_output=False, stdout=none, stderr=subprocess.PIPE)
            self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_refused_answer_is_written_nowhere(self):
        """Where --json names what another flag, or a default, writes by other words, nothing is written and what is there stays."""
        self.ends(0, "build", "m.onnx", "-o", "p.engine", "--lock", "p.lock", *self.quick)
        (self.folder / "link").symlink_to("p.engine")
        os.link(self.folder / "p.engine", self.folder / "hard")
        before = {file.name: file.read_bytes() for file in self.folder.iterdir() if file.is_file()}
        for words in (("-o", "p.engine", "--json", "./p.engine"), ("-o", "p.engine", "--json", "link"), ("-o", "hard", "--json", "p.engine"), ("-o", "link", "--json", "./p.engine.proof"),
                      ("-o", "q.engine", "--lock", "p.lock", "--json", "./p.lock"), ("-o", "p.engine", "--lock", "p.engine", "--json", "./p.engine"),
                      ("-o", "z.engine", "--json", "./z.engine"), ("-o", "./z.engine", "--json", "z.engine.proof"), ("--json", "m.engine"), ("--json", "./m.engine.proof")):
            for more in ((), ("--force",)):
                with self.subTest(words=words, more=more):
                    self.assertRegex(self.ends(2, "build", "m.onnx", *words, *more, *self.quick), "are one file")
                    self.assertEqual({file.name: file.read_bytes() for file in self.folder.iterdir() if file.is_file()}, before)

    def test_an_answer_that_cannot_be_written_is_told(self):
        self.assertIn("FAILED build: /dev/full: cannot write", self.ends(1, "build", "m.onnx", "-o", "a.engine", "--log", "/dev/full"))
        self.assertIn("FAILED", self.ends(1, "inspect", "m.onnx", "--json", "none/a.json"))
        self.assertIn("none", self.ends(1, "inspect", "missing.onnx", "--json", "none/a.json"))

    def test_devices_take_answers_and_no_engines(self):
        for words in (("inspect", "m.onnx"), ("run", "m.onnx", "-i", "image=random:1", *self.quick)):
            self.ends(0, *words, "--json", "/dev/null")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--lock", "/dev/null", "--json", "/dev/null", *self.quick)
        self.assertIn("FAILED", self.ends(1, "inspect", "m.onnx", "--json", "/dev/full"))
        for device in ("/dev/null", "/dev/zero"):
            said = self.ends(1, "build", "m.onnx", "-o", device)
            self.assertIn("expected a regular file", said)
            self.assertNotIn("wall", said)
        self.assertFalse(os.path.exists("/dev/null.proof"))

    def test_what_a_link_names_is_written_and_the_link_stays(self):
        (self.folder / "far").mkdir()
        names = ("a.engine", "a.engine.proof", "a.lock", "a.json")
        for k, name in enumerate(names):
            if k % 2 == 0:  # the others are still to be made
                (self.folder / "far" / name).touch()
            os.symlink(f"far/{name}", self.folder / name)
        for _ in range(2):
            self.ends(0, "build", "m.onnx", "-o", "a.engine", "--lock", "a.lock", "--json", "a.json", *self.quick)
            for name in names:
                self.assertTrue((self.folder / name).is_symlink(), name)
                self.assertGreater((self.folder / "far" / name).stat().st_size, 100, name)
        self.ends(0, "explain", "a.engine", "--quiet")
        (self.folder / "out").mkdir()
        os.symlink("../far/y.npy", self.folder / "out" / "y.npy")
        model = self.model("small.onnx")
        self.ends(0, "run", model, "-i", "x=random:1", "--output-dir", "out", *self.quick)
        self.assertTrue((self.folder / "far/y.npy").exists() and (self.folder / "out/y.npy").is_symlink())

    def test_the_files_behind_a_model_are_not_lost_by_force(self):
        shutil.copytree(SOURCE / "tests/hf/data/tiny_bert", self.folder / "bert")
        self.model("m.onnx")
        made = onnx.load(self.folder / "m.onnx")
        for weight in made.graph.initializer:  # as raw bytes, which may lie in a file of their own
            weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
        onnx.save(made, self.folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
        quick = ("--no-tune", "--no-cache", "--no-verify", "--force")
        for model, part in (("bert", "bert/config.json"), ("m.onnx", "m.bin")):
            before = (self.folder / part).read_bytes()
            for flag in ("-o", "--lock", "--json", "--log"):
                said = self.ends(2, "build", model, flag, part, *quick, *(() if flag == "-o" else ("-o", "a.engine")))
                self.assertIn(f"{part}: a file of the input '{model}' and ", said)
                self.assertEqual((self.folder / part).read_bytes(), before)
        for again in range(2):  # what was made there is made again
            self.ends(0, "build", "bert", "-o", "bert/a.engine", "--json", "bert/a.json", *quick)

    def kept_by(self, file, *words):
        """The file stays, whatever is to be written over it, by force or not."""
        before = (self.folder / file).read_bytes()
        for more in ((), ("--force",)):
            for flag in ("--json", "--log"):
                with self.subTest(words=words, flag=flag, more=more):
                    self.assertRegex(self.ends(2, *words, flag, file, *more), f"{file}: .* and {flag} are one file")
                    self.assertEqual((self.folder / file).read_bytes(), before)

    def test_files_that_the_environment_names_are_kept(self):
        """The cache, also before it is there, and kernels from outside with their sources, by whatever name."""
        self.environment["PERI_CACHE"] = str(self.folder / "cache")
        for file in ("cache/timings.sqlite", "cache/timings.sqlite-wal"):
            self.assertIn("the timing cache and --json are one file", self.ends(2, "inspect", "m.onnx", "--json", file, "--force"))
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-verify", "--quiet", "--budget", "1")
        self.kept_by("cache/timings.sqlite", "inspect", "m.onnx", "--quiet")
        packed = self.folder / "cache/packed"
        packed.mkdir(exist_ok=True)
        (packed / "kept").write_bytes(b"made before")
        self.kept_by("cache/packed/kept", "inspect", "m.onnx", "--quiet")
        shutil.copy(SOURCE / "examples/triton/softmax_f16.json", self.folder / "k.json")
        source = json.loads((self.folder / "k.json").read_text())["source"]["ptx"]
        shutil.copy(SOURCE / "examples/triton" / source, self.folder)
        self.environment["PERI_KERNELS"] = str(self.folder / "k.json")
        for file in ("k.json", source):
            self.kept_by(file, "inspect", "m.onnx", "--quiet")
        self.ends(0, "inspect", "m.onnx", "--json", "i.json")

    def test_files_in_the_folders_of_a_model_are_kept(self):
        shutil.copytree(SOURCE / "tests/hf/data/tiny_bert", self.folder / "bert")
        (self.folder / "far").mkdir()
        (self.folder / "bert/1_Pooling").mkdir()
        os.symlink("../far", self.folder / "bert/2_Dense")  # and one that leads back
        os.symlink("../bert", self.folder / "far/back")
        for part in ("bert/1_Pooling/config.json", "far/config.json"):
            (self.folder / part).write_text('{"pooling_mode_mean_tokens": true}')
            self.kept_by(part, "build", "bert", "-o", "a.engine")
            for words in (("-o", part), ("-o", "a.engine", "--lock", part)):
                self.assertIn("a file of the input 'bert' and ", self.ends(2, "build", "bert", *words, "--force"))

    def test_what_flags_read_is_kept(self):
        self.ends(0, "build", "m.onnx", "-o", "e.engine", *self.quick)
        self.ends(0, "run", "e.engine", "-i", "image=random:7", "--output-dir", "ref", "--quiet")
        self.kept_by("ref/logits.npy", "verify", "e.engine", "--reference-dir", "ref", "--input", "image=random:7")
        self.kept_by("e.engine.proof", "replay", "/h/Gemm", "--from", "e.engine")
        (self.folder / "suite/case/test_data_set_0").mkdir(parents=True)
        shutil.copy(DIGITS, self.folder / "suite/case/model.onnx")
        (self.folder / "suite/case/test_data_set_0/input_0.pb").write_text("a tensor")
        for part in ("model.onnx", "test_data_set_0/input_0.pb"):
            self.kept_by(f"suite/case/{part}", "verify", "--suite", "suite")
        (self.folder / "repo/d/1").mkdir(parents=True)
        shutil.copy(self.folder / "e.engine", self.folder / "repo/d/1/model.engine")
        words = ("serve", "--model-repository", "repo", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1")
        self.kept_by("repo/d/1/model.engine", *words)
        self.assertIn("one file", self.ends(2, *words, "--access-log", "repo/d/1/model.engine", "--force"))
        (self.folder / "data").mkdir()
        (self.folder / "data/image").write_text("values")
        self.kept_by("data/image", "bench", "--endpoint", "http://localhost:1", "-m", "d", "--input-data", "data")
        manifest = json.loads((SOURCE / "tests/fuzz/corpus/kernel_manifest/full.json").read_text().split("---")[0])
        (self.folder / "k.json").write_text(json.dumps(manifest))
        source = next(iter(manifest["source"].values()))
        (self.folder / source).write_text(f"void {manifest['entry']}() {{}}")
        self.kept_by(source, "build", "m.onnx", "-o", "a.engine", "--kernel", "k.json")

    def test_what_was_made_in_a_folder_that_is_read_is_made_again(self):
        (self.folder / "suite/case").mkdir(parents=True)
        shutil.copy(DIGITS, self.folder / "suite/case/model.onnx")
        for again in range(2):
            self.ends(3, "verify", "--suite", "suite", "--json", "suite/all.json", "--log", "suite/all.log", "--force")


if __name__ == "__main__":
    main()
