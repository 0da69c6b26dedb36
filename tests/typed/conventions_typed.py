#!/usr/bin/env python3
"""Words that people bring from other programs do what they mean there; help, completion, logs and pictures fit a terminal."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import numpy

from typed import DIGITS, PERI, SOURCE, Typed, main

# The flags of trtexec (twice), polygraphy run, benchmark_app and hyperfine, from their documentation.
TRTEXEC = """
--onnx --model --deploy --output --uff --batch --maxBatch --explicitBatch --fp16 --bf16 --int8 --fp8 --int4 --noTF32 --best --stronglyTyped --directIO
--precisionConstraints --layerPrecisions --layerOutputTypes --layerDeviceTypes --decomposableAttentions --minShapes --optShapes --maxShapes
--minShapesCalib --optShapesCalib --maxShapesCalib --inputIOFormats --outputIOFormats --workspace --memPoolSize --profilingVerbosity --avgTiming --refit
--stripWeights --stripAllWeights --weightless --versionCompatible --pluginInstanceNorm --uint8AsymmetricQuantizationDLA --useRuntime --leanDLLPath
--excludeLeanRuntime --monitorMemory --sparsity --calib --safe --buildDLAStandalone --allowGPUFallback --consistency --restricted --saveEngine --loadEngine
--skipInference --buildOnly --getPlanVersionOnly --tacticSources --noBuilderCache --noCompilationCache --heuristic --timingCacheFile
--errorOnTimingCacheMiss --builderOptimizationLevel --maxTactics --hardwareCompatibilityLevel --runtimePlatform --tempdir --tempfileControls
--maxAuxStreams --profile --calibProfile --allowWeightStreaming --markDebug --markUnfusedTensorsAsDebugTensors --tilingOptimizationLevel
--l2LimitForTiling --remoteAutoTuningConfig --refitFromOnnx --shapes --loadInputs --iterations --warmUp --duration --sleepTime --idleTime --infStreams
--streams --exposeDMA --noDataTransfers --useManagedMemory --useSpinWait --threads --useCudaGraph --timeDeserialize --timeRefit --separateProfileRun
--persistentCacheRatio --useProfile --optProfile --allocationStrategy --saveDebugTensors --saveAllDebugTensors --weightStreamingBudget --verbose
--avgRuns --percentile --dumpRefit --dumpOutput --dumpRawBindingsToFile --dumpProfile --dumpLayerInfo --dumpOptimizationProfile --exportTimes
--exportOutput --exportProfile --exportLayerInfo --device --useDLACore --plugins --staticPlugins --dynamicPlugins --setPluginsToSerialize
--ignoreParsedPluginLibs"""
OTHERS = {"build": TRTEXEC, "bench": TRTEXEC + """
-m -i -d -hint -niter -max_irate -t -b -shape -data_shape -layout -extensions -c -cache_dir -load_from_file -api -nireq -nstreams -inference_only
-infer_precision -ip -op -iop -mean_values -scale_values -pin -nthreads -latency_percentile -report_type -report_folder -json_stats -pc -pcsort -pcseq
-exec_graph_path -dump_config -load_config -progress -cdir -lfile
--paths_to_input --path_to_model --target_device --perf_hint --number_iterations --time --cache_dir --load_from_file --api_type --number_infer_requests
--number_streams --infer_precision --input_precision --output_precision --input_output_precision --mean_values --scale_values --number_threads
--infer_threads_pinning --report_type --report_folder --json_stats --perf_counts --path_to_cldnn_config --hint --niter --nireq --nstreams --nthreads --api
--data_shape --max_irate --pcsort --shape --latency_percentile
--warmup -w --min-runs --max-runs -M --runs -r --setup -s --reference --reference-name --prepare -p --conclude -C --cleanup -c --parameter-scan -P
--parameter-step-size -D --parameter-list -L --shell -S -N --ignore-failure --style --sort --time-unit -u --export-asciidoc --export-csv --export-json
--export-markdown --export-orgmode --show-output --output --input --command-name -n
-o -y -F -Z -z -A -e -P -f -imean -iscale -mlc --minTiming --previewFeature --latency-report-file --request-parameter --input-tensor-format
--periodic-concurrency-range --num-threads""", "serve": "--repoagent-directory --model-load-retry-count", "verify": """
--model-type --input-shapes --ignore-fail-code --verbosity --silent --log-format --log-file --trt --trt-legacy --tf --onnxrt --pluginref --gen-script
--onnx-outputs --onnx-exclude-outputs --shape-inference --no-onnxruntime-shape-inference --external-data-dir --ignore-external-data --fp-to-fp16
--save-onnx --save-external-data --external-data-size-threshold --no-save-all-tensors-to-one-file --providers --execution-providers --trt-min-shapes
--trt-opt-shapes --trt-max-shapes --tf32 --fp16 --bf16 --fp8 --int8 --precision-constraints --sparse-weights --version-compatible --exclude-lean-runtime
--calibration-cache --calib-base-cls --quantile --regression-cutoff --load-timing-cache --save-timing-cache --error-on-timing-cache-miss
--disable-compilation-cache --save-tactics --load-tactics --tactic-sources --trt-config-script --trt-config-func-name --trt-safety-restricted
--refittable --strip-plan --use-dla --allow-gpu-fallback --pool-limit --memory-pool-limit --preview-features --builder-optimization-level
--hardware-compatibility-level --max-aux-streams --quantization-flags --profiling-verbosity --weight-streaming --runtime-platform --layer-precisions
--tensor-dtypes --tensor-datatypes --tensor-formats --trt-network-func-name --trt-outputs --trt-exclude-outputs --mark-debug --plugins
--explicit-precision --engine-output-path --save-engine --load-runtime --optimization-profile --allocation-strategy --weight-streaming-budget --seed
--val-range --int-min --int-max --float-min --float-max --iterations --data-loader-script --data-loader-func-name --load-inputs --load-input-data
--save-inputs --save-input-data --warm-up --use-subprocess --save-outputs --save-results --load-outputs --load-results --no-shape-check --rtol --atol
--validate --fail-fast --top-k --check-error-stat --infinities-compare-equal --error-quantile --save-heatmaps --show-heatmaps
--save-error-metrics-plot --show-error-metrics-plot --compare --compare-func --compare-func-script --postprocess --postprocess-func""",
          "inspect": "--show --show-values --display-as --display-as-trt --mode --combine-tensor-info --list-unsupported --log-file --silent"}


class Conventions(Typed):
    quick = ("--no-tune", "--no-cache", "--no-verify")

    def test_words_of_trtexec(self):
        self.ends(0, "build", f"--onnx={DIGITS}", "--saveEngine=a.engine", "--fp16", "--optShapes=image:2x1x8x8", *self.quick, "--quiet")
        proof = json.loads((self.folder / "a.engine.proof").read_text())
        self.assertEqual(proof["tuned_for"], {"batch": 2})
        self.ends(0, "build", "--onnx", DIGITS, "--saveEngine", "b.engine", "--dtype", "f16", "--shapes", "image:2x1x8x8", *self.quick, "--quiet")
        self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "b.engine").read_bytes())
        self.ends(0, "bench", "--loadEngine=a.engine", "--duration=0.05", "--warmUp=1", "--shapes=image:3x1x8x8", "--tolerance", "1e6", "--json", "b.json")
        self.assertEqual(json.loads((self.folder / "b.json").read_text())["dims"], {"batch": 3})
        self.ends(0, "build", DIGITS, "-o", "c.engine", "--minShapes=image:1x1x8x8", "--maxShapes=image:4x1x8x8", *self.quick, "--quiet")
        self.assertIn("takes MODEL", self.ends(2, "build", DIGITS, "--onnx", DIGITS))
        self.assertIn("takes no value", self.ends(2, "build", DIGITS, "--fp16=1"))
        for name in ("fp16", "float16", "half"):
            self.ends(0, "build", DIGITS, "-o", "d.engine", "--dtype", name, "--dims", "batch=2", *self.quick, "--quiet")
            self.assertEqual((self.folder / "a.engine").read_bytes(), (self.folder / "d.engine").read_bytes())
        for name in ("float32", "fp32", "bfloat16"):
            self.ends(0, "build", DIGITS, "-o", "e.engine", "--dtype", name, *self.quick, "--quiet")
        self.assertIn("expected f32, f16 or bf16", self.ends(2, "build", DIGITS, "-o", "e.engine", "--dtype", "int8"))

    def test_messages_name_what_was_typed(self):
        self.assertIn("--duration is not in range", self.ends(2, "bench", DIGITS, "--duration", "x"))
        self.assertIn("--duration is given twice; --seconds is the same", self.ends(2, "bench", DIGITS, "--seconds", "1", "--duration", "2"))
        self.assertIn("--seconds is given twice; give it once", self.ends(2, "bench", DIGITS, "--seconds", "1", "--seconds", "2"))

    def test_flags_of_other_programs_that_are_none_here(self):
        for words, remedy in ((("build", "m", "--best"), "--fp16 or --bf16"), (("build", "m", "--workspace=64"), "leave it out"),
                              (("build", "m", "--builderOptimizationLevel", "5"), "--budget SECONDS"), (("build", "m", "--int8"), "no calibration"),
                              (("bench", "m", "--useCudaGraph"), "leave it out"), (("bench", "m", "--dumpProfile"), "--layers"),
                              (("bench", "m", "-nstreams", "1"), "one after another"), (("bench", "m", "--number_iterations=9"), "; --iterations N"), (("bench", "m", "--hint", "none"), "latency is what is measured"), (("bench", "m", "--runs", "3"), "--iterations N"),
                              (("bench", "m", "-e", "cpu"), "--backend cpu"), (("bench", "m", "-f", "batch:2"), "--dims NAME=N"), (("bench", "m", "-M"), "memory is planned"),
                              (("build", "m", "-t=10"), "; of peri bench: --seconds N"), (("build", "m", "-r", "3"), "; of peri bench: --iterations N"), (("bench", "m", "-o", "x"), "peri build MODEL -o ENGINE"),
                              (("bench", "m", "-P"), "steps of a run follow each other"), (("run", "m", "--seed", "3"), "random:SEED"), (("verify", "m", "--save-outputs=x"), "peri run MODEL --output-dir"),
                              (("bench", "m", "--num_iterations", "3"), "; --iterations N"), (("verify", "m", "--input-shapes", "x:[1]"), "--shapes NAME:AxBxC"), (("run", "m", "--loadInputs=x:y"), "--input NAME=raw:")):
            with self.subTest(words=words):
                said = self.ends(2, *words)
                self.assertIn(f"has no flag '{words[2].split('=')[0]}'", said)
                self.assertIn(remedy, said)
        self.assertIn("did you mean --dtype?", self.ends(2, "build", "m", "--dtpye", "f16"))
        for distant in ("--bogus", "--limit"):  # its dashes are no letters that it shares
            self.assertNotIn("did you mean", self.ends(2, "build", "m", distant))

    def test_every_flag_of_other_programs_is_answered(self):
        """With what is here in its place, or why nothing is: never with a guess or a hint at the help."""
        for command, theirs in OTHERS.items():
            for word in theirs.split():
                for given in (word, f"{word}=1"):
                    with self.subTest(command=command, given=given):
                        said = self.peri(command, "m", given, "--bogus").stderr.decode()
                        if f"has no flag '{word}'" in said:
                            self.assertNotRegex(said.split("; ", 1)[-1], "^(FAILED|see: peri|did you mean)")

    def test_a_flag_of_another_command_is_told(self):
        self.assertIn("has no flag '--iterations'; it is a flag of peri bench", self.ends(2, "build", "m", "--iterations=3"))

    def test_flags_on_the_page_of_other_programs(self):
        """Each that is none here is answered with what is, as the page promises."""
        page, seen = (SOURCE / "docs/other-runtimes.md").read_text(), set()
        commands = {"trtexec --onnx": "build", "trtexec --load": "bench", "polygraphy run": "verify", "polygraphy convert": "build", "onnxruntime_perf_test": "bench",
                    "benchmark_app": "bench", "ovc": "build"}
        for line in re.findall(r"^\$ (.+)$", page, re.M):
            command = next((ours for theirs, ours in commands.items() if line.startswith(theirs)), None)
            for flag in re.findall(r" (--?\w+)", line) if command else ():
                seen.add(flag)
                with self.subTest(flag=flag, command=command):
                    self.assertNotIn(f"'{flag}'; see: peri", self.ends(2, command, "m", flag, "x", "--no-such-flag"))
        self.assertGreater(len(seen), 20)
        self.assertIn("a model is named without a flag", self.ends(2, "bench", "-m", "m.onnx"))

    def test_an_engine_gets_the_name_of_its_model(self):
        self.ends(0, "build", DIGITS, *self.quick, "--quiet")
        self.assertTrue((self.folder / "digits_cnn.engine").exists())
        self.ends(0, "run", "digits_cnn.engine", "-i", "image=random:1", "--quiet")
        (self.folder / "digits_cnn.engine").unlink()
        self.assertIn("one file", self.ends(2, "build", DIGITS, "--json", "digits_cnn.engine", *self.quick))
        (self.folder / "digits_cnn.engine").write_text("a letter")
        self.assertIn("--force", self.ends(1, "build", DIGITS, *self.quick))

    def test_words_that_are_nearly_help(self):
        for word, meant in (("hlep", "help"), ("--hepl", "--help"), ("--versoin", "--version"), ("biuld", "build")):
            self.assertIn(f"did you mean '{meant}'?", self.ends(2, word))
        self.assertEqual(self.peri("help", "help").stdout, self.peri("help").stdout)
        for word in ("--help", "-h", "--version", "-V", "version"):  # each stands in a command's place, and none of them is suggested for itself
            self.assertEqual((self.peri("help", word).returncode, self.peri("help", word).stdout), (0, self.peri("help").stdout), word)

    def test_help_in_all_its_ways(self):
        for words in (("-V",), ("--version",), ("version",)):
            self.assertRegex(self.peri(*words).stdout.decode(), r"^peri \d")
        overview = self.peri("--help").stdout.decode()
        for command in re.findall(r"^  ([a-z]+)  ", overview, re.M):
            text = self.peri("help", command).stdout.decode()
            self.assertEqual(text, self.peri(command, "-h").stdout.decode())
            self.assertTrue(text.startswith(f"usage: peri {command}"), text[:80])
        self.assertIn("did you mean 'build'?", self.ends(2, "help", "bulid"))
        for text in (overview, *(self.peri("help", c).stdout.decode() for c in re.findall(r"^  ([a-z]+)  ", overview, re.M))):
            for line in text.split("\n"):
                self.assertLessEqual(len(line), 100, line)
        for command, three in (("bench", ["--seconds", "--repeat", "--layers"]), ("run", ["--input", "--text", "--top-k"]), ("build", ["--output", "--dims", "--shapes"])):
            flags = re.findall(r"^  (?:    |-\w, )(--[\w-]+)", self.peri("help", command).stdout.decode(), re.M)
            self.assertEqual(flags[:3], three)

    def test_a_log(self):
        r = self.peri("build", DIGITS, "-o", "a.engine", "--no-cache", "--log", "a.log", "-v")
        self.assertEqual(r.returncode, 0)
        log = (self.folder / "a.log").read_text().split("\n")
        self.assertTrue(log[0].startswith("peri ") and log[0].endswith(": build"), log[0])
        timed = [line for line in log[1:] if line]
        for line in timed:
            self.assertRegex(line, r"^ +\d+\.\d{3} s  ")
        self.assertGreater(len(timed), 5)
        self.assertIn("PASSED build", timed[-1])
        said = r.stderr.decode()
        self.assertIn(" s  [", said)
        self.assertNotIn("\r", said)
        self.assertIn("exclude each other", self.ends(2, "build", DIGITS, "-o", "a.engine", "-v", "-q"))
        (self.folder / "letter").write_text("dear reader")
        self.assertIn("--force", self.ends(1, "inspect", DIGITS, "--log", "letter"))

    def test_a_histogram_fits_into_sixty_columns(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", *self.quick, "--quiet")
        r = self.peri("bench", "a.engine", "--seconds", "0.2", "--tolerance", "1e6", "--json", "b.json")
        lines = [line for line in r.stdout.decode().split("\n") if re.match(r"^ *[\d.e+-]+ ms[ +] +\d+", line)]
        self.assertIn(len(lines), (10, 11))
        self.assertEqual(sum(int(re.search(r"ms[ +] +(\d+)", line)[1]) for line in lines), len(json.loads((self.folder / "b.json").read_text())["samples"]))
        for line in lines:
            self.assertLessEqual(len(line), 60)
            self.assertTrue(line.isascii() and line.isprintable(), line)

    def test_lines_are_broken_at_spaces_on_a_narrow_terminal(self):
        self.ends(0, "build", DIGITS, "-o", "a.engine", *self.quick, "--quiet")
        for words in (("inspect", "a.engine"), ("inspect", DIGITS), ("explain", "a.engine", "--top", "3"), ("run", "a.engine", "-i", "image=random:1", "--top-k", "3"), ("help", "build"), ("doctor",)):
            with self.subTest(words=words):
                lines = self.on_terminal(60, *words)
                self.assertGreater(len(lines), 3)
                for line in lines:
                    example = line.startswith("  peri ")  # to be copied as it is
                    self.assertTrue(len(line) <= 60 or example or " " not in line.strip(), line)
                    self.assertNotIn("\x1b", line)
        self.assertTrue(any(len(line) > 60 for line in self.peri("inspect", DIGITS).stdout.decode().split("\n")), "a file's lines are whole")

    def on_terminal(self, columns, *words):
        """Lines of standard output, which is a terminal so wide."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        child = subprocess.Popen([PERI, *map(str, words)], cwd=self.folder, env=self.environment, stdout=side, stderr=subprocess.DEVNULL)
        os.close(side)
        said = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:  # nobody holds the other side any more
                part = b""
            if not part:
                break
            said += part
        os.close(main)
        self.assertEqual(child.wait(), 0)
        return said.decode().replace("\r\n", "\n").rstrip("\n").split("\n")

    def test_numbers_of_one(self):
        self.assertIn("1 run against", self.ends(0, "verify", DIGITS, "--seed", "3", *self.quick))

    def test_plurals(self):
        r = self.peri("build", self.model("m.onnx"), "-o", "m.engine", "--no-cache", "--threads", "1")
        for text in (r.stdout.decode(), r.stderr.decode(), self.peri("explain", "m.engine").stderr.decode(), self.peri("inspect", "m.engine").stdout.decode(),
                     self.peri("inspect", "m.onnx").stdout.decode()):
            self.assertIsNone(re.search(r"(?<![\d.])1 (steps|candidates|problems|nodes|threads|sizes|samples|processes|weights|kernels|inputs)\b", text), text)
        said = []
        (self.folder / "one.bin").write_bytes(b"x")
        numpy.save(self.folder / "x.npy", numpy.ones((2, 4), numpy.float32))
        for words in (("run", "m.engine", "-i", "x=raw:f32:1x4:one.bin"), ("run", "m.engine", "-i", "x=raw:u8:2:one.bin"), ("inspect", "one.bin"),
                      ("bench", "m.engine", "--seconds", "0.01", "--iterations", "1", "--layers", "--verbose"), ("bench", "m.engine", "--seconds", "0", "--repeat", "2", "--iterations", "1"),
                      ("replay", "relu x=f32[4]", "--threads", "1"), ("doctor", "--threads", "1"), ("cache", "list"), ("verify", "m.engine", "--threads", "1"),
                      ("run", "m.engine", "-i", "x=x.npy", "--top-k", "1", "--print"), ("explain", "m.engine", "--full")):
            r = self.peri(*words)
            said.append((r.stdout + r.stderr).decode())
        for text in said:
            self.assertIsNone(re.search(r"(?<![\d.,:\[@])\b1 (?!runs/s|items/s|is\b|as\b|has\b|was\b|less\b)[a-z]+s\b(?! a\b)", text), text)


if __name__ == "__main__":
    main()
