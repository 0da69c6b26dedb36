#!/usr/bin/env python3
"""Small files do not mean long work, no cache is no folder, limits of the system are told."""
import json
import os
import pathlib
import resource
import signal

import numpy as np
import onnx
from onnx import TensorProto, helper

from typed import DIGITS, Typed, main

value = helper.make_tensor_value_info


class Limits(Typed):
    def save(self, name, nodes, inputs, outputs):
        made = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, self.folder / name)
        return name

    def worked(self):
        """Seconds that the commands had a processor for, which other work on the machine does not change."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def test_many_of_anything_is_refused_at_once(self):
        x, y = value("x", TensorProto.FLOAT, ["n"]), value("y", TensorProto.FLOAT, None)
        many = [value(f"x{k}", TensorProto.FLOAT, [f"s{k}"]) for k in range(40000)]
        models = [
            self.save("reads.onnx", [helper.make_node("Sum", [f"x{k}" for k in range(20000)], ["y"])], many[:20000], [y]),
            self.save("again.onnx", [helper.make_node("Concat", ["x"] * 100000, ["y"], axis=0)], [x], [y]),
            self.save("makes.onnx", [helper.make_node("Split", ["x"], [f"y{k}" for k in range(200000)], axis=0)], [value("x", TensorProto.FLOAT, [200000])],
                      [value("y0", TensorProto.FLOAT, None)]),
            self.save("symbols.onnx", [helper.make_node("Relu", ["x0"], ["y"])], many, [y]),
            self.save("symbols2.onnx", [helper.make_node("Relu", ["x0"], ["y"])], many[:8000], [y]),
        ]
        for model in models:
            for words in (("inspect", model), ("build", model, "-o", "a.engine", "--no-cache")):
                with self.subTest(words=words):
                    before = self.worked()
                    self.assertIn("expected at most", self.ends(1, *words))
                    self.assertLess(self.worked() - before, 30)  # minutes before; seconds are the file's own size

    def test_sizes_that_grow_are_refused_before_anything_is_tried(self):
        """Each node doubles its input: what ends beyond 64 bits, or beyond the memory, costs no trials of what leads there."""
        for count, said in ((62, "passes 64 bits"), (42, "a run takes")):
            nodes = [helper.make_node("Concat", [f"x{k}", f"x{k}"], [f"x{k + 1}"], axis=0) for k in range(count)]
            model = self.save("double.onnx", nodes, [value("x0", TensorProto.FLOAT, ["n"])], [value(f"x{count}", TensorProto.FLOAT, None)])
            r = self.peri("build", model, "-o", "a.engine", "--dims", "n=1", "--no-cache", "--log", "a.log")
            self.assertEqual(r.returncode, 1)
            self.assertIn(said, r.stderr.decode())
            self.assertNotIn("] concat", (self.folder / "a.log").read_text(), "something was tried")

    def test_a_batch_that_no_cover_has_memory_for_is_refused_before_anything_is_tried(self):
        """Its inputs and outputs fit; what lies between them does not, whatever kernels are chosen."""
        free = next(int(line.split()[1]) << 10 for line in pathlib.Path("/proc/meminfo").read_text().split("\n") if line.startswith("MemAvailable"))
        words = ("build", DIGITS, "-o", "a.engine", "--dims", f"batch={free // 4096}", "--no-cache", "--log", "a.log")
        self.assertRegex(self.ends(1, *words), r"the engine does not run at batch=\d+: a run takes at least [\d.]+ GiB of memory, and [\d.]+ are free; .*--no-verify builds it")
        self.assertNotIn("] conv", (self.folder / "a.log").read_text(), "something was tried")

    def test_a_size_beyond_any_memory_is_told_with_its_value(self):
        """On the last line and in the object; more memory would not help, and is not advised."""
        dims = helper.make_tensor("s", TensorProto.INT64, [3], [1 << 20, 1 << 20, 1 << 20])
        graph = helper.make_graph([helper.make_node("Expand", ["x", "s"], ["y"], name="wide")], "g", [value("x", TensorProto.FLOAT, [1])],
                                  [value("y", TensorProto.FLOAT, None)], [dims])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "wide.onnx")
        r = self.peri("inspect", "wide.onnx", "--json", "-")
        self.assertEqual(r.returncode, 1)
        error = json.loads(r.stdout)["error"]
        for said in ("wide.onnx", "'wide'", "4.0 TiB", "1048576,1048576"):
            self.assertIn(said, r.stderr.decode())
        self.assertEqual((error["file"], error["node"], error["expected"]), ("wide.onnx", "wide", "at most 4.0 TiB"))

    def test_thousands_of_outputs_are_written_in_proportion(self):
        """Their files are compared with each other and with those that are read, not each with each."""
        x, outputs = value("x", TensorProto.FLOAT, [4]), [value(f"y{k}", TensorProto.FLOAT, [4]) for k in range(3000)]
        model = self.save("many.onnx", [helper.make_node("Relu", ["x"], [y.name]) for y in outputs], [x], outputs)
        self.ends(0, "build", model, "-o", "many.engine", "--no-tune", "--no-verify", "--no-cache")
        before = self.worked()
        self.ends(0, "run", "many.engine", "-i", "x=random:1", "--output-dir", "out", "--quiet")
        self.assertLess(self.worked() - before, 4)  # more than ten before
        self.assertEqual(len(json.loads((self.folder / "out/outputs.json").read_text())), 3000)

    def test_inputs_of_a_run_that_cannot_be_are_not_made(self):
        """Making them took minutes and the machine's memory before the run was refused."""
        x, y = value("x", TensorProto.FLOAT, ["n", 64]), value("y", TensorProto.FLOAT, ["n", 64])
        model = self.save("m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [y])
        self.ends(0, "build", model, "-o", "m.engine", "--no-tune", "--no-verify", "--no-cache")
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for words in (("run", "m.engine", "-i", "x=random:1"), ("bench", "m.engine"), ("verify", "m.engine")):
            with self.subTest(words=words):
                before = self.worked()
                self.assertIn("of memory, and", self.ends(1, *words, "--dims", f"n={total * 6 // 10 // 256}"))  # two tensors: 1.2 of it
                self.assertLess(self.worked() - before, 4)

    def test_a_long_chain_takes_work_in_proportion(self):
        """Work, not time, so that other work on the machine says nothing."""
        def work(count):
            nodes = [helper.make_node("Add", [f"s{k}", f"w{k}"], [f"s{k + 1}"]) for k in range(count)]
            made = helper.make_graph(nodes, "g", [value("s0", TensorProto.FLOAT, ["n", 4])], [value(f"s{count}", TensorProto.FLOAT, None)],
                                     [helper.make_tensor(f"w{k}", TensorProto.FLOAT, [4], [1.0] * 4) for k in range(count)])
            onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "chain.onnx")
            before = self.worked()
            self.ends(0, "inspect", "chain.onnx")
            return self.worked() - before
        self.assertLess(work(6000), 8 * work(1500))

    def test_what_is_said_of_a_build_follows_its_work(self):
        """And no window is larger work than its image: the last of these had a reference that walked its padding, for days."""
        estimate = lambda name, *words: json.loads(self.peri("inspect", name, *words, "--json", "-").stdout)["build_estimate"]["seconds"]
        conv = self.save("conv.onnx", [helper.make_node("ConstantOfShape", ["shape"], ["w"]), helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [1, 64, "h", "h"])],
                         [value("y", TensorProto.FLOAT, None)])
        model = onnx.load(self.folder / conv)
        model.graph.initializer.append(helper.make_tensor("shape", TensorProto.INT64, [4], [64, 64, 3, 3]))
        onnx.save(model, self.folder / conv)
        small, large, untuned = estimate(conv, "--dims", "h=8"), estimate(conv, "--dims", "h=512"), estimate(conv, "--dims", "h=512", "--no-tune", "--no-verify")
        self.assertLess(small, 3)
        self.assertGreater(large, 3 * small)
        self.assertLess(untuned, large)
        pool = helper.make_node("AveragePool", ["w"], ["y"], kernel_shape=[1, 1000000], pads=[0, 999999, 0, 999999], count_include_pad=1)
        made = helper.make_graph([pool], "g", [], [value("y", TensorProto.FLOAT, None)], [helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 2], [1.0, 2.0])])
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "pool.onnx")
        self.assertLess(estimate("pool.onnx"), 10)
        self.ends(0, "build", "pool.onnx", "-o", "a.engine", "--no-cache", "--quiet")

    def test_a_value_of_terabytes_is_told_with_its_name(self):
        said = self.ends(1, "inspect", DIGITS, "--dims", "batch=1000000000")
        self.assertRegex(said, r"digits_cnn.onnx: '[^']+': a value would take [0-9.]+ TiB: expected at most 4.0 TiB; give smaller sizes")

    def test_fixed_sizes_are_not_advised_to_be_others(self):
        """A model without named dimensions has none that --dims could give."""
        same = lambda name, *shape: self.save(name, [helper.make_node("Relu", ["x"], ["y"], name="node")], [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)])
        for shape, commands in (((1 << 20, 1 << 19), ("build", "bench", "verify")), ((1 << 20, 1 << 24), ("bench", "verify"))):
            if len(commands) == 2:
                self.assertIn("make it smaller in the model, whose sizes are fixed", self.ends(1, "inspect", same("fixed.onnx", *shape)))
            for command in commands:
                with self.subTest(command=command, shape=shape):
                    said = self.ends(1, command, same("fixed.onnx", *shape), "--no-cache", *(("-o", "a.engine") if command == "build" else ()))
                    self.assertNotIn("--dims", said)
        self.assertIn("or build for smaller sizes: --dims NAME=N", self.ends(1, "build", same("open.onnx", "n", 1 << 38), "-o", "a.engine", "--no-cache"))

    def test_an_estimate_of_large_work_counts_few_runs_of_each_candidate_and_those_of_the_whole(self):
        words = ("--no-verify", "--threads", "2", "--json", "-")
        estimate = lambda name, *more: json.loads(self.peri("inspect", name, *words, *more).stdout)["build_estimate"]

        def layers(count):
            made = helper.make_graph([helper.make_node("MatMul", [f"v{k}", "w"], [f"v{k + 1}"]) for k in range(count)], "g", [value("v0", TensorProto.FLOAT, ["n", 1024])],
                                     [value(f"v{count}", TensorProto.FLOAT, None)], [helper.make_tensor("w", TensorProto.FLOAT, [1024, 1024], np.ones(1 << 20, np.float32).tobytes(), raw=True)])
            onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"{count}.onnx")
            return f"{count}.onnx"

        self.assertGreater(estimate(layers(100), "--dims", "n=1024")["seconds"], estimate(layers(2), "--dims", "n=1024")["seconds"] + 5)
        large = estimate(layers(1), "--dims", f"n={1 << 17}")  # 275 Gflop
        self.assertLess(large["seconds"], 40 * large["candidates"])
        self.assertGreater(estimate(layers(1), "--dims", "n=1024", "--provider", "reference")["seconds"], 10)  # runs of the slow step, of 2 Gflop each

    def test_an_estimate_obeys_the_budget_of_the_tuning(self):
        seconds = lambda *words: json.loads(self.peri("inspect", DIGITS, "--json", "-", *words).stdout)["build_estimate"]["seconds"]
        self.assertLess(seconds("--budget", "0.001"), seconds() - 0.1)

    def test_what_no_engine_holds_is_told_before_it_is_built(self):
        """Branches in branches beyond the limit, by inspect as by build."""
        def nested(depth):
            value_of = lambda name: value(name, TensorProto.FLOAT, None)
            body = helper.make_graph([helper.make_node("Exp", ["x"], ["z"])], "then", [], [value_of("z")])
            for k in range(depth):
                other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [], [value_of("z")])
                body = helper.make_graph([helper.make_node("If", ["c"], ["z"], name=f"if{k}", then_branch=body, else_branch=other)], "then", [], [value_of("z")])
            graph = helper.make_graph(body.node, "g", [value("x", TensorProto.FLOAT, [4]), value("c", TensorProto.BOOL, [])], [value("z", TensorProto.FLOAT, [4])])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / f"nest{depth}.onnx")
            return f"nest{depth}.onnx"
        self.ends(0, "inspect", nested(16))
        model = nested(18)
        for words in (("inspect", model), ("build", model, "-o", "a.engine", "--no-tune", "--no-cache")):
            said = self.ends(1, *words)
            self.assertIn("bodies of If, Loop and Scan are nested too deep: expected at most 16 in one another; move the innermost out", said)

    def test_a_run_that_this_machine_cannot_hold_is_told_by_inspect(self):
        same = self.save("wide.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, [1 << 20, 1 << 19])], [value("y", TensorProto.FLOAT, [1 << 20, 1 << 19])])
        r = self.peri("inspect", same, "--json", "a.json")
        self.assertIn("not here: a run takes at least 4096.0 GiB of memory", r.stdout.decode())
        self.assertIn("which this machine does not have: a run takes at least 4096.0 GiB of memory", r.stderr.decode())
        self.assertIn("a run takes at least 4096.0 GiB of memory", self.ends(1, "build", same, "-o", "a.engine", "--no-cache"))
        self.assertIn("a run takes", json.loads((self.folder / "a.json").read_text())["lacks"])
        self.assertNotIn("not here", self.peri("inspect", DIGITS).stdout.decode())

    def test_too_many_elements_to_count(self):
        """Named with file, node, shape and remedy, fixed or given."""
        same = lambda name, *shape: self.save(name, [helper.make_node("Relu", ["x"], ["y"], name="node")], [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)])
        said = self.ends(1, "inspect", same("fixed.onnx", 1 << 40, 1 << 40))
        self.assertIn("fixed.onnx: 'node': the number of elements overflows 64 bits: expected fewer than 2^63, found [1099511627776,1099511627776]; no machine holds it", said)
        said = self.ends(2, "inspect", same("open.onnx", "a", "b"), "--dims", "a=5000000000,b=5000000000")
        self.assertIn("open.onnx: 'node': the model does not run at a=5000000000,b=5000000000: the number of elements overflows 64 bits", said)
        self.assertIn("found [5000000000,5000000000]; give sizes that it can have: --dims NAME=N", said)

    def test_small_weights_are_parameters_too(self):
        """A step holds what has few elements, and the engine no weight for it; an epsilon and a size are no parameters."""
        nodes = [helper.make_node("Add", ["x", "w"], ["t"]), helper.make_node("Mul", ["t", "half"], ["u"]), helper.make_node("Reshape", ["u", "size"], ["y"])]
        held = [helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4]), helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]), helper.make_tensor("size", TensorProto.INT64, [2], [-1, 2])]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, None)], held)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "small.onnx")
        told = json.loads(self.peri("inspect", "small.onnx", "--json", "-").stdout)
        self.assertEqual((told["parameters"], told["weight_bytes"]), (4, 16))
        self.assertIn("parameters 4, weights 16 B", self.peri("inspect", "small.onnx").stdout.decode())

    def test_no_cache_is_no_folder(self):
        """And least of all the root's: nothing is looked for, or deleted, at /timings.sqlite and /packed."""
        self.environment["PERI_CACHE"] = ""
        for what in ("path", "list", "clear"):
            self.assertEqual(self.ends(0, "cache", what), "PASSED cache: no cache: PERI_CACHE is empty, which means none: unset it, or name a folder")
        for name in ("PERI_CACHE", "XDG_CACHE_HOME", "HOME"):
            self.environment.pop(name, None)
        self.assertEqual(self.ends(0, "cache", "path"), "PASSED cache: no cache: set PERI_CACHE, XDG_CACHE_HOME or HOME")

    def test_weights_that_a_library_packed_are_kept(self):
        """A later process maps what an earlier one packed, and computes the same with it."""
        weight = helper.make_tensor("w", TensorProto.FLOAT, [500, 700], (np.arange(350_000, dtype=np.float32) % 13 - 6).tobytes(), raw=True)
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n", 500])], [value("y", TensorProto.FLOAT, None)], [weight])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "--provider", "onednn", "--dims", "n=9", "-o", "a.engine", "--quiet")
        packed = self.folder / "own/packed"
        self.environment["PERI_CACHE"] = str(packed.parent)
        answers = []
        for kept in (1, 1, 0):
            self.environment["PERI_PACKED_CACHE_MIB"] = "100" if kept else "0"
            self.ends(0, "run", "a.engine", "-i", "x=random:3", "--output-dir", "out", "--quiet", "--force")
            answers.append(np.load(self.folder / "out/y.npy").tobytes())
            files = list(packed.iterdir())
            self.assertEqual(len(files), 1)
            self.assertGreater(files[0].stat().st_size, 4 * 500 * 700)
        used = files[0].stat().st_atime_ns, files[0].stat().st_ino
        self.assertEqual(len(set(answers)), 1)
        self.environment["PERI_PACKED_CACHE_MIB"] = "100"
        self.ends(0, "run", "a.engine", "-i", "x=random:3", "--quiet")
        self.assertEqual((packed / files[0].name).stat().st_ino, used[1], "taken, not written again")
        self.assertGreater((packed / files[0].name).stat().st_atime_ns, used[0])

    def test_a_cache_that_is_a_file(self):
        """Nothing is in it, and nothing can be deleted from it: each says so, where it is looked into."""
        (self.folder / "file").write_text("mine")
        self.environment["PERI_CACHE"] = "file"
        for what in ("list", "clear"):
            self.assertIn("not a folder", self.ends(1, "cache", what))
        self.assertEqual((self.folder / "file").read_text(), "mine")
        self.environment["PERI_CACHE"] = "none"
        self.assertEqual(self.ends(0, "cache", "clear"), "PASSED cache: nothing to delete")

    def test_engines_of_servers_are_listed_and_cleared(self):
        """They are the largest of what is kept, and nothing else deletes them; files of other names stay."""
        folder = self.folder / "cache/serve"
        folder.mkdir(parents=True)
        kept = [folder / f"0123456789abcdef.engine{tail}" for tail in ("", ".proof")]
        others = [folder / "mine.engine", folder / "0123456789abcdef.txt", folder / "0123456789abcdef0.engine"]
        for file in (*kept, *others):
            file.write_bytes(b"x" * 1000)
        r = self.peri("cache", "list", "--json", "-")
        self.assertEqual(json.loads(r.stdout)["serve"], {"files": 1, "bytes": 2000, "in_use": 0, "most_bytes": 8 << 30})
        self.assertIn("PASSED cache: no timings: ", r.stderr.decode())
        self.assertIn("1 engines of peri serve, 2.0 KiB of at most", self.peri("cache").stdout.decode())
        self.assertIn("PASSED cache: 2.0 KiB deleted", self.ends(0, "cache", "clear"))
        self.assertEqual([f.exists() for f in (*kept, *others)], [False, False, True, True, True])

    def test_a_file_too_large_for_its_limit_is_told(self):
        def few():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        r = self.peri("build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet", preexec_fn=few)
        self.assertNotIn(r.returncode, (0, -signal.SIGXFSZ, 128 + signal.SIGXFSZ))
        self.assertIn(b"FAILED build", r.stderr)
        self.assertFalse((self.folder / "a.engine").exists())

    def test_an_engine_that_stands_there_outlives_a_full_disk(self):
        """Neither it nor its proof is replaced by part of a build: there is room for a tenth less than the smaller, or the larger, of them."""
        quick, files = ("--no-cache", "--no-tune", "--no-verify", "--quiet"), ("a.engine", "a.engine.proof")
        for model, words in ((DIGITS, ("--dims", "batch=3")), (self.model("m.onnx"), ("--dims", "n=9"))):
            self.ends(0, "build", model, "-o", "a.engine", *quick, "--force")
            before = {name: (self.folder / name).read_bytes() for name in files}
            self.ends(0, "build", model, "-o", "b.engine", *quick, *words, "--force")
            sizes = sorted((self.folder / f"b.engine{tail}").stat().st_size for tail in ("", ".proof"))
            self.assertNotEqual((self.folder / "b.engine").read_bytes(), before["a.engine"], "another engine")
            listed = sorted(os.listdir(self.folder))
            for room in (sizes[0] * 9 // 10, sizes[1] * 9 // 10):
                with self.subTest(model=model, room=room, sizes=sizes):
                    def few():
                        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
                    r = self.peri("build", model, "-o", "a.engine", *quick, *words, preexec_fn=few)
                    self.assertEqual(r.returncode, 1, r.stderr)
                    self.assertRegex(r.stderr.decode(), r"FAILED build: a\.engine(\.proof)?: cannot write")
                    self.assertEqual({name: (self.folder / name).read_bytes() for name in files}, before)
                    self.assertEqual(sorted(os.listdir(self.folder)), listed, "nothing else is left")
            self.ends(0, "explain", "a.engine", "--quiet")

    def test_a_small_stack_is_no_crash(self):
        def small():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 16, 1 << 16))
        self.model("m.onnx")
        for words in (("build", "m.onnx", "-o", "a.engine", "--no-cache"), ("bench", "a.engine", "--seconds", "0", "--repeat", "2", "--tolerance", "1e6"),
                      ("verify", "a.engine", "--bisect")):
            r = self.peri(*words, preexec_fn=small)
            self.assertEqual(r.returncode, 0, r.stderr)

    def test_inspect_refuses_what_never_runs(self):
        """Dropout in training mode has random outputs: no size and no input changes that."""
        train = lambda *given: [helper.make_node("Dropout", ["x", *given], ["y"])]
        of = {"ratio": helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.5]), "none": helper.make_tensor("none", TensorProto.FLOAT, [], [0.0]),
              "on": helper.make_tensor("on", TensorProto.BOOL, [], [True]), "off": helper.make_tensor("off", TensorProto.BOOL, [], [False])}
        for code, given in ((1, ("ratio", "on")), (1, ("", "on")), (0, ("none", "on")), (0, ("ratio", "off"))):
            graph = helper.make_graph(train(*given), "g", [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], [of[n] for n in given if n])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            for words in (("inspect", "m.onnx"), ("build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet")):
                with self.subTest(given=given, words=words):
                    said = self.ends(code, *words)
                    self.assertEqual(said.endswith("dropout in training mode has random outputs; export the model for inference"), code == 1, said)

    def test_a_build_tells_what_the_importer_forgave(self):
        """A dropout that trains in a branch is refused where a run takes the branch; the build says so, in words and in JSON."""
        branch = lambda name, *nodes: helper.make_graph(list(nodes), name, [], [value(f"{name}_y", TensorProto.FLOAT, ["n", 4])])
        trains = branch("trains", helper.make_node("Dropout", ["x", "ratio", "on"], ["trains_y"], name="drops"))
        plain = branch("plain", helper.make_node("Relu", ["x"], ["plain_y"]))
        graph = helper.make_graph([helper.make_node("If", ["training"], ["y"], then_branch=trains, else_branch=plain)], "g",
                                  [value("x", TensorProto.FLOAT, ["n", 4]), value("training", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, ["n", 4])],
                                  [helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.5]), helper.make_tensor("on", TensorProto.BOOL, [], [True])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        r = self.peri("build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("is a dropout in training mode: a run that takes its branch is refused", r.stderr.decode())
        self.assertIn("drops", next(n for n in json.loads((self.folder / "a.engine.proof").read_text())["notes"] if "training mode" in n))

    def test_a_build_has_run_at_its_tuned_size(self):
        """The rows of a table end where only a run shows it."""
        nodes = [helper.make_node("Mul", ["x", "zero"], ["z"]), helper.make_node("Add", ["z", "one"], ["ones"]), helper.make_node("CumSum", ["ones", "axis"], ["sum"]),
                 helper.make_node("Cast", ["sum"], ["at"], to=TensorProto.INT64), helper.make_node("Gather", ["table", "at"], ["y"])]
        weights = [helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]), helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
                   helper.make_tensor("axis", TensorProto.INT64, [], [0]), helper.make_tensor("table", TensorProto.FLOAT, [30], [0.5] * 30)]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, None)], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        for more in (("--no-verify",), ("--provider", "reference")):
            words = ("build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet", *more)
            said = self.ends(0, *words, "--dims", "n=20")
            self.assertIn("it runs at its tuned size" if more == ("--no-verify",) else "right at", said)
            self.assertIn("does not run at n=40: ", self.ends(1, *words, "--dims", "n=40"))

    def test_trips_without_a_limit_are_no_work(self):
        """A while loop is exported with 2^63-1 trips; its condition ends it, and a build and verify run it."""
        scalar, row = value("i", TensorProto.INT64, []), ["n", 4]
        nodes = [helper.make_node("MatMul", ["s", "w"], ["u"]), helper.make_node("Less", ["i", "last"], ["more"])]
        for more, build, verify in (("more", "right at", 0), ("c", "the engine was not run", 1)):
            body = helper.make_graph([*nodes, helper.make_node("Identity", [more], ["d"]), helper.make_node("Tanh", ["u"], ["t"])], "body",
                                     [scalar, value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, row)], [value("d", TensorProto.BOOL, []), value("t", TensorProto.FLOAT, row)])
            held = [helper.make_tensor("trips", TensorProto.INT64, [], [2**63 - 1]), helper.make_tensor("on", TensorProto.BOOL, [], [True]),
                    helper.make_tensor("last", TensorProto.INT64, [], [3]), helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [0.1] * 16)]
            graph = helper.make_graph([helper.make_node("Loop", ["trips", "on", "x"], ["y"], body=body)], "g", [value("x", TensorProto.FLOAT, row)], [value("y", TensorProto.FLOAT, row)], held)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            self.assertIn(build, self.ends(0, "build", "m.onnx", "-o", "a.engine", "--no-tune", "--no-cache", "--quiet"))
            self.assertIn("against float64" if verify == 0 else "would take hours", self.ends(verify, "verify", "a.engine", "--quiet"))

    def test_smallest_and_largest_shapes_are_limits_of_the_engine(self):
        few = ("--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--minShapes=image:2x1x8x8", "--optShapes=image:4x1x8x8", "--maxShapes=image:8x1x8x8", "--lock", "a.lock", *few)
        for batch in (2, 8):
            self.ends(0, "run", "a.engine", "-i", "image=random:1", "--dims", f"batch={batch}", "--quiet")
        for batch in (1, 9):
            for command in ("run", "bench", "verify"):
                said = self.ends(1, command, "a.engine", "-i", "image=random:1", "--dims", f"batch={batch}")
                self.assertIn(f"dimension 'batch' is beyond what the engine was built for: expected 2 to 8, found {batch}", said)
        self.assertIn(b"limit   batch: 2 to 8", self.peri("inspect", "a.engine").stdout)
        self.ends(0, "inspect", "a.engine", "--json", "i.json", "--quiet")
        told = json.loads((self.folder / "i.json").read_text())
        self.assertEqual((told["at_least"], told["at_most"]), ({"batch": 2}, {"batch": 8}))
        # A lock keeps them; the same bytes come of it. Only what is given is a limit; nobody states the tuned size then.
        self.ends(0, "build", DIGITS, "-o", "b.engine", "--locked", "a.lock", "--quiet", "--no-verify")
        self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "b.engine").read_bytes())
        self.assertIn("smallest and largest", self.ends(1, "build", DIGITS, "-o", "c.engine", "--locked", "a.lock", "--max-shapes", "image:9x1x8x8", "--dims", "batch=4"))
        self.ends(0, "build", DIGITS, "-o", "c.engine", "--min-shapes", "image:3x1x8x8", *few)
        self.ends(0, "run", "c.engine", "-i", "image=random:1", "--quiet")
        self.ends(0, "run", "c.engine", "-i", "image=random:1", "--dims", "batch=100", "--quiet")
        self.assertIn("expected at least 3", self.ends(1, "run", "c.engine", "-i", "image=random:1", "--dims", "batch=2"))
        self.assertIn("tuned for 16", self.ends(2, "build", DIGITS, "-o", "c.engine", "--dims", "batch=16", "--max-shapes", "image:9x1x8x8", *few))

    def test_no_memory_for_the_tuned_size_is_a_failure(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        words = ("build", "m.onnx", "-o", "a.engine", "--provider", "reference", "--no-cache", "--quiet", "--dims", "n=400000000")
        r = self.peri(*words, preexec_fn=little)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(b"FAILED build", r.stderr)
        self.assertRegex(r.stderr, b"memory|cannot allocate")
        self.assertFalse((self.folder / "a.engine").exists())


if __name__ == "__main__":
    main()
