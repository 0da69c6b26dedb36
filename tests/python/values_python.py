"""What may stand for an array, and what is none: an answer to other values than were given is worse than an error. Texts, locales,
copies, forks and ends of the interpreter."""
import array
import asyncio
import copy
import ctypes
import locale
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading

import numpy as np
import onnx
import peri
from peri import arrays
from onnx import TensorProto, helper

from shared import DIGITS, IMAGES, QUICK, Foreign, Package


class Versioned:
    """An array of another library that gives this capsule, and notes how it was asked."""

    def __init__(self, capsule):
        self.capsule, self.asked = capsule, None

    def __dlpack__(self, **asked):
        self.asked = asked
        return self.capsule


class Values(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        kinds = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "i64": TensorProto.INT64, "u8": TensorProto.UINT8, "bool": TensorProto.BOOL}
        ports = [[helper.make_tensor_value_info(side + kind, number, ["n"]) for kind, number in kinds.items()] for side in ("x_", "y_")]
        graph = helper.make_graph([helper.make_node("Identity", [f"x_{k}"], [f"y_{k}"]) for k in kinds], "g", *ports)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), cls.folder / "same.onnx")
        cls.same = peri.build(cls.folder / "same.onnx", **QUICK)
        cls.zeros = {f"x_{k}": [0] for k in kinds}

    def told(self, kind, value):
        return self.same.run({**{name: [0] * len(value) for name in self.zeros}, f"x_{kind}": value})[f"y_{kind}"]

    def test_ports_have_types_of_numpy(self):
        self.assertEqual([p.numpy_dtype for p in self.same.inputs], [np.dtype(t) for t in ("float32", "float16", "int64", "uint8", "bool")])
        made = self.same.run({p.name: np.ones(2, p.numpy_dtype) for p in self.same.inputs})
        self.assertEqual([made[p.name].dtype for p in self.same.outputs], [p.numpy_dtype for p in self.same.outputs])

    def test_numbers_take_the_type_of_the_input(self):
        for kind, value in (("i64", [1.0, -2.0]), ("i64", [2**63 - 1, -(2**63)]), ("u8", (0, 255)), ("u8", range(3)), ("bool", [0, 1]), ("bool", [True, False]),
                            ("f32", [True, 2, 0.5]), ("f16", [1, 2]), ("f32", [float("inf"), 1e-50]), ("i64", [np.int32(3)])):
            with self.subTest(kind=kind, value=value):
                made = self.told(kind, value)
                np.testing.assert_array_equal(made, np.array(list(value)).astype(made.dtype))

    def test_integers_of_a_list_keep_their_value_beside_floats(self):
        """NumPy makes floats of them on the way, which have 53 bits."""
        for value in ([2**53 + 1, 1.0], [-(2**53) - 1, 2.0], [2**63 - 1, -1, 0.0], [[2**62 + 1, 3.0]], [np.int64(2**53 + 1), np.float32(1)]):
            with self.subTest(value=value):
                made = arrays.given(value, "x", "i64")[1]
                self.assertEqual((made.dtype, made.tolist()), (np.int64, value))
        self.assertEqual(self.told("i64", [2**53 + 1, 1.0]).tolist(), [2**53 + 1, 1])
        for value in ([2**64 - 1, 1], [2**64 - 1, 1.0], [np.uint64(2**64 - 1), 1]):
            with self.subTest(value=value):
                self.assertEqual(arrays.given(value, "x", "u64")[1].tolist(), value)
        for dtype, value in (("u64", [2**64, 1]), ("u64", [-1, 2**64 - 1]), ("i64", [2**63, -1]), ("i8", [128.0]), ("i64", [2**53 + 1, 0.5])):
            with self.subTest(dtype=dtype, value=value):
                self.raises(peri.UsageError, lambda: arrays.given(value, "x", dtype), "'x': no array can be made of it")

    def test_what_the_type_cannot_hold_is_an_error(self):
        """And is not read as another number: text as what it spells, None as NaN, a fraction as what stands before it."""
        for kind, value in (("i64", [1.5]), ("i64", [float("nan")]), ("i64", [2**63]), ("i64", [1e300]), ("u8", [256]), ("u8", [-1]), ("bool", [2]), ("bool", [0.5]),
                            ("f16", [70000]), ("f32", [1e300]), ("f32", ["1"]), ("f32", [None]), ("f32", [b"1"]), ("i64", ["7"]), ("f32", [1j])):
            with self.subTest(kind=kind, value=value):
                self.raises(peri.UsageError, lambda: self.told(kind, value), f"'x_{kind}': no array can be made of it: expected numbers of {kind}")
        for value in ("3", "nan"):
            self.raises(peri.UsageError, lambda: self.same.run({**self.zeros, "x_f32": value}), "'x_f32': no array can be made of it")

    def test_what_has_a_type_keeps_it(self):
        picture = type("Picture", (), {"__array_interface__": np.zeros(2, np.uint8).__array_interface__})()
        for value in (array.array("d", [1, 2]), memoryview(np.zeros(2)), picture, b"\0\0"):
            self.raises(peri.Error, lambda: self.told("f32", value) if hasattr(value, "__len__") else self.same.run({**self.zeros, "x_f32": value}), "x_f32")
        np.testing.assert_array_equal(self.told("f32", array.array("f", [1, 2])), [1, 2])

    def test_masked_arrays(self):
        hidden = np.ma.masked_array(IMAGES, mask=IMAGES > IMAGES.mean())
        self.raises(peri.UsageError, lambda: self.engine.run(hidden), "'image': a masked array has no value where its mask is set: expected array.filled(VALUE)")
        place = np.ma.masked_array(np.zeros((8, 10), np.float32), mask=True)
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": place}), "'logits'")
        np.testing.assert_array_equal(self.engine.run(np.ma.masked_array(IMAGES))["logits"], self.logits)

    def test_a_library_that_hands_out_nothing(self):
        class ReadOnly(Foreign):
            def __dlpack__(self, **_):
                raise BufferError("read-only memory is not exported")

        error = self.raises(peri.UsageError, lambda: self.engine.run(ReadOnly(IMAGES)), "'image': its __dlpack__ fails: read-only memory is not exported")
        self.assertIsInstance(error.__cause__, BufferError)
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": ReadOnly(np.zeros((8, 10), np.float32))}), "'logits': its __dlpack__ fails")

    def test_arrays_say_in_their_own_way_that_they_are_contiguous(self):
        class Property(Foreign):  # as pyarrow has it, without contiguous()
            @property
            def is_contiguous(self):
                return self.array.flags.c_contiguous

        class Method(Foreign):  # as PyTorch has it
            def is_contiguous(self):
                return self.array.flags.c_contiguous

            def contiguous(self):
                return Method(np.ascontiguousarray(self.array))

        place = np.zeros((8, 10), np.float32)
        for kind in (Property, Method):
            np.testing.assert_array_equal(self.engine.run({"image": kind(IMAGES)}, outputs={"logits": kind(place)})["logits"].array, self.logits)
            turned = kind(np.zeros((10, 8), np.float32).T)
            self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": turned}), "'logits': the memory of this output is not contiguous")
        turned = np.asfortranarray(IMAGES)
        np.testing.assert_array_equal(self.engine.run(Method(turned))["logits"], self.logits)
        self.raises(peri.UsageError, lambda: self.engine.run(Property(turned)), "'image': axis", "pass a contiguous copy")

    def test_versioned_capsules(self):
        fixed = IMAGES.copy()
        fixed.flags.writeable = False
        given = Versioned(fixed.__dlpack__(max_version=(1, 0)))  # NumPy exports what is read-only in no other way
        np.testing.assert_array_equal(self.engine.run(given)["logits"], self.logits)
        self.assertEqual(given.asked, {"max_version": (1, 0)})
        place = np.zeros((8, 10), np.float32)
        self.engine.run(IMAGES, outputs={"logits": Versioned(place.__dlpack__(max_version=(1, 0)))})
        np.testing.assert_array_equal(place, self.logits)

    def test_read_only_memory_takes_no_output(self):
        place = np.zeros((8, 10), np.float32)
        place.flags.writeable = False
        exported = place.__dlpack__(max_version=(1, 0))
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": Versioned(exported)}), "'logits': the memory of this output is read-only")

        class Immutable(Foreign):  # as JAX has it: its capsules have no version, its other protocols say that it is read-only
            def __array__(self, dtype=None, copy=None):
                fixed = self.array.view()
                fixed.flags.writeable = False
                return fixed

        class OnDevice(Foreign):
            __cuda_array_interface__ = {"data": (0, True)}

        for kind in (Immutable, OnDevice):
            mine = np.zeros((8, 10), np.float32)
            self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": kind(mine)}), "'logits': the memory of this output is read-only")
            self.assertFalse(mine.any())
            np.testing.assert_array_equal(self.engine.run(kind(IMAGES))["logits"], self.logits)

    def test_errors_of_arrays_name_their_port(self):
        used = IMAGES.copy().__dlpack__()
        again = type("Again", (), {"__dlpack__": lambda self, **_: used, "__dlpack_device__": lambda self: (1, 0)})
        np.from_dlpack(again())
        self.raises(peri.UsageError, lambda: self.engine.run(again()), "'image': its __dlpack__ gives a capsule that is used up, or of another version")
        newer = IMAGES.__dlpack__(max_version=(1, 0))
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_uint32.from_address(pointer_of(newer, b"dltensor_versioned")).value = 2
        self.raises(peri.UsageError, lambda: self.engine.run(Versioned(newer)), "'image': its __dlpack__ gives a capsule of another version")
        error = self.raises(peri.UsageError, lambda: self.engine.run(Foreign(IMAGES[:, :, :, ::2])), "'image': axis 3 of a DLPack tensor has stride 2")
        self.assertEqual(error.node, "image")
        self.raises(peri.UnsupportedError, lambda: self.engine.run(IMAGES, outputs={"logits": Foreign(np.zeros((8, 10), np.complex64))}), "'logits': a DLPack element type")
        ports = [helper.make_tensor_value_info(name, kind, ["n"]) for name, kind in (("x", TensorProto.FLOAT), ("y", TensorProto.FLOAT8E4M3FN))]
        graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)], "g", ports[:1], ports[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), self.folder / "small.onnx")
        self.raises(peri.UnsupportedError, lambda: peri.build(self.folder / "small.onnx", **QUICK).run([1]), "'y': arrays of f8e4m3", "are not taken", "peri run ENGINE")
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]), helper.make_tensor_value_info("y", TensorProto.INT64, [1, "k"])]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "where.onnx")
        self.raises(peri.UsageError, lambda: peri.build(self.folder / "where.onnx", **QUICK).run([1, 0], outputs={"y": np.zeros((1, 1), np.int64)}), "leave it out of outputs")

    def test_odd_memory(self):
        aligned = np.frombuffer(b"\0" + IMAGES.tobytes(), np.float32, offset=1, count=IMAGES.size).reshape(IMAGES.shape)
        frozen = IMAGES.copy()
        frozen.flags.writeable = False
        for given in (aligned, frozen, IMAGES[::-1][::-1], np.asfortranarray(IMAGES), IMAGES.view(np.recarray), np.broadcast_to(IMAGES, IMAGES.shape)):
            np.testing.assert_array_equal(self.engine.run(given)["logits"], self.logits)
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES[:0]), "'batch' is 0: expected at least 1")
        self.raises(peri.Error, lambda: self.engine.run({"image": []}), "image")
        put = np.frombuffer(bytearray(8 * 10 * 4 + 1), np.float32, offset=1, count=80).reshape(8, 10)
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": put}), "aligned")


