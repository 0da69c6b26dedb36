#!/usr/bin/env python3
"""Where files go: a folder that is not there is told before the work, links are followed, what is no file is not waited for."""
import json
import os
import shutil
import subprocess
import sys

import numpy

from typed import DIGITS, PERI, Typed, main


class Places(Typed):
    def setUp(self):
        super().setUp()
        shutil.copy(DIGITS, self.folder / "m.onnx")
        self.quick = ("--no-tune", "--no-cache", "--no-verify", "--quiet")

    def engine(self, path="m.engine"):
        self.ends(0, "build", "m.onnx", "-o", path, *self.quick)

    def test_a_build_without_a_cache_says_so(self):
        """Unless it was told to have none."""
        note = b"note: there is no timing cache, since neither XDG_CACHE_HOME nor HOME names a folder"
        self.environment = {k: v for k, v in self.environment.items() if k not in ("PERI_CACHE", "XDG_CACHE_HOME", "HOME")}
        build = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--no-verify", "--force")
        self.assertIn(note, self.peri(*build).stderr)
        self.assertNotIn(note, self.peri(*build, "--no-cache").stderr)
        self.environment["PERI_CACHE"] = ""
        self.assertNotIn(note, self.peri(*build).stderr)

    def test_a_folder_that_is_not_there_is_told_before_the_work(self):
        self.engine()
        image = ("-i", "image=random:1")
        for words in (("build", "m.onnx", "-o", "no/such/x.engine"), ("build", "m.onnx", "-o", "x.engine", "--lock", "no/such/x"),
                      ("build", "m.onnx", "-o", "x.engine", "--json", "no/such/x"), ("build", "m.onnx", "-o", "x.engine", "--log", "no/such/x"),
                      ("explain", "m.engine", "--html", "no/such/x"), ("explain", "m.engine", "--json", "no/such/x"),
                      ("bench", "m.engine", "--json", "no/such/x"), ("run", "m.engine", *image, "--json", "no/such/x"),
                      ("run", "m.engine", *image, "--json", "no/such/x", "--output-dir", "no/other"),
                      ("build", "m.onnx", "-o", "x.engine", "--dump-passes", "no/such"), ("inspect", "m.onnx", "--dump-passes", "no/such"),
                      ("verify", "m.engine", "--json", "no/such/x"), ("inspect", "m.onnx", "--json", "no/such/x")):
            with self.subTest(words=words):
                r = self.peri(*words)
                self.assertEqual((r.returncode, r.stdout), (1, b""), "nothing is worked out first")
                self.assertIn(b"no/such: cannot write into the folder", r.stderr)
                self.assertIn(b"mkdir -p no/such", r.stderr)
                self.assertFalse((self.folder / "x.engine").exists())
        self.assertIn("make it first: mkdir -p 'no folder'", self.ends(1, "build", DIGITS, "-o", "no folder/x.engine"))

    def test_a_folder_that_may_not_be_written_into_is_told_once(self):
        self.engine()
        (self.folder / "closed").mkdir(mode=0o555)
        user = {} if os.getuid() else {"user": 65534, "group": 65534, "extra_groups": []}
        for path in (self.folder, self.folder / "m.onnx", self.folder / "m.engine"):
            path.chmod(0o755)
        for words in (("build", "../m.onnx"), ("verify", "../m.engine", "--json", "v.json"), ("run", "../m.engine", "-i", "image=random:1", "--json", "r.json")):
            r = self.peri(*words, cwd=self.folder / "closed", **user)
            self.assertEqual((r.returncode, r.stdout), (1, b""), r.stderr)
            self.assertEqual(r.stderr.count(b"cannot write into the folder: Permission denied"), 1, r.stderr)
            self.assertIn(b"name a file in another folder", r.stderr)

    def test_what_a_system_without_proc_lacks_is_told(self):
        def without(*words):
            for unshare in (["unshare", "-m"], ["unshare", "-r", "-m"]):
                inside = [*unshare, "sh", "-c", 'mount -t tmpfs none /proc && echo hidden && exec "$0" "$@"', PERI, *map(str, words)]
                r = subprocess.run(inside, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=280)
                if "hidden" in r.stdout:
                    return r
            self.skipTest("this user may not mount: " + r.stderr)
        (self.folder / "repository").mkdir()
        r = without("serve", "--model-repository", "repository", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("cannot find the running program: No such file or directory; mount /proc: it is not seen here, or serve without workers: --in-process", r.stderr)
        r = without("doctor")
        self.assertIn("memory    not known: /proc/meminfo is not seen here", r.stdout)
        self.assertNotIn("0 B available", r.stdout)

    def test_a_current_folder_that_is_gone_is_told_before_the_work(self):
        self.engine()
        for words in (("build", self.folder / "m.onnx"), ("verify", self.folder / "m.engine", "--json", "v.json"), ("bench", self.folder / "m.engine", "--json", "b.json")):
            gone = self.folder / "gone"
            gone.mkdir()
            line = ["sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', PERI, *map(str, words)]
            r = subprocess.run(line, env=self.environment, cwd=gone, capture_output=True, timeout=280)
            self.assertEqual((r.returncode, r.stdout), (1, b""), r.stderr)
            self.assertIn(b"the current folder is not there", r.stderr)

    def test_a_name_too_long_for_the_proof_is_told_before_the_work(self):
        """No engine stays behind whose proof had no place; a name that both can have is taken."""
        self.engine()
        longest = os.pathconf(self.folder, "PC_NAME_MAX")
        before = sorted(os.listdir(self.folder))
        for name in ("e" * (longest + 1), "e" * longest, "e" * (longest - len(".proof") + 1)):
            r = self.peri("build", "m.onnx", "-o", name, "--no-tune", "--no-cache", "--no-verify")
            self.assertEqual((r.returncode, r.stdout), (1, b""), r.stderr)
            self.assertIn(f"the file's name is too long: expected at most {longest} bytes", r.stderr.decode())
            self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.ends(0, "build", "m.onnx", "-o", "e" * (longest - len(".proof")), "--no-tune", "--no-cache", "--no-verify")

    def test_links_in_a_circle_lead_nowhere(self):
        self.engine()
        os.symlink("there", self.folder / "here")
        os.symlink("here", self.folder / "there")
        for words in (("build", "m.onnx", "-o", "here"), ("build", "m.onnx", "-o", "a.engine", "--lock", "here"), ("verify", "m.engine", "--json", "there"),
                      ("run", "m.engine", "-i", "image=random:1", "--json", "here")):
            r = self.peri(*words)
            self.assertEqual((r.returncode, r.stdout), (1, b""), r.stderr)
            self.assertIn(b"links lead round in a circle", r.stderr)
        self.assertTrue((self.folder / "here").is_symlink() and (self.folder / "there").is_symlink())
        self.assertFalse((self.folder / "a.engine").exists())

    def test_a_run_makes_the_folder_of_its_outputs_with_its_parents(self):
        self.engine()
        run = ("run", "m.engine", "-i", "image=random:1", "--quiet")
        self.ends(0, *run, "--output-dir", "a/b/c", "--json", "a/b/c/run.json")
        self.assertEqual(sorted(os.listdir(self.folder / "a/b/c")), ["logits.npy", "outputs.json", "run.json"])
        self.ends(0, *run, "--output-dir", "d/e/", "--json", self.folder / "d/e/run.json")
        r = self.peri(*run, "--output-dir", "m.onnx/c")
        self.assertEqual((r.returncode, r.stdout), (1, b""))
        self.assertIn(b"m.onnx: Not a directory; give --output-dir a folder that this user may write into", r.stderr)
        self.assertIn(b"m.onnx/c: cannot make the folder: ", r.stderr)
        (self.folder / "closed").mkdir(mode=0o500)
        if os.geteuid() != 0:
            self.assertIn("closed: cannot write into the folder: ", self.ends(1, *run, "--output-dir", "closed"))
            self.assertIn("closed: Permission denied", self.ends(1, *run, "--output-dir", "closed/a"))

    def test_a_proof_lies_beside_the_file_that_a_link_names(self):
        (self.folder / "store").mkdir()
        os.symlink("store/v1.engine", self.folder / "latest.engine")
        self.engine("latest.engine")
        self.assertEqual(sorted(os.listdir(self.folder / "store")), ["v1.engine", "v1.engine.proof"])
        self.assertTrue((self.folder / "latest.engine").is_symlink())
        for name in ("latest.engine", "store/v1.engine"):
            self.ends(0, "explain", name)
        os.symlink("store", self.folder / "other")
        self.ends(0, "explain", "other/v1.engine")
        (self.folder / "store/v1.engine.proof").rename(self.folder / "latest.engine.proof")
        self.ends(0, "explain", "latest.engine")
        self.assertIn("build it again", self.ends(1, "explain", "store/v1.engine"))
        self.assertIn("build it again", self.ends(1, "replay", "--from", "store/v1.engine", "x"))

    def test_what_is_no_file_is_not_waited_for(self):
        self.engine()
        os.mkfifo(self.folder / "fifo")
        numpy.save(self.folder / "image.npy", numpy.zeros((1, 1, 8, 8), numpy.float32))
        for words in (("verify", "m.engine", "--onnxruntime", "--model", "fifo"), ("verify", "fifo"), ("inspect", "fifo"),
                      ("run", "m.engine", "-i", "image=raw:f32:1x1x8x8:fifo"), ("explain", "m.engine", "--proof", "fifo"),
                      ("run", "m.engine", "-i", "image=image.npy", "--top-k", "1", "--labels", "fifo"),
                      ("build", "m.onnx", "-o", "x.engine", "--locked", "fifo"), ("compare", "fifo", "fifo"), ("replay", "fifo"),
                      ("build", "m.onnx", "-o", "fifo"), ("build", "m.onnx", "-o", "x.engine", "--json", "fifo")):
            with self.subTest(words=words):
                said = self.peri(*words)
                self.assertEqual(said.returncode, 1, said.stderr)
                self.assertRegex(said.stderr, b"FIFO")

    def test_a_worker_that_does_not_start_is_told(self):
        self.environment["PERI_WORKER"] = "/bin/false"
        r = self.peri("build", "m.onnx", "-o", "x.engine", "--no-tune")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stderr, rb"note: candidates were tried in this process.*/bin/false: the worker .* before it was ready")
        self.environment["PERI_WORKER"] = ""
        self.assertNotIn(b"in this process", self.peri("build", "m.onnx", "-o", "y.engine", "--no-tune").stderr)
        self.assertEqual(self.claims("y")["no_worker"], "PERI_WORKER is empty, which asks for none")

    def claims(self, name):
        return json.loads((self.folder / f"{name}.engine.proof").read_text())["verification"]

    def test_a_program_that_finds_no_worker_says_so(self):
        """Without its name it is not found beside itself."""
        shutil.copy(PERI, self.folder / "other")
        subprocess.run([self.folder / "other", "build", "m.onnx", "-o", "z.engine", "--no-tune", "--quiet"], cwd=self.folder, env=self.environment, check=True)
        self.assertIn("no program 'peri' is beside the running program", self.claims("z")["no_worker"])

    def test_another_program_as_worker_delays_little(self):
        """It says nothing, says what no worker says, stops within a message, or leaves and goes on: the build judges itself, soon."""
        for name, does, words in (("silent", "pass", "gave no answer for 5 s before it was ready"),
                                  ("other", "os.write(3, b'hello, world: what can I do for you?')", "it is another program"),
                                  ("text", "os.write(3, struct.pack('I', 5) + b'hello')", "it is another program"),
                                  ("half", "os.write(3, struct.pack('I', 99) + b'{')", "gave no answer for 5 s before it was ready"),
                                  ("left", "os.close(3)", "left the build and went on before it was ready")):
            with self.subTest(name):
                program = self.folder / name
                program.write_text(f"#!{sys.executable}\nimport os, struct, time\n{does}\ntime.sleep(200)\n")
                program.chmod(0o755)
                self.environment["PERI_WORKER"] = str(program)
                r = self.peri("build", "m.onnx", "-o", "x.engine", "--no-tune", timeout=100)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertRegex(r.stderr.decode(), f"note: candidates were tried in this process.*{words}")

    def test_what_a_worker_prints_is_not_the_builds(self):
        talks = self.folder / "talks"
        talks.write_text("#!/bin/sh\necho a word; cat >/dev/null\n")
        talks.chmod(0o755)
        self.environment["PERI_WORKER"] = str(talks)
        r = self.peri("build", "m.onnx", "-o", "z.engine", "--no-tune", "--json", "-")
        self.assertEqual(r.returncode, 0, r.stderr)
        json.loads(r.stdout)


if __name__ == "__main__":
    main()
