# label: null
"""No test and no command of ./dev writes to the user's cache: each has a folder of the build for it, or none."""
import json, os, pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()


def strays(listed, build):
    """Names of tests whose cache is not below the build; [] of a listing without tests is no answer."""
    found = []
    for test in listed["tests"]:
        environment = [p["value"] for p in test.get("properties", []) if p["name"] == "ENVIRONMENT"]
        caches = [w.partition("=")[2] for words in environment for w in words if w.startswith("PERI_CACHE=")]
        if len(caches) != 1 or (caches[0] and build not in pathlib.Path(caches[0]).resolve().parents):
            found.append(test["name"])
    return found


def listing(**caches):
    """Of tests by name; None: without a word of a cache."""
    return {"tests": [{"name": n, "properties": [] if c is None else [{"name": "ENVIRONMENT", "value": ["A=b", f"PERI_CACHE={c}"]}]}
                      for n, c in caches.items()]}


def cache_of_dev(folder, **given):
    """What a command of ./dev has as its cache, and its checkout."""
    (folder / "tools/dev/lib").mkdir(parents=True)
    shutil.copy(ROOT / "dev", folder)
    for file in (ROOT / "tools/dev/lib").iterdir():
        shutil.copy(file, folder / "tools/dev/lib")
    (folder / "tools/dev/show.sh").write_text("# Shows.\nsh -c 'echo \"[${PERI_CACHE-unset}]\"'\n")
    bare = {k: v for k, v in os.environ.items() if k != "PERI_CACHE"}
    return subprocess.run([folder / "dev", "show"], capture_output=True, text=True, env={**bare, **given}).stdout.strip()


wrong = []
planted = listing(good=BUILD / "cache", none="", unset=None, home=pathlib.Path.home() / ".cache/peri", beside=f"{BUILD}-2/cache", whole=BUILD.parent)
if (found := strays(planted, BUILD)) != ["unset", "home", "beside", "whole"]:
    wrong.append(f"planted tests: {found} were found")
real = json.loads(subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout)
if not real["tests"]:
    wrong.append(f"{BUILD} has no tests")
wrong += [f"{name} has no PERI_CACHE below the build" for name in strays(real, BUILD)]
with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch).resolve()
    if (said := cache_of_dev(folder / "a")) != f"[{folder}/a/build/cache]":
        wrong.append(f"./dev gives its commands the cache {said}")
    for own in ("", "/own"):
        if (said := cache_of_dev(folder / f"b{len(own)}", PERI_CACHE=own)) != f"[{own}]":
            wrong.append(f"./dev with PERI_CACHE={own!r} gives its commands the cache {said}")
print("\n".join(wrong) or f"{len(real['tests'])} tests and ./dev keep to the build")
sys.exit(bool(wrong))
