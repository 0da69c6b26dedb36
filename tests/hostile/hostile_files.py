"""Classes `files`, `flips`, `prefixes`: what is wrong with a file before its format matters."""
import os

from corpus import good, graph, model, msg, node, num, value

MAGICS = {
    "zip.onnx": b"PK\x03\x04" + b"\0" * 60, "png.onnx": b"\x89PNG\r\n\x1a\n" + b"\0" * 60, "gguf.onnx": b"GGUF\x03\0\0\0" + b"\xff" * 64, "pickle.onnx": b"\x80\x04\x95" + b"cos\nsystem\n(S'touch pwned'\ntR.",
    "elf.onnx": b"\x7fELF\x02\x01\x01" + b"\0" * 100, "html.onnx": b"<!DOCTYPE html><html><body>Not found</body></html>", "json.onnx": b'{"graph": {}}', "lfs_pointer.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n",
    "gzip.onnx": b"\x1f\x8b\x08" + b"\0" * 40, "text.onnx": b"hello\n" * 20, "zeros.onnx": b"\0" * 256, "ones.onnx": b"\xff" * 256,
}  # fmt: skip
PARSE = ("protobuf", "parse", "ONNX", "truncated", "malformed", "not a model", "graph")


def special(c):
    """Things that are no regular file, or that lie about their size."""
    folder = c.out / "files"
    (folder / "directory.onnx").mkdir(parents=True)
    c.entry(folder / "directory.onnx", "files", "refuse", ("directory", "folder", "config.json"))
    os.mkfifo(folder / "fifo.onnx")
    c.entry(folder / "fifo.onnx", "files", "refuse", ("regular", "FIFO", "fifo", "pipe"))
    for name, target, words in (("zero_device.onnx", "/dev/zero", ("regular", "device")), ("dangling.onnx", "nowhere.onnx", ("no such", "not found", "exist", "open")), ("loop.onnx", "loop.onnx", ("link", "loop", "open", "exist", "no such"))):
        (folder / name).symlink_to(target)
        c.entry(folder / name, "files", "refuse", words)
    c.entry(folder / "missing.onnx", "files", "refuse", ("no such", "not found", "exist", "open"))
    for name, size in (("sparse_3_gib.onnx", 3 << 30), ("sparse_1_tib.onnx", 1 << 40)):
        try:
            with open(folder / name, "wb") as file:
                file.write(good())
                file.truncate(size)
            c.entry(folder / name, "files", "refuse", ("2 GiB", "too large", "external", "protobuf", "parse", "size"), sparse=True)
        except OSError as error:
            (folder / name).unlink(missing_ok=True)
            c.skip("files", name, str(error))
    denied = c.file("files", "unreadable.onnx", good(), "refuse", "permission", "open", "read")
    denied.chmod(0)
    c.entries[-1]["skip_as_root"] = True


def names(c):
    """File and value names of every ugly kind: they load, and do no harm."""
    for name in (b"-leading-dash.onnx", b"--output-dir.onnx", b"with space.onnx", b"new\nline.onnx", b"percent%s%n.onnx", b"semi;colon$(id).onnx", b"\xff\xfe.onnx", "déjà.onnx".encode(), b"x" * 250 + b".onnx", b"quote'\".onnx", b"equals=sign.onnx"):
        c.file("names", name, good(), "load")
    inner = {"nul": b"a\0b", "not_utf8": b"\xff\xfe\x80", "newline": b"a\nb", "mebibyte": b"n" * (1 << 20), "look_alike": "у".encode(), "overlong": b"\xc0\xaf", "escape": b"\x1b[31mred", "empty_node_name": b"", "percent": b"%s%n%x"}
    for name, text in inner.items():
        first = msg(1, "x") + msg(2, text or "v") + msg(3, text) + msg(4, "Relu")
        nodes = [first, msg(1, text or "v") + msg(2, "y") + msg(3, "last") + msg(4, "Relu")]
        c.file("names", f"inner_{name}", model(graph(nodes, [value("x", [2, 3])], [value("y", [2, 3])])), "survive")
    for name, text in {"up": "../../escaped", "absolute": "/tmp/escaped", "dots": "..", "dot": ".", "slashes": "a/b/c", "nul": "a\0b", "long": "n" * 300, "hidden": ".hidden", "backslash": "..\\x", "newline": "a\nb"}.items():
        c.file("names", f"output_{name}", model(graph([node("Relu", ["x"], [text])], [value("x", [2, 3])], [value(text, [2, 3])])), "survive", run=True)
    same = [node("Relu", ["x"], ["a"], name="same"), node("Relu", ["a"], ["y"], name="same")]
    c.file("names", "equal_node_names", model(graph(same, [value("x", [2])], [value("y", [2])])), "survive")
    case = [node("Relu", ["x"], ["Y"]), node("Neg", ["x"], ["y"])]
    c.file("names", "outputs_by_case", model(graph(case, [value("x", [2])], [value("y", [2]), value("Y", [2])])), "load", run=True)


def add(c, rng):
    data = good()
    c.file("files", "empty", b"", "refuse", "empty", *PARSE)
    for byte in (0, 8, 10, 255):
        c.file("files", f"one_byte_{byte}", bytes([byte]), "refuse", *PARSE)
    for name, head in MAGICS.items():
        c.file("files", name, head, "refuse", *PARSE)
    special(c)
    c.file("files", "trailing_bytes", data + b"\xff" * 33, "refuse", *PARSE)
    c.file("files", "trailing_zeros", data + b"\0" * 33, "refuse", *PARSE)
    c.file("files", "trailing_unknown_field", data + msg(1000, "later version"), "load")
    c.file("files", "twice", data + data, "refuse", "duplicate", "twice", "more than once", "already", "produced", "defined")
    c.file("files", "then_zip", data + b"PK\x03\x04" + b"\0" * 200, "refuse", *PARSE)
    c.file("files", "good", data, "load", run=True)
    c.file("files", "good_no_extension.model", data, "survive")
    c.file("files", "version_only", num(1, 8), "refuse", "graph", *PARSE)
    names(c)
    for cut in sorted({int(x) for x in rng.integers(1, len(data) - 1, 60)}):
        c.file("prefixes", f"cut_{cut:04}", data[:cut], "survive" if cut >= len(data) - 12 else "refuse", *PARSE, "undefined", "opset", "output", "input", "initializer", "node")
    for bit in range(40 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        c.file("flips", f"head_bit_{bit:03}", bytes(flipped), "survive", only="build" if bit % 8 == 0 else "inspect")
    for i in range(80):
        flipped, at = bytearray(data), int(rng.integers(40, len(data)))
        flipped[at] ^= 1 << int(rng.integers(0, 8))
        c.file("flips", f"body_{i:02}_at_{at:03}", bytes(flipped), "survive", only="build" if i % 4 == 0 else "inspect")
