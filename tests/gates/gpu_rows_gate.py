# label: null
"""Rows against PyTorch without either: rounds on the null device beside a stand-in for the peer, and the verdict on planted samples."""
import json, pathlib, random, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PYTHON = ROOT / ".venv" / "bin" / "python"
if not PYTHON.exists():
    sys.exit(77)
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
import gpu_rows  # noqa: E402

# y = x w, and where it is not zero.
FOUND = """
import sys, onnx
from onnx import TensorProto as T, helper as h
port = lambda name, type, dims: h.make_tensor_value_info(name, type, dims)
nodes = [h.make_node("MatMul", ["x", "w"], ["y"]), h.make_node("NonZero", ["y"], ["z"])]
weight = h.make_tensor("w", T.FLOAT, [8, 8], [float(k % 7 - 3) for k in range(64)])
graph = h.make_graph(nodes, "found", [port("x", T.FLOAT, [4, 8])], [port("y", T.FLOAT, [4, 8]), port("z", T.INT64, [2, "found"])], [weight])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]), sys.argv[1])
"""
wrong = []


def row(ours, limit=1.0, memory=1, rounds=5, drift=0.0):
    """Samples around 1 ms of a peer with two modes, the second faster, and of ours around `ours`."""
    rng = random.Random(7)
    at = lambda ms: [[ms * (1 + drift * k) * rng.gauss(1, 0.01) for _ in range(30)] for k in range(rounds)]
    modes = {"eager": {"device_bytes": 100}, "default": {"device_bytes": 10}}
    return gpu_rows.judged({"limit": limit, "ours": {"rounds": at(ours), "device_bytes": memory}, "peer": {"modes": modes, "rounds": {"eager": at(1.3), "default": at(1.0)}}})


def expect(what, got, missed, **parts):
    if len(got["missed"]) != missed or got["peer"]["mode"] != "default" or not got["interval"][0] <= got["ratio"] <= got["interval"][1]:
        wrong.append(f"{what}: missed {got['missed']} for {missed}, {got['peer']['mode']}, {got['ratio']} of {got['interval']}")


expect("a faster one", row(0.9), 0)
expect("a slower one", row(1.1), 2)
expect("a slower one that is allowed", row(1.1, limit=1.25), 0)
expect("more memory", row(0.9, memory=11), 1)
# Equal medians of rounds that do not agree: 1.0 is met, but it may as well be far above.
unsure = row(1.0)
unsure["ours"]["rounds"] = [[ms * f for ms in samples] for samples, f in zip(unsure["ours"]["rounds"], (0.8, 0.8, 0.9, 1.5, 1.5))]
expect("a median that is not known well enough", gpu_rows.judged(unsure), 1)
if gpu_rows.interval([[1.0] * 30] * 5, [[2.0] * 30] * 5) != [0.5, 0.5]:
    wrong.append("the interval of samples without spread is not their ratio")

