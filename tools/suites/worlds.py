#!/usr/bin/env python3
"""Runs suites of cases again in worlds: configurations under which every answer must stay right. A case that passes in the
default world must pass in each; so must a seeded share of them, with --share.

    worlds.py --peri build/bin/peri build/suites/node [--share 10 --seed commit] [--worlds one_thread,...]

Each run also holds a planted case, whose expected answer is wrong: a world that lets it pass is blind, and that is a failure.
Exit code 3 where a world gives a wrong answer or is blind, 1 where something does not run."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

PLANTED = "planted_wrong"


class Trouble(Exception):
    pass


def call(peri, words, environment=None):
    done = subprocess.run([peri, *words], capture_output=True, text=True, env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


def passes_of(peri, scratch):
    """Names of all passes: a build that is asked to leave an unknown one out lists them."""
    model = pathlib.Path(__file__).resolve().parents[2] / "models" / "digits_cnn.onnx"
    _, _, said = call(peri, ["build", model, "-o", scratch / "none.engine", "--disable-pass", "no_such_pass", "--quiet"])
    found = re.search(r"the passes are: ([a-z0-9_, ]+)", said)
    if not found:
        raise Trouble(f"the passes are not listed: {said}")
    return [name.strip() for name in found[1].split(",")]


def worlds_of(peri, scratch):
    """Name -> flags and environment."""
    cache = scratch / "cache"
    cache.mkdir()
    return {
        "default": ([], {}),
        "passes_off": ([f"--disable-pass={name}" for name in passes_of(peri, scratch)], {}),
        "poisoned_memory": (["--memory", "poisoned"], {}),
        "separate_memory": (["--memory", "separate"], {}),
        "null_device": (["--backend", "null"], {}),
        "provider_peri": (["--provider", "peri"], {}),
        "provider_onednn": (["--provider", "onednn"], {}),
        "provider_reference": (["--provider", "reference"], {}),
        "one_thread": (["--threads", "1"], {}),
        "tiny_cache": ([], {"PERI_CACHE": str(cache), "PERI_PACKED_CACHE_MIB": "0"}),
    }


def plant(suite, names, folder):
    """A copy of the first case that has one output file of floats, with its last byte's exponent changed."""
    for name in names:
        sets = sorted((suite / name).glob("test_data_set_*"))
        outputs = sorted(sets[0].glob("output_*.pb")) if sets else []
        if not outputs or not 64 < outputs[0].stat().st_size < 1 << 24:
            continue
        import onnx  # only here: the rest needs no package
        import onnx.numpy_helper
        tensor = onnx.load_tensor(str(outputs[0]))
        array = onnx.numpy_helper.to_array(tensor).copy()
        if array.dtype.name != "float32" or array.size == 0:
            continue
        shutil.copytree(suite / name, folder / PLANTED)
        array.flat[array.size // 2] += 1.0 + abs(array.flat[array.size // 2])
        made = onnx.numpy_helper.from_array(array, tensor.name)
        onnx.save_tensor(made, str(folder / PLANTED / sets[0].name / outputs[0].name))
        return name
    raise Trouble(f"{suite} has no case to plant a fault in")


def sample(suite, share, seed, folder):
    """A folder of links to a share, in percent, of the suite's cases, and the planted one."""
    names = sorted(p.name for p in suite.iterdir() if (p / "model.onnx").is_file())
    if not names:
        raise Trouble(f"{suite} holds no cases: ./dev setup makes it")
    taken = sorted(random.Random(seed).sample(names, max(1, len(names) * share // 100)))
    folder.mkdir()
    for name in taken:
        (folder / name).symlink_to((suite / name).resolve())
    if (suite / "index.json").exists():
        (folder / "index.json").symlink_to((suite / "index.json").resolve())
    origin = plant(suite, names, folder)
    return len(taken), origin


def run_world(peri, folder, flags, environment):
    """Names of the cases that did not pass, with the reason."""
    code, said, last = call(peri, ["verify", "--suite", folder, "--quiet", "--json", "-", *flags], environment)
    if code not in (0, 3):
        raise Trouble(f"peri verify --suite ended with {code}: {last}")
    return {c["case"]: c["why"] for c in json.loads(said)["not_passed"]}


def judge(name, found, default):
    """What is wrong with a world: answers that the default one gives right, or blindness."""
    wrong = [f"{name}: {case}: {why}" for case, why in sorted(found.items()) if case not in default]
    if PLANTED not in found:
        wrong.append(f"{name}: a wrong answer was planted and passed: this world sees nothing")
    return wrong


def seed_of(word):
    if word != "commit":
        return int(word)
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    return int(done.stdout.strip()[:8], 16) if done.returncode == 0 else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suites", nargs="+", type=pathlib.Path)
    p.add_argument("--peri", required=True)
    p.add_argument("--share", type=int, default=100, metavar="PERCENT")
    p.add_argument("--seed", type=seed_of, default=1, metavar="N|commit")
    p.add_argument("--worlds", default="", metavar="NAME,...")
    a = p.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        worlds = worlds_of(a.peri, pathlib.Path(scratch))
        chosen = a.worlds.split(",") if a.worlds else list(worlds)
        if unknown := [w for w in chosen if w not in worlds]:
            raise Trouble(f"no world {', '.join(unknown)}; they are: {', '.join(worlds)}")
        for suite in a.suites:
            folder = pathlib.Path(scratch) / suite.name
            count, origin = sample(suite, a.share, a.seed, folder)
            print(f"{suite.name}: {count} cases, seed {a.seed}, a fault planted in {origin}")
            default = run_world(a.peri, folder, *worlds["default"])
            for name in chosen:
                start = time.monotonic()
                found = default if name == "default" else run_world(a.peri, folder, *worlds[name])
                bad = judge(name, found, default)
                wrong += bad
                print(f"  {name:20} {count + 1 - len(found):5} passed, {len(bad)} wrong, {time.monotonic() - start:.1f} s")
    print("\n".join(wrong))
    return 3 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        print(f"worlds: {trouble}", file=sys.stderr)
        sys.exit(1)
