"""Drive `peri build` and `peri run` from a script: one engine a model, tensors in as files, outputs back as arrays."""
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import onnx
from suite_files import SuiteError


def default_peri():
    return pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "peri"


def load(path):
    """An array from .npy, or from a .pb TensorProto."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(tensor)


class Peri:
    """The command under test. `build` keeps engines in a folder; `run` gives outputs by name."""

    def __init__(self, command, engines=None, build_args=(), run_args=()):
        self.command = pathlib.Path(command)
        if not self.command.is_file():
            raise SuiteError(f"no {self.command}: ./dev build makes build/bin/peri, or name one with --peri")
        self.scratch = tempfile.TemporaryDirectory(prefix="peri-suite-")
        self.engines = pathlib.Path(engines or self.scratch.name)
        self.engines.mkdir(parents=True, exist_ok=True)
        self.build_args, self.run_args, self.build_s = list(build_args), list(run_args), 0.0

    def call(self, *words):
        command = [str(self.command), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise SuiteError(f"{' | '.join(said[-3:]) or 'nothing said'} (exit code {done.returncode} of `{' '.join(command)}`)")
        return done.stdout

    def build(self, model, name):
        engine = self.engines / f"{name}.engine"
        start = time.monotonic()
        self.call("build", model, "-o", engine, *self.build_args)
        self.build_s = time.monotonic() - start
        return engine

    def run(self, engine, inputs):
        """Outputs of one run; `inputs` maps names to .npy or .pb files."""
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            words = [w for name, path in inputs.items() for w in ("--input", f"{name}={path}")]
            self.call("run", engine, *words, "--output-dir", folder, *self.run_args)
            listing = pathlib.Path(folder) / "outputs.json"
            if not listing.is_file():
                raise SuiteError(f"peri run left no outputs.json ({', '.join(sorted(p.name for p in pathlib.Path(folder).iterdir())) or 'no files'})")
            return {name: load(pathlib.Path(folder) / file) for name, file in files_of(json.loads(listing.read_text())).items()}


def files_of(listing):
    """name → file of outputs.json: the object itself, or what stands under its key `outputs`."""
    found = listing.get("outputs", listing)
    return {n: f["file"] if isinstance(f, dict) else f for n, f in found.items()}


def add_options(p):
    p.add_argument("--peri", default=default_peri(), metavar="FILE", help="the command under test (default build/bin/peri)")
    p.add_argument("--engines", metavar="DIR", help="keep the engines there (default: a scratch folder)")
    p.add_argument("--build-args", default="", metavar="WORDS", help="further words for peri build, in one string")
    p.add_argument("--run-args", default="", metavar="WORDS", help="further words for peri run, in one string")
    p.add_argument("--json", metavar="FILE", help="write the figures as one JSON object (- = standard output, the table goes to standard error)")
