#!/usr/bin/env python3
"""Inputs in the forms that people have them: arrays of archives, raw bytes, pictures, thousands of texts; each does what it says."""
import ctypes
import json
import resource
import shutil
import struct
import warnings
import zipfile
import zlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from typed import DIGITS, SOURCE, Typed, main

QUICK = ("--no-tune", "--no-cache", "--no-verify", "--quiet")


def png(pixels, colours=b""):
    """A PNG of a uint8 or uint16 array [h, w, channels]: 1 grey, 3 RGB, 4 RGBA; `colours` is the data of a gAMA chunk."""
    height, width, channels = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + pixels[y].astype(pixels.dtype.newbyteorder(">")).tobytes() for y in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"gAMA", colours) if colours else b"") + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpeg(pixels, inks=False):
    """A JPEG of a uint8 array [h, w, 3], by the library that the program is linked to as well; `inks`: of CMYK, all of them."""
    turbo = ctypes.CDLL("libturbojpeg.so.0")
    turbo.tjInitCompress.restype = ctypes.c_void_p
    handle, made, size = ctypes.c_void_p(turbo.tjInitCompress()), ctypes.POINTER(ctypes.c_ubyte)(), ctypes.c_ulong(0)
    height, width, _ = pixels.shape
    data, layout = (bytes(4 * width * height), 11) if inks else (pixels.tobytes(), 0)  # TJPF_CMYK, TJPF_RGB
    turbo.tjCompress2(handle, data, width, 0, height, layout, ctypes.byref(made), ctypes.byref(size), 0, 98, 0)
    out = bytes(made[: size.value])
    turbo.tjFree(made)
    turbo.tjDestroy(handle)
    return out


