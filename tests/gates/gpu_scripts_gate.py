# label: cpu
"""The scripts that tools/gpu/shards names, on the null device: each tells a good engine, and what is planted in its way."""
import json, os, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
TOOLS, PYTHON = ROOT / "tools" / "gpu", ROOT / ".venv" / "bin" / "python"
if not PYTHON.exists():
    sys.exit(77)
# A peri that answers late, or with the first number of each output off by a hundredth, or in each process by another share; and that
# does not tune where no time is asked for.
STAND_IN = f"""#!/bin/bash
[[ -z ${{QUICK:-}} || $1 != build || " $* " == *" --no-tune "* ]] || set -- "$@" --no-tune
{BUILD}/bin/peri "$@" || exit
[[ $1 == run ]] || exit 0
sleep "${{LATE:-0}}"
[[ -n ${{WRONG:-}}${{DRIFTS:-}} ]] || exit 0
while [[ $1 != --output-dir ]]; do shift; done
{PYTHON} - "$2" <<'END'
import os, pathlib, random, sys
import numpy as np
for file in pathlib.Path(sys.argv[1]).glob("*.npy"):
    if not file.name.startswith("in"):
        x = np.load(file)
        x.flat[0] *= 1 + random.randrange(1 << 20) / (1 << 30) if "DRIFTS" in os.environ else 1.01
        np.save(file, x)
END
"""
# An engine_runs that says of every second run how many times a later one it takes, and that a rest costs nothing; of few runs where no
# time is asked for.
RUNS = f"""#!/bin/bash
words=()
while (($#)); do
  case ${{QUICK:+$1}} in --sessions) words+=(--sessions 1); shift ;; --runs) words+=(--runs 3); shift ;; *) words+=("$1") ;; esac
  shift
done
set -- "${{words[@]}}"
{BUILD}/bin/engine_runs "$@" | sed -E 's/("second_over_steady":)[0-9.e+-]*/\\1'"${{SECOND:-1}}"'/g; s/("rested_ms":\\[)[^]]*/\\1 1e-9, 1e-9/g'
exit ${{PIPESTATUS[0]}}
"""
wrong = []

with tempfile.TemporaryDirectory() as scratch:
    work = pathlib.Path(scratch)
    (work / "bin").mkdir()
    for program, text in (("peri", STAND_IN), ("engine_runs", RUNS)):
        (work / "bin" / program).write_text(text)
        (work / "bin" / program).chmod(0o755)
    environment = {**os.environ, "PATH": f"{work / 'bin'}:/usr/bin:/bin", "MODELS": str(ROOT / "models"), "WORK": str(work), "PYTHON": str(PYTHON), "PERI_CACHE": str(work / "cache")}

    def expect(what, words, status, *texts, **more):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env={**environment, **more}, cwd="/")
        said = done.stdout + done.stderr
        if done.returncode != status or any(t not in said for t in texts):
            wrong.append(f"{what}: status {done.returncode} for {status}, {texts} in:\n{said[-2000:]}")

    answers = [PYTHON, TOOLS / "answers.py", "digits_cnn", "--backend", "null", "--dtype", "f32", "--build-flags=--no-tune"]
    expect("answers", answers + ["--json", work / "answers.json"], 0, "digits_cnn f32 batch 1: right", "of 500 images right")
    if (work / "answers.json").exists() and len(json.loads((work / "answers.json").read_text())["seeds"]) != 4:
        wrong.append("answers.py did not run four seeds")
    expect("answers of a batch", answers + ["--batch", "8", "--seeds", "1"], 0, "image 7:", "batch 8: right")
    expect("types side by side", answers[:-2] + ["f32,bf16", "--seeds", "1", "--build-flags=--no-tune"], 0, "digits_cnn f32 batch 1: right", "digits_cnn bf16 batch 1: right")
    expect("a wrong answer", answers + ["--seeds", "1"], 3, "largest error", WRONG="1")
    expect("a wrong image", answers + ["--seeds", "1", "--batch", "8"], 3, "image 4 of 8", WRONG="1")
    expect("a wrong image beside batch 1", answers + ["--seeds", "1", "--also-batch", "2"], 3, "image 1 of 2", "batch 2: ", WRONG="1")

    times = [PYTHON, TOOLS / "times.py", "digits_cnn", "--backend", "null"]
    whole = ["--bits", "40", "--answers", "f32", "--seeds", "2", "--also-batch", "3", "--own"]
    expect("times", times + whole + ["--dry", "--json", work / "times.json"], 0, "| digits_cnn |", "digits_cnn f32 batch 1: right", "image 2:", "digits_cnn f32 batch 3: right", "| network | default ms |")
    row = json.loads((work / "times.json").read_text())["rows"][0] if (work / "times.json").exists() else {}
    if not row or row["cached"]["trials"] or row["cold"]["trials"] < 1 or len(row["first_runs"]["sizes"]) != 4 or row["same_bits"] != 40 or row["own_ms"] <= 0:
        wrong.append(f"times.py counts no trials, trials of a cached build, too few sizes or runs: {row}")
    expect("a late answer", times, 4, "load and first answer, s", LATE="2.1", QUICK="1")
    expect("a slow second run", times, 4, "over later ones 1.2, at most 1.05", SECOND="1.2", QUICK="1")
    expect("a wrong answer among the times", times + ["--answers", "f32", "--seeds", "1"], 4, "digits_cnn: an answer is too far off", WRONG="1", QUICK="1")
    expect("other bits in another process", times, 4, "of two processes are different bits", DRIFTS="1", QUICK="1")

if wrong:
    sys.exit("\n".join(wrong))
