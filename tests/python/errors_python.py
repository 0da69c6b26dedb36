"""What the Python package says of calls that are wrong, and of engines that are closed."""
import asyncio
import errno
import os
import pickle

import numpy as np
import onnx
import peri
from onnx import TensorProto, helper

from shared import DIGITS, IMAGES, QUICK, SOURCE, Foreign, Package


class Closing(Package):
    def test_a_verification_speaks_of_parameters(self):
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Sqrt", ["x"], ["y"])], "g", ports[:1], ports[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "nan.onnx")
        said = peri.build(self.folder / "nan.onnx", **QUICK).verify().outside
        self.assertIn("nan_equal", said)
        self.assertNotIn("the option", said)

    def test_the_end_of_a_with_frees_the_engine(self):
        with peri.Engine(self.folder / "digits.engine") as engine:
            logits = engine.run(IMAGES)["logits"]
        np.testing.assert_array_equal(logits, self.logits, "what a run gave stays")
        for call in (lambda: engine.run(IMAGES), engine.describe, engine.verify, engine.bench, engine.explain, engine.__enter__):
            self.raises(peri.UsageError, call, "closed")
        engine.close()
        self.assertEqual([p.name for p in engine.inputs], ["image"])


class Errors(Package):
    def test_a_run_names_its_engine(self):
        with peri.Engine(self.folder / "digits.engine") as engine:
            for given in (IMAGES[0], IMAGES.astype(np.float64), IMAGES[:, :, :4]):
                error = self.raises((peri.UsageError, peri.InvalidError), lambda: engine.run(given), "digits.engine: 'image': ")
                self.assertTrue(error.file.endswith("digits.engine"))
        self.raises(peri.UsageError, lambda: self.engine.run({"img": IMAGES}), "'img': no input has this name: expected image")
        self.raises(peri.UsageError, lambda: self.engine.run({}), "'image': this input is not given")

    def test_a_run_without_inputs_says_what_to_give(self):
        error = self.raises(TypeError, lambda: self.engine.run(None), "{name: array}")
        self.assertIn("image f32[batch,1,8,8]", str(error))
        self.raises(TypeError, lambda: asyncio.run(self.engine.run_async(None)), "image f32[batch,1,8,8]")
        two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Neg", ["two"], ["y"])], "g", [], [out], [two])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "inputless.onnx")
        self.assertEqual(peri.build(self.folder / "inputless.onnx", **QUICK).run(None)["y"].tolist(), [-2.0], "a model without inputs takes none")

    def test_an_engine_in_place_of_a_model_names_what_takes_it(self):
        for call in (peri.inspect, peri.build):
            error = self.raises(peri.InvalidError, lambda: call(self.folder / "digits.engine"), "an engine, not a model")
            self.assertEqual(error.remedy, "peri.Engine(path) takes the engine as it is")

    def test_names_of_a_model_are_escaped(self):
        """What controls a terminal, ends a line or reverses text reaches none: by print(engine), or in an error that Python makes."""
        name = "a\x1b[31m\u202e\n\r\x85\x7f\u2028b"
        ports = [helper.make_tensor_value_info(side + name, TensorProto.FLOAT, ["n"]) for side in "xy"]
        graph = helper.make_graph([helper.make_node("Relu", ["x" + name], ["y" + name])], "g", ports[:1], ports[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "names.onnx")
        engine = peri.build(self.folder / "names.onnx", **QUICK)
        self.assertEqual(engine.inputs[0].name, "x" + name)
        texts = [repr(engine), str(engine)]
        for inputs in ({}, {"z" + name: 1}, {"x" + name: "text"}, [np.zeros((2, 2), np.float32)], [np.zeros(2, np.complex64)]):
            error = self.raises(peri.Error, lambda: engine.run(inputs))
            texts.append(str(error))
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        for text in texts:
            self.assertIn("\\x1b[31m\\u202e", text)
            self.assertFalse(set(text) & set(name) - set("a[31mb"), text)
        self.assertEqual(self.raises(peri.UsageError, lambda: engine.run({})).node, "x" + name)

    def test_a_comparison_says_what_to_call(self):
        measured = self.engine.bench(seconds=0.01, tolerance=1e6)
        self.assertIn("bench(processes=5)", peri.compare(measured, measured).outside)
        self.raises(peri.UnstableError, peri.compare(measured, measured).check, "bench(processes=5)")

    def test_an_outcome_is_raised_where_it_is_asked_for(self):
        self.raises(peri.RegressionError, peri.Comparison({"regression": True}, False, "1.5 of before").check, "1.5 of before")
        self.assertTrue(peri.Comparison({"regression": False}, True, "").check())
        outside = self.engine.verify(seeds=[1], max_error=1e-12)
        self.raises(peri.AccuracyError, outside.check, outside.outside)
        self.assertEqual(self.engine.verify(seeds=[1]).check().outputs[0].output, "logits")

    def test_zero_is_a_value_and_not_the_default(self):
        self.assertEqual(self.engine.verify(seeds=[1], rtol=1, atol=1).outputs[0].l0, 0)
        self.assertGreater(self.engine.verify(seeds=[1], rtol=0, atol=0).outputs[0].l0, 0)

    def test_messages_name_parameters_and_not_flags(self):
        calls = {
            "dtype is not": lambda: peri.build(DIGITS, dtype="f17", **QUICK),
            "fixed names": lambda: peri.build(DIGITS, fixed={"a": 1}, **QUICK),
            "min_dims": lambda: peri.build(DIGITS, min_dims={"batch": 4}, max_dims={"batch": 2}, **QUICK),
            "a size between min_dims and max_dims": lambda: peri.build(DIGITS, dims={"batch": 9}, max_dims={"batch": 2}, **QUICK),
            "max_error is not": lambda: self.engine.verify(max_error=-1),
            "seconds is not": lambda: self.engine.bench(seconds=-1),
            "neither seeds nor dims": lambda: self.engine.verify(IMAGES, seeds=[1]),
            "tune=False": lambda: peri.build(DIGITS, tune=False, retune=True),
            "settings is for tuning, and tune=False leaves it out": lambda: peri.build(DIGITS, tune=False, settings=3),
            "retune is for tuning, and locked": lambda: peri.build(DIGITS, retune=True, locked="l.lock"),
            "expected 0, or 0.001 to 1e+06": lambda: peri.build(DIGITS, budget=1e-9),
        }  # fmt: skip
        for words, call in calls.items():
            with self.subTest(words=words):
                error = self.raises(peri.UsageError, call, words)
                for part in (str(error), error.message, error.expected, error.found, error.remedy):
                    self.assertNotRegex(part, r"--[a-z]|peri_\w+_options")

    def test_what_the_user_types_stays_in_messages(self):
        self.raises(peri.InvalidError, lambda: peri.Engine(DIGITS), "peri build MODEL -o ENGINE")
        self.raises(TypeError, lambda: peri.build(DIGITS, disabled_passes="fold_constants", **QUICK), "list")

    def test_what_is_no_array_is_an_error_of_this_package(self):
        for given in ("abc", [1, [2, 3]], [[[[10**400]]]], {"a": 1}, object()):
            error = self.raises(peri.UsageError, lambda: self.engine.run({"image": given}), "'image': no array can be made of it: expected numbers of f32")
            self.assertEqual(error.node, "image")
        self.raises(peri.UnsupportedError, lambda: self.engine.run({"image": IMAGES.astype(">f4")}), "newbyteorder")
        broken = type("Broken", (), {"shape": (2, 10), "__dlpack__": lambda self, **_: 3, "__dlpack_device__": lambda self: (1, 0)})()
        self.raises(peri.UsageError, lambda: self.engine.run({"image": broken}), "'image': its __dlpack__ gives no capsule")
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": broken}), "'logits': its __dlpack__ gives no capsule")
        self.raises(peri.UsageError, lambda: self.engine.run(IMAGES, outputs={"logits": np.empty((2, 2, 2), np.float32)}), "expected [batch,10], found [2,2,2]")
        self.raises(peri.InvalidError, lambda: peri.compare({}, {}), "found JSON of another kind")

    def test_parts(self):
        error = self.raises(peri.InvalidError, lambda: self.engine.run(IMAGES.astype(np.float64)), "image", "f32", "f64")
        self.assertEqual((error.code, error.node, error.expected, error.found), ("invalid", "image", "f32", "f64"))
        self.assertIsInstance(error, ValueError)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.node), (str(error), "image"))

    def test_kinds(self):
        engine, name = self.engine, self.folder / "none.onnx"
        self.raises(peri.FileError, lambda: peri.build(name), "none.onnx")
        error = self.raises(OSError, lambda: peri.Engine(name), "none.onnx")
        self.assertEqual((error.errno, error.strerror, error.filename), (errno.ENOENT, os.strerror(errno.ENOENT), str(name)))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.errno, again.filename), (str(error), error.errno, str(name)))
        self.assertNotIn("Errno", str(error))
        self.assertIsNone(peri.FileError("all is lost").errno)
        self.raises(peri.InvalidError, lambda: peri.Engine(DIGITS), "digits_cnn.onnx")
        self.raises(peri.UsageError, lambda: peri.build(DIGITS, dims={"width": 3}, **QUICK), "width", "batch")
        self.raises(peri.UsageError, lambda: peri.build(DIGITS, io_dtype="f8", **QUICK), "f8")
        self.raises(peri.UsageError, lambda: engine.run({"picture": IMAGES}), "picture", "image")
        self.raises(peri.UsageError, lambda: engine.run({}), "image")
        self.raises(peri.UsageError, lambda: engine.run(IMAGES, outputs={"logits": np.zeros((10, 8), np.float32).T}), "logits")
        self.raises(peri.UsageError, lambda: engine.run(IMAGES, outputs={"logits": np.zeros(3, np.float32)}), "logits")
        self.raises(peri.UnsupportedError, lambda: engine.run(np.array([1], np.complex64)), "image")
        self.raises(peri.InvalidError, lambda: engine.run(np.array(["a"])), "image")
        self.raises(peri.UsageError, lambda: engine.embed(["words"]), "tokenizer")
        self.raises(peri.Error, lambda: engine.run(IMAGES[:, :, :7]), "image")
        with self.assertRaises(TypeError):
            peri.build(DIGITS, no_such_option=1)

    def test_values_without_elements(self):
        nothing = np.zeros((0, 1, 8, 8), np.float32)
        self.raises(peri.UsageError, lambda: self.engine.run(nothing), "'batch' is 0", "min_dims={'image.0': 0}")
        self.raises(peri.UsageError, lambda: self.engine.verify(dims={"batch": 0}), "'batch' is 0", "dims={'batch': 0}")
        self.assertEqual(peri.build(DIGITS, dims={"batch": 0}, **QUICK).verify().compared, 0)
        engine = peri.build(DIGITS, min_dims={"image.0": 0}, **QUICK)
        self.assertEqual(engine.run(nothing)["logits"].shape, (0, 10))
        self.assertEqual(peri.build(DIGITS, dims={"batch": 0}, **QUICK).run(nothing)["logits"].shape, (0, 10))

    def test_values_that_none_may_have(self):
        engine = self.engine
        for size in (-1, 2**63, 2**70):
            for call in (lambda: peri.build(DIGITS, dims={"batch": size}, **QUICK), lambda: peri.build(DIGITS, min_dims={"batch": size}, **QUICK),
                         lambda: engine.verify(dims={"batch": size}), lambda: engine.bench(seconds=0, dims={"batch": size})):
                self.raises(peri.UsageError, call, "the size of 'batch' is not in range", str(size))
        for seed in (-1, 2**64):
            self.raises(peri.UsageError, lambda: engine.verify(seeds=[seed]), "a seed is not in range")
        self.raises(peri.UsageError, lambda: engine.verify(seeds=[]), "seeds is empty")
        for call in (lambda: peri.build(DIGITS, dims={"batch": 2.7}, **QUICK), lambda: peri.build(DIGITS, dims={"batch": "2"}, **QUICK),
                     lambda: engine.verify(seeds=[1.5]), lambda: engine.verify(seeds=3), lambda: peri.build(None)):
            self.raises(TypeError, call)
        self.raises(TypeError, lambda: peri.build(DIGITS, dims=[("batch", 2)], **QUICK), "a mapping such as {'batch': 8}, not list")
        self.raises(TypeError, lambda: peri.build(DIGITS, dtype=3, **QUICK), "3")
        self.raises(TypeError, lambda: peri.build(3, **QUICK), "the model must be a path, not int")
        self.raises(TypeError, lambda: peri.build(DIGITS, dims={"batch": "2"}, **QUICK), "the size of 'batch' must be a whole number, not str")
        self.raises(TypeError, lambda: self.engine.verify(seeds=1), "'seeds' must be several whole numbers such as [1], not int")
        self.raises(TypeError, lambda: peri.build(DIGITS, settings=2**70, **QUICK), "'settings'")
        for name in ("output", "lock", "locked", "cache_folder", "dtype", "provider", "device", "backend"):
            self.raises(peri.UsageError, lambda: peri.build(DIGITS, **{name: ""}, **{**QUICK, "cache": False}), f"{name} is ")
        self.raises(peri.FileError, lambda: peri.build(DIGITS, dump_folder=self.folder / "none", **QUICK), "make it first")
        self.raises(peri.UsageError, lambda: peri.build(DIGITS, dump_folder="", **QUICK), "dump_folder is an empty path")
        for call in (lambda: peri.build(""), lambda: peri.Engine(""), lambda: peri.inspect(""), lambda: engine.verify(against="")):
            self.raises(peri.UsageError, call, "is an empty path")
        said = "ONNX Runtime runs ONNX files, and the folder's model is its weights; verify a folder against the float64 reference: leave against out"
        self.raises(peri.UsageError, lambda: engine.verify(against=SOURCE / "tests/hf/data/tiny_bert"), said)
        self.assertTrue(peri.inspect(os.fsencode(DIGITS)).runs)

    def test_element_types_of_numpy(self):
        for dtype in ("f16", np.float16, np.dtype("float16")):
            self.assertEqual(peri.build(DIGITS, dtype=dtype, io_dtype=dtype, **QUICK).inputs[0].dtype, "f16")

    def test_paths_of_any_bytes(self):
        folder = os.fsdecode(os.fsencode(self.folder) + b"/\xff\xfe")
        os.mkdir(folder)
        peri.build(DIGITS, output=folder + "/a.engine", **QUICK)
        np.testing.assert_array_equal(peri.Engine(folder + "/a.engine").run(IMAGES)["logits"].argmax(axis=1), self.logits.argmax(axis=1))
        error = self.raises(peri.FileError, lambda: peri.Engine(folder + "/none"), "\\xff")
        for copy in (error, pickle.loads(pickle.dumps(error))):
            self.assertEqual(copy.filename, folder + "/none")
            self.assertTrue(copy.file.endswith("/\\xff\\xfe/none"), copy.file)
        for call in (lambda: peri.Engine(f"{self.folder}/digits.engine\0.txt"), lambda: peri.build(f"{DIGITS}\0")):
            self.raises(peri.UsageError, call, "NUL")

    def test_nothing_is_no_input(self):
        self.raises(peri.UsageError, lambda: self.engine.run({"image": None}), "image", "not given")

    def test_ports_stay(self):
        with self.assertRaises(AttributeError):
            self.engine.inputs = 3
        self.engine.inputs.clear()
        self.assertEqual(len(self.engine.inputs), 1)

    def test_outputs_of_another_type_or_shape(self):
        for place, words in ((np.zeros((8, 10), np.int32), "another element type: expected f32, found i32"), (np.zeros(80, np.float32), "expected [batch,10], found [80]"),
                             (np.zeros((10, 8), np.float32), "expected [batch,10], found [10,8]"), (Foreign(np.zeros((8, 10), np.int32)), "another element type")):
            self.raises(peri.Error, lambda: self.engine.run(IMAGES, outputs={"logits": place}), "logits", words)
