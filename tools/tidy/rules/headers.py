"""A heavy or foreign header has one home; who uses an algorithm of the standard library includes its header."""

import re

# (start of the header, homes as path prefixes)
ROWS = [
    ("nanobind/", ["src/python/"]),
    ("onnx-ml.pb", ["src/onnx/", "tests/onnx/"]),
    ("google/protobuf", ["src/onnx/", "tests/onnx/", "src/serve/grpc/"]),
    ("nlohmann/", ["src/base/json_reader.cpp"]),
    ("oneapi/dnnl", ["src/kernels/vendor/", "src/exec/onednn"]),
    ("dnnl", ["src/kernels/vendor/", "src/exec/onednn"]),
    ("omp.h", ["src/kernels/vendor/", "src/exec/"]),
    ("gtest/", ["tests/"]),
    ("flatbuffers/", ["src/plan/"]),
    ("sqlite3.h", ["src/tune/"]),
    ("xxhash.h", ["src/base/"]),
    ("zlib.h", ["src/base/"]),
    ("png.h", ["src/cli/console/png_rows.cpp"]),
    ("turbojpeg.h", ["src/cli/console/pictures.cpp"]),
    ("boost/", ["src/serve/http/"]),
    ("grpc/", ["src/serve/grpc/"]),
    ("grpcpp/", ["src/serve/grpc/"]),
    ("kserve.pb.h", ["src/serve/grpc/"]),
    ("yaml-cpp/", ["src/serve/config/"]),
    ("openssl/", ["src/serve/http/tls.cpp"]),
    ("iostream", ["src/cli/"]),
    ("fstream", ["src/base/", "tests/"]),
    ("sstream", ["tests/"]),
    ("regex", ["tests/"]),
]


# Others' headers bring them along with one compiler and not with the next.
ALGORITHMS = re.compile(
    r"\bstd::(clamp|sort|stable_sort|partial_sort|nth_element|find|find_if|find_if_not|all_of|any_of|none_of|count|count_if|copy_n|copy_if"
    r"|transform|reverse|rotate|unique|lower_bound|upper_bound|equal_range|binary_search|min_element|max_element|minmax|minmax_element"
    r"|remove_if|for_each|mismatch|set_difference|set_union|is_sorted|next_permutation|generate|replace|min|max|fill|equal)\s*[(<]"
)


def without_algorithm(tree, name):
    """(line, match) of the first algorithm in a file that neither includes the header nor has a header of its own that does."""
    files = {name, name.removesuffix(".cpp") + ".hpp"} & set(tree.cpp())
    if any(header == "algorithm" for file in files for _, _, header in tree.includes(file)):
        return None
    return next(iter(tree.matches(name, ALGORITHMS)), None)


def check(tree):
    for name in tree.cpp():
        if name.endswith((".cpp", ".hpp")) and (found := without_algorithm(tree, name)):
            yield name, found[0], f"std::{found[1][1]} without #include <algorithm>"
        for line, _, header in tree.includes(name):
            for start, homes in ROWS:
                if header.startswith(start) and not name.startswith(tuple(homes)):
                    yield name, line, f"<{header}> belongs to {' or '.join(homes)}"
                    break


PLANTS = [
    ({"src/ir/bad.cpp": "// Bad.\n#include <nlohmann/json.hpp>\n"}, "src/ir/bad.cpp"),
    ({"src/ir/bad.cpp": "// Bad.\n#include <onnx-ml.pb.h>\n"}, "src/ir/bad.cpp"),
    ({"src/onnx/bad.cpp": "// Bad.\n#include <oneapi/dnnl/dnnl.hpp>\n"}, "src/onnx/bad.cpp"),
    ({"src/base/bad.cpp": "// Bad.\n#include <gtest/gtest.h>\n"}, "src/base/bad.cpp"),
    ({"src/base/bad.cpp": "// Bad.\n#include <iostream>\n"}, "src/base/bad.cpp"),
    ({"src/serve/bad.cpp": "// Bad.\n#include <boost/asio.hpp>\n"}, "src/serve/bad.cpp"),
    ({"src/ir/bad.cpp": "// Bad.\nint f(int a) { return std::clamp(a, 0, 1); }\n"}, "src/ir/bad.cpp"),
]
