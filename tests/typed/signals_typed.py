#!/usr/bin/env python3
"""A command that a signal cuts short ends with 130 and says so: now, in its answer, in what it made, to whoever uses that later."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import onnx
from onnx import TensorProto, helper

from typed import DIGITS, PERI, SOURCE, Typed, main


class Signals(Typed):
    def start(self, *words, hang_up=signal.SIG_DFL):
        return subprocess.Popen([PERI, *map(str, words)], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up))

    def cut(self, child, *how):
        """Sends signals, all at once, which end the command: left alone, each of them would go on for longer than is waited here."""
        for signal_of in (signal.SIGSTOP, *how, signal.SIGCONT) if len(how) > 1 else how:
            child.send_signal(signal_of)
        try:
            said = child.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            self.fail(f"still there a minute after {how!r}: {child.communicate()[1]}")
        self.assertEqual(child.returncode, 130, said)
        self.assertNotIn("PASSED", said)
        self.assertIn("interrupted", said.strip().split("\n")[-1])
        return said

    def wait_for(self, child, word):
        """Until the command says so on standard error."""
        said = ""
        while word not in said:
            line = child.stderr.readline()
            self.assertTrue(line, said)
            said += line

    def at_work(self, child, seconds=1.0):
        """Until the command and its children have had a processor for so long."""
        tick = os.sysconf("SC_CLK_TCK")

        def used(pid):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15])) / tick
            except (FileNotFoundError, ProcessLookupError):
                return 0  # it has ended
        while used(child.pid) + sum(map(used, self.children(child.pid))) < seconds:
            self.assertIsNone(child.poll(), "it has ended")
            time.sleep(0.02)

    def children(self, pid):
        return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()

    def slow(self):
        """A model whose reference takes many minutes: a window over everything."""
        node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[800, 800], strides=[1, 1])
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1600, 1600])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, self.folder / "slow.onnx")
        return "slow.onnx"

    def long(self):
        """A model that takes some seconds to tune: convolutions of many sizes in a row."""
        nodes, weights, before = [], [], 8
        for k in range(40):
            now = 16 + 4 * k
            weights.append(helper.make_tensor(f"w{k}", TensorProto.FLOAT, [now, before, 3, 3], [0.01] * (now * before * 9)))
            nodes.append(helper.make_node("Conv", [f"x{k}", f"w{k}"], [f"x{k + 1}"], pads=[1, 1, 1, 1]))
            before = now
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, 8, 56, 56])],
                                  [helper.make_tensor_value_info("x40", TensorProto.FLOAT, None)], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "long.onnx")
        return "long.onnx"

    def test_a_build_leaves_the_best_so_far_and_says_so_ever_after(self):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            child = self.start("build", self.long(), "-o", "a.engine", "--json", "a.json", "--verbose")
            self.wait_for(child, "[2/")  # something was tried
            self.cut(child, how)
            answer = json.loads((self.folder / "a.json").read_text())
            self.assertTrue(answer["interrupted"])
            for command in ("inspect", "explain"):
                r = self.peri(command, "a.engine")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn(b"interrupted: the best so far", r.stdout)
            for words in (("explain", "a.engine"), ("bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6")):
                r = self.peri(*words, "--quiet")
                self.assertIn(b"interrupted: the best so far", r.stderr)
            r = self.peri("bench", "a.engine", "--seconds", "0.01", "--tolerance", "1e6")
            self.assertIn(b"note: the build of this engine was interrupted", r.stderr)
            proof = json.loads((self.folder / "a.engine.proof").read_text())
            claims = proof["verification"]
            self.assertEqual(claims["verified"], claims["steps_verified"] == claims["steps"])
            self.assertFalse(proof["engine"]["judged"])

    def test_a_lock_of_an_interrupted_build_says_so_ever_after(self):
        child = self.start("build", self.long(), "-o", "a.engine", "--lock", "a.lock", "--verbose")
        self.wait_for(child, "[2/")
        self.cut(child, signal.SIGTERM)
        self.assertIn("interrupted: the best so far", json.loads((self.folder / "a.lock").read_text())["interrupted"])
        r = self.peri("build", self.long(), "-o", "b.engine", "--locked", "a.lock")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b"note: the build is locked to the choices of one that was interrupted: the best so far", r.stderr)
        for command in ("inspect", "explain"):
            self.assertIn(b"the build of this engine was locked to the choices of one that was interrupted", (shown := self.peri(command, "b.engine")).stdout + shown.stderr)

    def test_a_bench_says_that_it_was_cut(self):
        self.ends(0, "build", SOURCE / "models/digits_cnn.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
        for twice in (False, True):  # timeout(1) sends the process one, and its group another at once
            child = self.start("bench", "a.engine", "--seconds", "1000", "--iterations", "100000000", "--json", "b.json", "--force")
            self.at_work(child)
            self.cut(child, signal.SIGTERM, *[signal.SIGINT] * twice)
            self.assertTrue(json.loads((self.folder / "b.json").read_text())["interrupted"])
            (self.folder / "b.json").unlink()

    def test_a_bench_that_measured_nothing_yet_says_so(self):
        """Its measuring process may be ended before it can take the signal."""
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")
        for delay in (0.01, 0.02, 0.03, 0.05):
            child = self.start("bench", "a.engine", "--repeat", "3", "--seconds", "1000", "--iterations", "100000000")
            self.wait_for(child, "process 1 of 3")
            time.sleep(delay - 0.01)
            self.cut(child, signal.SIGINT)

    def test_a_closed_terminal_ends_what_did_not_ask_to_go_on(self):
        slow = self.slow()
        child = self.start("verify", slow, "--no-cache")
        self.at_work(child)
        self.cut(child, signal.SIGHUP)
        child = self.start("verify", slow, "--no-cache", hang_up=signal.SIG_IGN)  # as nohup(1) starts it
        self.at_work(child)
        child.send_signal(signal.SIGHUP)
        self.at_work(child, 2.0)
        self.cut(child, signal.SIGTERM)

    def test_an_engine_that_is_replaced_meanwhile_is_not_measured_as_one(self):
        for name in ("a", "b"):
            self.ends(0, "build", DIGITS, "-o", f"{name}.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        child = self.start("bench", "a.engine", "--repeat", "2", "--seconds", "0.3", "--tolerance", "1e6", "--json", "a.json")
        self.wait_for(child, "process 1 of 2")
        (self.folder / "b.engine").rename(self.folder / "a.engine")
        said = child.communicate(timeout=200)[1]
        self.assertEqual(child.returncode, 1, said)
        self.assertIn("FAILED bench: a.engine: the engine was replaced while it was measured", said)
        self.assertEqual(json.loads((self.folder / "a.json").read_text())["error"]["kind"], "io")

    def test_its_worker_says_nothing_of_its_own(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        ours.close()  # the build is gone before it asked
        r = self.peri("worker", preexec_fn=lambda: os.dup2(theirs.fileno(), 3), pass_fds=(3,))
        self.assertEqual((r.returncode, r.stdout, r.stderr), (0, b"", b""))
        self.assertIn("a build starts this command", self.ends(2, "worker"))

    def test_the_others_end_at_once(self):
        slow = self.slow()
        for words in (("verify", slow, "--no-cache"), ("run", slow, "-i", "x=random:1", "--no-cache"), ("build", slow, "-o", "s.engine", "--no-cache")):
            child = self.start(*words)
            self.at_work(child)
            self.cut(child, signal.SIGTERM)
            self.assertFalse((self.folder / "s.engine").exists() and words[0] != "build")

    def test_their_objects_say_so(self):
        """Each object of --json is one, also where a signal ends the command at once, and nothing is left beside its file."""
        slow = self.slow()
        cancelled = {"kind": "cancelled", "message": "interrupted", "file": "", "node": "", "expected": "", "found": "", "remedy": ""}
        (self.folder / "old.json").write_text('{"command":"verify","interrupted":false}\n')
        (self.folder / "run.json").write_text('{"command":"run","interrupted":false}\n')
        (self.folder / "link.json").symlink_to("old.json")
        for command, to, file in (("verify", "-", None), ("verify", "new.json", "new.json"), ("verify", "link.json", "old.json"), ("run", "run.json", "run.json")):
            with self.subTest(command=command, to=to):
                child = self.start(command, slow, "-i", "x=random:1", "--no-cache", "--json", to)
                self.at_work(child)
                child.send_signal(signal.SIGTERM)
                out = child.communicate(timeout=60)[0]
                self.assertEqual(child.returncode, 130)
                answer = json.loads((self.folder / file).read_text() if file else out)
                self.assertEqual(answer, {"command": command, "interrupted": True, "error": cancelled})
        self.assertTrue((self.folder / "link.json").is_symlink())
        self.assertEqual(list(self.folder.glob("*.cut")), [])
        (self.folder / "mine.txt").write_text("my words\n")
        child = self.start("verify", slow, "--no-cache", "--json", "mine.txt")  # refused before any work
        self.assertEqual((child.communicate(timeout=60), child.returncode, (self.folder / "mine.txt").read_text())[1:], (1, "my words\n"))

    def test_a_peer_ends_with_who_asked_it(self):
        """ONNX Runtime is a process of its own with a folder of its own: neither outlives the command."""
        (self.folder / "fake").mkdir()
        (self.folder / "fake/onnxruntime.py").write_text("import time\ntime.sleep(1000)\n")
        self.environment.update(PYTHONPATH=str(self.folder / "fake"), PERI_PYTHON=sys.executable, TMPDIR=str(self.folder))
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            child = self.start("verify", DIGITS, "--onnxruntime", "--no-tune", "--no-cache", "--no-verify")
            until = time.monotonic() + 60
            while not self.peers(child.pid):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            peers = self.peers(child.pid)
            if how == signal.SIGKILL:
                child.kill()
                child.communicate()
            else:
                self.cut(child, how)
            until = time.monotonic() + 60
            while list(self.folder.glob("peri_verify_*")) or any(p.exists() for p in peers):
                self.assertLess(time.monotonic(), until, "the peer or its folder is still there")
                time.sleep(0.05)

    def peers(self, pid):
        """Its children that run the script of the peer."""
        listed = subprocess.run(["pgrep", "-P", str(pid), "-f", "onnxruntime as ort"], capture_output=True, text=True).stdout.split()
        return [pathlib.Path(f"/proc/{p}/environ") for p in listed]


if __name__ == "__main__":
    main()
