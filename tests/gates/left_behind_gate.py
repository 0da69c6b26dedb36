# label: null
"""Temporary folders of tests that were killed go when the next test starts, those of tests that run stay, and a test leaves none."""
import os, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
# Makes the folder of a test of tests/typed, names it, and waits for a line.
TYPED = f"""import importlib.util, sys
sys.argv = ["test", "{BUILD}/bin/peri", "{ROOT}"]
spec = importlib.util.spec_from_file_location("typed", "{ROOT}/tests/typed/typed.py")
typed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(typed)
made = typed.Scratch()
print(made.name, flush=True)
sys.stdin.readline()
made.cleanup()
"""
wrong = []


def holds(folder, expected, when):
    if (there := sorted(p.name for p in folder.iterdir())) != sorted(expected):
        wrong.append(f"{when}: {there} is there, expected {sorted(expected)}")


def typed(folder):
    child = subprocess.Popen([ROOT / ".venv/bin/python", "-B", "-c", TYPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "TMPDIR": str(folder)})
    return child, pathlib.Path(child.stdout.readline().strip()).name


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    # A program of GoogleTest: one folder of a killed one, and what only looks like it.
    (folder / "peri-tests-abcdef/inside").mkdir(parents=True)
    (folder / "peri-tests-others").write_text("a file")
    (folder / "mine").mkdir()
    program = [BUILD / "bin/test_base", "--source=base/temporary_folder_test.cpp"]
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "TMPDIR": scratch})
    if done.returncode:
        wrong.append(done.stdout + done.stderr)
    holds(folder, ["mine", "peri-tests-others"], "after a program of tests")
    # Of commands as people type them.
    first, killed = typed(folder)
    second, other = typed(folder)
    holds(folder, ["mine", "peri-tests-others", killed, other], "while both run")
    first.kill()
    first.communicate()
    holds(folder, ["mine", "peri-tests-others", killed, other], "after one was killed")
    third, last = typed(folder)
    holds(folder, ["mine", "peri-tests-others", other, last], "when the next has begun")
    for child in (second, third):
        child.communicate("\n")
        if child.returncode:
            wrong.append(f"status {child.returncode}")
    holds(folder, ["mine", "peri-tests-others"], "at the end")
print("\n".join(wrong) or "nothing is left behind")
sys.exit(bool(wrong))
