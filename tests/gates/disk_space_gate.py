# label: null
"""./dev looks at the free space before long work: an error at once where it cannot suffice, and none where what is there does."""
import os, pathlib, random, re, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEV = ROOT / "tools/dev"
WORKS = ("setup", "build", "demo", "test", "fuzz", "slow", "cuda")
TABLE = "# a comment\nbuild/one 8 test demo build setup\nbuild/*.part 4 test\nbuild-fuzz 100 fuzz\n"


def checkout(folder, table=TABLE):
    """A checkout whose set-up and build do nothing, with a df that gives what the file `free` says."""
    shutil.copytree(DEV, folder / "tools/dev")
    shutil.copy(ROOT / "dev", folder)
    (folder / "tools/dev/lib/space.txt").write_text(table)
    (folder / "bin").mkdir()
    (folder / "bin/df").write_text(f"#!/bin/sh\necho head\necho disk 1000 500 $(cat {folder}/free) 50% /\n")
    for name in ("ctest", "cmake", "ninja", "clang++-19"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho reached {name}\n")
    # The set-up's own order of things, whose functions do nothing.
    setup = (DEV / "setup.sh").read_text()
    setup = setup[setup.index("\nsetup_machine\n"):]
    stubs = "".join(f"{name}() {{ echo reached {name}; }}\n" for name in sorted(set(re.findall(r"\bsetup_\w+", setup)) - {"setup_machine"}))
    (folder / "tools/dev/setup.sh").write_text(f"# Stands in.\nsetup_machine() {{ :; }}\n{stubs}{setup}")
    for file in (folder / "bin").iterdir():
        file.chmod(0o755)
    return folder


def dev(folder, free, *words, **more):
    (folder / "free").write_text(str(free))
    done = subprocess.run([folder / "dev", *words], capture_output=True, text=True, env={"PATH": f"{folder}/bin:/usr/bin:/bin", **more})
    return done.returncode, done.stdout + done.stderr


def fill(file, mib):
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as out:  # on the disk, in full
        out.write(random.Random(1).randbytes(mib << 20))
        os.fsync(out.fileno())


wrong = []


def expect(what, got, refused, *texts):
    code, said = got
    if refused != (code == 1 and "too little space" in said and "reached" not in said) or (not refused and "reached" not in said) \
            or any(t not in said for t in texts):
        wrong.append(f"{what}: expected {'a refusal' if refused else 'none'} with {texts}, found status {code}: {said}")


with tempfile.TemporaryDirectory() as scratch:
    folder = checkout(pathlib.Path(scratch) / "a")
    only = ("-R", "x")
    expect("nothing is there", dev(folder, 11, "test", *only), True, "12 MiB", "11 MiB are free", "DEV_ANY_SPACE=1")
    expect("just enough", dev(folder, 12, "test", *only), False, "disk space that is needed")
    expect("against the advice", dev(folder, 1, "test", *only, DEV_ANY_SPACE="1"), False)
    expect("fuzzers too", dev(folder, 111, "test"), True, "112 MiB")
    expect("all that", dev(folder, 112, "test"), False)
    for work in ("setup", "build", "demo"):
        expect(work, dev(folder, 7, work), True, "8 MiB", "7 MiB are free")
    expect("the fuzzers alone", dev(folder, 99, "fuzz"), True, "100 MiB")
    expect("a target by name", dev(folder, 1, "build", "peri"), False)
    fill(folder / "build/one/file", 4)
    fill(folder / "build/b.part", 1)
    expect("what is there counts", dev(folder, 6, "test", *only), True, "7 MiB")
    expect("what is there is had", dev(folder, 7, "test", *only), False)
    fill(folder / "build/one/more", 3)
    fill(folder / "build/c.part", 2)
    expect("a built checkout, nearly the size", dev(folder, 0, "test", *only), False)
    expect("a built checkout", dev(folder, 0, "build"), False)
    fill(folder / "build/bin/.mold-killed", 1)
    fill(folder / "build/bin/.mold-runs", 1)
    os.utime(folder / "build/bin/.mold-killed", (1000, 1000))
    dev(folder, 0, "build")
    if (there := [p.name for p in (folder / "build/bin").iterdir()]) != [".mold-runs"]:
        wrong.append(f"what a killed link left: {there} is there")

# The table itself: every kind of work has parts, and no part of it lies in another.
rows = [line.split() for line in (DEV / "lib/space.txt").read_text().splitlines() if line and not line.startswith("#")]
for row in rows:
    if len(row) < 3 or not row[1].isdigit() or int(row[1]) == 0 or set(row[2:]) - set(WORKS):
        wrong.append(f"a row that is none: {row}")
    if any(row is not other and set(row[2:]) & set(other[2:]) and (row[0] + "/").startswith(other[0] + "/") for other in rows):
        wrong.append(f"{row[0]} lies in another part")
wrong += [f"no part is made by {work}" for work in WORKS if not any(work in row[2:] for row in rows)]
print("\n".join(wrong) or f"space is asked for, {len(rows)} parts are listed")
sys.exit(bool(wrong))
