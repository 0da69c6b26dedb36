#!/usr/bin/env python3
"""clang-tidy by .clang-tidy on the sources of a build: all of them, or those named. Status 77 where the tool is missing.

    clang_tidy.py BUILD [FILE...]          findings are errors
    clang_tidy.py --selftest BUILD         a planted fault must be found, and a clean source pass"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("CLANG_TIDY", "clang-tidy-19")
FAULT = """#include <string>
#include <utility>
std::string twice(std::string text) {
  std::string moved = std::move(text);
  return moved + text;
}
"""


def database(build, folder):
    """The build's commands without what only GCC reads: its precompiled header and its warnings."""
    entries = [e for e in json.loads((build / "compile_commands.json").read_text()) if e["file"].startswith(f"{ROOT}/src/")]
    for e in entries:
        command = re.sub(r" -Winvalid-pch| -include \S*cmake_pch\.hxx", "", e["command"])
        e["command"] = re.sub(r" -Werror\b| -Wno-\S+", "", command) + " -w"
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return [e["file"] for e in entries]


def check(folder, file):
    done = subprocess.run([TOOL, "-p", folder, "--quiet", f"--config-file={ROOT}/.clang-tidy", file], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not re.match(r"\d+ warnings", line)]
    return file, done.returncode, "\n".join(lines) or done.stderr.strip()


def check_all(folder, files):
    """Number of files with findings, which are printed."""
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, code, text in pool.map(lambda f: check(folder, f), files):
            if code:
                bad += 1
                print(text.replace(f"{ROOT}/", ""), flush=True)
    return bad


def main():
    words = sys.argv[1:]
    selftest = words[:1] == ["--selftest"]
    build = pathlib.Path(words[1 if selftest else 0]).resolve()
    if not shutil.which(TOOL):
        print(f"{TOOL} is missing: run ./dev setup")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if selftest:
            files = {"planted.cpp": FAULT, "clean.cpp": FAULT.replace("moved + text", "moved")}
            for name, text in files.items():
                (folder / name).write_text(text)
            (folder / "compile_commands.json").write_text(json.dumps(
                [{"directory": scratch, "file": str(folder / n), "command": f"c++ -std=c++20 -c {folder / n}"} for n in files]))
            found = {n: check(folder, folder / n)[1] != 0 for n in files}
            print(f"findings: {found}")
            return 0 if found == {"planted.cpp": True, "clean.cpp": False} else 1
        all_files = database(build, folder)
        files = [str(pathlib.Path(f).resolve()) for f in words[1:]] or all_files
        bad = check_all(folder, files)
    print(f"clang-tidy: {len(files)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
