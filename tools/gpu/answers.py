#!/usr/bin/env python3
"""Whole answers of an engine on a GPU beside a float64 run of the model by other code: onnx's reference evaluator, its slow
operators replaced by numpy's products.

    answers.py NAME ... [--dtype f16,bf16,f32] [--seeds 4] [--batch N | --also-batch N] [--backend cuda] [--build-flags ...] [--engine ENGINE] [--json FILE]

--engine: of the first type, instead of a build of it. Batch 1: over all seeds the root of the mean square and the largest error are at most 1.5 times those of the same run with
every input, weight and value rounded to the type; of float32 at most twice, or 16 times where it was not tuned: an engine of 16 bits adds in float32, one of float32 in float64, but for what a library adds in float32
where that is as fast (benchmarks/results/2026-11-30_float32_bar.md). --batch N: the engine is built for N and judged there, step by step on the inputs that each step had; the answers to the first image, the last and one between lie beside their own of batch 1 as
far as both may err, and are held like batch 1. --also-batch N: beside batch 1, an engine of the first type is built for N
without tuning; its images are those of the seeds in turns, so that each has a reference and its own answer of batch 1. Of the digits models the accuracy on the
test images is that of float64 within one image. Models are made whole from $MODELS (models/ of the sources); $WORK is for scratch.
Exit code 3 where an answer is too far off, 77 without numpy and onnx.
"""
import argparse
import json
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# Runs of the reference go beside each other, each with few threads in its products.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "4")

try:
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(f"{sys.executable} has no numpy and onnx: {missing}")
    sys.exit(77)

TOKENS, SEQUENCE = 1000, 128
RUNS_AT_ONCE = min(6, os.cpu_count() or 1)  # of the reference: one of deeplabv3_resnet50 takes 1.8 GB
UNTUNED_F32 = 16  # times, where an engine was not tuned and a library may add in float32: a run in float32 errs by up to 10.7 times rounding alone
# Bits of the fraction, least exponent, largest value; how many times the error of the rounded run is allowed.
DTYPES = {"f16": (10, -14, 65504.0, 1.5), "bf16": (7, -126, 3.3895313892515355e38, 1.5), "f32": (23, -126, 3.4028234663852886e38, 2)}


def rounded_to(dtype):
    """x -> x with every element rounded to the type, ties to even; what is finite stays finite."""
    if dtype == "f32":
        return lambda x: x.astype(np.float32).astype(np.float64) if x.dtype.kind == "f" else x
    bits, least, largest, _ = DTYPES[dtype]

    def rounded(x):
        if x.dtype != np.float64:
            return x
        with np.errstate(all="ignore"):
            step = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, least) - bits)
            out = np.where(np.isfinite(x), np.clip(np.rint(x / step) * step, -largest, largest), x)
        return out

    return rounded


