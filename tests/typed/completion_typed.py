#!/usr/bin/env python3
"""Completion in the shells themselves, as far as they are installed: commands, flags, the values of flags, files behind "="."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from typed import PERI, Typed, main


def needs(shell):
    return unittest.skipUnless(shutil.which(shell), f"{shell} is not installed")


class Completion(Typed):
    def setUp(self):
        super().setUp()
        (self.folder / "model.onnx").write_bytes(b"")
        (self.folder / "bin").mkdir()
        for shell in ("bash", "zsh", "fish"):
            made = self.peri("completion", shell)
            (self.folder / f"bin/_peri{'' if shell == 'zsh' else '.' + shell}").write_bytes(made.stdout)
        self.environment["PATH"] = f"{PERI.parent}:{os.environ['PATH']}"

    def typed(self, words, begin, line):
        """What an interactive shell shows once `line` and two tabs are typed."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe(words[0], words, {**self.environment, "TERM": "dumb", "COLUMNS": "200"})

        def read(marker, seconds):
            out, end = b"", time.monotonic() + seconds
            while time.monotonic() < end and not (marker and marker in out):
                if select.select([terminal], [], [], 0.1)[0]:
                    out += os.read(terminal, 65536)
            return out

        os.write(terminal, begin.encode() + b"; echo rea''dy\n")
        self.assertIn(b"ready", read(b"ready", 20))
        read(None, 0.3)
        os.write(terminal, line.encode() + b"\t\t")
        shown = read(None, 1.5)
        os.close(terminal)
        os.waitpid(child, 0)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))[len(line):]

    def offers(self, shown, words):
        for word in words:
            self.assertRegex(shown, rf"(?<![\w-]){re.escape(word)}(?![\w])")

    CASES = (("peri ", ("bench", "verify")), ("peri build --dtype ", ("f32", "f16", "bf16")), ("peri cache ", ("path", "clear")),
             ("peri verify --memory ", ("planned", "separate")), ("peri build --provider ", ("onednn",)), ("peri help ", ("bench", "verify")),
             ("peri build --dtype=", ("f32", "f16", "bf16")))  # fmt: skip
    WHOLE = (("peri run m -i image=mod", "el.onnx"), ("peri build --locked mod", "el.onnx"), ("peri build mod", "el.onnx"))

    @needs("bash")
    def test_bash(self):
        for line, words in self.CASES:
            with self.subTest(line=line):
                self.offers(self.typed(["bash", "--norc", "-i"], "PS1=; . bin/_peri.bash", line), words)
        for line, rest in self.WHOLE:
            with self.subTest(line=line):
                self.assertTrue(self.typed(["bash", "--norc", "-i"], "PS1=; . bin/_peri.bash", line).startswith(rest))

    @needs("zsh")
    def test_zsh(self):
        begin = "PROMPT=; fpath=($PWD/bin $fpath); autoload -Uz compinit; compinit -u -D"
        for line, words in (*self.CASES, ("peri build m -o mod", ("el.onnx",))):
            with self.subTest(line=line):
                self.offers(self.typed(["zsh", "-f", "-i"], begin, line), words)
        for line, rest in self.WHOLE:
            with self.subTest(line=line):
                self.assertIn(rest, self.typed(["zsh", "-f", "-i"], begin, line))

    @needs("fish")
    def test_fish(self):
        for line, words in (*self.CASES, *((line, ("model.onnx",)) for line, _ in self.WHOLE)):
            with self.subTest(line=line):
                script = f"source bin/_peri.fish; complete -C '{line}'"
                shown = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)
                self.offers(shown.stdout.decode(), words)
        script = "source bin/_peri.fish; complete -C 'peri help mod'"
        shown = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)
        self.assertEqual(shown.stdout, b"", "help takes no files")


if __name__ == "__main__":
    main()
