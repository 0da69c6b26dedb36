"""A source by ISA (*_avx2.cpp ...) sees, also through our headers, only intrinsics, <cstdint>, <cstddef> and <cstring>: an
inline function of the standard library instantiated there could be picked by the linker for all CPUs."""
import re

SOURCE = re.compile(r"_avx(?:2|512|512bf16)\.cpp$")
ALLOWED = {"immintrin.h", "cstdint", "cstddef", "cstring", "stdint.h", "stddef.h", "string.h"}


def foreign(tree, name, seen):
    """The chain of files to the first system header that is not allowed, or None."""
    seen.add(name)
    for _, quote, header in tree.includes(name):
        if quote == "<" and header not in ALLOWED:
            return [name, f"<{header}>"]
        ours = "src/" + header
        if quote == '"' and ours in tree.files and ours not in seen and (chain := foreign(tree, ours, seen)):
            return [name] + chain
    return None


def check(tree):
    for name in tree.cpp("src/"):
        if SOURCE.search(name) and (chain := foreign(tree, name, set())):
            yield name, 1, "a source by ISA may not see " + " <- ".join(reversed(chain))


PLANTS = [
    ({"src/kernels/cpu/gemm/k_avx2.cpp": "// K.\n#include <vector>\n"}, "src/kernels/cpu/gemm/k_avx2.cpp"),
    (
        {
            "src/kernels/cpu/gemm/k_avx512.cpp": '// K.\n#include "kernels/cpu/gemm/k.hpp"\n',
            "src/kernels/cpu/gemm/k.hpp": "// K.\n#include <string>\n",
        },
        "src/kernels/cpu/gemm/k_avx512.cpp",
    ),
]