# ---- operators ------------------------------------------------------------------------------------------------------
def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def windows(x, kernel, strides, dilations, pads, value=0.0):
    """[n, c, oh, ow, kh, kw] of [n, c, h, w]."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=value)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def conv(a, x, w, b=None):
    groups, kernel = a.get("group", 1), w.shape[2:]
    view = windows(x, kernel, a.get("strides", [1, 1]), a.get("dilations", [1, 1]), a.get("pads", [0, 0, 0, 0]))
    n, _, oh, ow = view.shape[:4]
    if groups == x.shape[1] and w.shape[1] == 1:
        multiplier = w.shape[0] // groups
        out = np.zeros((n, w.shape[0], oh, ow), x.dtype)
        for kh in range(kernel[0]):
            for kw in range(kernel[1]):
                out += np.repeat(view[..., kh, kw], multiplier, axis=1) * w[:, 0, kh, kw][None, :, None, None]
    else:
        each, outputs, parts = x.shape[1] // groups, w.shape[0] // groups, []
        for g in range(groups):
            columns = view[:, g * each : (g + 1) * each].transpose(0, 2, 3, 1, 4, 5).reshape(n * oh * ow, -1)
            parts.append((columns @ w[g * outputs : (g + 1) * outputs].reshape(outputs, -1).T).reshape(n, oh, ow, outputs))
        out = np.concatenate(parts, axis=3).transpose(0, 3, 1, 2)
    return out if b is None else out + b[None, :, None, None]


def conv_transpose(a, x, w, b=None):
    kernel = w.shape[2:]
    if a.get("strides") != list(kernel) or any(a.get("pads", [0])) or a.get("group", 1) != 1:
        raise NotImplementedError("ConvTranspose whose windows overlap")
    out = np.einsum("nchw,cokl->nohkwl", x, w, optimize=True)
    n, o, h, kh, width, kw = out.shape
    return out.reshape(n, o, h * kh, width * kw) + (0 if b is None else b[None, :, None, None])


def max_pool(a, x):
    if a.get("ceil_mode", 0):
        raise NotImplementedError("MaxPool with ceil_mode")
    view = windows(x, a["kernel_shape"], a.get("strides", [1, 1]), a.get("dilations", [1, 1]), a.get("pads", [0, 0, 0, 0]), -np.inf)
    return view.max(axis=(4, 5))


def resize(a, x, roi=None, scales=None, sizes=None):
    if a.get("mode") != b"linear" or a.get("coordinate_transformation_mode") != b"half_pixel" or sizes is None:
        raise NotImplementedError("Resize other than linear, half_pixel, by sizes")
    for axis in (2, 3):
        old, new = x.shape[axis], int(sizes[axis])
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.floor(at).astype(int)
        high, share = np.minimum(low + 1, old - 1), at - low
        shape = [1] * 4
        shape[axis] = new
        share = share.reshape(shape)
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


def erf(a, x):
    return np.frompyfunc(math.erf, 1, 1)(x).astype(x.dtype)


def gelu(a, x):
    return 0.5 * x * (1 + erf(a, x / math.sqrt(2))) if a.get("approximate", b"none") == b"none" else 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(a, x, scale, bias=None):
    axes = tuple(range(a.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + a.get("epsilon", 1e-5)) * scale + (0 if bias is None else bias)


OPERATORS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "Resize": resize,
    "Erf": erf,
    "Gelu": gelu,
    "LayerNormalization": layer_norm,
    "GatherElements": lambda a, x, at: np.take_along_axis(x, np.where(at < 0, at + x.shape[a.get("axis", 0)], at), a.get("axis", 0)),
    "Identity": lambda a, x: x,
    "GlobalAveragePool": lambda a, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
}


class Reference:
    """The model in float64, or with inputs, weights and each value rounded to a type."""

    def __init__(self, model):
        self.graph = model.graph
        self.rest = ReferenceEvaluator(model)
        self.nodes = list(zip(model.graph.node, self.rest.rt_nodes_))
        self.weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        self.rounded = {}
        last = {}
        for k, (node, _) in enumerate(self.nodes):
            for name in node.input:
                last[name] = k
        self.last = last

    def weights_in(self, dtype):
        """As they are stored, or rounded, once for all runs: float32 holds what is rounded to 16 bits."""
        if dtype is None:
            return self.weights
        if dtype not in self.rounded:
            near = rounded_to(dtype)
            self.rounded[dtype] = {n: near(x.astype(np.float64)).astype(np.float32) if x.dtype.kind == "f" else x for n, x in self.weights.items()}
        return self.rounded[dtype]

    def run(self, inputs, dtype=None):
        wide = lambda x: x.astype(np.float64) if x.dtype.kind == "f" else x
        near = rounded_to(dtype) if dtype else lambda x: x
        values = {"": None, **self.weights_in(dtype)}
        values.update((n, near(wide(np.asarray(x)))) for n, x in inputs.items())
        outputs = [o.name for o in self.graph.output]
        for k, (node, other) in enumerate(self.nodes):
            given = [None if values[n] is None else wide(values[n]) for n in node.input]
            own = OPERATORS.get(node.op_type)
            with np.errstate(all="ignore"):
                made = (own(attributes(node), *given),) if own else other.run(*given)
            for name, value in zip(node.output, made):
                values[name] = near(wide(np.asarray(value)))
            for name in set(node.input):
                if name and self.last[name] == k and name not in outputs:
                    del values[name]
        return {n: np.asarray(values[n], np.float64) if values[n].dtype.kind == "f" else values[n] for n in outputs}


def beside_each_other(reference, calls):
    """reference.run(*call) of each, in processes that share its weights: element-wise functions hold the interpreter's lock."""
    global at_work
    at_work = reference
    with multiprocessing.get_context("fork").Pool(min(RUNS_AT_ONCE, len(calls))) as pool:
        return pool.starmap(run_at_work, calls, chunksize=1)


def run_at_work(inputs, dtype):
    return at_work.run(inputs, dtype)


# ---- engines --------------------------------------------------------------------------------------------------------
def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(w) for w in words)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-800:].strip()}")
    return done.stdout


def made_inputs(model, batch, seed):
    """By name, at this batch; each image of a batch is that of batch 1 for its own seed."""
    out = {}
    initial = {t.name for t in model.graph.initializer}
    for port in model.graph.input:
        if port.name in initial:
            continue
        dims = port.type.tensor_type.shape.dim[1:]
        sizes = [d.dim_value or SEQUENCE for d in dims]
        images = []
        for k in range(batch):
            rng = np.random.default_rng([seed, k, len(port.name)])
            if port.type.tensor_type.elem_type == onnx.TensorProto.INT64:
                hides = np.arange(sizes[0]) < sizes[0] - 5 * (seed + k) if "mask" in port.name else rng.integers(0, TOKENS, sizes)
                images.append(hides.astype(np.int64))
            else:
                images.append(rng.standard_normal(sizes, dtype=np.float32))
        out[port.name] = np.stack(images)
    return out


