"""Class `external`: weights in other files, and every way to point at the wrong bytes."""
import os

from corpus import external, f32, graph, model, node, value

FOUR = f32(1, 2, 3, 4)
PATH = ("location", "path", "outside", "external", "folder")


def using(*tensors):
    names = [f"w{i}" for i in range(len(tensors))]
    nodes = [node("Add", ["x" if i == 0 else f"s{i - 1}", n], [f"s{i}"]) for i, n in enumerate(names)]
    return model(graph(nodes, [value("x", ["batch", 4])], [value(f"s{len(names) - 1}", None)], list(tensors)))


def case(c, name, pairs, must="refuse", *words, data=FOUR, before=None, **facts):
    """A folder with model.onnx and w.bin; pairs are the external_data entries."""
    folder = c.folder("external", name)
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    if before:
        before(folder)
    (folder / "model.onnx").write_bytes(using(external("w0", [4], *pairs)))
    c.entry(folder / "model.onnx", "external", must, words, **facts)


def paths(c):
    secret = str((c.outside / "secret.bin").resolve())
    for name, where in {
        "parent": "../../outside/secret.bin", "parent_inside": "sub/../../../outside/secret.bin", "parent_back": "../parent_back/w.bin", "dot_dot": "..", "absolute": secret, "double_slash": "/" + secret, "drive": "C:\\w.bin",
        "drive_slash": "C:/w.bin", "backslash_parent": "..\\..\\outside\\secret.bin", "unc": "\\\\server\\share\\w.bin", "url": "https://example.org/w.bin", "file_url": f"file://{secret}", "home": "~/w.bin", "variable": "$HOME/w.bin", "empty": "", "dot": ".",
        "missing": "ghost.bin", "newline": "w.bin\n", "space": "w.bin ", "proc_self": "/proc/self/environ", "device": "/dev/zero", "long": "a/" * 3000 + "w.bin", "long_name": "n" * 5000, "percent": "%2e%2e/outside/secret.bin", "case": "W.BIN",
    }.items():  # fmt: skip
        case(c, f"path_{name}", [("location", where)], "refuse", *PATH, "exist", "no such", "open", "w0", "device")
    case(c, "path_nul", [("location", "w.bin\0../../outside/secret.bin")], "refuse", *PATH, "NUL", "w0")
    case(c, "path_not_utf8", [("location", b"\xff\xfe.bin")], "refuse", *PATH, "open", "exist", "w0", "no such", "UTF")
    case(c, "path_here", [("location", "./w.bin")], "survive")
    case(c, "path_sub", [("location", "sub/w.bin")], "load", before=lambda f: ((f / "sub").mkdir(), (f / "sub" / "w.bin").write_bytes(FOUR)), run=True)
    case(c, "path_model_itself", [("location", "model.onnx"), ("length", "16")], "survive")


def links(c):
    secret = os.path.relpath(c.outside / "secret.bin", c.out / "external" / "any")
    case(c, "link_out", [("location", "link.bin"), ("length", "16")], "refuse", *PATH, "link", before=lambda f: (f / "link.bin").symlink_to(secret))
    case(c, "link_chain", [("location", "a.bin"), ("length", "16")], "refuse", *PATH, "link", before=lambda f: ((f / "a.bin").symlink_to("b.bin"), (f / "b.bin").symlink_to(secret)))
    case(c, "link_folder", [("location", "sub/secret.bin"), ("length", "16")], "refuse", *PATH, "link", before=lambda f: (f / "sub").symlink_to("../../outside"))
    case(c, "link_absolute", [("location", "link.bin"), ("length", "16")], "refuse", *PATH, "link", before=lambda f: (f / "link.bin").symlink_to((c.outside / "secret.bin").resolve()))
    case(c, "link_loop", [("location", "link.bin")], "refuse", *PATH, "link", "open", "loop", before=lambda f: (f / "link.bin").symlink_to("link.bin"))
    case(c, "link_to_device", [("location", "link.bin"), ("length", "16")], "refuse", *PATH, "link", "device", before=lambda f: (f / "link.bin").symlink_to("/dev/zero"))
    case(c, "link_inside", [("location", "link.bin")], "survive", before=lambda f: (f / "link.bin").symlink_to("w.bin"))
    case(c, "link_hard", [("location", "link.bin"), ("length", "16")], "survive", before=lambda f: (f / "link.bin").hardlink_to(f / "w.bin"))
    case(c, "is_folder", [("location", "sub")], "refuse", *PATH, "regular", "directory", before=lambda f: (f / "sub").mkdir())
    case(c, "is_fifo", [("location", "fifo")], "refuse", *PATH, "regular", "fifo", "FIFO", before=lambda f: os.mkfifo(f / "fifo"))
    case(c, "is_socket_name", [("location", "w.bin/more")], "refuse", *PATH, "directory", "open")