class Texts(Package):
    def test_a_nul_ends_no_name(self):
        for call in (lambda: peri.build(DIGITS, dims={"batch\0x": 2}, **QUICK), lambda: peri.build(DIGITS, backend="cpu\0x", **QUICK),
                     lambda: peri.build(DIGITS, disabled_passes=["fold\0"], **QUICK), lambda: peri.build(DIGITS, fixed={"image\0": 1}, **QUICK),
                     lambda: peri.Engine(self.folder / "digits.engine", device="\0")):
            self.raises(peri.UsageError, call, "holds a NUL")

    def test_texts_that_are_none(self):
        for call in (self.engine.embed, self.engine.tokenize):
            self.raises(peri.UsageError, lambda: call(["a", "\ud800"]), "text 1 is no Unicode")
            self.raises(TypeError, lambda: call(["a", 3]), "text 1 is no str, but int")

    def test_an_empty_text_is_no_default(self):
        for name, takes in (("device", "a device such as cuda:1"), ("backend", "auto, cpu or cuda"), ("dtype", "f32, f16 or bf16"), ("io_dtype", "f32, f16 or bf16"),
                            ("provider", "peri, onednn, cublaslt, cudnn, outside or reference")):
            said = f"{name} is empty: expected {takes}, or None for the default"
            self.raises(peri.UsageError, lambda: peri.build(DIGITS, **{name: ""}, **QUICK), said)
        self.raises(peri.UsageError, lambda: peri.Engine(self.folder / "digits.engine", device=""), "device is empty: expected a device such as cuda:1")

    def test_none_is_the_default(self):
        self.assertEqual(len(peri.Engine(self.folder / "digits.engine", device=None).inputs), 1)
        self.assertEqual(len(peri.build(DIGITS, budget=None, fixed=None, **QUICK).inputs), 1)
        self.raises(TypeError, lambda: peri.build(DIGITS, fixed=[("a", 1)], **QUICK), "a mapping such as")

    def test_numbers_have_a_point_in_every_locale(self):
        if not shutil.which("localedef"):
            self.skipTest("no localedef to make a locale with")
        if subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / "de_DE.UTF-8"], capture_output=True).returncode > 1:
            self.skipTest("the sources of locales are not installed")
        os.environ["LOCPATH"] = str(self.folder)
        self.addCleanup(os.environ.pop, "LOCPATH")
        self.addCleanup(locale.setlocale, locale.LC_ALL, "C")
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
        self.assertEqual(locale.localeconv()["decimal_point"], ",")
        self.raises(peri.UsageError, lambda: peri.compare({}, {}, limit=0.5), "found 0.5")
        self.assertRegex(self.engine.verify(max_error=1e-12).outside, r"error \d(\.\d+)?e-\d+ of its range")


