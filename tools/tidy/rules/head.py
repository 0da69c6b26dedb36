"""Every source opens with a comment whose first paragraph says in at most five lines what becomes true because of it; a
header has #pragma once, but *_body.hpp, which is included several times."""
import re

MARKS = {".cpp": "//", ".hpp": "//", ".h": "//", ".c": "//", ".cu": "//", ".fbs": "//", ".sh": "#", ".cmake": "#"}


def head_length(lines, mark):
    """Lines of the comment at the top; 0 without one. A C comment /* */ counts for .h files."""
    if mark == "//" and lines and lines[0].startswith("/*"):
        return next((n for n, line in enumerate(lines, 1) if "*/" in line), len(lines))
    return next((n for n, line in enumerate(lines) if not line.startswith(mark) or line.strip() == mark), len(lines))


def check(tree):
    for name in tree.files:
        end = "." + name.rsplit(".", 1)[-1]
        text = tree.text(name) if end in MARKS or end == ".py" else ""
        lines = [line for line in text.split("\n") if not line.startswith("#!")]
        if end in MARKS:
            length = head_length([line for line in lines if not line.startswith("// label:")], MARKS[end])
            if length == 0:
                yield name, 1, "opens with no comment that says what becomes true because of it"
            elif length > 5 and MARKS[end] == "//" and not name.startswith("include/"):
                yield name, 6, f"its head has {length} lines, at most 5"
        elif end == ".py" and not re.match(r'\s*(?:#[^\n]*\n)*"""', text):
            yield name, 1, "opens with no docstring"
        if end == ".hpp" and "#pragma once" not in text and not name.endswith("_body.hpp"):
            yield name, 1, "has no #pragma once"


PLANTS = [
    ({"src/ir/bad.cpp": "int x;\n"}, "src/ir/bad.cpp"),
    ({"src/ir/bad.hpp": "// Bad.\nint x;\n"}, "src/ir/bad.hpp"),
    ({"src/ir/bad.cpp": "// Word.\n" * 6}, "src/ir/bad.cpp"),
    ({"tools/bad.py": "import os\n"}, "tools/bad.py"),
]
