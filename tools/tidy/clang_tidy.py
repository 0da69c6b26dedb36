#!/usr/bin/env python3
"""clang-tidy by .clang-tidy on the sources of a build: all of them, those of a module, or those named. Status 77 where the
tool is missing.

    clang_tidy.py BUILD [FILE...] [--module NAME] [--jobs N] [--most N]   findings are errors; at most N files, if given
    clang_tidy.py --selftest BUILD       planted faults must be found, and clean sources pass

A source that passed is left out until it, a header of the tree or of the build that it includes, its command, the rules, the
tool or this script change: BUILD/clang_tidy_passed.json holds what passed, by the hash of all that. Several may run at once."""
import argparse
import concurrent.futures
import fcntl
import functools
import hashlib
import json
import multiprocessing
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
    """File -> command: the build's without what only GCC reads: its precompiled header, its warnings and how it vectorizes."""
    entries = [e for e in json.loads((build / "compile_commands.json").read_text()) if e["file"].startswith(f"{ROOT}/src/")]
    for e in entries:
        command = re.sub(r" -Winvalid-pch| -include \S*cmake_pch\.hxx| -ftree-\S+| -fvect-\S+", "", e["command"])
        e["command"] = re.sub(r" -Werror\b| -Wno-\S+", "", command) + " -w"
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return {e["file"]: e["command"] for e in entries}


def own_findings(lines, command):
    """Findings without those whose place is in a header that the command searches as a system's: the analyzer enters templates
    there. A header that does not compile stays a finding."""
    systems = tuple(f"{pathlib.Path(p).resolve()}/" for p in re.findall(r"-isystem\s*(\S+)", command))
    kept, keep = [], True
    for line in lines:
        head = re.match(r"(\S+):\d+:\d+: (?:error|warning): .*", line)
        if head:
            keep = "clang-diagnostic-error" in line or not str(pathlib.Path(head[1]).resolve()).startswith(systems or ("//",))
        kept += [line] * keep
    return kept


def check(folder, file, command):
    done = subprocess.run([TOOL, "-p", folder, "--quiet", f"--config-file={ROOT}/.clang-tidy", file], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not re.match(r"\d+ warnings", line)]
    own = own_findings(lines, command)
    foreign_only = lines and not any(re.search(r": (error|warning): ", line) for line in own)
    return file, 0 if foreign_only else done.returncode, "\n".join(own) or done.stderr.strip()


def searched(command, build):
    """Folders of the tree and of the build that a command searches for what a file includes, in its order."""
    named = (pathlib.Path(p).resolve() for p in re.findall(r"(?:^|\s)-(?:I|isystem|iquote)\s*(\S+)", command))
    return tuple(dict.fromkeys(p for p in named if p.is_relative_to(ROOT) or p.is_relative_to(build)))


@functools.lru_cache(None)
def included(file, places):
    """Files that a file includes, by the text of its #include lines, that lie beside it or in one of the places."""
    found = []
    for name in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', file.read_text(errors="replace"), re.M):
        found += [p.resolve() for p in (place / name for place in (file.parent, *places)) if p.is_file()][:1]
    return found


@functools.lru_cache(None)
def content(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


@functools.lru_cache(None)
def rules():
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True).stdout
    return version + (ROOT / ".clang-tidy").read_text() + pathlib.Path(__file__).read_text()


