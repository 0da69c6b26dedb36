#!/usr/bin/env python3
"""A build with little memory says that memory was the reason, and what to do; nothing of it is kept against a kernel."""
import json
import os
import resource
import subprocess

import onnx
import onnx.parser

from typed import DIGITS, PERI, Typed, main


class Memory(Typed):
    def test_memory_that_is_short_is_not_taken_for_a_lack_of_kernels(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (150_000 << 10, 150_000 << 10))

        words = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--force")
        r = self.peri(*words, preexec_fn=little)
        self.assertEqual(r.returncode, 0, r.stderr)
        page, last = r.stdout.decode(), r.stderr.decode().strip().split("\n")[-1]
        self.assertIn("reference  memory was short to try the kernels that take these, they are slow: ", page)
        self.assertIn("give it more memory (ulimit -v, or the limit of the container) and build again", page)
        self.assertNotIn("no kernel takes", page)
        self.assertIn("of them on the slow reference, since memory was short", last)
        self.ends(0, "explain", "a.engine", "--html", "e.html", "--quiet")
        self.assertIn("memory was short to try the kernels that take it: it runs on the slow reference", (self.folder / "e.html").read_text())
        self.assertNotIn("slow reference", self.ends(0, *words))

    def test_memory_that_is_short_makes_no_candidate_wrong(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (150_000 << 10, 150_000 << 10))

        line = "graph { input x: f32[1024,1024]; input w: f32[1024,1024]; y = matmul(x, w); output y; } seed=7"
        r = self.peri("replay", line, preexec_fn=little)
        page, last = r.stdout.decode(), r.stderr.decode().strip().split("\n")[-1]
        self.assertEqual(r.returncode, 1, last)
        self.assertRegex(page, "untried    .*: memory was short: ")
        self.assertNotRegex(page, "REJECTED|error -1")
        self.assertRegex(last, r"FAILED replay: (\d+) candidates, 0 rejected, seed=7, \1 could not be tried")
        told = json.loads(self.peri("replay", line, "--json", "-", "--quiet", preexec_fn=little).stdout)
        self.assertTrue(told["candidates"] and all(c["untried"] for c in told["candidates"]), told)

    def test_a_library_that_does_not_look_whether_it_got_memory_ends_no_replay(self):
        """Its candidates are tried in a worker, as a build's are; where the worker died, memory was short and the candidate is not wrong."""
        line = "conv x=f32[1,64,56,56] w=f32[64,64,3,3]"
        for mib in range(160, 561, 40):
            r = self.peri("replay", line, "--provider", "onednn", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
            last = r.stderr.decode().strip().split("\n")[-1]
            self.assertIn(r.returncode, (0, 1), f"{mib}: {last}")
            self.assertIn(" 0 rejected", last)
        self.environment["PERI_WORKER"] = "/bin/false"
        r = self.peri("replay", line)
        self.assertIn(b"note: candidates were tried in this process, which a crash would end: ", r.stderr)
        self.assertEqual(r.returncode, 0)
        self.environment["PERI_WORKER"] = ""
        self.assertNotIn(b"note:", self.peri("replay", line).stderr)

    def test_a_library_that_memory_is_too_short_for_makes_no_candidate_wrong(self):
        def little():  # less than the library's own segments need
            resource.setrlimit(resource.RLIMIT_AS, (80_000 << 10, 80_000 << 10))

        r = self.peri("replay", "matmul a=f32[64,256] b=f32[256,128]", "--provider", "onednn", "--threads", "1", preexec_fn=little)
        page, last = r.stdout.decode(), r.stderr.decode().strip().split("\n")[-1]
        self.assertEqual(r.returncode, 1, last)
        self.assertRegex(page, r"untried    onednn_matmul@1 .*: memory was short: .*memory is too short to load it: .*; give the process more memory")
        self.assertNotIn("put the library that came with peri", page)

    def test_a_file_larger_than_memory_is_known_by_its_beginning(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (400_000 << 10, 400_000 << 10))

        words = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--no-verify", "--no-cache")
        self.ends(0, *words)
        with open(self.folder / "a.engine", "ab") as engine:
            engine.truncate(2 << 30)  # with a hole behind what it is known by
        r = self.peri(*words, preexec_fn=little)
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_the_memory_of_a_build_is_estimated(self):
        """Of the program and its worker: the larger of them alone is less than both, and more than a third of it."""
        estimates = []
        for words in (("--dims", "batch=1024"), ("--dims", "batch=2048")):
            told = json.loads(self.peri("inspect", DIGITS, *words, "--json", "-", "--quiet").stdout)["build_estimate"]
            self.assertEqual(told["peak_bytes"], max(told["trying_bytes"], told["judging_bytes"]))
            self.assertGreaterEqual(told["first_peak_bytes"], told["peak_bytes"])
            self.assertIn("memory of a build: about ", self.peri("inspect", DIGITS, *words).stdout.decode())
            process = subprocess.Popen([PERI, "build", DIGITS, "-o", "a.engine", "--force", "--quiet", *words], cwd=self.folder, env=self.environment, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertLess(used.ru_maxrss << 10, 1.2 * told["first_peak_bytes"])
            self.assertGreater(used.ru_maxrss << 10, told["peak_bytes"] / 3)
            estimates.append(told["judging_bytes"])
        self.assertGreater(estimates[1], 1.5 * estimates[0])
        untried = json.loads(self.peri("inspect", DIGITS, "--no-tune", "--no-verify", "--json", "-", "--quiet").stdout)["build_estimate"]
        self.assertLess(untried["peak_bytes"], 64 << 20)

    def test_memory_that_is_short_makes_no_engine_wrong(self):
        """A step on the reference takes more than its buffers, also where they lie apart: no limit of these takes it for a wrong step."""
        onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n,64] x) => (double[n,64] y) { d = Cast<to = 11>(x) e = Erf(d) f = Erf(e) y = Erf(f) }'), self.folder / "m.onnx")
        for mib in (60, 80, 120, *range(190, 250, 5)):
            r = self.peri("build", "m.onnx", "-o", "b.engine", "--no-tune", "--no-cache", "--force", "--quiet", "--dims", "n=40000", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * 1000 << 10,) * 2))
            said = r.stderr.decode().strip().split("\n")[-1]
            self.assertIn((r.returncode, "memory" in said or "cannot allocate" in said), ((0, False), (0, True), (1, True)), f"{mib}: {said}")
            self.assertNotIn("does not run at n=40000: cannot allocate 10240000 bytes; give smaller sizes, or the process more memory; build for", said)


if __name__ == "__main__":
    main()
