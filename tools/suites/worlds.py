#!/usr/bin/env python3
"""Runs suites of cases again in worlds: configurations under which every answer must stay right. A case that passes in the
default world must pass in each; so must a seeded share of them, with --share.

    worlds.py --peri build/bin/peri build/suites/node [--share 10 --seed commit] [--worlds one_thread,...]

Each run also holds a planted case, whose expected answer is wrong: a world that lets it pass is blind, and that is a failure.
So is a world that is not in force: what the runs were (`runs` of peri's JSON: steps, executors, providers, threads, memory) must
show what was asked for. Exit code 3 where a world gives a wrong answer, is blind or not in force, 1 where something does not run."""
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
HELD = 12  # cases with weights of their own: enough for several kernels, and quick


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


# Name -> what its runs must show beside those of the default world, in words and as a test. Steps and bytes are sums over all runs.
IN_FORCE = {
    "passes_off": ("other steps than with passes", lambda runs, default: runs["steps"] != default["steps"]),
    "poisoned_memory": ("memory filled before runs", lambda runs, default: runs["poisoned_bytes"] > default["poisoned_bytes"]),
    "separate_memory": ("filled memory, and more than is planned", lambda runs, default: runs["poisoned_bytes"] > default["poisoned_bytes"] and runs["arena_bytes"] > default["arena_bytes"]),
    "null_device": ("steps on the null device", lambda runs, default: runs["executors"].get("null", 0) > 0),
    "provider_peri": ("kernels of peri and no others", lambda runs, default: set(runs["providers"]) == {"peri"}),
    "provider_onednn": ("kernels of oneDNN and no others", lambda runs, default: set(runs["providers"]) == {"onednn"}),
    "provider_reference": ("steps of the reference and no kernel", lambda runs, default: not runs["providers"] and runs["executors"].get("reference", 0) > 0),
    "one_thread": ("one thread", lambda runs, default: runs["threads"] == 1),
    "tiny_cache": ("a cache that keeps no packed weights", lambda runs, default: runs["packed_cache_bytes"] == 0),
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


def hold_weights(suite, names, folder):
    """Copies of the first products and convolutions whose right side is an input, with it held as a weight: the node suite has none,
    and kernels that pack weights, all of oneDNN's among them, would never run. Returns how many."""
    made = 0
    for name in names:
        if made == HELD or not re.match(r"test_(?:basic_conv|conv_with|gemm|matmul)", name):
            continue
        import onnx
        model = onnx.load(str(suite / name / "model.onnx"))
        sets = sorted((suite / name).glob("test_data_set_*"))
        graph = model.graph
        if len(graph.node) != 1 or graph.node[0].op_type not in ("Conv", "Gemm", "MatMul") or len(sets) != 1:
            continue
        held = [onnx.load_tensor(str(sets[0] / f"input_{k}.pb")) for k in range(1, len(graph.input))]
        if not held or any(t.data_type != onnx.TensorProto.FLOAT for t in held):
            continue
        for tensor, value in zip(held, list(graph.input)[1:]):
            tensor.name = value.name
            graph.initializer.append(tensor)
            graph.input.remove(value)
        case = folder / f"{name}_with_weights"
        shutil.copytree(suite / name, case)
        onnx.save(model, str(case / "model.onnx"))
        made += 1
    return made


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
    return len(taken) + hold_weights(suite, names, folder), origin


def run_world(peri, folder, flags, environment):
    """Names of the cases that did not pass, with the reason; and what the runs were."""
    code, said, last = call(peri, ["verify", "--suite", folder, "--quiet", "--json", "-", *flags], environment)
    if code not in (0, 3):
        raise Trouble(f"peri verify --suite ended with {code}: {last}")
    told = json.loads(said)
    return {c["case"]: c["why"] for c in told["not_passed"]}, told["runs"]


def judge(name, found, default, runs, default_runs):
    """What is wrong with a world: answers that the default one gives right, blindness, or that it is not in force."""
    wrong = [f"{name}: {case}: {why}" for case, why in sorted(found.items()) if case not in default]
    if PLANTED not in found:
        wrong.append(f"{name}: a wrong answer was planted and passed: this world sees nothing")
    if name in IN_FORCE and not IN_FORCE[name][1](runs, default_runs):
        wrong.append(f"{name}: not in force: expected {IN_FORCE[name][0]}, found {json.dumps(runs)}")
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
        if unchecked := worlds.keys() - IN_FORCE.keys() - {"default"}:
            raise Trouble(f"nothing says whether {', '.join(sorted(unchecked))} is in force: IN_FORCE needs a row")
        chosen = a.worlds.split(",") if a.worlds else list(worlds)
        if unknown := [w for w in chosen if w not in worlds]:
            raise Trouble(f"no world {', '.join(unknown)}; they are: {', '.join(worlds)}")
        for suite in a.suites:
            folder = pathlib.Path(scratch) / suite.name
            count, origin = sample(suite, a.share, a.seed, folder)
            print(f"{suite.name}: {count} cases, seed {a.seed}, a fault planted in {origin}")
            default, default_runs = run_world(a.peri, folder, *worlds["default"])
            for name in chosen:
                start = time.monotonic()
                found, runs = (default, default_runs) if name == "default" else run_world(a.peri, folder, *worlds[name])
                bad = judge(name, found, default, runs, default_runs)
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