def key_of(file, command, build):
    """One hash of all that a verdict rests on: rules, command, and the contents of what the file includes, to the last."""
    places = searched(command, build)
    seen, new = set(), [file.resolve()]
    while new:
        one = new.pop()
        if one not in seen:
            seen.add(one)
            new += included(one, places)
    parts = [rules(), command, *sorted(f"{f}:{content(f)}" for f in seen)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check_all(folder, files, commands, jobs, passed=None):
    """Number of files with findings, which are printed. `passed(file)` is told of those without."""
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for file, code, text in pool.map(lambda f: check(folder, f, commands.get(f, "")), files):
            if code:
                bad += 1
                print(text.replace(f"{ROOT}/", ""), flush=True)
            elif passed:
                passed(file)
    return bad


def read_passed(known):
    return json.loads(known.read_text()) if known.is_file() else {}


def add_passed(known, file, key):
    """Adds a file that passed to those of `known`, to which other runs add too."""
    with open(known.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = known.with_suffix(".new")
        fresh.write_text(json.dumps({**read_passed(known), file: key}, indent=0, sort_keys=True))
        fresh.replace(known)


def of_module(files, module):
    """The files of a module of LAYERS, which has to exist; none where this build leaves it out."""
    if not (ROOT / "src" / module).is_dir():
        sys.exit(f"{module}: no such module; LAYERS lists them")
    return [f for f in files if f.startswith(f"{ROOT}/src/{module}/")]


def without_module(files):
    """Files that the test of no module checks, or those of two."""
    modules = [line.split()[1] for line in (ROOT / "LAYERS").read_text().splitlines() if line[:1].isdigit()]
    return [f for f in files if sum(f.startswith(f"{ROOT}/src/{m}/") for m in modules) != 1]


def selftest(folder, commands):
    """Whether the tool finds a planted fault and takes every flag of the build's commands, and a changed header makes a file be
    checked again, one that was made too."""
    flags = " ".join(sorted({flag for c in commands.values() for flag in re.findall(r"(?<= )-[fm]\S+", c)}))
    files = {"planted.cpp": FAULT, "clean.cpp": FAULT.replace("moved + text", "moved"), "part.hpp": "int one();\n",
             "system/of_others.hpp": "inline int first(const int* p) { if (p) return *p; return *p; }\n",
             "user.cpp": "#include <of_others.hpp>\nint user(const int* p) { return first(p); }\n",
             "with.cpp": '#include "part.hpp"\n#include "made.hpp"\nint one() { return two() - 1; }\n', "gen/made.hpp": "int two();\n"}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(folder), "file": str(folder / n), "command": f"c++ -std=c++20 {flags} -isystem {folder}/system -c {folder / n}"} for n in files]))
    found = {n: check(folder, str(folder / n), command)[1] != 0 for n, command in
             (("planted.cpp", f"-isystem {folder}/system"), ("clean.cpp", ""), ("user.cpp", f"-isystem {folder}/system"))}
    found["user.cpp as our own"] = check(folder, str(folder / "user.cpp"), "")[1] != 0

    def key(command=f"c++ -I{folder}/gen"):
        included.cache_clear()
        content.cache_clear()
        return key_of(folder / "with.cpp", command, folder)
    keys = [key(), key(), key(f"c++ -I{folder}/gen -O1")]
    for name in ("part.hpp", "gen/made.hpp"):
        (folder / name).write_text(files[name] + "// changed\n")
        keys.append(key())
    same = [k in keys[:n] for n, k in enumerate(keys)]
    known = folder / "passed.json"
    writers = [multiprocessing.Process(target=add_passed, args=(known, str(k), "")) for k in range(20)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    lost, without = 20 - len(read_passed(known)), without_module(commands)
    print(f"findings: {found}; same keys: {same}; lost of 20 that passed at once: {lost}; in no module or in two: {without}")
    right = found == {"planted.cpp": True, "clean.cpp": False, "user.cpp": False, "user.cpp as our own": True} and same == [False, True, False, False, False]
    strange = f"{ROOT}/src/nowhere/one.cpp"
    return 0 if right and lost == 0 and not without and without_module([strange]) == [strange] else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("files", nargs="*", type=pathlib.Path)
    p.add_argument("--module", metavar="NAME")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--most", type=int, metavar="N")
    p.add_argument("--selftest", action="store_true")
    a = p.parse_intermixed_args()
    build = a.build.resolve()
    if not shutil.which(TOOL):
        print(f"{TOOL} is missing: run ./dev setup")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        commands = database(build, folder)
        if a.selftest:
            return selftest(folder, commands)
        known = build / "clang_tidy_passed.json"
        before = read_passed(known)
        asked = [str(f.resolve()) for f in a.files] or (list(commands) if a.module is None else of_module(commands, a.module))
        if not asked:
            print(f"{a.module} is not part of this build")
            return 77
        keys = {f: key_of(pathlib.Path(f), commands.get(f, ""), build) for f in asked}
        new = [f for f in asked if a.files or before.get(os.path.relpath(f, ROOT)) != keys[f]]
        files = new[: a.most]

        def passed(file):
            add_passed(known, os.path.relpath(file, ROOT), keys[file])
        bad = check_all(folder, files, commands, a.jobs, passed)
    print(f"clang-tidy: {len(files)} files, {bad} with findings; {len(asked) - len(new)} passed before as they are, "
          f"{len(new) - len(files)} are left")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
