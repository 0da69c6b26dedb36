#!/usr/bin/env python3
"""A flag that cannot be obeyed, a size given twice, a shape of another rank, a number too large: wrong usage, never ignored."""
import json

import numpy
import onnx
import onnx.parser

from typed import DIGITS, SOURCE, Typed, main


class Flags(Typed):
    def setUp(self):
        super().setUp()
        self.ends(0, "build", DIGITS, "-o", "a.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")

    def wrong(self, *words):
        with self.subTest(words=words):
            return self.ends(2, *words)

    def test_more_threads_than_cpus_are_told(self):
        quick = ("build", DIGITS, "-o", "a.engine", "--no-tune", "--no-verify", "--force")
        self.assertRegex(self.peri(*quick, "--threads", "1000").stderr.decode(), r"note: 1000 threads are more than the \d+ CPUs? that this process may use")
        self.assertNotIn("threads are more", self.peri(*quick, "--threads", "1").stderr.decode())

    def test_an_engine_obeys_no_flag_of_a_build(self):
        built = [("--provider", "peri"), ("--dtype", "f16"), ("--no-tune",), ("--no-cache",), ("--min-shapes", "image:1x1x8x8"),
                 ("--backend", "cpu"), ("--disable-pass", "fold"), ("--settings", "1"), ("--dump-passes", "d")]
        for flag in built:
            for command in ("bench", "inspect", "explain", "verify", "run"):
                self.assertIn(flag[0], self.wrong(command, "a.engine", *flag))
        for command in ("inspect", "explain"):
            for flag in (("--dims", "batch=2"), ("--threads", "1")):
                self.assertIn(flag[0], self.wrong(command, "a.engine", *flag))
        self.ends(0, "run", "a.engine", "-i", "image=random:1", "--dims", "batch=2", "--threads", "1", "--quiet")

    def test_words_of_other_programs_say_what_to_use(self):
        for words, said in ((("verify", DIGITS, "--trt"), "leave it out: what runs is the engine"), (("build", DIGITS, "--noTF32"), "never rounded to TF32"),
                            (("build", DIGITS, "--buildOnly"), "peri bench does"), (("build", DIGITS, "--skipInference"), "peri bench does"),
                            (("bench", "-I", DIGITS), "inputs that are not given are made up"), (("bench", DIGITS, "-report_type", "detailed_counters"), "--layers"),
                            (("bench", DIGITS, "-r", "1000"), "bounded by --iterations N"), (("bench", DIGITS, "-b", "8"), "--dims NAME=N"),
                            (("bench", DIGITS, "--infStreams=2"), "one after another"), (("build", DIGITS, "--sparsity=enable"), "weights are taken as they are"),
                            (("build", DIGITS, "--inputIOFormats=fp16:chw"), "--io-dtype TYPE"), (("build", DIGITS, "--validate"), "peri run MODEL --validate"),
                            (("serve", DIGITS), "give its folder by --model-repository DIR"), (("convert", DIGITS), "peri build MODEL -o ENGINE"), (("debug", "reduce"), "--bisect"),
                            (("--onnx=m.onnx", "--saveEngine=m.engine"), "a command comes first: peri build MODEL -o ENGINE")):
            self.assertIn(said, self.wrong(*words))

    def test_flags_that_an_engine_was_built_with_are_for_models_all_the_same(self):
        """And nothing is said of how it was built, which may be with them."""
        flags = ("--provider", "peri"), ("--dims", "batch=2"), ("--io-dtype", "f32")
        self.ends(0, "build", DIGITS, "-o", "with.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet", *(word for flag in flags for word in flag))
        for flag in flags:
            self.assertIn(f"{flag[0]} is for models: an engine stays as it was built; ", self.wrong("inspect", "with.engine", *flag))

    def test_types_of_inputs_and_outputs_that_cannot_change(self):
        for kind in ("double", "int64", "string"):
            onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> g ({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}'), self.folder / "kind.onnx")
            self.assertIn("--io-dtype changes inputs and outputs of f32, f16 and bf16, and this model has none; leave it out",
                          self.wrong("build", "kind.onnx", "--io-dtype", "f16", "-o", "kind.engine"))  # fmt: skip
            self.assertFalse((self.folder / "kind.engine").exists())

    def test_flags_of_another_way_to_use_a_command(self):
        """--suite, --endpoint, --operators and --provider of a replay: what they cannot obey is not left out in silence."""
        for flag in (("--onnxruntime",), ("--bisect",), ("--steps-only",), ("--seed", "3"), ("-i", "x=random:1"), ("--max-error", "1"), ("--rtol", "1"), ("--nan-equal",), ("--io-dtype", "f16"),
                     ("--dims", "N=1"), ("--shapes", "x:1x2"), ("--min-shapes", "x:1x2"), ("--max-shapes", "x:1x2"), ("--fix", "x=1")):
            self.assertIn(f"{flag[0]} is for a model", self.wrong("verify", "--suite", ".", *flag))
        for flag in (("--layers",), ("--repeat", "2"), ("--seconds", "2"), ("--threads", "2"), ("--dims", "batch=2"), ("--tolerance", "3"), ("--no-tune",)):
            self.assertIn(f"{flag[0]} is for a model of this machine", self.wrong("bench", "--endpoint", "http://127.0.0.1:1", "-m", "x", *flag))
        self.assertIn("--operators", self.wrong("inspect", "--operators", DIGITS))
        for flag in (("--dims", "batch=2"), ("--threads", "3"), ("--backend", "nope"), ("--no-tune",)):
            self.assertIn(f"{flag[0]} is for models, and --operators takes none", self.wrong("inspect", "--operators", *flag))
        self.assertIn("--check is for engines", self.wrong("inspect", "--operators", "--check"))
        for command in ("run", "inspect"):
            self.assertIn("--check is for engines", self.wrong(command, DIGITS, "--check"))
            self.assertIn("none.engine: cannot open: No such file", self.ends(1, command, "none.engine", "--check"))
        self.assertIn("--compare is for engines", self.wrong("explain", DIGITS, "--compare"))
        self.assertIn("has no provider 'nope': expected onednn, peri, reference", self.wrong("replay", "relu x=f32[4]", "--provider", "nope"))
        numpy.save(self.folder / "image.npy", numpy.zeros((2, 1, 8, 8), numpy.float32))
        self.assertIn("all are given", self.wrong("verify", "a.engine", "-i", "image=image.npy", "--seed", "3"))
        self.assertIn("one run", self.wrong("verify", "a.engine", "-i", "image=image.npy", "--seed", "3", "--seed", "4"))
        self.assertIn("--max-change", self.wrong("verify", "a.engine", "--seed", "3", "--max-change", "1"))
        self.ends(0, "verify", "a.engine", "--seed", "3", "--seed", "4", "--max-change", "1")

    def test_a_budget_that_nothing_exceeds_is_none(self):
        for flag in ("--max-error", "--max-change", "--rtol", "--atol"):
            for value in ("inf", "nan", "-1", "1e400"):
                self.assertIn("not in range", self.wrong("verify", "a.engine", flag, value))

    def test_each_part_of_a_budget_can_fail(self):
        for flag, value, words in (("--max-error", "1e-9", "of its range, allowed 1e-09"), ("--max-change", "1e-9", "of the change between two seeds, allowed 1e-09"),
                                   ("--max-change", "-0", "two seeds, allowed 0;"), ("--min-cosine", "1", "its cosine is 1 - ")):
            said = self.ends(3, "verify", "a.engine", flag, value)
            self.assertIn(words, said)
            self.assertRegex(said, f"inputs and weights: {flag} says how far it may be off|^(?!.*says how far)")
        for flag, value in (("--max-error", "1e-3"), ("--max-change", "1e-3"), ("--min-cosine", "0.999")):
            self.ends(0, "verify", "a.engine", flag, value)
        self.assertIn("a finite number of 0 or more, found -1", self.wrong("verify", "a.engine", "--max-error", "-1"))
        self.assertIn("a whole number from 0 to 18446744073709551615, found -1", self.wrong("verify", "a.engine", "--seed", "-1"))

    def test_sizes_beside_files_are_not_ignored(self):
        numpy.save(self.folder / "image.npy", numpy.zeros((3, 1, 8, 8), numpy.float32))
        for flag in (("--dims", "batch=2"), ("--shapes", "image:2x1x8x8")):
            for command in ("run", "bench"):
                self.assertIn(flag[0], self.wrong(command, "a.engine", "-i", "image=image.npy", *flag))

    def test_sizes_that_contradict_or_do_not_fit(self):
        inputs = ("-i", "image=random:1")
        for sizes in (("--dims", "batch=2,batch=3"), ("--dims", "batch=2", "--dims", "batch=2"), ("--dims", "batch=2,image.0=3"),
                      ("--dims", "batch=2", "--shapes", "image:3x1x8x8"), ("--shapes", "image:2x1x8x8", "--opt-shapes", "image:2x1x8x8"),
                      ("--shapes", "image:2x1x8"), ("--shapes", "image:2x1x8x8x1"), ("--shapes", "image:2"), ("--shapes", "other:2x1x8x8"),
                      ("--dims", "batch=99999999999999999999"), ("--dims", "batch=-1"), ("--dims", "batch=1.5"),
                      ("--dims", "batch="), ("--dims", "image.4=-1"), ("--shapes", "image:99999999999999999999x1x8x8"), ("--shapes", "image:2x"), ("--shapes", "image:")):
            self.wrong("run", "a.engine", *inputs, *sizes)
            self.wrong("build", DIGITS, "-o", "b.engine", "--no-tune", "--no-cache", *sizes)
        self.ends(0, "run", "a.engine", *inputs, "--dims", "batch=2,image.0=2", "--quiet")
        self.ends(0, "run", "a.engine", *inputs, "--shapes", "image:2x1x8x8", "--quiet")

    def test_nothing_in_place_of_a_value(self):
        """As `-o "$OUT"` is read where the variable is not set: the flag is not ignored, and nothing passes that was not done."""
        for flag in ("-o", "--lock", "--locked", "--json", "--log", "--dtype", "--provider", "--device", "--dump-passes", "--backend"):
            self.assertIn(f"{flag} has an empty value", self.wrong("build", DIGITS, "--no-tune", "--no-cache", flag, ""))
        self.assertIn("--json has an empty value", self.wrong("inspect", "a.engine", "--json="))
        for words in (("--proof", ""), ("--html", "")):
            self.assertIn(f"{words[0]} has an empty value", self.wrong("explain", "a.engine", *words))
        self.assertIn("--model has an empty value", self.wrong("verify", "a.engine", "--onnxruntime", "--model", ""))
        self.assertIn("'image': --input names no file", self.wrong("run", "a.engine", "-i", "image="))
        for words in (("build", ""), ("inspect", ""), ("compare", "", "b.json"), ("replay", ""), ("completion", "")):
            self.assertIn("an argument is empty", self.wrong(*words))
        self.assertFalse(list(self.folder.glob("digits*")))

    def test_a_flag_is_no_value_of_another(self):
        for words in (("build", DIGITS, "-o", "--quiet"), ("inspect", DIGITS, "--json", "--quiet"), ("build", DIGITS, "--lock", "--json=-"),
                      ("bench", "a.engine", "--log", "--layers"), ("build", DIGITS, "-o", "-q"), ("build", DIGITS, "-o", "--"), ("run", "a.engine", "-i", "-h"),
                      ("bench", "--endpoint", "-m", "a")):
            self.assertIn(f"{words[2] if words[1] != '--endpoint' else words[1]} needs a value", self.wrong(*words))
        self.assertFalse(list(self.folder.glob("-*")))
        self.ends(0, "build", DIGITS, "-o", "./--quiet", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, "inspect", DIGITS, "--json=--quiet", "--force")

    def test_a_dash_is_no_name_of_a_file(self):
        """It is standard output for --json; elsewhere no file called '-' appears."""
        for words in (("-o", "-"), ("-o", "b.engine", "--lock", "-"), ("-o", "b.engine", "--log", "-")):
            self.assertIn("does not go to standard output; ", self.wrong("build", DIGITS, "--no-tune", "--no-cache", *words).replace(": expected the path of a file", ""))
        self.assertIn("--html does not go", self.wrong("explain", "a.engine", "--html", "-"))
        self.assertFalse((self.folder / "-").exists())
        self.ends(0, "build", DIGITS, "-o", "./-", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.assertTrue((self.folder / "-").exists())

    def test_flags_that_undo_each_other(self):
        self.ends(0, "build", DIGITS, "-o", "l.engine", "--lock", "l.lock", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        for flag, value in (("--budget", "3"), ("--settings", "2")):
            self.assertIn(f"{flag} ", self.wrong("build", DIGITS, "-o", "c.engine", "--no-tune", flag, value))
            self.assertIn(f"{flag} is for tuning", self.wrong("build", DIGITS, "-o", "c.engine", "--locked", "l.lock", flag, value))
        self.assertIn("--retune is for tuning", self.wrong("build", DIGITS, "-o", "c.engine", "--locked", "l.lock", "--retune"))
        self.assertIn("--budget is not in range", self.wrong("build", DIGITS, "-o", "c.engine", "--budget", "0"))
        self.assertIn("--seed 3 is given twice", self.wrong("verify", "a.engine", "--seed", "3", "--seed", "4", "--seed", "3"))
        for words in (("--html", "a.html"), ("--top", "3"), ("--full",), ("--compare",), ("--proof", "a.engine.proof")):
            self.assertIn(f"{words[0]} is for the times of a proof", self.wrong("explain", "a.engine", "--measured", *words))
        self.assertIn("--top is not in range", self.wrong("explain", DIGITS, "--top", "0"))
        for one, other in (("--fp16", "--bf16"), ("--half", "--fp16")):
            self.assertIn(f"{one} and {other} both give --dtype a value; give one of them", self.wrong("build", DIGITS, one, other))
        for words in (("--concurrency-range", "1", "--max-connections", "3"), ("--request-distribution", "constant")):
            self.assertIn(f"{words[-2]} is for loads at a rate", self.wrong("bench", "-u", "http://127.0.0.1:1", "-m", "a", *words))
        for command in (("bench", "-m", "a", "-u", "http://127.0.0.1:1"), ("top", "http://127.0.0.1:1")):
            self.assertIn("--ssl-https-verify-peer needs TLS", self.wrong(*command, "--ssl-https-verify-peer", "0"))
        self.assertIn("are the same: give one of them", self.wrong("bench", "-m", "a", "-u", "https://127.0.0.1:1", "--ssl-https-ca-certificates-file", "a.engine",
                                                                   "--ssl-grpc-root-certifications-file", "a.engine"))
        for words in (("--version", "--json", "-"), ("--help", "--json", "-"), ("-V", "build"), ("help", "build", "run")):
            self.assertIn(f"takes no further arguments: found {words[-2] if '--json' in words else words[-1]}", self.wrong(*words))
        self.assertEqual(json.loads(self.peri("help", "build", "--json", "-").stdout)["error"]["kind"], "usage")
        for words in (("build", "--help", "--json", "-"), ("--json", "-"), ("--json=-", "build")):
            self.assertEqual(json.loads(self.peri(*words).stdout)["error"]["kind"], "usage", words)
        self.assertIn("--suite takes no model: found a.engine; leave it out, or --suite", self.wrong("verify", "a.engine", "--suite", "."))
        for hidden in ("worker", "serve-worker"):
            self.assertIn("starts this command, and nobody else", self.wrong(hidden))
        self.assertFalse((self.folder / "c.engine").exists())

    def test_an_input_or_a_device_that_there_is_not(self):
        self.assertIn("the model has no input 'imgae'; did you mean 'image'?", self.wrong("build", DIGITS, "--shapes", "imgae:2x1x8x8"))
        self.assertIn("its inputs are image", self.wrong("build", DIGITS, "--dims", "other_thing.0=2"))
        self.assertIn("no dimension 'image.9'", self.wrong("build", DIGITS, "--dims", "image.9=2"))
        said = self.wrong("build", DIGITS, "--min-shapes", "image:4x1x8x8", "--max-shapes", "image:2x1x8x8")
        self.assertIn("the smallest size of dimension 'batch' is 4, and its largest is 2", said)
        said = self.wrong("run", "a.engine", "-i", "image=random:1", "--device", "tpu")
        self.assertIn("does not run on device 'tpu'", said)
        self.assertNotIn("--backend tpu", said)
        self.assertIn("--backend cuda", self.wrong("run", "a.engine", "-i", "image=random:1", "--device", "cuda:1"))

    def test_a_device_by_a_number_that_is_none(self):
        """Nothing overflows into the first device, and the CPU has no second one; a device that is none is told as such."""
        image = ("-i", "image=random:1")
        for command in (("build", DIGITS), ("inspect", DIGITS), ("bench", DIGITS), ("run", DIGITS, *image), ("run", "a.engine", *image), ("inspect", "a.engine"),
                        ("verify", "a.engine"), ("replay", "relu x=f32[4]"), ("verify", "--suite", "."), ("serve", "--model-repository", ".")):
            for device in ("cuda:99999999999", "cuda:-1", "cuda:-0", "cuda:01", "cuda:", "cuda:1x", "cuda:+1", "null:4294967296"):
                self.assertIn(f"'{device}' names no device: expected a kind, or KIND:NUMBER", self.wrong(*command, "--device", device))
            self.assertIn("there is no cpu:7: expected cpu, of which there is one", self.wrong(*command, "--device", "cpu:7"))
            self.assertIn("device 'gpu:0'", self.wrong(*command, "--device", "gpu:0"))
        self.assertIn("does not build for device 'cuda:1'", self.wrong("replay", "relu x=f32[4]", "--backend", "cpu", "--device", "cuda:1"))

    def test_the_cpu_is_a_device(self):
        quick, image = ("--no-tune", "--no-cache", "--no-verify", "--force"), ("-i", "image=random:1")
        self.ends(0, "build", DIGITS, "-o", "here.engine", *quick)
        for device in ("cpu", "cpu:0"):
            self.ends(0, "build", DIGITS, "-o", "there.engine", "--device", device, *quick)
            self.assertEqual((self.folder / "there.engine").read_bytes(), (self.folder / "here.engine").read_bytes())
            for command in (("run", "here.engine", *image), ("inspect", "here.engine"), ("verify", "here.engine"), ("inspect", DIGITS),
                            ("bench", "here.engine", "--seconds", "0", "--repeat", "2", "--tolerance", "1e6"), ("replay", "relu x=f32[4]", "--budget", "1")):
                self.ends(0, *command, "--device", device)
        self.assertIn("backend 'cuda' does not build for device 'cpu'", self.wrong("build", DIGITS, "--backend", "cuda", "--device", "cpu"))
        self.assertIn("expected cpu, cuda, or cuda:NUMBER", self.wrong("build", DIGITS, "--device", "host"))
        self.assertIn("'CPU': expected cpu; ", self.wrong("run", "here.engine", *image, "--device", "CPU"))

    def test_what_goes_into_the_line_of_a_request(self):
        for name in ("a b", "a\r\nX-Other: 1", "../..", "a?b", "a#b", "%2e"):
            for url in ("http://127.0.0.1:1", "grpc://127.0.0.1:1"):
                self.assertIn("not a valid model name", self.wrong("bench", "--endpoint", url, "-m", name))
        for version in ("0", "-5", "nan", " ", "1 HTTP/1.1", "99999999999999999999"):
            self.assertIn("--model-version is not in range", self.wrong("bench", "--endpoint", "http://127.0.0.1:1", "-m", "a", "--model-version", version))

    def test_a_server_starts_with_no_flag_that_each_load_would_fail_by(self):
        for flag, value, words in (("--dtype", "f8", "expected f32, f16 or bf16"), ("--io-dtype", "x", "expected f32, f16 or bf16"), ("--provider", "nope", "has no provider 'nope'"),
                                   ("--disable-pass", "nope", "no pass is named 'nope'"), ("--device", "cuda:01", "names no device"), ("--backend", "nope", "no backend 'nope'")):
            self.assertIn(words, self.wrong("serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", flag, value))
        self.assertIn("no/such: cannot write into the folder",
                      self.ends(1, "serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", "--dump-passes", "no/such"))
        for url in ("nan", "localhost", "127.0.0.1:4318", "http://", "ftp://a", "http://a,b", "http://a b"):
            self.wrong("serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", "--otlp-endpoint", url)

    def test_flags_of_a_server_that_it_cannot_obey(self):
        (self.folder / "p.json").write_text('{"threads": 1,}')
        (self.folder / "p.yaml").write_text("load-model: [a] b\n")
        (self.folder / "mark.yaml").write_bytes(b"\xef\xbb\xbfthreads: 0\n")
        for words, said in ((("--repository-poll-secs", "1"), "--repository-poll-secs needs --model-control-mode poll"),
                            (("--load-model", "../x", "--model-control-mode", "explicit"), "--load-model '../x' is not a valid model name"),
                            (("--in-process", "--worker-memory-mib", "0"), "--worker-memory-mib is for workers"), (("--in-process", "--stuck-kill-secs", "3"), "--stuck-kill-secs is for workers"),
                            (("--http-socket", "s", "--grpc-socket", "./s"), "--http-socket and --grpc-socket are one socket"),
                            (("--http-socket", "s", "--management-socket", "s"), "--http-socket and --management-socket are one socket"),
                            (("--profile", "p.json"), "p.json: not valid JSON"), (("--profile", "p.yaml"), "p.yaml: line 1: text after a list: found b"),
                            (("--profile", "mark.yaml"), "--threads is not in range")):
            self.assertIn(said, self.wrong("serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", *words))
        self.assertIn("name an address that this machine has",
                      self.ends(1, "serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", "--http-address", "192.0.2.1"))
        self.assertIn("cannot listen for gRPC on 192.0.2.1:0; give --grpc-address one that this machine has",
                      self.ends(1, "serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "-1", "--grpc-address", "192.0.2.1"))
        self.assertIn("cannot listen for gRPC on no/such/s; give --grpc-socket a name that is free",
                      self.ends(1, "serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", "--grpc-socket", "no/such/s"))
        (self.folder / "mine").write_text("a letter")
        for flag in ("--http-socket", "--grpc-socket", "--management-socket"):
            self.ends(1, "serve", "--model-repository", ".", "--http-port", "0", "--grpc-port", "-1", "--metrics-port", "-1", flag, "mine")
            self.assertEqual((self.folder / "mine").read_text(), "a letter")
        for words, said in ((("--concurrency-range", "1.5"), "--concurrency-range is of whole numbers: found 1.5"), (("--concurrency-range", "1:3:0.5"), "is of whole numbers"),
                            (("--shape", "x:1,2", "--shape", "x:3"), "--shape gives input 'x' two shapes"), (("-i", "http", "-i", "grpc"), "-i is the protocol, and is given twice")):
            self.assertIn(said, self.wrong("bench", "-u", "http://127.0.0.1:1", "-m", "a", *words))
        self.assertIn("Connection refused", self.ends(1, "bench", "-u", "HTTP://127.0.0.1:1", "-m", "a"))

    def test_a_replay_takes_kernels_from_outside(self):
        manifest = SOURCE / "examples/triton/softmax_f16.json"
        r = self.peri("replay", "relu x=f32[4]", "--kernel", manifest, "--json", "r.json")
        self.assertEqual(r.returncode, 0, r.stderr)
        note = "kernel 'triton_softmax_f16' was not tried: it is for backend 'cuda', and this build is for 'cpu'"
        self.assertIn(f"note: {note}\n", r.stderr.decode())
        self.assertNotIn(note, r.stdout.decode())
        self.assertIn(note, self.peri("replay", "relu x=f32[4]", "--kernel", manifest, "--quiet").stderr.decode())
        self.assertIn(note, json.loads((self.folder / "r.json").read_text())["notes"])
        self.assertIn("no/such.json", self.ends(1, "replay", "relu x=f32[4]", "--kernel", "no/such.json"))
        self.assertIn("has no provider 'outside'", self.wrong("replay", "relu x=f32[4]", "--kernel", manifest, "--provider", "outside"))

    def test_seeds_and_threads(self):
        for seed in ("99999999999999999999", "-1", "1.5", "x", ""):
            self.wrong("run", "a.engine", "-i", f"image=random:{seed}")
            self.wrong("verify", "a.engine", "--seed", seed)
        self.wrong("replay", "relu x=f32[4] seed=99999999999999999999")
        for threads in ("0", "-1", "2000", "99999999999999999999", "1.5", "x", ""):
            self.wrong("run", "a.engine", "-i", "image=random:1", "--threads", threads)

    def test_a_pass_that_is_none_is_told_beside_a_lock(self):
        words = ("build", DIGITS, "-o", "k.engine", "--no-tune", "--no-cache", "--no-verify", "--quiet")
        self.ends(0, *words, "--lock", "k.lock")
        self.assertIn("no pass is named 'fuse'; the passes are: ", self.ends(2, "build", DIGITS, "-o", "k.engine", "--locked", "k.lock", "--disable-pass", "fuse"))

    def test_what_a_lock_says_anyway(self):
        """--no-tune has nothing left to leave out, which is told; a type that the model has anyway contradicts no lock."""
        words = ("build", DIGITS, "-o", "k.engine", "--no-cache", "--no-verify", "--quiet", "--force")
        self.ends(0, *words, "--no-tune", "--lock", "k.lock")
        first = (self.folder / "k.engine").read_bytes()
        r = self.peri(*words, "--no-tune", "--locked", "k.lock")
        self.assertIn(b"note: --no-tune changes nothing: --locked takes every choice from the lock file", r.stderr)
        for type_words in (("--dtype", "f32"), ("--io-dtype", "f32"), ("--dtype", "f32", "--io-dtype", "f32")):
            self.ends(0, *words, "--locked", "k.lock", *type_words)
            self.assertEqual((self.folder / "k.engine").read_bytes(), first)
        for flag in ("--dtype", "--io-dtype"):
            self.assertIn("the lock was made for other types of", self.ends(1, *words, "--locked", "k.lock", flag, "f16"))


if __name__ == "__main__":
    main()
