#!/usr/bin/env python3
"""Checks the objects of sources by ISA (*_avx2.cpp ...) in a build folder: a function that the linker may merge
with another object's copy (a weak symbol, e.g. an inline function of the standard library) must carry its ISA in its
name, or code for AVX-512 could end up on every machine's path. --selftest compiles one that breaks the rule and one that does not.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

OBJECT = re.compile(r"_(avx2|avx512|avx512vnni|avx512bf16|amx)\.cpp\.o$")
WEAK = re.compile(r" W (\S+)$")


def merged(path):
    """Weak functions that do not name the instruction set (avx2 or avx512)."""
    family = OBJECT.search(path.name)[1].removesuffix("bf16")
    lines = subprocess.run(["nm", "--defined-only", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return [m[1] for line in lines if (m := WEAK.search(line)) and family not in m[1]]


def plain(symbol):
    return subprocess.run(["c++filt", symbol], check=True, capture_output=True, text=True).stdout.strip()


def check(build):
    objects = sorted(p for p in pathlib.Path(build).rglob("*.o") if OBJECT.search(p.name))
    findings = [(path, symbol) for path in objects for symbol in merged(path)]
    for path, symbol in findings:
        print(f"{path.name}: {plain(symbol)} may replace the same function of other objects: keep it out or force it inline")
    print(f"{len(objects)} objects by ISA, {len(findings)} findings", file=sys.stderr)
    return len(findings), len(objects)


def selftest(compiler):
    shared = "template <class T> __attribute__((noinline)) T g(T x) { return x * x; }"
    bad = f"{shared}\nint h(int x) {{ return g(x); }}\n"
    good = f"namespace avx2 {{ {shared} }}\nint h(int x) {{ return avx2::g(x); }}\n"
    for text, expected in ((bad, True), (good, False)):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "t_avx2.cpp")
            source.write_text(text)
            subprocess.run([compiler, "-std=c++20", "-O1", "-mavx2", "-c", source, "-o", f"{source}.o"], check=True)
            if (check(folder)[0] > 0) != expected:
                print("isa_objects: the self-test failed on:\n" + text)
                return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", help="build folder")
    parser.add_argument("--selftest", metavar="COMPILER")
    options = parser.parse_args()
    if options.selftest and selftest(options.selftest):
        return 1
    return 1 if options.build and check(options.build)[0] else 0


if __name__ == "__main__":
    sys.exit(main())
