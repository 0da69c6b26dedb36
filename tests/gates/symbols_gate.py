"""What tools/pack/symbols.py lets through and what it stops: a file of this system's C library alone, and one that needs a
newer version, a library of others, or a folder of this machine.   usage: symbols_gate.py BUILD_DIR
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SYMBOLS = pathlib.Path(__file__).resolve().parents[2] / "tools/pack/symbols.py"


class Symbols(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="peri-symbols-")
        self.folder = pathlib.Path(self.scratch.name)
        (self.folder / "packed").mkdir()

    def tearDown(self):
        self.scratch.cleanup()

    def library(self, path, code, *flags):
        source = self.folder / "source.c"
        source.write_text(code)
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", self.folder / path, *flags], check=True)
        return self.folder / path

    def said(self):
        done = subprocess.run([sys.executable, SYMBOLS, self.folder / "packed"], capture_output=True, text=True)
        return done.returncode, done.stdout

    def stops(self, words):
        code, said = self.said()
        self.assertEqual(code, 1, said)
        self.assertIn(words, said)

    def test_a_plain_library_passes(self):
        self.library("packed/libplain.so", "#include <stdio.h>\nint f(void) { return puts(\"\"); }\n")
        self.assertEqual(self.said()[0], 0, self.said()[1])

    def test_an_empty_folder_is_no_pass(self):
        self.assertEqual(self.said()[0], 1)

    def test_a_newer_version_is_stopped(self):
        for version in ("GLIBC_2.36", "GLIBCXX_3.4.31", "GLIBC_3.0"):
            (self.folder / "map").write_text(f"{version} {{ newer; }};\n")
            newer = self.library("libm.so.6", "int newer(void) { return 1; }\n", f"-Wl,--version-script={self.folder / 'map'}", "-Wl,-soname,libm.so.6")
            self.library("packed/libneeds.so", "int newer(void);\nint f(void) { return newer(); }\n", newer)
            self.stops(f"needs {version}")

    def test_an_untrusted_library_is_stopped(self):
        other = self.library("libother.so.1", "int other(void) { return 1; }\n", "-Wl,-soname,libother.so.1")
        needs = "int other(void);\nint f(void) { return other(); }\n"
        self.library("packed/libneeds.so", needs, other)
        self.stops("needs libother.so.1")
        other.rename(self.folder / "packed/libother.so.1")
        self.assertEqual(self.said()[0], 0, self.said()[1])

    def test_a_folder_of_this_machine_is_stopped(self):
        self.library("packed/libplaced.so", "int f(void) { return 1; }\n", "-Wl,-rpath,$ORIGIN:/opt/mine")
        self.stops("/opt/mine")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
