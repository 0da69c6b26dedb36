# label: null
"""Keys of sources: a change of a file changes the keys of the entries that include it, and of no other; and the key of a judge if
it is of a module that the judge hangs on."""
import pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {
    "kit/entry.hpp": "", "kit/source_key.hpp": "",
    "kit/cpu/one.cpp": '#include "kit/cpu/part.hpp"\n#include "kit/gemm/gemm.hpp"\n',
    "kit/cpu/two.cpp": '#include "kit/entry.hpp"\n#include "kit/rows/rows.hpp"\n#include "base/pool.hpp"\n',
    "kit/cpu/part.hpp": "", "kit/cpu/part.cpp": "", "kit/cpu/part_avx2.cpp": "", "kit/gemm/gemm.hpp": "",
    "kit/gemm/tile.cpp": '#include "kit/simd/vec.hpp"\n', "kit/simd/vec.hpp": "", "kit/rows/rows.hpp": "",
    "base/pool.hpp": "", "base/also.cpp": "",
}
# file that changes -> entries whose keys change
CHANGES = {
    "kit/cpu/one.cpp": "one", "kit/cpu/two.cpp": "two", "kit/cpu/part.cpp": "one", "kit/cpu/part_avx2.cpp": "one",
    "kit/gemm/tile.cpp": "one", "kit/simd/vec.hpp": "one", "kit/rows/rows.hpp": "two", "kit/entry.hpp": "two",
    "base/also.cpp": "one two", "base/pool.hpp": "", "kit/source_key.hpp": "",
}


def keys(src, flags):
    out = src / "keys.cpp"
    script = src / "keys.cmake"
    entries = ";".join(str(src / f"kit/cpu/{n}.cpp") for n in ("one", "two"))
    script.write_text(f'set(OUT "{out}")\nset(SRC "{src}")\nset(MODULE kit)\nset(FOLDERS kit/cpu)\nset(ENTRIES "{entries}")\n'
                      f'set(ALSO "{src}/base/also.cpp")\nset(FLAGS "{flags}")\ninclude("{ROOT}/cmake/source_keys.cmake")\n')
    subprocess.run(["cmake", "-P", script], check=True)
    found = re.findall(r'"([0-9a-f]{16})"', out.read_text())
    assert len(found) == 2, out.read_text()
    return dict(zip(("one", "two"), found))


def judge_key(src, flags):
    script, out = src / "judge.cmake", src / "judge.cpp"
    script.write_text(f'set(OUT "{out}")\nset(SRC "{src}")\nset(MODULE kit)\nset(OF kit base)\nset(FLAGS "{flags}")\ninclude("{ROOT}/cmake/judge_key.cmake")\n')
    subprocess.run(["cmake", "-P", script], check=True)
    assert 'namespace peri::kit' in out.read_text()
    return re.search(r'return "([0-9a-f]{16})"', out.read_text()).group(1)


with tempfile.TemporaryDirectory() as folder:
    src = pathlib.Path(folder)
    for name, text in FILES.items():
        (src / name).parent.mkdir(parents=True, exist_ok=True)
        (src / name).write_text(text)
    before, wrong = keys(src, "-O2"), []
    if keys(src, "-O2") != before:
        wrong.append("nothing changed, and keys did")
    if any(keys(src, "-O3")[n] == before[n] for n in before):
        wrong.append("other flags, same keys")
    for name, expected in CHANGES.items():
        (src / name).write_text(FILES[name] + "// changed\n")
        changed = " ".join(n for n, k in keys(src, "-O2").items() if k != before[n])
        (src / name).write_text(FILES[name])
        if changed != expected:
            wrong.append(f"{name}: expected new keys of '{expected}', found '{changed}'")
    (src / "other").mkdir()
    (src / "other/far.cpp").write_text("")
    judge = judge_key(src, "-O2")
    if judge_key(src, "-O3") == judge:
        wrong.append("other flags, same judge")
    for name in [*FILES, "other/far.cpp"]:
        text = (src / name).read_text()
        (src / name).write_text(text + "// changed\n")
        changed = judge_key(src, "-O2") != judge
        (src / name).write_text(text)
        if changed != (not name.startswith("other/")):
            wrong.append(f"{name}: the judge's key {'changed' if changed else 'stayed'}")
    (src / "kit/new.hpp").write_text("")
    if judge_key(src, "-O2") == judge:
        wrong.append("a new file, same judge")
print("\n".join(wrong) or f"{len(CHANGES)} changes of files change the keys they should")
sys.exit(bool(wrong))
