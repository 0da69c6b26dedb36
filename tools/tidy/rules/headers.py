"""A heavy or foreign header has one home."""

# (start of the header, homes as path prefixes)
ROWS = [
    ("nanobind/", ["src/python/"]),
    ("onnx-ml.pb", ["src/onnx/", "tests/onnx/"]),
    ("google/protobuf", ["src/onnx/", "tests/onnx/"]),
    ("nlohmann/", ["src/base/json.cpp"]),
    ("oneapi/dnnl", ["src/kernels/vendor/", "src/exec/onednn"]),
    ("dnnl", ["src/kernels/vendor/", "src/exec/onednn"]),
    ("omp.h", ["src/kernels/vendor/", "src/exec/"]),
    ("gtest/", ["tests/"]),
    ("flatbuffers/", ["src/plan/"]),
    ("sqlite3.h", ["src/tune/"]),
    ("xxhash.h", ["src/base/"]),
    ("zlib.h", ["src/base/"]),
    ("boost/", ["src/serve/http/"]),
    ("openssl/", ["src/serve/http/tls.cpp"]),
    ("iostream", ["src/cli/"]),
    ("fstream", ["src/base/", "tests/"]),
    ("sstream", ["tests/"]),
    ("regex", ["tests/"]),
]


def check(tree):
    for name in tree.cpp():
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
]
