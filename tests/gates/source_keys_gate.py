# label: null
"""Keys of sources: a change of a file changes the keys of the entries that include it, and of no other; the key of a judge of
engines if it is of a module that the judge depends on; and those of executors if it judges, times or runs their candidates."""
import pathlib, re, shutil, subprocess, sys, tempfile

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


# In the project itself: file that changes -> what changes its key, of all executors and of what times copies ("crossing").
EXECUTORS = sorted(p.stem for p in (ROOT / "src/exec").glob("*.cpp") if not p.with_suffix(".hpp").exists())
EVERY = " ".join(EXECUTORS)
TRIALS = {
    "tune/trial.cpp": EVERY, "tune/judge.cpp": EVERY, "tune/expected.cpp": EVERY, "tune/sample_regions.cpp": EVERY, "tune/chains.cpp": EVERY,
    "tune/evidence.def": EVERY, "runtime/session_prepare.cpp": EVERY, "runtime/session.cpp": EVERY, "bench/graph_clock.cpp": EVERY,
    "bench/measure.cpp": "crossing " + EVERY, "tune/crossing.cpp": "crossing", "exec/cpu.cpp": "cpu", "exec/cuda.cpp": "cuda",
    "exec/loop.cpp": "loop", "exec/sized/selection.cpp": "sized", "exec/weights/shared_packed.cpp": "cpu",
    "tune/tuner.cpp": "", "tune/decide.cpp": "", "tune/cache.cpp": "", "tune/candidates.cpp": "", "tune/worker_loop.cpp": "",
    "runtime/engine_servable.cpp": "", "bench/record.cpp": "", "bench/session.cpp": "", "exec/ahead.cpp": "", "tune/new.cpp": "",
}


def trial_keys(src, scripts=ROOT / "cmake"):
    script, out = src / "trial.cmake", src / "trial.cpp"
    executors = ";".join(str(src / f"exec/{n}.cpp") for n in EXECUTORS)
    script.write_text(f'set(OUT "{out}")\nset(SRC "{src}")\nset(EXECUTORS "{executors}")\nset(FLAGS "-O2")\ninclude("{scripts}/trial_keys.cmake")\n')
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    made = dict(re.findall(r'\{"(\w+)", "([0-9a-f]{16})"\}', out.read_text()))
    return made | {"crossing": re.search(r'crossing_key\(\) \{ return "([0-9a-f]{16})"', out.read_text()).group(1)}


def wrong_trials(src):
    for module in ("bench", "exec", "runtime", "tune"):
        shutil.copytree(ROOT / "src" / module, src / module)
    before = trial_keys(src)
    if sorted(before) != sorted([*EXECUTORS, "crossing"]) or {"cpu", "cuda"} - set(before):
        yield f"keys of {sorted(before)} instead of {EVERY} and crossing"
    if trial_keys(src) != before:
        yield "nothing changed, and keys of trials did"
    for name, expected in TRIALS.items():
        old = (src / name).read_text() if (src / name).exists() else None
        (src / name).write_text((old or "") + "// changed\n")
        changed = sorted(n for n, k in trial_keys(src).items() if k != before[n])
        (src / name).write_text(old) if old is not None else (src / name).unlink()
        if changed != sorted(expected.split()):
            yield f"{name}: expected new keys of '{expected}', found '{' '.join(changed)}'"
    (src / "tune/trial.cpp").rename(src / "tune/tried.cpp")
    if "src/tune/trial.cpp, which does not exist" not in trial_keys(src):
        yield "a root that does not exist is no error"


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
with tempfile.TemporaryDirectory() as folder:
    wrong += wrong_trials(pathlib.Path(folder))
print("\n".join(wrong) or f"{len(CHANGES) + len(TRIALS)} changes of files change the keys they should")
sys.exit(bool(wrong))
