#!/usr/bin/env python3
"""The page of explain --html is whole, needs nothing from outside, escapes every name, and its numbers are those of the object."""
import html.parser
import json
import re

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from typed import Typed, main

EVIL = "<script>alert(1)</script>&\"'\x1b[2J\u202e"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Reader(html.parser.HTMLParser):
    """Rows of each table by the heading before it; what a browser would fetch or run."""

    def __init__(self):
        super().__init__()
        self.open, self.tables, self.fetched, self.heading, self.text, self.bars, self.declared = [], {}, [], "", "", [], ""

    def handle_decl(self, decl):
        self.declared = decl

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.fetched += [(tag, k, v) for k, v in attributes if k in ("src", "href", "srcset", "data", "action") or k.startswith("on")]
        if tag in ("script", "link", "iframe", "object", "embed", "img"):
            self.fetched.append((tag, "", ""))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "i":
            self.bars.append((given.get("class", ""), float(re.search(r"width:([\d.]+)%", given["style"])[1])))
        if tag in ("h1", "h2", "td", "th"):
            self.text = ""
        if tag == "tr":
            self.row = []

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()
        if tag in ("h1", "h2"):
            self.heading = self.text
        if tag == "td":
            self.row.append(self.text)
        if tag == "tr" and self.row:
            self.tables.setdefault(self.heading, []).append(self.row)

    def handle_data(self, data):
        self.text += data


class Page(Typed):
    def convolutions(self, name, node_name):
        """Three equal convolutions in a row, and one other."""
        nodes, weights = [], []
        for k in range(4):
            out = 8 if k < 3 else 4
            weights.append(numpy_helper.from_array(numpy.full((out, 8, 3, 3), 0.01, numpy.float32), f"w{k}"))
            nodes.append(helper.make_node("Conv", [f"x{k}", f"w{k}"], [f"x{k + 1}"], name=f"{node_name}{k}", pads=[1, 1, 1, 1]))
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x0", TensorProto.FLOAT, [1, 8, 14, 14])], [value("x4", TensorProto.FLOAT, None)], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / name)
        return name

    def page(self, *words):
        self.ends(0, "explain", *words, "--html", "p.html", "--json", "p.json", "--quiet")
        text = (self.folder / "p.html").read_text(encoding="utf-8")
        reader = Reader()
        reader.feed(text)
        reader.close()
        self.assertEqual(reader.open, [])
        self.assertEqual(reader.declared, "DOCTYPE html")
        return text, reader, json.loads((self.folder / "p.json").read_text())

    def test_it_holds_what_the_object_holds(self):
        self.ends(0, "build", self.convolutions("m.onnx", "conv"), "-o", "m.engine", "--quiet")
        text, reader, said = self.page("m.engine")
        layers = said["layers"]
        rows = reader.tables["Steps, the slowest first"]
        self.assertEqual([r[0] for r in rows], [layer["step"]["name"] for layer in layers])
        for row, layer in zip(rows, layers):
            self.assertEqual(row[1], layer["step"]["chosen"])
            self.assertEqual(row[2], str(layer["runs"]))
            if layer["ms"] is not None:
                self.assertAlmostEqual(float(row[4]), layer["ms"], delta=1e-4)
            self.assertAlmostEqual(float(row[6]), layer["floor_ms"], delta=1e-6 if layer["floor_ms"] < 0.01 else 1e-4, msg="digits that show something")
            self.assertGreater(len(row[8]), 5)
        groups = reader.tables["Groups of equal problems"]
        self.assertEqual(groups[0][1], "3")
        self.assertIn("conv0, conv1, conv2", groups[0][-1])
        self.assertEqual(sum(int(r[1]) for r in reader.tables["By operator"]), len(layers))
        self.assertEqual(sum(int(r[1]) for r in reader.tables["By kernel"]), len(layers))
        self.assertIn("conv", [r[0] for r in reader.tables["By operator"]])
        self.assertEqual(reader.tables["Memory"][0][0], "weights")
        self.assertFalse([r for r in reader.tables["Memory"] if r[1].startswith("0.0 M")])
        times, floors = [w for c, w in reader.bars if c != "floor"], [w for c, w in reader.bars if c == "floor"]
        self.assertEqual(len(times), len(layers))
        self.assertEqual(max(times + floors), 100)
        for time, floor, layer in zip(times, floors, layers):
            if layer["ms"] is not None:
                self.assertAlmostEqual(floor / time, layer["floor_ms"] / layer["ms"], delta=0.05)
        self.page("m.engine")  # a page gives way to a page
        (self.folder / "letter.html").write_text("<p>dear reader")
        self.assertIn("--force", self.ends(1, "explain", "m.engine", "--html", "letter.html"))

    def test_steps_of_runs_of_the_engine(self):
        """What their times are is said in all three forms, no floor is made up for them, and the efficiency is that of the others."""
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("NonZero", ["p"], ["z"]), helper.make_node("Transpose", ["z"], ["i"]), helper.make_node("GatherND", ["p", "i"], ["g"]), helper.make_node("Relu", ["g"], ["y"])]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [64, 64])], [value("y", TensorProto.FLOAT, ["k"])], [helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.01 * (k % 7 - 3) for k in range(4096)])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "z.onnx")
        self.ends(0, "build", "z.onnx", "-o", "z.engine", "--quiet")
        text, reader, said = self.page("z.engine")
        words = "the median of some runs of the engine on the inputs that peri bench makes up"
        self.assertIn(words, text)
        self.assertIn(words, said["times_are"])
        self.assertIn(words, self.peri("explain", "z.engine").stdout.decode())
        floors = {layer["step"]["chosen"].split("@")[0]: "floor_ms" in layer for layer in said["layers"]}
        self.assertEqual({row[0]: row[4] != "-" for row in reader.tables["By kernel"]}, floors)
        self.assertIn(False, floors.values())
        self.assertAlmostEqual(said["share_of_peak"], said["sustained_ms"] / said["sustained_of_ms"], 9)
        self.assertLess(said["sustained_of_ms"], said["total_ms"])
        self.assertRegex(text, r"at sustained rates of the [\d.e-]+ ms that the other steps take: efficiency")

    def test_it_needs_nothing_and_escapes_names(self):
        text, reader, said = self.page(self.convolutions("m.onnx", EVIL), "--no-tune", "--no-cache")
        self.assertEqual(reader.fetched, [])
        self.assertNotIn("url(", text)
        self.assertNotIn("@import", text)
        self.assertNotIn("http://", text)
        self.assertNotIn("https://", text)
        self.assertNotIn("<script", text)
        for bad in ("\x1b", "\u202e"):
            self.assertNotIn(bad, text)
        self.assertIn("<script>alert(1)</script>&\"'", reader.tables["Steps, the slowest first"][0][0])
        self.assertIn("default-src 'none'", text)


if __name__ == "__main__":
    main()