def ranges(c):
    here = ("location", "w.bin")
    for name, pairs in {
        "offset_negative": [("offset", "-4")], "offset_most_negative": [("offset", str(-(2**63)))], "offset_word": [("offset", "four")], "offset_hex": [("offset", "0x0")], "offset_fraction": [("offset", "0.5")], "offset_over_64_bits": [("offset", str(2**64))],
        "offset_past_end": [("offset", "17")], "offset_at_end": [("offset", "16")], "offset_huge": [("offset", str(2**63 - 1))], "length_negative": [("length", "-16")], "length_word": [("length", "sixteen")],
        "length_short": [("length", "12")], "length_long": [("length", "20")], "length_petabyte": [("length", str(2**50))], "sum_wraps": [("offset", str(2**64 - 8)), ("length", "16")], "sum_wraps_signed": [("offset", str(2**63 - 8)), ("length", "16")],
        "sum_past_end": [("offset", "4"), ("length", "16")], "offset_twice": [("offset", "0"), ("offset", "1000000")], "offset_spaces": [("offset", " 1 2 ")], "length_trailing": [("length", "16abc")],
    }.items():  # fmt: skip
        case(c, name, [here, *pairs], "refuse", "offset", "length", "external", "size", "w0", "end", "bytes")
    case(c, "length_zero", [here, ("length", "0")], "survive")
    case(c, "offset_empty", [here, ("offset", "")], "survive")
    case(c, "offset_plus", [here, ("offset", "+0")], "survive")
    case(c, "location_twice", [here, ("location", "../../outside/secret.bin")], "refuse", *PATH, "twice")
    case(c, "location_absent", [("offset", "0")], "refuse", "location", "external")
    case(c, "keys_unknown", [here, ("frobnicate", "1"), ("__class__", "x")], "survive")
    case(c, "keys_empty", [here, ("", "")], "survive")
    case(c, "checksum_wrong", [here, ("checksum", "0" * 40)], "survive")
    case(c, "unaligned", [here, ("offset", "3"), ("length", "16")], "load", data=b"abc" + FOUR, run=True)
    case(c, "file_empty", [here], "refuse", "size", "end", "length", "empty", "bytes", "w0", data=b"")
    case(c, "file_missing", [here], "refuse", "w.bin", data=None)
    case(c, "file_longer", [here], "survive", data=FOUR + b"\0" * 1000)
    case(c, "good", [here, ("offset", "0"), ("length", "16")], "load", run=True)


def many(c):
    folder = c.folder("external", "overlapping")
    (folder / "w.bin").write_bytes(f32(*range(8)))
    (folder / "model.onnx").write_bytes(using(*(external(f"w{i}", [4], ("location", "w.bin"), ("offset", str(4 * i)), ("length", "16")) for i in range(4))))
    c.entry(folder / "model.onnx", "external", "survive", run=True)
    folder = c.folder("external", "one_file_5000_times")
    (folder / "w.bin").write_bytes(FOUR)
    (folder / "model.onnx").write_bytes(using(*(external(f"w{i}", [4], ("location", "w.bin")) for i in range(5000))))
    c.entry(folder / "model.onnx", "external", "survive", only="inspect")
    folder = c.folder("external", "files_2000_missing")
    (folder / "model.onnx").write_bytes(using(*(external(f"w{i}", [4], ("location", f"{i}.bin")) for i in range(2000))))
    c.entry(folder / "model.onnx", "external", "refuse", ("0.bin", "exist", "open", "no such", "external"))
    folder = c.folder("external", "sparse_1_tib")
    try:
        with open(folder / "w.bin", "wb") as file:
            file.truncate(1 << 40)
        (folder / "model.onnx").write_bytes(using(external("w0", [4], ("location", "w.bin"), ("offset", str((1 << 40) - 16)), ("length", "16"))))
        c.entry(folder / "model.onnx", "external", "survive", run=True)
    except OSError as error:
        c.skip("external", "sparse_1_tib", str(error))
    folder = c.folder("external", "tensor_1_tib")
    if (c.out / "external" / "sparse_1_tib" / "w.bin").exists():
        (folder / "w.bin").hardlink_to(c.out / "external" / "sparse_1_tib" / "w.bin")
        (folder / "model.onnx").write_bytes(using(external("w0", [2**36, 4], ("location", "w.bin"))))
        c.entry(folder / "model.onnx", "external", "survive", only="inspect", sparse=True)


def add(c, rng):
    for part in (paths, links, ranges, many):
        part(c)
