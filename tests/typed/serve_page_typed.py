#!/usr/bin/env python3
"""Pages of a server's state: `peri top` in a terminal that is too small for all models, and the dashboard of a server that asks for keys."""
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios

from served import Served
from typed import PERI, main

CLEARED = "\x1b[H\x1b[2J"


class Pages(Served):
    def test_top_fits_the_terminal(self):
        """22 models in 24 rows: no refresh scrolls, the busiest model comes first, and what is not shown is counted."""
        self.put("m00")
        for k in range(1, 22):
            shutil.copytree(self.repository / "m00", self.repository / f"m{k:02}")
        for k in range(6):
            (self.repository / f"broken{k}/1").mkdir(parents=True)
        self.serve(ready=False)
        self.tried(28)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
        for name in (f"m{k:02}" for k in range(22)):
            self.assertEqual(self.infer(name, self.rows([[1, 2, 3, 4]]))[0], 200)
        with self.asked_all_the_time([("m17", 1.0)], "none", threads=1):
            top = subprocess.Popen([PERI, "top", f"http://127.0.0.1:{self.metrics_port}", "--interval", "0.3"], stdout=theirs, stderr=subprocess.DEVNULL)
            self.addCleanup(top.wait)
            self.addCleanup(top.kill)
            said = ""
            while said.count(CLEARED) < 4:
                self.assertTrue(select.select([ours], [], [], 60)[0], said)
                said += os.read(ours, 65536).decode()
        for frame in said.split(CLEARED)[1:-1]:
            lines = frame.splitlines()
            self.assertLessEqual(len(lines), 23, frame)
            self.assertLessEqual(max(map(len, lines)), 70, frame)
            models = [line.split()[0] for line in lines if re.match(r"m\d\d/1 ", line)]
            self.assertEqual(models[0], "m17/1", frame)
            self.assertGreater(len(models), 5, frame)
            self.assertTrue(any(line.startswith("broken0: UNAVAILABLE") for line in lines), frame)
            broken = sum(line.startswith("broken") for line in lines)
            self.assertEqual(lines[-1], f"not shown: {22 - len(models)} models and {6 - broken} that are not served; all: --once", frame)
        whole = self.peri("top", f"http://127.0.0.1:{self.metrics_port}", "--once").stdout.decode()
        self.assertEqual((len(re.findall(r"(?m)^m\d\d/1 ", whole)), "not shown" in whole), (22, False))
        os.close(ours)
        os.close(theirs)


if __name__ == "__main__":
    main()
