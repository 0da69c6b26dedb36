# label: null
"""Heads of tests: a label or links that the build would not see is an error of its configuration."""
import os, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# key, text of a file, what comes of it: a value, or None for an error
CASES = [
    ("label", "// What it is.\n// label: cpu\n#include <a>\n", "cpu"),
    ("label", "// label: gpu\n// What it is.\n", "gpu"),
    ("label", "# label: slow\nimport os\n", "slow"),
    ("label", "// What it is: all of it.\n#include <a>\nint label = 3;  // label of a node\n", ""),
    ("links", "// What it is.\n// links: backends/cpu passes\n#include <a>\n", "backends/cpu passes"),
    ("label", "// What it is. label: cpu\n#include <a>\n", None),
    ("label", "// What it is.\n#include <a>\n// label: cpu\n", None),
    ("label", "// What it is.\n\n// label: cpu\n", None),
    ("label", "// lable: cpu\n", None), ("label", "// Label: cpu\n", None), ("label", "// labels: cpu\n", None),
    ("label", "// label cpu\n", None), ("label", "// label = cpu\n", None), ("label", "//label: cpu\n", None),
    ("label", "// level: cpu\n", None), ("label", "// label: cpus\n", None), ("label", "// label: cpu, slow\n", None),
    ("label", "// label: cpu\n// label: slow\n", None), ("label", "// links: base\n", None),
    ("links", "// link: base\n", None), ("links", "// links: bass\n", None), ("links", "// Links: base passes\n", None),
    ("links", "// What it is. links: base\n", None), ("links", "// label: cpu\n", None), ("links", "// linked: base\n", None),
]

wrong = []
with tempfile.TemporaryDirectory() as folder:
    file, script = pathlib.Path(folder) / "x_test.cpp", pathlib.Path(folder) / "x.cmake"
    for key, text, expected in CASES:
        file.write_text(text)
        script.write_text(f'cmake_minimum_required(VERSION 3.25)\ninclude("{ROOT}/cmake/heads.cmake")\n'
                          f'set(PERI_HEAD_MODULES base passes backends/cpu)\nperi_head("{file}" {key} out)\nmessage("found=[${{out}}]")\n')
        done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
        found = None if done.returncode else done.stderr.partition("found=[")[2].partition("]")[0]
        if found != expected:
            wrong.append(f"{text!r} as {key}: expected {expected!r}, found {found!r} {done.stderr if found is None else ''}")
print("\n".join(wrong) or f"{len(CASES)} heads are read or refused as they should")
sys.exit(bool(wrong))