class Lives(Package):
    def test_copies_and_pickles(self):
        self.assertIs(copy.copy(self.engine), self.engine)
        self.assertIs(copy.deepcopy({"a": [self.engine]})["a"][0], self.engine)
        self.raises(TypeError, lambda: pickle.dumps(self.engine), "peri.Engine(path)")
        found = peri.inspect(DIGITS)
        self.assertEqual(pickle.loads(pickle.dumps(found)), found)
        self.assertEqual(peri.Record({"a": [found]}).to_json(), '{"a": [' + found.to_json() + "]}")

    def test_any_answer_of_a_stop(self):
        for yes in (np.True_, 1, "yes"):
            self.assertIn("interrupted", peri.build(DIGITS, threads=1, cache=False, stop=lambda: yes).describe().interrupted)
        for no in (np.False_, 0, None):
            self.assertNotIn("interrupted", peri.build(DIGITS, stop=lambda: no, **QUICK).describe())

    def test_a_cancel_before_the_run_begins(self):
        """The thread still takes the inputs as the task is cancelled: the run ends all the same."""
        engine, calls, go = peri.Engine(self.folder / "digits.engine", threads=1), [], threading.Event()
        begin, many = engine._run_on, np.repeat(IMAGES, 1024, axis=0)

        def late(session, inputs, outputs):
            calls.append("taking")
            go.wait()
            try:
                for _ in range(300):  # one may be over before the loop's thread gets to run
                    made = begin(session, inputs, outputs)
                calls.append("done")
                return made
            except peri.CancelledError:
                calls.append("cancelled")
                raise

        async def cancel():
            task = asyncio.ensure_future(engine.run_async(many))
            while not calls:
                await asyncio.sleep(0.001)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            go.set()
            while len(calls) < 2:
                await asyncio.sleep(0.001)

        engine._run_on = late
        asyncio.run(cancel())
        self.assertEqual(calls, ["taking", "cancelled"])
        np.testing.assert_array_equal(engine.run(IMAGES)["logits"], self.logits)

    def test_arguments_of_another_type(self):
        path = self.folder / "digits.engine"
        for call in (lambda: peri.Engine(path, threads="2"), lambda: peri.Engine(path, max_iterations=1.5)):
            self.raises(TypeError, call, "must be a whole number, not")
        for threads in (-1, 2**40):
            self.raises(peri.UsageError, lambda: peri.Engine(path, threads=threads), "the number of threads is not in range", str(threads))
        for limit, words in ((float("inf"), "a limit that nothing reaches: found inf"), (float("nan"), "a limit below 1: found nan")):
            self.raises(peri.UsageError, lambda: peri.compare({}, {}, limit=limit), words)

    def test_a_sub_interpreter(self):
        """Is told so, and the process ends as it would have."""
        if sys.version_info >= (3, 13):
            self.skipTest("its module has another name and other errors there")
        said = self.script("""
            import _xxsubinterpreters as interpreters
            try:
                interpreters.run_string(interpreters.create(), f"import sys; sys.path[:] = {sys.path!r}; import peri")
            except interpreters.RunFailedError as error:
                print(error)
        """)
        self.assertRegex(said, "ImportError.*(main interpreter|not support loading in subinterpreters)")

    def script(self, text):
        """What a program of its own says on this engine, which has to end by itself."""
        head = f"""
            import atexit, gc, os, sys, threading, time
            import numpy as np
            import peri
            engine = peri.Engine({str(self.folder / "digits.engine")!r}, threads=3)
            images = np.full((64, 1, 8, 8), 0.5, np.float32)
            want = engine.run(images)["logits"]
        """
        run = subprocess.run([sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(head) + textwrap.dedent(text)], capture_output=True, text=True, timeout=120, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        return run.stdout

    def test_a_fork_runs_and_ends(self):
        said = self.script("""
            child = os.fork()
            if not child:
                right = np.array_equal(engine.run(images)["logits"], want)
                engine.close()
                gc.collect()
                os._exit(0 if right else 3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), np.array_equal(engine.run(images)["logits"], want))
        """)
        self.assertEqual(said, "0 True\n")

    def test_the_end_of_the_interpreter(self):
        """Threads that nobody joins are in runs as it ends; more than once, since where they are then is chance."""
        for _ in range(5):
            said = self.script("""
                def work():
                    while True:
                        engine.run(images)
                for _ in range(4):
                    threading.Thread(target=work, daemon=True).start()
                time.sleep(0.05)
                print("over", flush=True)
            """)
            self.assertEqual(said, "over\n")

    def test_an_end_that_waits_for_a_thread(self):
        """One that another's atexit joins, which was registered before this package's."""
        said = self.script("""
            over = threading.Event()
            def work():
                while not over.is_set():
                    engine.run(images)
                print("ended", flush=True)
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            def end():
                over.set()
                thread.join()
            atexit.register(end)
        """)
        self.assertEqual(said, "ended\n")
