# label: null
"""The archive of tests holds nothing that the bundle has, and runs with the bundle of the same version beside it, packed or not."""
import pathlib, shutil, subprocess, sys, tarfile, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAY_OUT, RUN = ROOT / "tools" / "pack" / "tests.sh", ROOT / "tools" / "gpu" / "run.sh"
NAME = "peri-0-linux-x86_64"
if not (ROOT / ".venv" / "bin" / "python").exists() or any(shutil.which(p) is None for p in ("cc", "patchelf", "strip")):
    sys.exit(77)
LIBRARY = "int of_the_bundle(void) { return 7; }\n"
# A peri without a GPU, and a test program: both start only where the library is found.
PERI = """#include <stdio.h>
#include <string.h>
int of_the_bundle(void);
int main(int n, char** words) { puts(n > 1 && !strcmp(words[1], "doctor") ? "GPU       none" : "peri 0"); return of_the_bundle() != 7; }
"""
TEST = "#include <stdlib.h>\n#include <unistd.h>\nint of_the_bundle(void);\nint main(void) { const char* worker = getenv(\"PERI_WORKER\"); return !worker || access(worker, X_OK) || of_the_bundle() != 7; }\n"
wrong = []


def compiled(out, text, *flags):
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-o", out, *flags], input=text, text=True, check=True)


def run(what):
    done = subprocess.run([RUN, what, "start"], capture_output=True, text=True, cwd="/", env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHON": sys.executable})
    return done.returncode, done.stdout + done.stderr


def expect(what, got, status, *texts):
    code, said = got
    if code != status or any(t not in said for t in texts):
        wrong.append(f"{what}: status {code} for {status}, {texts} in:\n{said}")


def packed(folder):
    archive = folder.parent / f"{folder.name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=0) as tar:
        tar.add(folder, folder.name)
    return archive


with tempfile.TemporaryDirectory() as scratch:
    work = pathlib.Path(scratch)
    bundle, build, tests = work / NAME, work / "build", work / f"{NAME}-tests"
    compiled(bundle / "lib" / "libdnnl.so.3", LIBRARY, "-shared", "-fPIC", "-Wl,-soname,libdnnl.so.3")
    with_library = [bundle / "lib" / "libdnnl.so.3"]
    compiled(bundle / "bin" / "peri", PERI, *with_library, "-Wl,-rpath,$ORIGIN/../lib")
    for program in ("test_device", "test_tune", "test_whole"):
        compiled(build / "bin" / program, TEST, *with_library, "-Wl,-rpath,/somewhere/long/enough/for/nothing")
    (bundle / "LICENSES").mkdir()
    shutil.copy(ROOT / "VERSION", bundle)
    subprocess.run([LAY_OUT, bundle, build, ROOT, tests], check=True)
    held = {p.name for p in tests.rglob("*") if p.is_file()}
    if held & {p.name for p in bundle.rglob("*")} - {"VERSION"}:
        wrong.append(f"of the bundle among the tests: {held & {p.name for p in bundle.rglob('*')} - {'VERSION'}}")
    wanted = {"test_device", "test_tune", "test_whole", "engine_runs", "run.sh", "shards", "digits_cnn.onnx", "softmax_f16.json", "softmax_f16.ptx", "LICENSE"}
    if not held >= wanted:
        wrong.append(f"the tests lack {wanted - held}")
    if (tests / "bin" / "engine_runs").resolve() != (tests / "bin" / "test_whole").resolve():
        wrong.append("engine_runs is not the program test_whole: its code travels twice")

    good = (77, "passed   start/programs", "no GPU")
    expect("folders beside each other", run(tests), *good)
    archive = packed(tests)
    expect("an archive beside a folder", run(archive), *good)
    packed(bundle)
    away = work / "away"
    away.mkdir()
    shutil.move(bundle, away)
    expect("archives beside each other", run(archive), *good)
    (work / f"{NAME}.tar.xz").unlink()
    expect("no bundle", run(archive), 2, "no bundle", f"{NAME}.tar.xz")
    expect("no bundle beside a folder", run(tests), 2, "no bundle")
    shutil.move(away / NAME, bundle)
    (bundle / "VERSION").write_text("0.0.0-other\n")
    expect("a bundle of another version", run(tests), 2, "0.0.0-other")
    (bundle / "VERSION").write_bytes((ROOT / "VERSION").read_bytes())
    (bundle / "lib" / "libdnnl.so.3").unlink()
    expect("a bundle without its library", run(tests), 1, "FAILED   start/programs")

if wrong:
    sys.exit("\n".join(wrong))
