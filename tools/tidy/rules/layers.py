"""A module includes only itself and modules of lower levels (LAYERS), by paths from src/ that exist; the table of
docs/architecture.md has each with its level. Within kernels, the folders of one device are seen by nobody else there: kernels/cpu by
itself only, kernels/cuda by itself and by manifests of kernels from outside."""
import re

PAGE = "docs/architecture.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \|", re.M)
DEVICES = {"kernels/cpu/": ("src/kernels/cpu/",), "kernels/cuda/": ("src/kernels/cuda/", "src/kernels/outside/")}


def of_one_device(name, header):
    """The folder of one device that the file, a kernel's or what kernels share, may not see."""
    for folder, seen_by in DEVICES.items():
        if header.startswith(folder) and name.startswith("src/kernels/") and not name.startswith(seen_by):
            return folder
    return None


def check(tree):
    levels = tree.layers()
    if PAGE in tree.files:
        told = {module: int(level) for level, modules in ROW.findall(tree.text(PAGE)) for module in re.findall(r"`([\w/]+)`", modules)}
        for module in sorted(levels.keys() | told.keys()):
            if levels.get(module) != told.get(module):
                yield PAGE, 1, f"{module} is of level {levels.get(module)} in LAYERS and {told.get(module)} here"
    known = set(tree.files)
    for name in tree.cpp("src/"):
        own = tree.module(name[4:])
        if own is None:
            yield name, 1, "stands in no module of LAYERS"
            continue
        for line, quote, header in tree.includes(name):
            other = tree.module(header)
            if quote == "<":
                if other and "src/" + header in known:
                    yield name, line, f'<{header}> is ours: write "{header}"'
            elif header.startswith("peri/"):
                if own not in ("api", "cli", "python"):
                    yield name, line, f"{own} may not include the public interface {header}"
            elif other is None:
                yield name, line, f"'{header}' is not a path from src/ into a module of LAYERS"
            elif "src/" + header not in known and not header.endswith("_generated.h"):
                yield name, line, f"'{header}' does not exist"
            elif folder := of_one_device(name, header):
                yield name, line, f"'{header}' is of one device ({folder}): what others need too stands in kernels/match or kernels/weights"
            elif other != own and levels[other] >= levels[own]:
                yield name, line, f"{own} (level {levels[own]}) may not include {other} (level {levels[other]})"


PLANTS = [
    ({PAGE: "| level | module | what |\n|---|---|---|\n| 7 | `base` | all |\n"}, PAGE),
    ({"src/base/bad.cpp": '// Bad.\n#include "ir/x.hpp"\n', "src/ir/x.hpp": "// X.\n"}, "src/base/bad.cpp"),
    ({"src/plan/bad.cpp": '// Bad.\n#include "ir/x.hpp"\n', "src/ir/x.hpp": "// X.\n"}, "src/plan/bad.cpp"),
    ({"src/ir/bad.cpp": '// Bad.\n#include "base/none.hpp"\n'}, "src/ir/bad.cpp"),
    ({"src/ir/bad.cpp": '// Bad.\n#include "thing.hpp"\n'}, "src/ir/bad.cpp"),
    ({"src/kernels/match/bad.hpp": '// Bad.\n#include "kernels/cpu/x.hpp"\n', "src/kernels/cpu/x.hpp": "// X.\n"}, "src/kernels/match/bad.hpp"),
    ({"src/kernels/cuda/bad.cpp": '// Bad.\n#include "kernels/cpu/x.hpp"\n', "src/kernels/cpu/x.hpp": "// X.\n"}, "src/kernels/cuda/bad.cpp"),
    ({"src/kernels/bad.cpp": '// Bad.\n#include "kernels/cuda/x.hpp"\n', "src/kernels/cuda/x.hpp": "// X.\n"}, "src/kernels/bad.cpp"),
    ({"src/else/lost.cpp": "// Lost.\n"}, "src/else/lost.cpp"),
]
