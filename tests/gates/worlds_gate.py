# label: null
"""Worlds: one that gives a wrong answer, lets a planted wrong answer pass, or is not in force, is a failure."""
import os, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
if not PYTHON.exists():
    sys.exit(77)
# A peri that tells of cases what the variable says.
FAKE = """#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "build":
    sys.exit("FAILED build: no pass is named 'no_such_pass'; the passes are: fold, fuse")
bad = []
fault = os.environ["FAULT"]
if fault != "blind" and not (fault == "blind_alone" and "--threads" in sys.argv):
    bad.append("planted_wrong")
if fault == "one_thread" and "--threads" in sys.argv or fault == "passes" and "--disable-pass=fuse" in sys.argv:
    bad.append("other")
default = {"steps": 5, "threads": 2, "arena_bytes": 100, "poisoned_bytes": 0, "packed_cache_bytes": 4096,
           "executors": {"cpu": 4, "reference": 1}, "providers": {"peri": 3, "onednn": 1}}
here = {
    "passes_off": {"steps": 9},
    "poisoned_memory": {"poisoned_bytes": 80},
    "separate_memory": {"poisoned_bytes": 80, "arena_bytes": 300},
    "null_device": {"executors": {"null": 4, "reference": 1}},
    "provider_peri": {"providers": {"peri": 4}},
    "provider_onednn": {"providers": {"onednn": 4}},
    "provider_reference": {"providers": {}, "executors": {"reference": 5}},
    "one_thread": {"threads": 1},
    "tiny_cache": {"packed_cache_bytes": 0},
}
words = " ".join(sys.argv)
asked = {"--disable-pass=fold": "passes_off", "--memory poisoned": "poisoned_memory", "--memory separate": "separate_memory",
         "--backend null": "null_device", "--provider peri": "provider_peri", "--provider onednn": "provider_onednn",
         "--provider reference": "provider_reference", "--threads 1": "one_thread"}
world = next((w for flags, w in asked.items() if flags in words), "tiny_cache" if os.environ.get("PERI_PACKED_CACHE_MIB") == "0" else "")
runs = default | (here.get(world, {}) if fault != "idle_" + world else {})
print(json.dumps({"not_passed": [{"case": c, "why": "wrong"} for c in bad], "runs": runs}))
sys.exit(3 if bad else 0)
"""
MAKE = """import onnx, numpy, sys, pathlib
from onnx import numpy_helper
folder = pathlib.Path(sys.argv[1])
for name in ("one", "other"):
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / name / "model.onnx").write_bytes(b"")
    onnx.save_tensor(numpy_helper.from_array(numpy.ones(32, numpy.float32), "y"), str(data / "output_0.pb"))
"""
WORLDS = ("passes_off", "poisoned_memory", "separate_memory", "null_device", "provider_peri", "provider_onednn", "provider_reference",
          "one_thread", "tiny_cache")
EXPECTED = {"none": 0, "blind": 3, "blind_alone": 3, "one_thread": 3, "passes": 3} | {f"idle_{world}": 3 for world in WORLDS}

wrong = []
with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    fake, suite = folder / "peri", folder / "suite"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    subprocess.run([PYTHON, "-c", MAKE, suite], check=True)
    for fault, code in EXPECTED.items():
        done = subprocess.run([PYTHON, ROOT / "tools/suites/worlds.py", "--peri", fake, suite], capture_output=True, text=True,
                              env={**os.environ, "FAULT": fault})
        if fault.startswith("idle_") and f"{fault[5:]}: not in force" not in done.stdout:
            wrong.append(f"{fault}: nothing says that the world is not in force: {done.stdout}{done.stderr}")
        if done.returncode != code:
            wrong.append(f"{fault}: expected exit code {code}, found {done.returncode}: {done.stdout}{done.stderr}")
print("\n".join(wrong) or f"{len(EXPECTED)} kinds of worlds are judged as they should")
sys.exit(bool(wrong))
