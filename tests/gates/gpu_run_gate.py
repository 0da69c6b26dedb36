# label: null
"""The runner of tests on a GPU: up to "no GPU" with this build, and with stand-ins for it what it passes, fails and leaves out."""
import os, pathlib, re, subprocess, sys, tarfile, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
RUN = ROOT / "tools" / "gpu" / "run.sh"
# A peri whose doctor sees a GPU or none.
STAND_IN = """#!/bin/bash
case $1 in
  --version) echo "peri 0" ;;
  doctor) echo "GPU       $SEES" ;;
esac
"""
SHARDS = """# a comment
start host 5/1 well peri --version
first gpu 5/1 good test -d "$MODELS"
first gpu 5/1 skipped echo nothing here; exit 77
second gpu 5/1 bad echo broken; exit 3
slow gpu 1 long sleep 20
late gpu 50/30 usual echo "{}" >"$KEEP/late.json"
late gpu 50/1 quick echo "{}" >"$KEEP/quick.json"
late gpu 50/1 endless sleep 60
rare named 5/1 asked true
"""
wrong = []


def run(*words, sees="cuda:0     a GPU", bare=False):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "SEES": sees}
    if not bare:
        environment["PYTHON"] = sys.executable
    done = subprocess.run([RUN, *map(str, words)], capture_output=True, text=True, env=environment, cwd="/")
    return done.returncode, done.stdout + done.stderr


def expect(what, got, status, *texts):
    code, said = got
    if code != status or any(t not in said for t in texts):
        wrong.append(f"{what}: status {code} for {status}, {texts} in:\n{said}")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch) / "tests"
    (folder / "bin").mkdir(parents=True)
    (folder / "models").symlink_to(ROOT / "models")
    peri = folder / "bin" / "peri"
    peri.write_text(STAND_IN)
    peri.chmod(0o755)
    (folder / "shards").write_text(SHARDS)
    archive = pathlib.Path(scratch) / "tests.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, "tests")

    expect("the list", run(folder, "--list"), 0, "start\nfirst\nsecond\nslow\nlate\nrare")
    expect("a good shard of an archive", run(archive, "first"), 0, "passed   start/well", "passed   first/good", "left out first/skipped: nothing here", "2 passed, 0 failed")
    expect("a bad shard", run(folder, "second"), 1, "FAILED   second/bad: status 3", "broken", "1 passed, 1 failed")
    expect("one that does not end", run(folder, "slow"), 1, "FAILED   slow/long: not done after 1 s")
    expect("several, and one test of a shard", run(folder, "rare", "late/quick"), 0, "passed   rare/asked", "passed   late/quick", "3 passed, 0 failed")
    expect("all of them within some seconds", run(folder, "--within", 6), 1, "3 passed, 2 failed, 2 for a later call", "later    late/usual: it takes about 30 s", "passed   late/quick", "later    late/endless: not done after")
    kept = pathlib.Path(scratch) / "kept"
    expect("what is kept", run(folder, "--within", 5, "--keep", kept, "second", "late"), 1, "passed   late/quick")
    if (kept / "passed").read_text().split() != ["start/well", "late/quick"] or not (kept / "quick.json").is_file() or "broken" not in (kept / "second_bad.log").read_text():
        wrong.append(f"kept: {sorted(f.name for f in kept.iterdir())}, passed {(kept / 'passed').read_text()}")
    expect("the rest in a next call", run(folder, "--within", 5, "--keep", kept, "first", "late"), 75, "passed   late/quick  in an earlier call", "passed   first/good", "1 passed, 0 failed, 2 for a later call")
    expect("no seconds", run(folder, "--within", "soon"), 2, "--within wants seconds")
    expect("no GPU", run(folder, sees="none: no driver"), 77, "no GPU", "passed   start/well")
    expect("no shard of the name", run(folder, "third"), 2, "no shard or test 'third'; shards are start first second slow late rare")
    expect("no archive", run(folder / "nothing"), 2, "no archive or folder")
    expect("another folder", run(ROOT / "models"), 2, "holds no tests")
    (folder / "shards").write_text(SHARDS.replace("peri --version", "false"))
    expect("a host test that fails without a GPU", run(folder, sees="none"), 1, "FAILED   start/well")

    # The real one: what needs no GPU passes from a bare environment.
    peri.unlink()
    for program in ("peri", "test_device", "test_tune", "test_whole", "engine_runs"):
        (folder / "bin" / program).symlink_to(BUILD / "bin" / program)
    (folder / "shards").write_bytes((ROOT / "tools" / "gpu" / "shards").read_bytes())
    if not any(pathlib.Path("/proc/driver/nvidia/gpus").glob("*")):
        expect("this build", run(folder, bare=True), 77, "passed   start/cpu", "passed   start/null", "passed   start/programs", "no GPU")
    named = {tuple([w for w in line.split()[4:] if not re.match(r"[A-Z_]+=", w)][:2]) for line in (folder / "shards").read_text().splitlines() if line and line[0] != "#"}
    for program, script in named:
        own = ROOT / "tools" / "gpu" / (script if program == '"$PYTHON"' else program).strip('"').removeprefix("$BIN/")
        built = BUILD / "bin" / program.strip('"').removeprefix("$BIN/")  # by its path where it starts itself again
        if program != "peri" and not own.is_file() and not os.access(built, os.X_OK):
            wrong.append(f"shards name the program {program} {script}, which is nowhere")

if wrong:
    sys.exit("\n".join(wrong))
