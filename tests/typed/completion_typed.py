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
        (self.folder / "build").mkdir()  # called as a command is
        for shell in ("bash", "zsh", "fish"):
            made = self.peri("completion", shell)
            (self.folder / f"bin/_peri{'' if shell == 'zsh' else '.' + shell}").write_bytes(made.stdout)
        self.environment["PATH"] = f"{PERI.parent}:{os.environ['PATH']}"

    def typed(self, words, begin, line, wanted, tabs=b"\t\t"):
        """What an interactive shell shows once `line` and tabs are typed, until all that is wanted is there, or for a long time."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe(words[0], words, {**self.environment, "TERM": "dumb", "COLUMNS": "200"})
        raw, since = b"", 0

        def shown():
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw[since:].decode(errors="replace"))

        def read(done, seconds=60):
            nonlocal raw
            end = time.monotonic() + seconds
            while not done(shown()) and time.monotonic() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    raw += os.read(terminal, 65536)
            return shown()

        try:
            # The prompt behind the answer says that the shell, and not the terminal, reads what is typed next.
            ready = re.compile(r"ready\s.*@>\s*$", re.S)
            os.write(terminal, begin.encode() + b"; PS1='@''>'; echo rea''dy\n")
            self.assertRegex(read(ready.search), ready)
            since = len(raw)
            os.write(terminal, line.encode() + tabs)
            return read(lambda said: wanted(said[len(line):]))[len(line):]
        finally:
            os.close(terminal)
            os.waitpid(child, 0)

    def offered(self, shown, words):
        return [word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w])", shown)] == []

    def offers(self, shown, words):
        self.assertTrue(self.offered(shown, words), (words, shown))

    CASES = (("peri ", ("bench", "verify")), ("peri build --dtype ", ("f32", "f16", "bf16")), ("peri cache ", ("path", "clear")),
             ("peri verify --memory ", ("planned", "separate")), ("peri build --provider ", ("onednn",)), ("peri help ", ("bench", "verify")),
             ("peri build --dtype=", ("f32", "f16", "bf16")), ("peri bench --input-data ", ("random", "zero", "model.onnx")))  # fmt: skip
    WHOLE = (("peri run m -i image=mod", "el.onnx"), ("peri serve --access-log mod", "el.onnx"), ("peri bench --input-data mod", "el.onnx"), ("peri build --locked mod", "el.onnx"), ("peri build mod", "el.onnx"))

    # What takes one word of its own takes no file, neither in its place nor behind it.
    NOTHING = ("peri help bench ", "peri help mod", "peri cache list ", "peri completion bash mod")

    @needs("bash")
    def test_bash(self):
        shell = (["bash", "--norc", "-i"], ". bin/_peri.bash")
        (self.folder / "two words.onnx").write_bytes(b"")
        (self.folder / "st*r.onnx").write_bytes(b"")
        for line, words in self.CASES:
            with self.subTest(line=line):
                self.offers(self.typed(*shell, line, lambda shown: self.offered(shown, words)), words)
        for line, rest in (*self.WHOLE, ("peri bu", "ild "), ("peri build --dump-passes bu", "ild/"), ("peri build two", "\\ words.onnx"), ("peri build --locked two", "\\ words.onnx"), ("peri build st", "\\*r.onnx")):
            with self.subTest(line=line):
                shown = self.typed(*shell, line, lambda shown: shown.startswith(rest))
                self.assertTrue(shown.startswith(rest), shown)

    @needs("bash")
    def test_bash_offers_no_files_where_none_are_taken(self):
        for line in (*self.NOTHING, "peri build --dtype mod"):
            words = line.split(" ")
            script = f". bin/_peri.bash; COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}') COMP_CWORD={len(words) - 1}; _peri; echo \"${{COMPREPLY[*]}}\""
            shown = subprocess.run(["bash", "--norc", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)
            self.assertEqual((shown.stdout, shown.stderr), (b"\n", b""), line)

    @needs("zsh")
    def test_zsh(self):
        shell = (["zsh", "-f", "-i"], "fpath=($PWD/bin $fpath); autoload -Uz compinit; compinit -u -D")
        for line, words in (*self.CASES, ("peri build m -o mod", ("el.onnx",))):
            with self.subTest(line=line):
                self.offers(self.typed(*shell, line, lambda shown: self.offered(shown, words)), words)
        for line, rest in self.WHOLE:
            with self.subTest(line=line):
                self.assertIn(rest, self.typed(*shell, line, lambda shown: rest in shown, tabs=b"\t"))

    @needs("zsh")
    def test_zsh_offers_no_files_where_none_are_taken(self):
        shell = (["zsh", "-f", "-i"], "fpath=($PWD/bin $fpath); autoload -Uz compinit; compinit -u -D")
        for line in self.NOTHING:  # the line is given up, so that what follows shows that the shell is done with the tabs
            shown = self.typed(*shell, line, lambda shown: "over" in shown, tabs=b"\t\t\x15echo ov''er\n")
            self.assertIn("over", shown)
            self.assertNotIn("model.onnx", shown, line)

    @needs("fish")
    def test_fish(self):
        for line, words in (*self.CASES, *((line, ("model.onnx",)) for line, _ in self.WHOLE)):
            with self.subTest(line=line):
                script = f"source bin/_peri.fish; complete -C '{line}'"
                shown = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)
                self.offers(shown.stdout.decode(), words)
        for line, why in (*((line, line) for line in self.NOTHING), ("peri run build --lock", "flags of run, and not of build")):
            script = f"source bin/_peri.fish; complete -C '{line}'"
            shown = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)
            self.assertEqual(shown.stdout, b"", why)


if __name__ == "__main__":
    main()
