#!/usr/bin/env python3
"""Binds libperi.so as C#, Rust and Go do, by its names and structs alone: what it exports is what its headers declare, a
model becomes an engine and gives answers, and an error has its parts.   usage: from_ctypes.py PREFIX SOURCE
"""
import ctypes
import ctypes.util
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

PREFIX, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
F32, STRING, INVALID, USAGE = 1, 24, 2, 1
P, Z = ctypes.c_void_p, ctypes.c_size_t


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", Z), ("dtype", ctypes.c_int), ("device", ctypes.c_int), ("dims", P), ("rank", Z), ("data", P),
                ("bytes", Z), ("device_index", ctypes.c_int32)]  # fmt: skip


class String(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("bytes", Z)]


class BuildOptions(ctypes.Structure):  # as far as no_tune: an older caller's
    _fields_ = [("struct_size", Z), ("threads", ctypes.c_int), ("dims", P), ("dim_count", Z), ("provider", ctypes.c_char_p),
                ("no_tune", ctypes.c_int), ("engine_path", ctypes.c_char_p)]  # fmt: skip


def exported(library):
    """{name: version} of the functions that the library lets out."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return dict(row[2].split("@@") for row in rows if row[1] != "A")


def declared(headers):
    """Names of the functions that headers declare."""
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"\{[^{}]*\}", "", text.replace('extern "C" {', ""))
        names |= set(re.findall(r"\b(peri_\w+)\(", text))
    return names


def check_texts(peri, ok, model):
    """Words [n] in, the same in upper case out: pointers and lengths alone."""
    engine, session = P(), P()
    options = BuildOptions(ctypes.sizeof(BuildOptions), 1, None, 0, None, 1, None)
    ok(peri.peri_engine_build(str(model).encode(), ctypes.byref(options), ctypes.byref(engine)))
    ok(peri.peri_session_create(engine, 1, ctypes.byref(session)))
    words = ["a", "", "gr\u00fcn\0b"]
    dims, raw = (ctypes.c_int64 * 1)(3), (String * 3)(*[(word.encode(), len(word.encode())) for word in words])
    given = Tensor(ctypes.sizeof(Tensor), STRING, 0, ctypes.cast(dims, P), 1, ctypes.cast(raw, P), ctypes.sizeof(raw), 0)
    made = Tensor(struct_size=ctypes.sizeof(Tensor))
    ok(peri.peri_session_run(session, ctypes.byref(given), Z(1), ctypes.byref(made), Z(1), None))
    assert made.dtype == STRING and made.bytes == ctypes.sizeof(raw), made.bytes
    fields = ctypes.cast(made.data, ctypes.POINTER(P))
    upper = [ctypes.string_at(fields[2 * k], fields[2 * k + 1] or 0).decode() for k in range(3)]
    assert upper == [word.upper() for word in words], upper
    peri.peri_session_free(session)
    peri.peri_engine_free(engine)


def upper_model(path):
    ports = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in ("words", "upper")]
    node = helper.make_node("StringNormalizer", ["words"], ["upper"], case_change_action="UPPER")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def main():
    library = PREFIX / "lib/libperi.so.0"
    names = exported(library)
    wanted = declared((PREFIX / "include/peri").glob("*.h"))
    assert set(names) == wanted, f"exported alone: {set(names) - wanted}; declared alone: {wanted - set(names)}"
    assert all(re.fullmatch(r"PERI_\d+\.\d+", version) for version in names.values()), names

    peri = ctypes.CDLL(str(library))
    for name in ("peri_version", "peri_error_get", "peri_engine_input_name", "peri_report_json"):
        getattr(peri, name).restype = ctypes.c_char_p
    for name in ("peri_engine_build", "peri_session_create", "peri_session_run", "peri_engine_describe"):
        getattr(peri, name).restype = P
    peri.peri_engine_input_count.restype = Z
    assert peri.peri_version().decode() == (SOURCE / "VERSION").read_text().strip()

    def ok(error):
        assert not error, peri.peri_error_get(P(error), 0).decode()

    engine, session = P(), P()
    options = BuildOptions(ctypes.sizeof(BuildOptions), 1, None, 0, None, 1, None)
    ok(peri.peri_engine_build(str(SOURCE / "models/digits_cnn.onnx").encode(), ctypes.byref(options), ctypes.byref(engine)))
    assert peri.peri_engine_input_count(engine) == 1 and peri.peri_engine_input_name(engine, Z(0)) == b"image"
    ok(peri.peri_session_create(engine, 1, ctypes.byref(session)))
    dims, image = (ctypes.c_int64 * 4)(2, 1, 8, 8), (ctypes.c_float * 128)(*[k % 17 / 16 for k in range(128)])
    given = Tensor(ctypes.sizeof(Tensor), F32, 0, ctypes.cast(dims, P), 4, ctypes.cast(image, P), 512, 0)
    made = Tensor(struct_size=ctypes.sizeof(Tensor))
    ok(peri.peri_session_run(session, ctypes.byref(given), Z(1), ctypes.byref(made), Z(1), None))
    scores = ctypes.cast(made.data, ctypes.POINTER(ctypes.c_float))[:20]
    assert made.rank == 2 and made.bytes == 80 and len(set(scores)) > 10, scores
    given.dtype = 2
    error = peri.peri_session_run(session, ctypes.byref(given), Z(1), ctypes.byref(made), Z(1), None)
    parts = [peri.peri_error_get(P(error), k).decode() for k in range(7)]
    assert peri.peri_error_get_kind(P(error)) in (INVALID, USAGE) and parts[3] == "image" and parts[0], parts
    peri.peri_error_free(P(error))
    peri.peri_session_free(session)
    peri.peri_engine_free(engine)
    with tempfile.TemporaryDirectory() as folder:
        check_texts(peri, ok, upper_model(pathlib.Path(folder) / "upper.onnx"))
    print(f"{len(names)} functions, an engine and its answer by ctypes")


if __name__ == "__main__":
    main()
