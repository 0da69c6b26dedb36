#!/usr/bin/env python3
"""The timing cache as builds find it: odd things in its place stop no build, a damaged file is begun anew, a locked one is left alone."""
import contextlib
import os
import socket
import sqlite3

from typed import DIGITS, Typed, main


class Timings(Typed):
    def test_odd_things_in_place_of_a_cache(self):
        cache = self.folder / "odd"
        self.environment["PERI_CACHE"] = str(cache)

        def build():
            self.ends(0, "build", DIGITS, "-o", "a.engine", "--quiet", "--no-verify")

        os.mkfifo(cache)
        build()
        cache.unlink()
        cache.touch()
        build()
        cache.unlink()
        cache.mkdir(mode=0o700)
        inside = cache / "timings.sqlite"
        os.mkfifo(inside)
        build()
        self.assertIn("regular file", self.ends(1, "cache", "list"))
        inside.unlink()
        with socket.socket(socket.AF_UNIX) as s:
            before = os.getcwd()
            os.chdir(cache)  # its name has a limit
            s.bind("timings.sqlite")
            os.chdir(before)
        build()
        inside.unlink()
        inside.mkdir()
        build()
        inside.rmdir()
        inside.write_text("a letter, and no data base")
        build()
        self.assertEqual((cache / "timings.sqlite.damaged").read_text(), "a letter, and no data base")

    def test_a_damaged_cache_is_begun_anew_and_a_locked_one_is_not(self):
        cache = self.folder / "cache"
        words = ("build", DIGITS, "-o", "a.engine", "--no-verify", "--force")
        self.ends(0, *words)
        inside, aside = cache / "timings.sqlite", cache / "timings.sqlite.damaged"
        good = inside.read_bytes()
        with contextlib.closing(sqlite3.connect(inside)) as other:
            other.execute("BEGIN EXCLUSIVE")
            self.assertIn("database is locked; the build goes on without it", self.peri(*words).stderr.decode())
        self.assertFalse(aside.exists())
        self.assertEqual(inside.read_bytes(), good)
        inside.write_bytes(good[: len(good) // 2] + bytes(len(good) - len(good) // 2))
        self.assertIn(f"the timing cache {inside} was damaged", self.peri(*words).stderr.decode())
        self.assertTrue(aside.exists())
        self.assertNotIn("the timing cache", self.peri(*words).stderr.decode())  # what was still read from the damaged one is timed
        r = self.peri(*words)
        self.assertRegex(r.stdout.decode(), r"tried +\d+ candidates of \d+ problems, 0 timed now")
        self.ends(0, "cache", "clear")
        self.assertFalse(aside.exists())


if __name__ == "__main__":
    main()
