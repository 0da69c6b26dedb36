#!/usr/bin/env python3
"""Builds the server with a sanitizer beside an ordinary build and runs its tests: the modules it is made of are compiled again with
the sanitizer, all others are taken as they are.

  serve.py thread|address [--build build] [--jobs N] [--only FILTER] [--typed NAME ...]

A finding ends the program it is found in, and so the test. --typed: also those files of tests/typed, against the whole program.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODULES = ("src/base/", "src/runtime/", "src/serve/", "tests/serve/", "tests/programs/hosted_fakes")
LIBRARIES = ("base", "runtime", "serve")
KINDS = {"thread": ["-fsanitize=thread"], "address": ["-fsanitize=address,undefined", "-fno-sanitize=object-size", "-fno-sanitize-recover=all"]}
# gRPC's library is taken as it is, and its own locks are not seen: what the thread sanitizer says of it is no finding.
LEFT_OUT = {"thread": "GrpcWatch*", "address": ""}
PROGRAMS = ("hosted_fakes", "test_serve")


def commands(build, programs):
    """Compile commands by object and link commands by program."""
    said = subprocess.run(["ninja", "-C", build, "-t", "commands", *programs], capture_output=True, text=True, check=True).stdout
    compiles, links = {}, {}
    for line in said.splitlines():
        if found := re.search(r" -o (\S+\.o) -c (\S+)", line):
            source = pathlib.Path(found[2])
            if source.is_relative_to(SOURCE) and str(source.relative_to(SOURCE)).startswith(MODULES):
                compiles[found[1]] = line
        elif found := re.search(r" -o bin/(\w+) ", line):
            links[found[1]] = line
    return compiles, links


def is_new(target, needs, build):
    """Whether an object is newer than all that it was made of."""
    if not target.is_file() or not needs.is_file():
        return False
    sources = [build / name for name in needs.read_text().replace("\\\n", " ").split(":", 1)[1].split()]
    return all(s.is_file() and s.stat().st_mtime < target.stat().st_mtime for s in sources)


def compile_one(line, object_file, out, flags, build):
    words = shlex.split(line)
    cut = words.index("-MD")
    target = out / object_file
    needs = target.with_suffix(".d")
    own = ["-w", "-O1", "-g1", "-fno-omit-frame-pointer", *flags, "-MMD", "-MF", str(needs)]
    words = [w for w in words[:cut] if w not in ("-Winvalid-pch", "-Werror")] + own + words[words.index("-o", cut):]
    command = target.with_suffix(".command")
    if is_new(target, needs, build) and command.is_file() and command.read_text() == shlex.join(words):
        return
    source = pathlib.Path(words[-1])
    target.parent.mkdir(parents=True, exist_ok=True)
    said = shlex.join(words)
    words[words.index("-o") + 1] = str(target)
    begun = time.time()  # a source may change meanwhile
    done = subprocess.run(words, cwd=build, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr[-3000:]}")
    os.utime(target, (begun, begun))
    command.write_text(said)


def link(line, name, out, flags, build):
    line = line.removeprefix(": && ").split(" && ")[0]
    words = shlex.split(line)
    own = {f"libperi_{m}.a": sorted(map(str, (out / f"CMakeFiles/peri_{m}.dir").rglob("*.o"))) for m in LIBRARIES}
    made = []
    for word in words:
        if word in own:  # as an archive: what nothing needs is left out
            archive = out / word
            if not archive.exists():
                subprocess.run(["ar", "qcs", archive, *own[word]], check=True)
            made.append(str(archive))
        else:
            made.append(str(out / word) if (out / word).is_file() and word.endswith(".o") else word)
    made[made.index("-o") + 1] = str(out / "bin" / name)
    (out / "bin").mkdir(exist_ok=True)
    subprocess.run([*made, *flags], cwd=build, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="*", help="of test_serve, as --gtest_filter takes it")
    parser.add_argument("--typed", nargs="*", default=[])
    options = parser.parse_args()
    build, flags = options.build.resolve(), KINDS[options.kind]
    out = build / f"sanitize-{options.kind}"
    programs = [*PROGRAMS, *(["peri"] if options.typed else [])]
    compiles, links = commands(build, programs)
    for archive in out.glob("*.a"):
        archive.unlink()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(compile_one, line, name, out, flags, build) for name, line in compiles.items()]:
            done.result()
    for name in programs:
        link(links[name], name, out, flags, build)
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
                   "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    without = "" if "-" in options.only or not LEFT_OUT[options.kind] else ":-" + LEFT_OUT[options.kind]
    failed = subprocess.run([out / "bin/test_serve", f"--gtest_filter={options.only}{without}", "--gtest_brief=1"], env=environment).returncode != 0
    for name in options.typed:
        program = SOURCE / f"tests/typed/{name}_typed.py"
        failed |= subprocess.run([sys.executable, "-B", program, out / "bin/peri", SOURCE], env=environment).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
