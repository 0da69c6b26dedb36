"""No path of one machine, no registry host, no unfinished mark, no vague file name anywhere in the tree."""
import pathlib
import re

# Written in pieces, so that this file does not find itself.
PATHS = re.compile(r"(?<![\w.$})*-])/(?:" + "wo" + r"rk|root|home/\w+|Users)/")
HOSTS = re.compile(r"py" + r"pi\.org|python" + r"hosted|deb\.debian" + r"\.org|hub\.docker|ghcr\.io", re.I)
MARKS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
NAMES = re.compile(r"(^|_)(utils?|common|helpers?|manager|impl|misc|stuff)(_|$)")
SNAKE = re.compile(r"^[a-z0-9_.]+$")
FREE = ("LICENSE", "models/", "benchmarks/results/")


def check(tree):
    for name in tree.files:
        path = pathlib.PurePosixPath(name)
        if NAMES.search(path.stem):
            yield name, 1, "a file's name says what it holds: no utils, common, helper, manager, impl"
        if name.startswith(("src/", "tests/", "include/")) and path.suffix in (".cpp", ".hpp", ".h") and not SNAKE.match(path.name):
            yield name, 1, "file names are snake_case"
        if name.startswith(FREE) or not tree.is_text(name) or (tree.root / name).stat().st_size > 2**20:
            continue
        text = tree.text(name)
        for pattern, why in ((PATHS, "a path of one machine"), (HOSTS, "a registry host"), (MARKS, "finish it, or leave it out and say so")):
            for line, match in tree.matches(name, pattern, text):
                yield name, line, f"'{match[0]}': {why}"


PLANTS = [
    ({"docs/x.md": "see /wo" + "rk/x\n"}, "docs/x.md"),
    ({"src/ir/x.cpp": '// X.\nauto p = "/ro' + 'ot/x";\n'}, "src/ir/x.cpp"),
    ({"tools/x.sh": "# X.\ncurl https://py" + "pi.org/x\n"}, "tools/x.sh"),
    ({"src/ir/x.cpp": "// TO" + "DO: more\n"}, "src/ir/x.cpp"),
    ({"src/ir/string_utils.cpp": "// X.\n"}, "src/ir/string_utils.cpp"),
    ({"src/ir/StringTable.cpp": "// X.\n"}, "src/ir/StringTable.cpp"),
]
