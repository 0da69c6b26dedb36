#!/usr/bin/env python3
"""Campaign, driver and minimiser find what they are there for: a planted wrong element, a crash and a hang each become the
verdict of their name, for the case that they are planted in and for no other; a seed gives the same bytes again, the
witness multiplies bytes exactly, and an operator that no model has is noticed.

    selftest.py --driver build/bin/judge_models"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import cases
import coverage
import onnx
from compose import model_of
from graph import save
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent
BASE = 42  # seeds from here on; they make plain models


def plain(name):
    """y = relu(x) + 1 over [batch, 8]: an engine that is wrong on this has another fault than the planted one."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "c"], ["y"])]
    one = helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0])
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xy"]
    model = helper.make_model(helper.make_graph(nodes, name, io[:1], io[1:], [one]), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model, {"seed": 1, "family": "plain", "symbols": {"batch": [2, 1, 5]}, "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 8]}]}


def corpus(folder):
    folder.mkdir()
    for name in ("a", "b", "c"):
        model, facts = plain(name)
        (folder / f"{name}.onnx").write_bytes(save(model))
        (folder / f"{name}.json").write_text(json.dumps(facts))
    return folder


def campaign(driver, folder, out, *words):
    command = [sys.executable, str(HERE / "campaign.py"), "--driver", str(driver), "--corpus", str(folder), "--modes", "no-tune,reference", "--jobs", "1", "--out", str(out), *words]
    r = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(t) for t in (out / "results.jsonl").read_text().splitlines()] if (out / "results.jsonl").exists() else []
    return r.returncode, {o["name"]: o["verdict"] for o in lines}, r.stdout + r.stderr


def expect(problems, what, found, wanted, said=""):
    if found != wanted:
        problems.append(f"{what}: {found}, wanted {wanted}\n{said}")


def planted(driver, scratch, problems):
    folder = corpus(scratch / "corpus")
    right = dict.fromkeys("abc", "right")
    code, found, said = campaign(driver, folder, scratch / "plain")
    expect(problems, "three right models", (code, found), (0, right), said)
    for plant in ("wrong", "crash", "hang"):
        code, found, said = campaign(driver, folder, scratch / plant, "--plant", f"{plant}@b", "--timeout", "6" if plant == "hang" else "100")
        expect(problems, f"planted: {plant}", (code, found), (3, right | {"b": plant}), said)
    code, found, said = campaign(driver, folder, scratch / "plain")
    expect(problems, "a campaign that is done", (code, len(found), "0 models of" in said), (0, 3, True), said)
    code, _, said = campaign(driver, folder, scratch / "plain", "--plant", "wrong")
    expect(problems, "another campaign in its folder", (code, "another campaign" in said), (1, True), said)


def same_bytes(problems):
    for seed in range(BASE, BASE + 30):
        expect(problems, f"seed {seed}", save(model_of(seed)[0]) == save(model_of(seed)[0]), True)
    if len({save(model_of(s)[0]) for s in range(BASE, BASE + 30)}) != 30:
        problems.append("different seeds give equal models")


def operators_found(problems):
    """An operator that is not generated, one left out that is, and one that is on no page; those of bodies count."""
    page = "| `Add` | 7, 14 |\n| `If` | 1 |\n| `ai.onnx.ml.Scaler` | 1 |\n| `Gone` | 2 |\n"
    wanted = coverage.named(page)
    expect(problems, "operators of a page", wanted, ["Add", "If", "ai.onnx.ml.Scaler", "Gone"])
    said = coverage.troubles(wanted, collections.Counter({"Add": 1, "If": 2}), {"If": "", "Gone": "", "Other": ""})
    expect(problems, "what is said of them", [s.split(":")[0] for s in said], ["ai.onnx.ml.Scaler", "If", "Other"])
    inner = helper.make_graph([helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")], "inner", [], [onnx.ValueInfoProto(name="y")])
    nodes = [helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)]
    expect(problems, "operators of bodies", {coverage.operator(n) for n in coverage.nodes_of(nodes)}, {"If", "ai.onnx.ml.Scaler"})


def wrong_reference(scratch, problems):
    """The witness notices a reference that is off by a hundredth of the range."""
    import numpy as np
    import witness
    model, facts = plain("w")
    case = cases.write(scratch / "w", model, facts)
    told = witness.Witness(scratch / "w", case)
    answer = told.answers("build")[0].astype(np.float64)
    np.save(scratch / "w" / "build" / "want_0.npy", answer)
    expect(problems, "a right reference", told.against("build", "want") < told.agrees, True)
    answer[0, 0] += 1e-2 * (answer.max() - answer.min())
    np.save(scratch / "w" / "build" / "want_0.npy", answer)
    np.save(scratch / "w" / "build" / "got_default_0.npy", told.answers("build")[0])
    expect(problems, "a wrong reference", told.against("build", "want") > told.agrees, True)
    expect(problems, "its fault", told.fault("build", "default"), "reference")


def exact_products(problems):
    """The witness multiplies bytes exactly, whose neighbours' products pass 16 bits, on every processor; in bodies too."""
    import numpy as np
    import witness
    from onnx import numpy_helper
    w = np.full((6, 3), 127, np.int8)
    zero = np.array(-3, np.int8)
    product = [helper.make_node("MatMulInteger", ["x", "w", "", "zero"], ["p"])]
    body = lambda name: helper.make_graph(product, name, [], [helper.make_tensor_value_info("p", TensorProto.INT32, [2, 3])])
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["plain"]), helper.make_node("If", ["yes"], ["inner"], then_branch=body("a"), else_branch=body("b"))]
    io = [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 6])], [helper.make_tensor_value_info(n, TensorProto.INT32, [2, 3]) for n in ("plain", "inner")]
    given = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(zero, "zero"), helper.make_tensor("yes", TensorProto.BOOL, [], [True])]
    model = helper.make_model(helper.make_graph(nodes, "bytes", *io, given), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    x = np.full((2, 6), 255, np.uint8)
    before = model.SerializeToString()
    told = witness.session(model).run(None, {"x": x})
    want = [x.astype(np.int32) @ w.astype(np.int32), x.astype(np.int32) @ (w.astype(np.int32) + 3)]
    expect(problems, "products of bytes", [t.tolist() for t in told], [t.tolist() for t in want])
    expect(problems, "the model of a session", model.SerializeToString() == before, True)


def minimised(driver, scratch, problems):
    """A wrong answer of a chain becomes a graph of fewer nodes that is wrong too."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["n"]), helper.make_node("Exp", ["n"], ["y"])]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "chain", io[:1], io[1:]), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    cases.write(scratch / "chain", model, plain("chain")[1])
    r = subprocess.run([sys.executable, str(HERE / "minimise.py"), "--driver", str(driver), "--plant", "wrong", "--mode", "no-tune", "--out", str(scratch / "small"), str(scratch / "chain")],
                       capture_output=True, text=True)
    found = [len(onnx.load(f).graph.node) for f in (scratch / "small").glob("*.onnx")]
    expect(problems, "minimised nodes", (r.returncode, found), (0, [1]), r.stdout + r.stderr)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--driver", type=pathlib.Path, required=True)
    a = p.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        same_bytes(problems)
        operators_found(problems)
        wrong_reference(scratch, problems)
        exact_products(problems)
        planted(a.driver.resolve(), scratch, problems)
        minimised(a.driver.resolve(), scratch, problems)
    print("\n".join(problems))
    print(f"{'FAILED' if problems else 'PASSED'}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
