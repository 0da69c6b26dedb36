# label: null
"""./dev refuses words that a command does not take, before any work: what is built or written is what was asked for."""
import pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
wrong = []


def checkout(folder):
    """What ./dev itself is, in a folder where nothing is installed: a command that goes on past its words says so."""
    for part in ("tools/dev", "tools/bench", "tools/docs", "tools/pack"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dev", folder)
    for name in ("models/small.onnx", "tests/fuzz/json_fuzz.cpp", "docs/a.md", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# A page\n")
    (folder / "a.cpp").write_text("int  a ;\n")
    (folder / "bin").mkdir()
    for name in ("clang-format-19", "cmake", "ninja", "uname", "df"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho reached {name} \"$@\" >&2; exit 9\n")
        (folder / "bin" / name).chmod(0o755)
    as_other = "import runpy, sys; {}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    pythons = {"python3.old": "sys.version_info = (3, 11, 2, 'final', 0)", "python3.bare": "import sysconfig; sys.version_info = (3, 12, 1); sysconfig.get_path = lambda name: '/none'",
               "python3.free": "import sysconfig; sys.version_info = (3, 13, 0); sysconfig.get_config_var = lambda name: 1"}
    for name, change in pythons.items():
        (folder / "bin" / name).write_text(f"#!/usr/bin/python3\n{as_other.format(change)}\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def dev(folder, *words):
    done = subprocess.run([folder / "dev", *words], capture_output=True, text=True, cwd=folder, env={"PATH": f"{folder}/bin:/usr/bin:/bin"})
    return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as scratch:
    folder = checkout(pathlib.Path(scratch) / "a")
    for words, text in ((("fmt", "a.cpp", "tools/dev/setup.sh"), "'tools/dev/setup.sh' is no source of C++ or C"), (("fmt", "README.md"), "'README.md' is no source of C++ or C"),
                        (("fmt", "b.cpp"), "there is no file 'b.cpp'"), (("fmt", "-x"), "unknown argument '-x'"), (("fmt", "--check", "README.md"), "is no source"),
                        (("fuzz", "--seconds"), "--seconds needs a number of seconds"), (("fuzz", "--seconds", "x"), "--seconds needs a number"), (("fuzz", "nosuch"), "no fuzzer 'nosuch'"),
                        (("pack", "--python"), "--python needs a program"), (("pack", "--python", "nosuch"), "no program 'nosuch'"), (("pack", "--python", "python3.old"), "3.11.2: the wheel for the stable interface needs a CPython of 3.12 or newer"),
                        (("pack", "--python", "python3.bare"), "/none/Python.h: install them, on Debian and Ubuntu as python3.12-dev"), (("pack", "--python", "python3.free"), "without the GIL"), (("pack", "--python", "/bin/false"), "is no Python that runs"),
                        (("setup", "build", "more"), "unknown argument 'more'"),
                        (("tidy", "Clang"), "unknown argument 'Clang'"), (("tidy", "--wrong"), "unknown argument '--wrong'"), (("tidy", "clang", "nosuch.cpp"), "no file 'nosuch.cpp'"),
                        (("docs", "nosuch.md"), "nosuch.md'"), (("docs", "--label", "nosuch", "README.md"), "has the label 'nosuch'"),
                        (("bench", "--batch", "0"), "--batch 0: expected numbers from 1"), (("bench", "--batch", "1,a"), "--batch 1,a: expected"), (("bench", "--threads", "0"), "--threads 0: expected 1 or more")):
        code, said = dev(folder, *words)
        if code in (0, 9) or text not in said or "reached" in said or "Traceback" in said:
            wrong.append(f"{' '.join(words)}: expected a refusal with '{text}', found status {code}: {said[-400:]}")
    for words, reached in ((("fmt", "a.cpp"), "clang-format-19 -i a.cpp"), (("fuzz", "json", "--seconds", "5"), "df"), (("bench", "--batch", "1,8", "small"), "uname"), (("docs", "README.md"), "uname")):
        code, said = dev(folder, *words)
        if f"reached {reached}" not in said:
            wrong.append(f"{' '.join(words)}: expected it to go on, found status {code}: {said[-400:]}")

print("\n".join(wrong))
sys.exit(1 if wrong else 0)
