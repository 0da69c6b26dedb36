# label: null
"""What a build leaves on the disk stands there once: archives name their objects, lines of sources are packed, and can be read."""
import pathlib, re, subprocess, sys

BUILD = pathlib.Path(sys.argv[1]).resolve()
wrong = []


def said(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout


archives = sorted(BUILD.glob("libperi_*.a"))
for archive in archives:
    with open(archive, "rb") as file:
        if file.read(7) != b"!<thin>":
            wrong.append(f"{archive.name} holds copies of objects")
if not archives:
    wrong.append(f"{BUILD} has no archives")
program = BUILD / "bin/test_base"
sections = [m for m in re.findall(r"^ *\[ *\d+\] (\.debug_(?:info|line|str)) +\S+ +\w+ \w+ \w+ \w+ +([A-Z]*) ", said("readelf", "-SW", program), re.M)]
if len(sections) != 3 or any("C" not in flags for _, flags in sections):
    wrong.append(f"{program.name}: expected packed .debug_info, .debug_line and .debug_str, found {sections}")
address = re.search(r"^([0-9a-f]+) [tT] main$", said("nm", program), re.M)[1]
if not (line := said("addr2line", "-e", program, f"0x{address}")).strip().partition(":")[0].endswith("tests/main.cpp"):
    wrong.append(f"main of {program.name} is of {line.strip()}, not of tests/main.cpp")
print("\n".join(wrong) or f"{len(archives)} archives and {program.name} are as they should be")
sys.exit(bool(wrong))
