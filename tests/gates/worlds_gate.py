# label: null
"""Worlds: one that gives a wrong answer, or lets a planted wrong answer pass, is a failure."""
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
print(json.dumps({"not_passed": [{"case": c, "why": "wrong"} for c in bad]}))
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
EXPECTED = {"none": 0, "blind": 3, "blind_alone": 3, "one_thread": 3, "passes": 3}

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
        if done.returncode != code:
            wrong.append(f"{fault}: expected exit code {code}, found {done.returncode}: {done.stdout}{done.stderr}")
print("\n".join(wrong) or f"{len(EXPECTED)} kinds of worlds are judged as they should")
sys.exit(bool(wrong))
