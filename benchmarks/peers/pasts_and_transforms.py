#!/usr/bin/env python3
"""A decoder with and without a past, and Fourier transforms of frames, beside ONNX Runtime: rows as written_models.py measures them.

  pasts_and_transforms.py --threads 2 --json build/rows.json
  pasts_and_transforms.py --only "stft 2048, steps of 512"

The decoder has six layers of 768 and random weights; one engine, tuned for 64 new positions after 64, runs every row of it. A row
has medians in ms, the ratio of each round (below 1: peri is faster) and the largest error of the first output, of its largest value."""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from operator_peers import SETTLE_S, Failure, peri, peri_answers
from peer_cpu import cpu_name, timed

WIDTH, HEADS, LAYERS = 768, 12, 6
SAMPLES = 88200  # two seconds at 44.1 kHz


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(nodes, inputs, outputs, weights, opset):
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def decoder():
    rng, nodes, depth = np.random.default_rng(0), [], WIDTH // HEADS
    weights = {"heads": np.array([0, -1, HEADS, depth]), "back": np.array([0, -1, WIDTH]), "scale": np.float32(depth**-0.5),
               "one": np.ones(WIDTH, "f"), "zero": np.zeros(WIDTH, "f")}
    inputs, outputs, x = [floats("x", "n", "s", WIDTH)], [], "x"

    def node(op, ins, name, **attributes):
        nodes.append(helper.make_node(op, ins, [name], **attributes))
        return name

    def weight(name, *shape):
        weights[name] = (rng.standard_normal(shape) * shape[0] ** -0.5).astype("f")
        return name

    for layer in range(LAYERS):
        at = f"l{layer}_"
        normed = node("LayerNormalization", [x, "one", "zero"], at + "normed")
        q, k, v = (node("Transpose", [node("Reshape", [node("MatMul", [normed, weight(at + "w" + c, WIDTH, WIDTH)], at + c + "0"), "heads"], at + c + "1")],
                        at + c, perm=[0, 2, 1, 3]) for c in "qkv")
        for c, new in (("k", k), ("v", v)):
            inputs.append(floats(f"past_{layer}{c}", "n", HEADS, "past", depth))
            outputs.append(floats(at + "all_" + c, "n", HEADS, "past + s", depth))
            node("Concat", [f"past_{layer}{c}", new], at + "all_" + c, axis=2)
        scores = node("Mul", [node("MatMul", [q, node("Transpose", [at + "all_k"], at + "kt", perm=[0, 1, 3, 2])], at + "s0"), "scale"], at + "s1")
        seen = node("MatMul", [node("Softmax", [scores], at + "p", axis=-1), at + "all_v"], at + "o0")
        seen = node("Reshape", [node("Transpose", [seen], at + "o1", perm=[0, 2, 1, 3]), "back"], at + "o2")
        x = node("Add", [x, node("MatMul", [seen, weight(at + "wo", WIDTH, WIDTH)], at + "o3")], at + "x0")
        inner = node("LayerNormalization", [x, "one", "zero"], at + "m0")
        inner = node("Relu", [node("MatMul", [inner, weight(at + "w1", WIDTH, 4 * WIDTH)], at + "m1")], at + "m2")
        x = node("Add", [x, node("MatMul", [inner, weight(at + "w2", 4 * WIDTH, WIDTH)], at + "m3")], at + "x1")
    return model(nodes, inputs, [floats(x, "n", "s", WIDTH), *outputs], weights, 18)


def stft(frame, step):
    made = model([helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=1)], [floats("x", 1, SAMPLES, 1)], [onnx.ValueInfoProto(name="y")],
                 {"step": np.int64(step), "window": np.hanning(frame).astype("f")}, 17)
    return onnx.shape_inference.infer_shapes(made)


def irfft(lines, length):
    made = model([helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=1, onesided=1)], [floats("x", lines, length // 2 + 1, 2)],
                 [onnx.ValueInfoProto(name="y")], {"axis": np.int64(1)}, 20)
    return onnx.shape_inference.infer_shapes(made)


# Name -> model, words of the build, sizes of its dimensions.
ROWS = {f"{new} new after {past}": (decoder, ["--dims", "s=64,past=64"], {"n": 1, "s": new, "past": past})
        for past, new in ((0, 128), (0, 1), (64, 1), (64, 64))}
ROWS |= {f"stft {frame}, steps of {step}": (lambda f=frame, s=step: stft(f, s), [], {})
         for frame, step in ((512, 128), (1024, 256), (2048, 512), (4096, 1024), (2048, 441))}
ROWS |= {f"irfft of {lines} x {length}": (lambda n=lines, m=length: irfft(n, m), [], {}) for lines, length in ((1, 512), (64, 512), (1, 2048), (32, 2048))}


def measure(name, a, ort, folder):
    make, words, sizes = ROWS[name]
    path, engine, given, feed = folder / "model.onnx", folder / "model.engine", [], {}
    onnx.save(make(), path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = a.threads
    session, rng = ort.InferenceSession(str(path), options), np.random.default_rng(1)
    for info in session.get_inputs():
        feed[info.name] = rng.standard_normal([sizes.get(d, d) for d in info.shape]).astype("f")
        np.save(folder / f"{info.name}.npy", feed[info.name])
        given += ["--input", f"{info.name}={folder / info.name}.npy"]
    built = peri(a, "build", path, "-o", engine, "--threads", a.threads, "--budget", 3, *words)
    if "steps_in_order" not in built:
        raise Failure(str(built.get("error", built))[:600])
    right = session.run(None, feed)[0]
    ours = peri_answers(a, engine, folder, given)[session.get_outputs()[0].name]
    times, theirs = [], []
    for _ in range(a.rounds):
        times.append(statistics.median(peri(a, "bench", engine, "--threads", a.threads, "--seconds", a.seconds, *given)["samples"]))
        theirs.append(statistics.median(timed(lambda: session.run(None, feed), a.seconds)))
        time.sleep(SETTLE_S)
    ratios = [x / y for x, y in zip(times, theirs)]
    return {"row": name, "peri_ms": statistics.median(times), "onnxruntime_ms": statistics.median(theirs), "ratio": statistics.median(ratios),
            "ratios": ratios, "error": float(np.abs(ours - right).max() / np.abs(right).max())}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peri", default="build/bin/peri")
    p.add_argument("--only", default="", metavar="ROW", help="one of: " + "; ".join(ROWS))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.4, help="time for each program, row and round (default 0.4)")
    p.add_argument("--json", metavar="FILE", help="write all figures as one JSON object")
    a = p.parse_args()
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    if a.only and a.only not in ROWS:
        p.error(f"no row '{a.only}'; the rows are: {'; '.join(ROWS)}")
    rows = []
    for name in [a.only] if a.only else ROWS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, a, ort, pathlib.Path(folder)))
        r = rows[-1]
        print(f"{name:26} {r['ratio']:6.2f}  ({min(r['ratios']):.2f} to {max(r['ratios']):.2f})  {r['peri_ms']:9.3f} ms  {r['onnxruntime_ms']:9.3f} ms  error {r['error']:.1e}", flush=True)
    if a.json:
        report = {"machine": cpu_name(), "threads": a.threads, "onnxruntime": ort.__version__, "rows": rows}
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