with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    shutil.copy(ROOT / "models" / "digits_cnn.onnx", folder / "resnet50.onnx")
    out = folder / "rows.json"
    words = [PYTHON, ROOT / "benchmarks" / "peers" / "gpu_rows.py", "resnet50:2", "--peri", BUILD / "bin" / "peri", "--models", folder, "--build-flags=--backend null --no-tune --no-verify"]
    done = subprocess.run([*words, "--dry", "--judge", "--engines", folder / "kept", "--rounds", "2", "--json", out, "--markdown", folder / "rows.md"], capture_output=True, text=True)
    if done.returncode != 4:  # a float64 reference is slower than a small product
        wrong.append(f"a dry row gave {done.returncode}: {done.stdout}{done.stderr}")
    else:
        made = json.loads(out.read_text())["rows"][0]
        counts = [len(made["ours"]["rounds"]), *(len(r) for r in made["ours"]["rounds"]), *(len(r) for r in made["peer"]["rounds"]["eager"])]
        if counts != [2, 30, 30, 30, 30] or made["ours"]["device_bytes"] <= 0 or made["batch"] != 2 or "batch=2" not in made["dims"]:
            wrong.append(f"a dry row has {counts} samples, {made['ours']['device_bytes']} bytes, dims '{made['dims']}'")
        if made["steps_alone"]["steps"] < 5 or made["steps_alone"]["wrong"] or any("wrong" in m for m in made["missed"]):
            wrong.append(f"of the steps of a right engine it says {made['steps_alone']}")
        if made["engine_sha256"] != gpu_rows.sha256(folder / "kept" / "resnet50-2.engine"):
            wrong.append("the row does not name the engine that was timed")
        if [s["side"] for s in made["states"]] != ["ours", "peer", "peer", "ours"]:
            wrong.append("the sides do not take turns")
        if "| resnet50 | 2 |" not in (folder / "rows.md").read_text():
            wrong.append("the table has no row")
    # The same judgement later, and of an engine that is not the one that was timed.
    later = [*words[:2], out, "--judge-only", "--dry", *words[3:5], "--engines", folder / "kept"]
    done = subprocess.run(later, capture_output=True, text=True)
    if done.returncode != 4 or json.loads(out.read_text())["rows"][0]["steps_alone"]["steps"] < 5 or "steps judged in" not in done.stdout:
        wrong.append(f"a later judgement gave {done.returncode}: {done.stdout}{done.stderr}")
    with open(folder / "kept" / "resnet50-2.engine", "ab") as engine:
        engine.write(b"x")
    done = subprocess.run(later, capture_output=True, text=True)
    if done.returncode != 1 or "is not the engine that was timed" not in done.stderr:
        wrong.append(f"a judgement of another engine gave {done.returncode}: {done.stdout}{done.stderr}")
    # A program whose engines have a wrong step.
    false = folder / "peri"
    step = {"name": "c1", "checked": True, "error_over_bound": 7.0, "why": "planted"}
    false.write_text(f"""#!/bin/sh\nif [ "$1" = verify ]; then echo '{json.dumps({"bisect": [step]})}'; exit 3; fi\nexec {BUILD / 'bin' / 'peri'} "$@"\n""")
    false.chmod(0o755)
    done = subprocess.run([*words[:4], false, *words[5:], "--dry", "--judge", "--rounds", "2", "--json", out], capture_output=True, text=True)
    if done.returncode != 4 or "a step is wrong: c1: planted" not in done.stdout:
        wrong.append(f"an engine with a wrong step gave {done.returncode}: {done.stdout}{done.stderr}")
    # An output that the host finds: such runs count with their copies.
    subprocess.run([PYTHON, "-c", FOUND, folder / "ssdlite320.onnx"], check=True)
    done = subprocess.run([*words[:2], "ssdlite320", *words[3:], "--dry", "--rounds", "2", "--json", out, "--markdown", folder / "rows.md"], capture_output=True, text=True)
    if done.returncode not in (0, 4):
        wrong.append(f"a row with an output on the host gave {done.returncode}: {done.stdout}{done.stderr}")
    else:
        ours = json.loads(out.read_text())["rows"][0]["ours"]
        if [len(r) for r in ours["rounds"]] != [30, 30] or "'z'" not in ours.get("with_copies", ""):
            wrong.append(f"a row with an output on the host has {ours}")
        if "ours with copies |" not in (folder / "rows.md").read_text():
            wrong.append("the table does not say that copies count")
    for flags, said in ((["resnet18"], "no row for 'resnet18'"), (["unet"], "materialize.py")):
        done = subprocess.run([*words[:2], *flags, *words[3:], "--json", out], capture_output=True, text=True)
        if done.returncode != 1 or said not in done.stderr:
            wrong.append(f"{flags}: status {done.returncode}: {done.stderr}")

if wrong:
    sys.exit("\n".join(wrong))