class Inputs(Typed):
    def identity(self, shape, kind=TensorProto.FLOAT, name="same.engine"):
        """An engine that gives back its input."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", kind, shape)], [value("y", kind, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "same.onnx")
        self.ends(0, "build", "same.onnx", "-o", name, *QUICK)
        return name

    def given(self, engine, *words):
        """What an input became."""
        r = self.peri("run", engine, *words, "--output-dir", "out", "--force")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.said = r.stderr.decode()
        return numpy.load(self.folder / "out/y.npy")

    def test_archives_and_raw_bytes(self):
        x = numpy.random.default_rng(1).standard_normal((2, 3)).astype(numpy.float32)
        engine = self.identity(["n", 3])
        numpy.savez(self.folder / "one.npz", a=x)
        numpy.savez(self.folder / "two.npz", x=x, other=x + 1)
        numpy.savez_compressed(self.folder / "small.npz", x=x, other=x + 1)
        x.tofile(self.folder / "x.bin")
        for what, wanted in (("one.npz", x), ("two.npz", x), ("two.npz:other", x + 1), ("small.npz", x), ("small.npz:other", x + 1), ("raw:f32:2x3:x.bin", x)):
            with self.subTest(what=what):
                numpy.testing.assert_array_equal(self.given(engine, "-i", f"x={what}"), wanted)
        x.astype(numpy.float64).tofile(self.folder / "d.bin")
        numpy.testing.assert_array_equal(self.given(engine, "-i", "x=raw:f64:2x3:d.bin", "--cast"), x)
        for name, raw in (("float32", x), ("fp32", x), ("float", x), ("float64", x.astype(numpy.float64)), ("double", x.astype(numpy.float64))):
            raw.tofile(self.folder / "named.bin")
            numpy.testing.assert_array_equal(self.given(engine, "-i", f"x=raw:{name}:2x3:named.bin", "--cast"), x)
        # A model that is built for the run takes the sizes that stand there.
        self.assertIn("f32[2,3]", self.ends(0, "run", "same.onnx", "-i", "x=raw:f32:2x3:x.bin", "--no-tune", "--no-cache", "--quiet"))

    def test_a_cast_rounds_once_and_knows_the_ends_of_64_bits(self):
        engines = {kind: self.identity(["n"], kind, name=f"{kind}.engine") for kind in (TensorProto.INT64, TensorProto.UINT64, TensorProto.FLOAT, TensorProto.FLOAT16)}
        big = 4611686293305294849  # between two float32, nearer to the upper one only by its last bits
        for x, kind in ((numpy.array([-(2.0**63), 2.0**62, -3]), TensorProto.INT64), (numpy.array([2.0**63, 0]), TensorProto.UINT64), (numpy.array([big, -big, 2**53 + 1, -(2**63), 7, 0]), TensorProto.FLOAT),
                        (numpy.array([2**64 - 1, 2**63 + 2**39 + 1, big], numpy.uint64), TensorProto.FLOAT), (numpy.array([2049, -2051, 65504]), TensorProto.FLOAT16)):
            numpy.save(self.folder / "c.npy", x)
            made = self.given(engines[kind], "-i", "x=c.npy", "--cast")
            numpy.testing.assert_array_equal(made, x.astype(made.dtype))
        for x, kind, found in ((numpy.array([2**63], numpy.uint64), TensorProto.INT64, "found 9223372036854775808"), (numpy.array([2.0**63]), TensorProto.INT64, "found 9.22337e+18"),
                               (numpy.array([-1.0]), TensorProto.UINT64, "found -1"), (numpy.array([2.0**64]), TensorProto.UINT64, "does not fit"), (numpy.array([numpy.nan]), TensorProto.INT64, "does not fit")):
            numpy.save(self.folder / "c.npy", x)
            self.assertIn(found, self.ends(2, "run", engines[kind], "-i", "x=c.npy", "--cast"))

    def test_a_model_is_no_tensor(self):
        engine = self.identity([2, 3])
        (self.folder / "t.pb").write_bytes((self.folder / "same.onnx").read_bytes())
        said = self.ends(1, "run", engine, "-i", "x=t.pb")
        self.assertIn("t.pb: 'x': a model, not a tensor: expected a TensorProto", said)
        (self.folder / "t.pb").write_bytes(numpy_helper.from_array(numpy.ones((2, 3), numpy.float32), "x").SerializeToString())
        self.ends(0, "run", engine, "-i", "x=t.pb")

    def test_names_hold_what_separates_them_from_values(self):
        """The longest name of an input counts; a file's name may hold the same signs."""
        names, value = ["a", "a=b", "c:d", "e,f"], helper.make_tensor_value_info
        sizes = {"a": ["n=1", 2], "a=b": ["n=1", 2], "c:d": ["p,q", 2], "e,f": [1, 2]}
        nodes = [helper.make_node("Identity", [n], [f"out {k}"]) for k, n in enumerate(names)]
        graph = helper.make_graph(nodes, "g", [value(n, TensorProto.FLOAT, sizes[n]) for n in names], [value(f"out {k}", TensorProto.FLOAT, None) for k in range(4)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        for k in range(4):
            numpy.save(self.folder / f"{k}.npy", numpy.full((1, 2), k, numpy.float32))
        shutil.copy(self.folder / "0.npy", self.folder / "b=0.npy")
        numpy.savez(self.folder / "c=d.npz", **{"x=y": numpy.full((1, 2), 2, numpy.float32)})
        words = [w for word in ("a=0.npy", "a=b=1.npy", "c:d=c=d.npz:x=y", "e,f=3.npy") for w in ("-i", word)]
        quick = ("--no-tune", "--no-cache", "--quiet")
        for engine in "m.onnx", "m.engine":
            if engine == "m.engine":
                self.ends(0, "build", "m.onnx", "-o", "m.engine", "--dims", "n=1=3,p,q=4", *quick)
                told = self.peri("inspect", "m.engine").stdout.decode()
                self.assertIn("tuned   n=1=3\n", told)
                self.assertIn("tuned   p,q=4\n", told)
            self.ends(0, "run", engine, *words, "--output-dir", "out", "--force", *(quick if engine == "m.onnx" else ()))
            for k in range(4):
                self.assertEqual(numpy.load(self.folder / f"out/out%20{k}.npy")[0, 0], k, (engine, names[k]))
        said = self.ends(2, "run", "m.engine", "-i", "a=b=0.npy", "-i", "a=b=0.npy")
        self.assertIn("input 'a=b' is given twice; give it once", said)
        self.assertIn("no input 'z'", self.ends(2, "run", "m.engine", "-i", "z=b=0.npy"))
        self.assertIn("unknown type of input file", self.ends(2, "run", "m.engine", "-i", "a=b=c"))
        self.ends(0, "build", "m.onnx", "-o", "s.engine", "--shapes", "a=b:3x2,c:d:4x2", *quick)
        self.ends(0, "build", "m.onnx", "-o", "s.engine", "--fix", "e,f=5,6", *quick)
        self.assertIn("e,f=5,6", self.peri("inspect", "s.engine").stdout.decode())
        self.assertIn("one file", self.ends(2, "run", "m.engine", *words, "--json", "1.npy", "--force"), "a file of an input is not replaced")

    def test_raw_scalars(self):
        engine = self.identity([])
        numpy.float32(2.5).tofile(self.folder / "x.bin")
        for what in ("raw:f32::x.bin", "raw:float32::x.bin"):
            self.assertEqual(self.given(engine, "-i", f"x={what}").tolist(), 2.5)
        self.assertIn("wrong rank: expected [], found [1]", self.ends(2, "run", engine, "-i", "x=raw:f32:1:x.bin"))
        self.assertIn("expected 4 bytes, found 5", (self.folder / "y.bin").write_bytes(b"12345") and self.ends(2, "run", engine, "-i", "x=raw:f32::y.bin"))

    def test_archives_and_raw_bytes_that_do_not_fit(self):
        x = numpy.zeros((2, 3), numpy.float32)
        engine = self.identity(["n", 3])
        numpy.savez(self.folder / "two.npz", a=x, b=x)
        x.tofile(self.folder / "x.bin")
        good = (self.folder / "two.npz").read_bytes()
        (self.folder / "cut.npz").write_bytes(good[: len(good) // 2])
        at = good.index(b"NUMPY") + 100
        (self.folder / "changed.npz").write_bytes(good[:at] + bytes([good[at] ^ 255]) + good[at + 1 :])
        (self.folder / "letter.npz").write_text("dear reader, this is not an archive at all")
        with zipfile.ZipFile(self.folder / "twice.npz", "w") as twice, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy would take the last, others the first
            for _ in range(2):
                twice.writestr("x.npy", zipfile.ZipFile(self.folder / "two.npz").read("a.npy"))
        for what, code, words in (("twice.npz", 1, "two arrays of the .npz file have this name"), ("two.npz", 2, "one of a, b"), ("two.npz:c", 2, "one of a, b"), ("cut.npz", 1, "zip"), ("changed.npz:a", 1, "check sum"),
                                  ("letter.npz", 1, "zip"), ("raw:f32:2x4:x.bin", 2, "expected 32 bytes"), ("raw:f33:2x3:x.bin", 2, "expected f32, f16, i64, u8, ..., found raw:f33"),
                                  ("raw:f32:2y3:x.bin", 2, "AxBxC"), ("raw:f32:x.bin", 2, "raw:TYPE:AxBxC:FILE"), ("raw:f32::x.bin", 2, "expected 4 bytes, found 24"), ("raw:f32:x:x.bin", 2, "AxBxC"), ("raw:f32:2x:x.bin", 2, "AxBxC"),
                                  ("raw:f32:2x3:none.bin", 1, "none.bin"), ("x.bin", 2, "raw:TYPE:AxBxC:FILE"), ("raw:f64:1x3:x.bin", 2, "let --cast convert it")):
            with self.subTest(what=what):
                self.assertIn(words, self.ends(code, "run", engine, "-i", f"x={what}"))
        before = (self.folder / "x.bin").read_bytes()
        self.assertIn("one file", self.ends(2, "run", engine, "-i", "x=raw:f32:2x3:x.bin", "--json", "x.bin", "--force"))
        self.assertEqual((self.folder / "x.bin").read_bytes(), before)

    def test_made_inputs_fit_those_from_files(self):
        """The open sizes of an engine are those of its files, in whichever order the inputs stand; flags that say others are told."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Add", ["a", "x"], ["m"]), helper.make_node("Add", ["m", "z"], ["y"])], "g",
                                  [value(n, TensorProto.FLOAT, ["n", "k"]) for n in "axz"], [value("y", TensorProto.FLOAT, ["n", "k"])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "sum.onnx")
        self.ends(0, "build", "sum.onnx", "-o", "sum.engine", "--dims", "n=5,k=6", *QUICK)
        numpy.save(self.folder / "x.npy", numpy.ones((2, 3), numpy.float32))
        x, made = ("-i", "x=x.npy"), ("-i", "a=random:1", "-i", "z=random:2")
        self.assertEqual(self.given("sum.engine", *made, *x).shape, (2, 3))
        self.assertIn("output 'y'", self.ends(3, "verify", "sum.engine", *x, "--max-error", "1e-30", "--quiet"))
        self.assertIn("median", self.ends(0, "bench", "sum.engine", *x, "--seconds", "0.01", "--tolerance", "1e6", "--quiet"))
        self.assertIn("expected 4 ('n' from input 'a'), found 2", self.ends(2, "run", "sum.engine", *made, *x, "--dims", "n=4"))
        self.assertEqual(self.given("sum.engine", *made, "-i", "x=random:3", "--dims", "n=4").shape, (4, 6))

    def test_pictures(self):
        pixels = numpy.random.default_rng(2).integers(0, 256, (6, 8, 3), numpy.uint8)
        smooth = numpy.add.outer(numpy.arange(16) * 8, numpy.arange(24) * 5)[:, :, None] + numpy.array([0, 4, 9])
        smooth = smooth.clip(0, 255).astype(numpy.uint8)
        (self.folder / "p.png").write_bytes(png(pixels))
        (self.folder / "alpha.png").write_bytes(png(numpy.concatenate([pixels, numpy.full((6, 8, 1), 255, numpy.uint8)], axis=2)))
        (self.folder / "s.JPG").write_bytes(jpeg(smooth))
        nchw, nhwc = self.identity([1, 3, 6, 8], name="nchw.engine"), self.identity([1, 6, 8, 3], TensorProto.UINT8, name="nhwc.engine")
        unit = pixels.transpose(2, 0, 1)[None].astype(numpy.float64) / 255
        for file in ("p.png", "alpha.png"):
            numpy.testing.assert_allclose(self.given(nchw, "-i", f"x={file}"), unit, atol=1e-6)
            self.assertIn("8x6, nchw, RGB" + " without its alpha" * (file == "alpha.png") + ", (v / 255 - 0,0,0) / 1,1,1", self.said)
        numpy.testing.assert_array_equal(self.given(nhwc, "-i", "x=p.png"), pixels[None])
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        made = self.given(nchw, "-i", "x=p.png", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")
        numpy.testing.assert_allclose(made, (unit - numpy.reshape(mean, (3, 1, 1))) / numpy.reshape(std, (3, 1, 1)), atol=1e-5)
        made = self.given(self.identity([1, 1, 6, 8], name="grey.engine"), "-i", "x=p.png", "--mean", "0.5", "--std", "0.5")
        grey = (unit[0] * numpy.reshape((0.299, 0.587, 0.114), (3, 1, 1))).sum(axis=0)
        numpy.testing.assert_allclose(made[0, 0], (grey - 0.5) / 0.5, atol=1e-5)
        # Sizes nobody fixed are the picture's own, or what is asked for.
        free = self.identity(["n", 3, "h", "w"], name="free.engine")
        made = self.given(free, "-i", "x=s.JPG")
        numpy.testing.assert_allclose(made, smooth.transpose(2, 0, 1)[None] / 255, atol=0.03)
        half = self.given(free, "-i", "x=s.JPG", "--shapes", "x:1x3x8x12")
        numpy.testing.assert_allclose(half[:, :, 1:-1, 1:-1], made.reshape(1, 3, 8, 2, 12, 2).mean(axis=(3, 5))[:, :, 1:-1, 1:-1], atol=0.02)
        self.assertIn("24x16 to 12x8 (stretched, bilinear)", self.said)
        square = self.given(free, "-i", "x=s.JPG", "--shapes", "x:1x3x16x16", "--fit", "crop")
        numpy.testing.assert_allclose(square, made[:, :, :, 4:20], atol=1e-6)
        self.assertIn("its middle", self.said)
        double = self.given(free, "-i", "x=s.JPG", "--shapes", "x:1x3x32x48")
        numpy.testing.assert_allclose(double.reshape(1, 3, 16, 2, 24, 2).mean(axis=(3, 5))[:, :, 1:-1, 1:-1], made[:, :, 1:-1, 1:-1], atol=0.02)

    def test_pixels_are_taken_as_they_stand(self):
        """Of 16 bits, and beside a gamma: as Pillow and OpenCV read them, without a curve."""
        self.identity([1, 1, 1, 8], name="grey.engine")
        self.identity([1, 3, 1, 8], name="rgb.engine")
        wide = numpy.array([0, 1000, 8000, 16384, 32768, 49152, 65535, 25700], numpy.uint16).reshape(1, 8, 1)
        numbers = {"g16": wide, "rgb16": numpy.concatenate([wide, wide[:, ::-1], wide // 2], axis=2), "g8": (wide >> 8).astype(numpy.uint8)}
        numbers["rgba16"] = numpy.concatenate([numbers["rgb16"], numpy.full((1, 8, 1), 700, numpy.uint16)], axis=2)
        for name, pixels in numbers.items():
            unit = pixels[:, :, :3].transpose(2, 0, 1)[None] / (65535 if pixels.dtype == numpy.uint16 else 255)
            for gamma in (b"", struct.pack(">I", 100000), struct.pack(">I", 45455)):
                (self.folder / "n.png").write_bytes(png(pixels, gamma))
                with self.subTest(name=name, gamma=gamma):
                    made = self.given("grey.engine" if name.startswith("g") else "rgb.engine", "-i", "x=n.png")
                    numpy.testing.assert_allclose(made, unit, atol=1e-6)
                    self.assertIn(f"{'grey, (v' if name.startswith('g') else 'RGB without its alpha, (v' if 'a' in name else 'RGB, (v'} / {65535 if '16' in name else 255} - 0", self.said)
        said = self.ends(2, "run", "grey.engine", "-i", "x=n.png", "--mean", "1,2,3")
        self.assertIn("'x': --mean has three numbers, and the input one channel: expected one number, found 1,2,3", said)

    def test_a_picture_of_inks_is_refused(self):
        made = jpeg(numpy.zeros((6, 8, 3), numpy.uint8), inks=True)
        (self.folder / "inks.jpg").write_bytes(made)
        said = self.ends(1, "run", self.identity([1, 3, 6, 8]), "-i", "x=inks.jpg")
        self.assertIn("inks.jpg: 'x': a JPEG file of CMYK: expected grey or RGB; convert it to RGB", said)

    def test_pictures_that_do_not_fit(self):
        pixels = numpy.zeros((6, 8, 3), numpy.uint8)
        (self.folder / "p.png").write_bytes(png(pixels))
        (self.folder / "cut.png").write_bytes(png(numpy.random.default_rng(4).integers(0, 256, (6, 8, 3), numpy.uint8))[:120])
        (self.folder / "cut.jpg").write_bytes(jpeg(numpy.random.default_rng(3).integers(0, 256, (40, 40, 3), numpy.uint8))[:900])
        (self.folder / "letter.jpg").write_text("dear reader")
        (self.folder / "begun.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF\0")
        (self.folder / "empty.png").touch()
        huge = bytearray(png(pixels))
        huge[16:24] = struct.pack(">II", 1 << 30, 1 << 30)
        huge[29:33] = struct.pack(">I", zlib.crc32(bytes(huge[12:29])))
        (self.folder / "huge.png").write_bytes(bytes(huge))
        engine = self.identity([1, 3, 6, 6])
        for words, code, said in ((("x=p.png", "--fit", "none"), 2, "expected 6x6"), (("x=p.png", "--fit", "wide"), 2, "stretch, crop or none"),
                                  (("x=p.png", "--layout", "nhwc"), 2, "cannot be a picture"), (("x=p.png", "--mean", "1,2"), 2, "--mean"), (("x=p.png", "--std", "0"), 2, "--std"),
                                  (("x=cut.png",), 1, "cut.png: 'x': a broken PNG file: "), (("x=cut.jpg",), 1, "cut.jpg: 'x': a broken JPEG file: "), (("x=begun.jpg",), 1, "a broken JPEG file"), (("x=letter.jpg",), 1, "letter.jpg: 'x': not a picture: expected a PNG or JPEG file"), (("x=empty.png",), 1, "found an empty file"), (("x=p.png", "--std", "1,nan,1"), 2, "--std"), (("x=p.png", "--mean", "inf"), 2, "--mean"), (("x=huge.png",), 1, "huge.png"),
                                  (("x=none.png",), 1, "none.png")):
            with self.subTest(words=words):
                self.assertIn(said, self.ends(code, "run", engine, "-i", *words))
        self.assertIn("cannot be a picture: expected [1,C,H,W], [1,H,W,C], [C,H,W] or [H,W,C] with C 1 or 3, found [?,5]; ",
                      self.ends(2, "run", self.identity(["n", 5]), "-i", "x=p.png"))
        self.assertIn("a picture cannot be an input of i64", self.ends(2, "run", self.identity([1, 3, 6, 6], TensorProto.INT64), "-i", "x=p.png"))

    def test_a_file_that_does_not_fit_is_named(self):
        """Of a model and of an engine; rank, a size, a type, in each of the forms."""
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        good = numpy.zeros((2, 1, 8, 8), numpy.float32)
        for name, array in (("rank", good[0]), ("deep", good[None]), ("size", good[:, :, :7]), ("type", good.astype(numpy.float64)), ("none", good[:0])):
            numpy.save(self.folder / f"{name}.npy", array)
            numpy.savez(self.folder / f"{name}.npz", image=array)
            (self.folder / f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(array, "image").SerializeToString())
            (self.folder / f"{name}.bin").write_bytes(array.tobytes())
            kind = {"float32": "f32", "float64": "f64"}[array.dtype.name]
            raw = f"raw:{kind}:{'x'.join(map(str, array.shape))}:{name}.bin"
            for subject in ("d.engine", DIGITS)[: 2 if name in ("rank", "type") else 1]:
                for command in ("run", "bench", "verify")[: 3 if subject != DIGITS else 1]:
                    for given, file in ((f"{name}.npy", f"{name}.npy"), (f"{name}.npz", f"{name}.npz"), (f"{name}.pb", f"{name}.pb"), (raw, f"{name}.bin")):
                        said = self.ends(2, command, subject, "-i", f"image={given}", *(("--no-tune", "--no-cache") if subject == DIGITS else ()))
                        self.assertTrue(said.startswith(f"FAILED {command}: {file}: "), said)
                        self.assertIn("image", said)

    def test_gigabytes_of_something_else_are_not_read(self):
        """In memory that would not hold them."""
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        for name in ("a.npy", "b.bin"):
            with open(self.folder / name, "wb") as file:
                file.truncate(1 << 33)
        for given, words in (("a.npy", "a.npy: 'image': broken .npy file: it does not begin as one"),
                             ("raw:f32:1x1x8x8:b.bin", "b.bin: 'image': the raw file has the wrong size: expected 256 bytes, found 8589934592; state the type and the shape")):
            r = self.peri("run", "d.engine", "-i", f"image={given}", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32)))
            self.assertIn(words, r.stderr.decode())

    def test_a_picture_is_one_item_of_a_batch(self):
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        (self.folder / "p.png").write_bytes(png(numpy.zeros((8, 8, 1), numpy.uint8)))
        said = self.ends(2, "run", "d.engine", "-i", "image=p.png", "--dims", "batch=2")
        self.assertIn("found [2,1,8,8]; a picture is one item: run it at batch 1", said)
        self.ends(0, "run", "d.engine", "-i", "image=p.png", "--dims", "batch=1")
        self.assertIn("--layout", self.ends(2, "run", self.identity([1, 5, 8, 8]), "-i", "x=p.png"))

    def test_what_is_wrong_with_a_source_names_its_input(self):
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        (self.folder / "bad.npy").write_text("a letter")
        numpy.save(self.folder / "wide.npy", numpy.full((1, 1, 8, 8), 1e300))
        self.assertIn("wide.npy: 'image': --cast: element 0", self.ends(2, "run", "d.engine", "-i", "image=wide.npy", "--cast"))
        for given in ("raw:f32:1x1x8x8", "raw:f32:9999999999999x9999999999999:b.bin", "a.txt", "none.npy", "bad.npy", "random:x"):
            with self.subTest(given=given):
                r = self.peri("run", "d.engine", "-i", f"image={given}")
                self.assertIn("'image': ", r.stderr.decode())

    def test_dates_are_no_broken_files(self):
        self.ends(0, "build", DIGITS, "-o", "d.engine", *QUICK)
        for kind in ("M8[s]", "m8[D]"):
            numpy.save(self.folder / "t.npy", numpy.zeros(2, kind))
            self.assertIn(f"t.npy: 'image': elements of the type '<{kind}' in a .npy file; save", self.ends(1, "run", "d.engine", "-i", "image=t.npy"))

    def test_texts_that_are_objects(self):
        """As a table's column gives them: they can be saved as texts."""
        engine = self.identity(["n"], TensorProto.STRING)
        numpy.save(self.folder / "t.npy", numpy.array(["a", "b\u00e9"], object), allow_pickle=True)
        self.assertIn("t.npy: 'x': a .npy file of Python objects; save plain numbers, or texts with .astype(str)", self.ends(1, "run", engine, "-i", "x=t.npy"))
        numpy.save(self.folder / "t.npy", numpy.load(self.folder / "t.npy", allow_pickle=True).astype(str))
        self.assertEqual(self.given(engine, "-i", "x=t.npy").tolist(), ["a", "b\u00e9"])

    def test_labels(self):
        engine = self.identity([1, 3])
        names = "cat\ndog\nowl"
        for file, text in (("plain", names), ("ended", names + "\n"), ("blank", names + "\n\n\n"), ("marked", "\ufeff" + names), ("windows", names.replace("\n", "\r\n"))):
            (self.folder / file).write_bytes(text.encode())
            with self.subTest(file=file):
                r = self.peri("run", engine, "-i", "x=random:1", "--top-k", "3", "--labels", file, "--json", "-")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual({t["index"]: t["label"] for t in json.loads(r.stdout)["answers"]["y"]["top"][0]}, dict(enumerate(names.split("\n"))))
        (self.folder / "none").touch()
        self.assertIn("none: --labels holds no names", self.ends(2, "run", engine, "-i", "x=random:1", "--top-k", "3", "--labels", "none"))
        (self.folder / "two").write_text("cat\ndog\n")
        self.assertIn("expected 3 lines", self.ends(2, "run", engine, "-i", "x=random:1", "--top-k", "3", "--labels", "two"))

    def test_strings_that_are_numbers(self):
        """A build makes up such strings as the model reads; where it cannot know, it says that the engine was not run."""
        value = helper.make_tensor_value_info
        cast = [helper.make_node("Identity", ["x"], ["m"]), helper.make_node("Cast", ["m"], ["y"], to=1)]
        split = [helper.make_node("StringSplit", ["x"], ["m", "k"], delimiter=","), helper.make_node("Cast", ["m"], ["y"], to=1)]
        for name, nodes, texts, want in (("cast", cast, ["1.5", "-2e3", "inf"], [1.5, -2000, numpy.inf]), ("split", split, ["1,2", "7,-8"], [1, 2, 7, -8])):
            graph = helper.make_graph(nodes, "g", [value("x", TensorProto.STRING, ["n"])], [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), self.folder / f"{name}.onnx")
            said = self.ends(0, "build", f"{name}.onnx", "-o", f"{name}.engine", "--no-cache", "--dims", "n=16")
            self.assertIn("right at" if name == "cast" else "the engine was not run", said)
            (self.folder / "x.pb").write_bytes(numpy_helper.from_array(numpy.array(texts, object), "x").SerializeToString())
            self.ends(0, "run", f"{name}.engine", "-i", "x=x.pb", "--output-dir", "out", "--force")
            numpy.testing.assert_array_equal(numpy.load(self.folder / "out/y.npy").flatten(), numpy.array(want, numpy.float32))
            self.ends(0, "verify", f"{name}.engine", *(() if name == "cast" else ("-i", "x=x.pb")))
            self.ends(1, "run", f"{name}.engine", "-i", "x=" + self.text_of("3", "many"))

    def text_of(self, *texts):
        (self.folder / "texts.pb").write_bytes(numpy_helper.from_array(numpy.array(texts, object), "x").SerializeToString())
        return "texts.pb"

    def test_what_says_how_to_read_a_picture_needs_one(self):
        engine = self.identity([1, 3, 4, 4])
        for flag, value in (("--mean", "1,2,3"), ("--std", "1"), ("--fit", "crop"), ("--layout", "nchw")):
            self.assertIn(f"{flag} is for pictures", self.ends(2, "run", engine, "-i", "x=random:1", flag, value))

    def test_thousands_of_texts(self):
        """Nobody asked which of ten thousand texts is most like which: that grows with the square."""
        model = self.folder / "bert"
        shutil.copytree(SOURCE / "tests/hf/data/tiny_bert", model)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
        special = lambda name, type_id=0: {"SpecialToken": {"id": name, "type_id": type_id}}
        tokenizer = {
            "version": "1.0",
            "added_tokens": [{"id": k, "special": True, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for k, w in enumerate(words[:4])],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]")],
                               "pair": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]"), {"Sequence": {"id": "B", "type_id": 1}}, special("[SEP]", 1)],
                               "special_tokens": {w: {"id": w, "ids": [words.index(w)], "tokens": [w]} for w in ("[CLS]", "[SEP]")}},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {w: k for k, w in enumerate(words)}},
        }  # fmt: skip
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.ends(0, "build", model, "-o", "b.engine", *QUICK)
        said = self.ends(0, "run", "b.engine", *(w for k in range(10000) for w in ("--text", "abcdefgh"[k % 8])), "--json", "t.json", "--quiet")
        self.assertIn("[10000,", said)
        self.assertNotIn("most like", said)
        self.assertNotIn("similarity", json.loads((self.folder / "t.json").read_text()))
        self.assertLess((self.folder / "t.json").stat().st_size, 100000)

    def test_pictures_reach_verify_and_bench(self):
        (self.folder / "d.png").write_bytes(png(numpy.full((8, 8, 1), 128, numpy.uint8)))
        self.ends(0, "verify", DIGITS, "-i", "image=d.png", "--no-tune", "--no-cache", "--quiet")
        self.ends(0, "bench", DIGITS, "-i", "image=d.png", "--seconds", "0.05", "--tolerance", "1e6", *QUICK)


if __name__ == "__main__":
    main()
