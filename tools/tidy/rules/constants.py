"""A constant of a CPU kernel that says how work is cut into tasks and blocks names the measurement it rests on: a file of
benchmarks/results that exists, with a row of a table that names the constant and the file that declares it. A number with a
name in tuner, lowering, executors, passes, judge, build, measurement or a CUDA kernel says beside it, above it or above its function
why it is that one, and so does a size of work (kPart, kRows, kAhead, ...) of a CPU kernel; a bare unit ("bytes") is no reason."""
import re

PLACES = ("src/kernels/cpu/",)
DECLARED = re.compile(r"constexpr\s+(?:int|int64_t|size_t|double)\s+([^;]*);")
NAME = re.compile(r"\b(kTask[A-Z]\w*|kWanted\w*|kParts|kStreamTile|kBlockRows|kBlockPixels|kMaxTasks|kMaxDepth|kMaxPointers)\s*=")
CITED = re.compile(r"benchmarks/results/[\w.-]+\.md")
REASONED = ("src/tune/", "src/lower/", "src/exec/", "src/passes/", "src/judge/", "src/build/", "src/bench/", "src/kernels/cuda/")
OF_WORK = re.compile(r"k(?:Part|Rows|Ahead|Each|LongRun|Usual|Slice|Piece|AtOnce)")
BARE = re.compile(r"^\W*(?:(?:elements|bytes|rows|milliseconds|seconds)\W*)?(?:of (?:a|one) task\W*)?$")
NUMBER = re.compile(r"^\s*(?:static\s+)?constexpr\s+(?:u?int(?:32_t|64_t)?|unsigned|size_t|float|double)\s+(k[A-Z]\w*)[^=]*=[^;]*\b\d")
CONSTANT = re.compile(r"^\s*(?:static\s+)?constexpr\b")


def uncited(tree, name):
    text = tree.text(name)
    said = "\n".join(tree.text(f) for f in CITED.findall(text) if f in tree.files)
    rows = [row for row in said.splitlines() if row.startswith("|") and f"`{name.removeprefix('src/')}`" in row]
    for found in DECLARED.finditer(text):
        for constant in NAME.findall(found[1]):
            if not any(f"`{constant}`" in row for row in rows):
                yield text.count("\n", 0, found.start()) + 1, constant


def unreasoned(tree, name):
    """[(line, constant)] of those with no comment beside them, above their block, or above the function that they begin."""
    lines, comments = tree.code(name).split("\n"), tree.comments(name).split("\n")
    for at, line in enumerate(lines):
        if not (found := NUMBER.match(line)) or not BARE.match(comments[at]):
            continue
        above = at - 1
        while above >= 0 and CONSTANT.match(lines[above]):
            above -= 1
        if above >= 0 and lines[above].rstrip().endswith("{") and not lines[above].startswith(("namespace", "{")):
            above -= 1
            while above >= 0 and lines[above].rstrip().endswith(","):  # a head of several lines
                above -= 1
        if above < 0 or lines[above].strip() or not comments[above].strip():
            yield at + 1, found[1]


def check(tree):
    for name in tree.under(*REASONED, ends=(".cpp", ".hpp")):
        for line, constant in unreasoned(tree, name):
            yield name, line, f"{constant} has no reason beside it or above it: say what it rests on, or make it a tunable"
    for name in tree.under(*PLACES, ends=(".cpp", ".hpp")):
        for line, constant in unreasoned(tree, name):
            if OF_WORK.fullmatch(constant):
                yield name, line, f"{constant} has no reason beside it or above it: say what it rests on, or make it a tunable"
    for name in tree.files:
        if not name.startswith(PLACES) or not name.endswith((".cpp", ".hpp")):
            continue
        for line, constant in uncited(tree, name):
            yield name, line, f"{constant} names no measurement with a row of it: vary it with benchmarks/micro/constants.py and cite the file of benchmarks/results"


PLANTS = [
    ({"src/tune/cut.cpp": "// Cuts.\nnamespace {\nconstexpr size_t kMaxTrials = 7;\n}\n"}, "src/tune/cut.cpp"),
    ({"src/lower/cut.cpp": "// Cuts.\n// Cuts it.\nint cut() {\n  return 1;\n}\nint more() {\n  constexpr double kFar = 2.5, kNear = 1;\n}\n"}, "src/lower/cut.cpp"),
    ({"src/kernels/cuda/cut.cpp": "// Cuts.\nconstexpr int kWarps = 4;  // fill a multiprocessor\n\nconstexpr int64_t kTiles[] = {8, 4};\n"}, "src/kernels/cuda/cut.cpp"),
    ({"src/exec/cut.cpp": "// Cuts.\n\nconstexpr int64_t kPiece = 256 << 10;  // bytes of one task\n"}, "src/exec/cut.cpp"),
    ({"src/judge/cut.cpp": "// Cuts.\n\nconstexpr double kLarge = 1e30;\n"}, "src/judge/cut.cpp"),
    ({"src/kernels/cpu/cut.hpp": "// Cuts.\nvoid f() {\n  int a = 0;\n  constexpr int64_t kPart = 256;\n}\n"}, "src/kernels/cpu/cut.hpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\nconstexpr int64_t kTaskElements = 7;\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/none.md.\nconstexpr int64_t kParts = 7;\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/other.md.\nconstexpr int64_t kTaskBytes = 7;\n",
      "benchmarks/results/other.md": "`kParts`\n"}, "src/kernels/cpu/cut.cpp"),
    ({"src/kernels/cpu/cut.cpp": "// Cuts.\n// Measured: benchmarks/results/other.md.\nconstexpr int64_t kTaskBytes = 7;\n",
      "benchmarks/results/other.md": "| `kTaskBytes` of `kernels/cpu/another.cpp` | 1 |\n"}, "src/kernels/cpu/cut.cpp"),
]
