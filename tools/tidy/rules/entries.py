"""A file of an entry folder declares `extern const Entry <stem>_entry`, and nobody else in src/ defines one; the rule by
which the build tells entries from other files is that of cmake/modules.cmake."""
import pathlib
import re

FOLDERS = ("src/ops", "src/passes", "src/exec", "src/cli", "src/hf/arch", "src/kernels/cpu",
           "src/kernels/cuda", "src/kernels/vendor")
DECLARED = re.compile(r"\bextern\s+const\s+Entry\s+(\w+);")


def is_entry(tree, name):
    path = pathlib.PurePosixPath(name)
    if str(path.parent) not in FOLDERS or path.suffix != ".cpp" or path.stem == "main":
        return False
    return not re.search(r"_avx(2|512|512bf16)$", path.stem) and str(path.with_suffix(".hpp")) not in tree.files


def check(tree):
    for name in tree.cpp("src/"):
        symbols = {m[1]: line for line, m in tree.matches(name, DECLARED)}
        stem = pathlib.PurePosixPath(name).stem
        if is_entry(tree, name):
            if stem + "_entry" not in symbols:
                yield name, 1, f"an entry folder, but no `extern const Entry {stem}_entry;` (other code: a subfolder, or a header beside it)"
            symbols.pop(stem + "_entry", None)
        for symbol, line in symbols.items():
            yield name, line, f"'{symbol}' is not found by the build: the file must be FOLDER/{symbol.removesuffix('_entry')}.cpp"


PLANTS = [
    ({"src/ops/add.cpp": "// Add.\nextern const Entry sub_entry;\n"}, "src/ops/add.cpp"),
    ({"src/ops/add.cpp": "// Add.\nint x;\n"}, "src/ops/add.cpp"),
    ({"src/ops/shape/add.cpp": "// Add.\nextern const Entry add_entry;\n"}, "src/ops/shape/add.cpp"),
]
