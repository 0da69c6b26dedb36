"""The plain word, as WORDS has them, also as a part of a name; and limits are named kMax... and kMin... only."""
import re

# Written in pieces, so that this file does not find itself.
BEGIN, END = r"(?:(?<![A-Za-z])[%s]|(?<=[a-z0-9])%s)", r"(?![a-z])"  # of a word, in a sentence or in a name like FewOfThem
WORDS = {
    re.compile(BEGIN % ("dD", "D") + "ea" + r"r(?:er|est)?" + END): "expensive",
    re.compile(BEGIN % ("sS", "S") + "tra" + r"ngers?" + END): "untrusted, or others",
}
LIMIT = re.compile(r"(?:\bconstexpr\s[^;{]*|\btemplate\s*<[^;{]*)\bk(Most|Least|Largest|Longest|Widest|Biggest|Fewest|Smallest|Shortest|Lowest|Highest)[A-Z]?\w*\s*=(?!=)")
PLACES = ("src/", "include/", "tests/", "docs/", "tools/", "benchmarks/", "examples/", "cmake/")
FREE = ("tests/typed/", "benchmarks/results/")  # letters that are no models; what was said at the time


def check(tree):
    for name in tree.files:
        if not name.startswith(PLACES) or name.startswith(FREE) or "/corpus/" in name or not tree.is_text(name):
            continue
        if (tree.root / name).stat().st_size > 2**20:
            continue
        text = tree.text(name)
        for pattern, plain in WORDS.items():
            for line, match in tree.matches(name, pattern, text):
                yield name, line, f"'{match[0]}': the plain word is {plain}"
        if name.endswith((".cpp", ".hpp", ".h", ".c")):
            for found in LIMIT.finditer(text):
                yield name, text.count("\n", 0, found.start()) + 1, f"a limit is named kMax... or kMin..., not k{found[1]}..."


PLANTS = [
    ({"src/ir/x.cpp": "// What is de" + "ar is left out.\n"}, "src/ir/x.cpp"),
    ({"docs/x.md": "Files of stra" + "ngers are checked.\n"}, "docs/x.md"),
    ({"src/ir/x.cpp": "// X.\nconstexpr int kFew = 1, kMo" + "stNodes = 7;\n"}, "src/ir/x.cpp"),
    ({"tests/ir/x_test.cpp": "// X.\nTEST(Fold, SeveralDe" + "arNodesStay) {}\n"}, "tests/ir/x_test.cpp"),
    ({"tests/ir/x_test.cpp": "// X.\nTEST(Fold, De" + "arNodesStay) {}\n"}, "tests/ir/x_test.cpp"),
    ({"src/ir/x.cpp": "// X.\ntemplate <int kFew, int kMo" + "stNodes = 9>\nvoid f();\n"}, "src/ir/x.cpp"),
]
