#!/usr/bin/env python3
"""What is shown on a terminal: one that cannot redraw gets plain lines, tables line up in every script, values that are quoted are short."""
import fcntl
import json
import os
import pty
import struct
import termios
import unicodedata

import numpy
import onnx
from onnx import TensorProto, helper

from typed import DIGITS, PERI, Typed, main


class Terminal(Typed):
    def on_terminal(self, name, *words, columns=80):
        """What a command sends to a terminal of this name."""
        pid, end = pty.fork()
        if pid != 0:
            fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(PERI, [PERI, *map(str, words)], {**self.environment, "TERM": name})
        said = b""
        while True:
            try:
                more = os.read(end, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            said += more
        os.close(end)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, said[-600:])
        return said

    def test_a_dumb_terminal_gets_plain_lines(self):
        words = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--force")
        self.assertIn(b"\x1b[K", self.on_terminal("xterm", *words))
        self.assertNotIn(b"\x1b", self.on_terminal("dumb", *words))

    def test_the_last_line_is_wrapped_at_the_columns_of_a_terminal(self):
        words = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--force", "--quiet")
        lines = self.on_terminal("dumb", *words, columns=60).decode().split("\r\n")
        first = next(k for k, line in enumerate(lines) if line.startswith("PASSED build: "))
        last = [line for line in lines[first:] if line]
        self.assertGreater(len(last), 1)
        self.assertTrue(all(len(line) <= 60 for line in last), last)
        self.assertTrue(all(line.startswith("  ") for line in last[1:]), last)
        self.assertEqual(len(self.peri(*words).stderr.decode().splitlines()), 1, "a file has it in one line")

    def test_a_hint_is_not_of_a_flag_that_is_given(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--quiet", "--no-verify")
        for flags, hint in (((), "--top N shows them, --full shows candidates and refusals"), (("--full",), "--top N shows them")):
            lines = self.peri("explain", "a.engine", "--top", "1", *flags).stdout.decode().rstrip().split("\n")
            self.assertRegex(lines[-1], f"^and \\d+ more: {hint}$")

    def test_rows_follow_the_head_of_their_table(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--quiet", "--no-verify")
        proof = json.loads((self.folder / "a.engine.proof").read_text())
        proof["notes"] = [*proof["notes"], "something to know"]
        (self.folder / "a.engine.proof").write_text(json.dumps(proof))
        lines = self.peri("explain", "a.engine", "--proof", "a.engine.proof").stdout.decode().split("\n")
        head = next(k for k, line in enumerate(lines) if "step [chosen]" in line)
        self.assertTrue(lines[head + 1].endswith("]"), lines[head:head + 3])
        self.assertIn("note: something to know", lines[:head])

    def test_names_in_any_script_line_up(self):
        names = ["plain", "café", "cafe\u0301", "入力", "ｘ"]
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])
        graph = helper.make_graph([helper.make_node("Sum", names, ["sum"])], "g", [value(n) for n in names], [value("sum")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        width = lambda text: sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
        starts = {width(line[:line.index("f32[")]) for line in self.peri("inspect", "m.onnx").stdout.decode().split("\n") if line.startswith("  input ")}
        self.assertEqual(starts, {35})

    def test_a_value_of_any_length_is_quoted_in_short(self):
        nodes = [helper.make_node("OneHotEncoder", ["x"], ["y"], name="encoder", domain="ai.onnx.ml", cats_strings=["red", "blue"], zeros=0)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 1])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--quiet")
        numpy.save(self.folder / "x.npy", numpy.array([["red"], ["g" * 100000]]))
        said = self.ends(1, "run", "a.engine", "-i", "x=x.npy")
        self.assertIn("expected 'red', 'blue', found '" + "g" * 100 + "... (100000 bytes)'", said)
        self.assertLess(len(said), 1000)
        answer = json.loads(self.peri("run", "a.engine", "-i", "x=x.npy", "--json", "-").stdout)
        self.assertLess(len(json.dumps(answer)), 3000)


if __name__ == "__main__":
    main()