def answer_of(peri, engine, inputs, folder):
    words = [peri, "run", engine, "--quiet", "--output-dir", folder]
    for k, (name, value) in enumerate(inputs.items()):
        np.save(folder / f"in{k}.npy", value)
        words += ["--input", f"{name}={folder / f'in{k}.npy'}"]
    call(*words)
    listing = json.loads((folder / "outputs.json").read_text())
    files = {n: f["file"] if isinstance(f, dict) else f for n, f in listing.get("outputs", listing).items()}
    return {n: np.load(folder / f).astype(np.float64) for n, f in files.items()}


def error_of(got, exact):
    far = np.abs(got - exact)
    return {"rms": float(np.sqrt((far**2).mean())), "largest": float(far.max()), "finite": bool(np.isfinite(got).all())}


def held(name, ours, theirs, share, times):
    """What is wrong, in words: errors over all seeds beside those of the rounded run. `share`: of the largest value."""
    wrong = []
    for what, over in (("rms", lambda e: math.sqrt(sum(x["rms"] ** 2 for x in e) / len(e))), ("largest", lambda e: max(x["largest"] for x in e))):
        mine, least = over(ours), over(theirs)
        print(f"  {name} {what}: {mine:.3g}, rounding {least:.3g}, ratio {mine / least if least else 0:.2f}; of the largest value {mine / share:.2e}", flush=True)
        if not mine <= times * least:
            wrong.append(f"{name}: {what} error {mine:.3g} is more than {times} x {least:.3g}")
    if not all(e["finite"] for e in ours):
        wrong.append(f"{name}: not every number of the answer is finite")
    return wrong


def accuracy(a, engine, reference, folder, sources):
    """The images of the test set: as many are right as in float64, but for one."""
    with np.load(sources / "digits_data.npz", allow_pickle=False) as data:
        images, labels = data["test_images"], data["test_labels"]
    name = reference.graph.input[0].name
    right = lambda answers: int((next(iter(answers.values())).argmax(1) == labels).sum())
    ours, exact = right(answer_of(a.peri, engine, {name: images}, folder)), right(reference.run({name: images}))
    print(f"  {ours} of {len(labels)} images right, {exact} in float64", flush=True)
    return [] if abs(ours - exact) <= 1 else [f"{ours} images right, {exact} in float64"]


class Engine:
    """Of one type, with what is found of it."""

    def __init__(self, a, dtype, model, path, folder, given=None, batch=1):
        self.a, self.dtype, self.batch, self.file, self.folder = a, dtype, batch, given or folder / f"{dtype}-{batch}.engine", folder
        self.times, self.ours, self.theirs, self.largest, self.wrong = DTYPES[dtype][3], {}, {}, {}, []
        batch_name = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
        start = time.monotonic()
        if not given:
            flags = a.build_flags.split() if batch == a.batch else ["--no-tune"]
            self.times = UNTUNED_F32 if dtype == "f32" and "--no-tune" in flags else self.times
            flags += ["--dims", f"{batch_name}={batch}"] if batch > 1 else []
            call(a.peri, "build", path, "-o", self.file, "--backend", a.backend, "--dtype", dtype, "--quiet", *flags)
        self.report = {"name": path.stem, "dtype": dtype, "batch": batch, "build_s": time.monotonic() - start, "seeds": []}

    def answer(self, inputs):
        return answer_of(self.a.peri, self.file, inputs, self.folder)

    def hold(self, seed, got, exact, near):
        for out in exact:
            self.ours.setdefault(out, []).append(error_of(got[out], exact[out]))
            self.theirs.setdefault(out, []).append(error_of(near[out], exact[out]))
            self.largest[out] = max(self.largest.get(out, 0), float(np.abs(exact[out]).max()))
        self.report["seeds"].append({"seed": seed, "ours": {n: e[-1] for n, e in self.ours.items()}, "rounding": {n: e[-1] for n, e in self.theirs.items()}})

    def hold_image(self, k, got, alone):
        for out in alone:
            apart, room = float(np.abs(alone[out] - got[out]).max()), 2 * self.times * self.theirs[out][-1]["largest"]
            print(f"  {out} image {k}: {apart:.3g} beside its own of batch 1, room {room:.3g}", flush=True)
            if not apart <= room:
                self.wrong.append(f"{out}: image {k} of {self.batch} is {apart:.3g} off its own of batch 1")

    def told(self, reference, sources):
        for out in self.ours:
            self.wrong += held(out, self.ours[out], self.theirs[out], self.largest[out] or 1, self.times)
        if self.report["name"].startswith("digits") and self.batch == self.a.batch:
            self.wrong += accuracy(self.a, self.file, reference, self.folder, sources)
        r = self.report
        r["wrong"] = self.wrong
        print(f"{r['name']} {self.dtype} batch {self.batch}: {'; '.join(self.wrong) or 'right'} (built in {r['build_s']:.1f} s, references of {r['reference_s']:.1f} s)", flush=True)
        return r


