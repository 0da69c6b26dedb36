"""No dead file: a header is included by another file than its own source, and a test stands where the build looks."""
import pathlib

COMPOSED = ("whole", "fuzz", "package", "programs")


def check(tree):
    included = {}
    for name in tree.cpp():
        for _, _, header in tree.includes(name):
            included.setdefault(header, set()).add(name)
    for name in tree.under("src/", ends=(".hpp",)):
        own = str(pathlib.PurePosixPath(name).with_suffix(".cpp"))
        if name.endswith("/entry.hpp") or included.get(name[4:], set()) - {own}:
            continue
        yield name, 1, "nobody includes this header but its own source"
    for name in tree.under("tests/", ends=(".cpp", ".hpp")):
        if name == "tests/main.cpp" or name[6:].split("/")[0] in COMPOSED:
            continue
        if tree.module(name[6:]) is None:
            yield name, 1, f"the build does not look here: tests/ mirrors the modules of LAYERS, and {', '.join(COMPOSED)}"
    for name in tree.under("tests/", ends=(".cpp",)):
        if "TEST" in tree.code(name) and not name.endswith("_test.cpp") and name != "tests/main.cpp":
            yield name, 1, "holds tests, but its name does not end with _test.cpp"


PLANTS = [
    ({"src/ir/dead.hpp": "// Dead.\n", "src/ir/dead.cpp": '// Dead.\n#include "ir/dead.hpp"\n'}, "src/ir/dead.hpp"),
    ({"tests/bose/x_test.cpp": "// X.\n"}, "tests/bose/x_test.cpp"),
    ({"tests/base/x.cpp": "// X.\nTEST(A, B) {}\n"}, "tests/base/x.cpp"),
]
