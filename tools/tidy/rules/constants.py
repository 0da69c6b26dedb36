"""A constant of a CPU kernel that says how work is cut into tasks and blocks names the measurement it rests on: a file of
benchmarks/results that exists, with a row of a table that names the constant and the file that declares it."""
import re

PLACES = ("src/kernels/cpu/",)
DECLARED = re.compile(r"constexpr\s+(?:int|int64_t|size_t|double)\s+([^;]*);")
NAME = re.compile(r"\b(kTask[A-Z]\w*|kWanted\w*|kParts|kStreamTile|kBlockRows|kBlockPixels|kMaxTasks|kMaxDepth|kMaxPointers)\s*=")
CITED = re.compile(r"benchmarks/results/[\w.-]+\.md")


def uncited(tree, name):
    text = tree.text(name)
    said = "\n".join(tree.text(f) for f in CITED.findall(text) if f in tree.files)
    rows = [row for row in said.splitlines() if row.startswith("|") and f"`{name.removeprefix('src/')}`" in row]
    for found in DECLARED.finditer(text):
        for constant in NAME.findall(found[1]):
            if not any(f"`{constant}`" in row for row in rows):
                yield text.count("\n", 0, found.start()) + 1, constant


def check(tree):
    for name in tree.files:
        if not name.startswith(PLACES) or not name.endswith((".cpp", ".hpp")):
            continue
        for line, constant in uncited(tree, name):
            yield name, line, f"{constant} names no measurement with a row of it: vary it with benchmarks/micro/constants.py and cite the file of benchmarks/results"


PLANTS = [
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\nconstexpr int64_t kTaskElements = 7;\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/none.md.\nconstexpr int64_t kParts = 7;\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/other.md.\nconstexpr int64_t kTaskBytes = 7;\n",
      "benchmarks/results/other.md": "`kParts`\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/other.md.\nconstexpr int64_t kTaskBytes = 7;\n",
      "benchmarks/results/other.md": "| `kTaskBytes` of `kernels/cpu/another.cpp` | 1 |\n"}, "src/kernels/cpu/cut.cpp"),
]