def judged(a, name, scratch):
    """The reports of one network in all types, each with what is wrong in words. The float64 run of a seed is that of all."""
    sources = pathlib.Path(os.environ.get("MODELS", pathlib.Path(__file__).resolve().parents[2] / "models"))
    folder = pathlib.Path(scratch)
    call(sys.executable, sources / "materialize.py", "--out", folder, name)
    path = folder / f"{name}.onnx"
    model = onnx.load(path)
    engines = [Engine(a, d, model, path, folder, a.engine if k == 0 else None, a.batch) for k, d in enumerate(a.dtype.split(","))]
    reference = Reference(model)
    chosen = sorted({0, a.batch // 2, a.batch - 1})
    inputs_of = {seed: made_inputs(model, a.batch, seed) for seed in range(1, a.seeds + 1)}
    images = {(seed, k): {n: x[k : k + 1] for n, x in inputs.items()} for seed, inputs in inputs_of.items() for k in chosen}
    for e in engines:
        reference.weights_in(e.dtype)
    start = time.monotonic()
    wanted = [(at, dtype) for at in images for dtype in (None, *(e.dtype for e in engines))]
    runs = dict(zip(wanted, beside_each_other(reference, [(images[at], dtype) for at, dtype in wanted])))
    spent = time.monotonic() - start
    alone = {}
    for seed, inputs in inputs_of.items():
        got = [e.answer(inputs) for e in engines]
        alone[seed] = got[0]
        for k in chosen:
            image, exact = images[seed, k], runs[(seed, k), None]
            for e, all_of in zip(engines, got):
                mine = {n: x[k : k + 1] for n, x in all_of.items()}
                e.hold(seed, mine, exact, runs[(seed, k), e.dtype])
            if a.batch > 1 and seed == 1:
                for e, all_of in zip(engines, got):
                    e.hold_image(k, {n: x[k : k + 1] for n, x in all_of.items()}, e.answer(image))
    if a.also_batch:
        engines.append(batched(a, engines[0], model, path, folder, images, runs, alone))
    for e in engines:
        e.report["reference_s"] = spent
    return [e.told(reference, sources) for e in engines]


def batched(a, single, model, path, folder, images, runs, alone):
    """An engine for a batch of the images of all seeds in turns, each held to its reference and to its answer alone, by `single`."""
    out = Engine(a, single.dtype, model, path, folder, batch=a.also_batch)
    keys = [list(images)[k % len(images)] for k in range(a.also_batch)]
    got = out.answer({n: np.concatenate([images[key][n] for key in keys]) for n in images[keys[0]]})
    for k, key in enumerate(keys):
        image = {n: x[k : k + 1] for n, x in got.items()}
        out.hold(key[0], image, runs[key, None], runs[key, single.dtype])
        out.hold_image(k, image, alone[key[0]])
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="+", metavar="NAME")
    p.add_argument("--dtype", default="f16", help=f"of {', '.join(DTYPES)}, by commas (default: %(default)s)")
    p.add_argument("--seeds", type=int, default=4)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--also-batch", type=int, default=0, metavar="N")
    p.add_argument("--backend", default="cuda")
    p.add_argument("--build-flags", default="", help="of peri build, beside the backend and the type")
    p.add_argument("--engine", help="of the one network in the first type")
    p.add_argument("--peri", default="peri")
    p.add_argument("--json")
    a = p.parse_args()
    if a.engine and len(a.names) > 1:
        p.error("--engine is of one network")
    if a.also_batch and a.batch > 1:
        p.error("--also-batch is beside batch 1")
    if unknown := [d for d in a.dtype.split(",") if d not in DTYPES]:
        p.error(f"no type {', '.join(unknown)}")
    wrong = 0
    for name in a.names:
        with tempfile.TemporaryDirectory(dir=os.environ.get("WORK")) as scratch:
            reports = judged(a, name, scratch)
        wrong += sum(len(r["wrong"]) for r in reports)
        if a.json:
            with open(a.json, "a") as file:  # a line a network and type
                file.writelines(json.dumps(r) + "\n" for r in reports)
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
