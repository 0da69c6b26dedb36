#!/usr/bin/env python3
"""Models of NNSmith as a corpus for campaign.py: its graph generator draws valid graphs by constraint solving, and what it
draws is written as ONNX here, so that neither PyTorch nor its exporter is needed.

    nnsmith_models.py --out build/generated/nnsmith_models --count 2700
    campaign.py --driver build/bin/judge_models --corpus build/generated/nnsmith_models --out build/generated/nnsmith

The first run makes build/nnsmith_venv from tools/requirements-nnsmith.txt. A run that was stopped goes on. Ops with a narrow
domain get arguments within it; a model that ONNX Runtime does not run, or whose answers are not finite, is left out. Every
seed is drawn in a process of its own and given up after 30 s, as a solver may not end."""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / "build" / "nnsmith_venv"
TYPES = ["float32", "int64", "int32", "bool"]


def prepared():
    """The Python that has NNSmith: this one, or that of the environment, made now if it is missing."""
    python, wanted = VENV / "bin" / "python", (ROOT / "tools" / "requirements-nnsmith.txt").read_text()
    if not (VENV / "made_of").exists() or (VENV / "made_of").read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--clear", VENV], check=True)
        own = next(p for p in sys.path if p.endswith("site-packages"))  # numpy, onnx, onnxruntime: those of the caller
        next(VENV.glob("lib/python3*/site-packages")).joinpath("caller.pth").write_text(own + "\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "-r", ROOT / "tools" / "requirements-nnsmith.txt"], check=True)
        (VENV / "made_of").write_text(wanted)
    return python


class Writer:
    """An ONNX graph that grows node by node; values are names."""

    def __init__(self, seed):
        import numpy as np
        self.np, self.rng = np, np.random.Generator(np.random.PCG64(seed))
        self.nodes, self.weights, self.inputs, self.count = [], {}, [], 0

    def const(self, array):
        self.count += 1
        self.weights[f"c{self.count}"] = self.np.asarray(array)
        return f"c{self.count}"

    def ints(self, values):
        return self.const(self.np.array(values, self.np.int64))

    def like(self, op, x):
        """A scalar of the type of the op's first input."""
        return self.const(self.np.array(x, str(op.input_like[0].dtype)))

    def weight(self, shape, terms=1):
        return self.const(((self.rng.random(shape) - 0.5) * math.sqrt(12 / terms)).astype(self.np.float32))

    def op(self, kind, inputs, out=None, **attrs):
        from onnx import helper
        self.count += 1
        out = out or f"t{self.count}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attrs))
        return out


PLAIN = {"ReLU": "Relu", "LeakyReLU": "LeakyRelu", "Sigmoid": "Sigmoid", "Sin": "Sin", "Cos": "Cos", "Atan": "Atan", "Abs": "Abs", "Ceil": "Ceil", "Floor": "Floor",
         "Round": "Round", "Neg": "Neg", "Where": "Where", "Add": "Add", "Sub": "Sub", "Mul": "Mul", "Max": "Max", "Min": "Min", "Equal": "Equal", "Greater": "Greater",
         "Less": "Less", "And": "And", "Or": "Or", "Xor": "Xor", "MatMul": "MatMul"}
WITHIN = {"Asin": "Sin", "Acos": "Sin", "Tan": "Sin", "Sqrt": "Abs"}


def elementwise(w, name, op, x, out):
    """Ops that need more than their name; False for those of other kinds."""
    if name in WITHIN:
        inner = w.op("Mul", [w.op("Sin", [x[0]]), w.like(op, 0.9)]) if name != "Sqrt" else w.op("Abs", x)
        w.op(name, [inner], out)
    elif name == "Log2":
        log = w.op("Log", [w.op("Add", [w.op("Abs", x), w.like(op, 0.5)])])
        w.op("Div", [log, w.like(op, math.log(2))], out)
    elif name == "Div":
        w.op("Div", [x[0], w.op("Add", [w.op("Abs", [x[1]]), w.like(op, 1)])], out)
    elif name == "Pow":
        w.op("Pow", [w.op("Add", [w.op("Abs", [x[0]]), w.like(op, 1)]), w.op("Clip", [x[1], w.like(op, -1), w.like(op, 1)])], out)
    elif name == "GELU":
        half = w.op("Mul", [x[0], w.like(op, 0.5)])
        erf = w.op("Erf", [w.op("Div", [x[0], w.like(op, math.sqrt(2))])])
        w.op("Mul", [half, w.op("Add", [erf, w.like(op, 1)])], out)
    elif name == "PReLU":
        w.op("PRelu", [x[0], w.like(op, 0.25)], out)
    elif name == "Clip":
        limit = 1.5 if "float" in str(op.input_like[0].dtype) else 1
        w.op("Clip", [x[0], w.like(op, -limit), w.like(op, limit)], out)
    elif name == "Softmax":
        w.op("Softmax", x, out, axis=int(op.dim))
    elif name.startswith("Cast"):
        from onnx import helper
        w.op("Cast", x, out, to=helper.np_dtype_to_tensor_dtype(w.np.dtype(str(op.extra_attrs["to"]))))
    else:
        return False
    return True


def windows(w, name, op, x, out):
    if name in ("MaxPool2d", "AvgPool2d"):
        w.op("MaxPool" if name == "MaxPool2d" else "AveragePool", x, out, kernel_shape=[op.kernel_h_size, op.kernel_w_size], strides=[op.stride] * 2, pads=[op.padding] * 4,
             **({"count_include_pad": 1} if name == "AvgPool2d" else {}))
    elif name == "BatchNorm2d":
        n = op.nfeat
        w.op("BatchNormalization", [x[0], w.weight((n,)), w.weight((n,)), w.weight((n,)), w.const((w.rng.random(n) + 0.5).astype(w.np.float32))], out)
    elif name in ("Conv1d", "NCHWConv2d"):
        flat = name == "Conv1d"
        kernel, dilation = ([op.kernel_size], [op.dilation]) if flat else ([op.kernel_h_size, op.kernel_w_size], [op.dilation_h, op.dilation_w])
        terms = op.in_channels * math.prod(kernel)
        if terms * op.out_channels > 300_000:
            raise ValueError("weights too large")
        weights = [w.weight((op.out_channels, op.in_channels, *kernel), terms), w.weight((op.out_channels,))]
        w.op("Conv", [x[0], *weights], out, kernel_shape=kernel, strides=[op.stride] * len(kernel), pads=[op.padding] * 2 * len(kernel), dilations=dilation)
    elif name.endswith("Interp"):
        mode = {"Nearest": "nearest", "Linear": "linear", "Bilinear": "linear", "Trilinear": "linear", "Bicubic": "cubic"}[name[:-6]]
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {"coordinate_transformation_mode": "pytorch_half_pixel"}
        w.op("Resize", [x[0], "", "", w.ints(op.output_like[0].shape)], out, mode=mode, **how)
    else:
        return False
    return True


def moves(w, name, op, x, out):
    attrs = op.extra_attrs
    if name == "Slice":
        size = op.input_like[0].shape[attrs["axis"]]
        w.op("Slice", [x[0], w.ints([op.start]), w.ints([min(op.end, 2**63 - 1) if op.end > size else op.end]), w.ints([attrs["axis"]]), w.ints([op.step])], out)
    elif name.endswith("Pad"):
        rank = len(op.input_like[0].shape)
        pads = [0] * (2 * rank)
        for k in range(len(op.padding_list) // 2):  # pairs from the last axis on
            pads[rank - 1 - k], pads[2 * rank - 1 - k] = op.padding_list[2 * k], op.padding_list[2 * k + 1]
        mode = {"constant": "constant", "replicate": "edge", "reflect": "reflect"}[attrs["type"]]
        w.op("Pad", [x[0], w.ints(pads)] + ([w.like(op, 0.5)] if mode == "constant" else []), out, mode=mode)
    elif name.startswith("Expand"):
        w.op("Expand", [x[0], w.ints(op.output_like[0].shape)], out)
    elif name == "Reshape":
        w.op("Reshape", [x[0], w.ints(op.output_like[0].shape)], out)
    elif name == "Transpose":
        perm = list(range(len(op.input_like[0].shape)))
        a, b = attrs["dim0"], attrs["dim1"]
        perm[a], perm[b] = perm[b], perm[a]
        w.op("Transpose", x, out, perm=perm)
    elif name == "Squeeze":
        w.op("Squeeze", [x[0], w.ints([attrs["reduce_dim"]])], out)
    elif name.startswith("Reduce"):
        w.op(name, [x[0], w.ints([attrs["reduce_dim"]])], out, keepdims=0)
    elif name in ("ArgMin", "ArgMax"):
        w.op(name, x, out, axis=attrs["reduce_dim"], keepdims=0)
    elif name in ("Tril", "Triu"):
        w.op("Trilu", [x[0], w.const(w.np.array(op.diagonal, w.np.int64))], out, upper=int(name == "Triu"))
    elif name.startswith("Concat"):
        w.op("Concat", x, out, axis=attrs["axis"])
    else:
        return False
    return True


def convert(ir, seed):
    """(model, facts) of a concrete graph of NNSmith."""
    from onnx import helper, numpy_helper
    w, kinds = Writer(seed), {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "bool"}
    for inst in ir.insts:
        op, x, out = inst.iexpr.op, list(inst.iexpr.args), inst.retval()
        name = type(op).__name__
        if name in ("Input", "Constant"):
            shape, kind = [int(d) for d in op.abs_tensor.shape], str(op.abs_tensor.dtype)
            values = w.np.asarray((w.rng.random(shape) - 0.5) * 4)
            if name == "Input":
                w.inputs.append({"name": out, "dtype": kinds[kind], "shape": shape} | ({"low": -3, "high": 4} if kind.startswith("int") else {}))
            else:
                w.weights[out] = w.np.asarray(values > 0 if kind == "bool" else values, kind)
        elif name in PLAIN:
            w.op(PLAIN[name], x, out)
        elif not (elementwise(w, name, op, x, out) or windows(w, name, op, x, out) or moves(w, name, op, x, out)):
            raise ValueError(f"no form for {name}")
    def info(name, kind, shape):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(w.np.dtype(kind)), shape)
    names = {v: k for k, v in kinds.items()}
    outputs = [info(v, str(ir.vars[v].dtype), [int(d) for d in ir.vars[v].shape]) for v in ir.leaf_var() if v not in {i["name"] for i in w.inputs} | set(w.weights)]
    graph = helper.make_graph(w.nodes, f"nnsmith_{seed}", [info(i["name"], names[i["dtype"]], i["shape"]) for i in w.inputs], outputs,
                              [numpy_helper.from_array(a, n) for n, a in w.weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="generate")
    model.ir_version = 8
    return model, {"seed": seed, "family": "nnsmith", "symbols": {}, "inputs": w.inputs}


def draw(seed, nodes):
    """The graph that NNSmith draws for this seed."""
    import warnings
    warnings.simplefilter("ignore")
    from nnsmith.abstract.op import FULL_OPERATOR_SETS, MatMul
    from nnsmith.graph_gen import model_gen
    gen = model_gen([*FULL_OPERATOR_SETS["core"], MatMul], method="symbolic-cinit", max_nodes=nodes, seed=seed, timeout_ms=8000, dtype_choices=TYPES,
                    max_elem_per_tensor=4096, concr_ph_dim_rng=(1, 24))
    return gen.make_concrete()


def one(seed, out):
    """Writes the model of a seed, if it is one; says why not."""
    import cases
    import numpy as np
    import onnx
    import witness
    from graph import save
    try:
        model, facts = convert(draw(seed, 4 + seed % 12), seed)
        if not facts["inputs"]:
            return "no input"
        onnx.checker.check_model(model, full_check=True)
        names = {s["name"]: a for s, a in zip(facts["inputs"], cases.inputs_of(facts, 0))}
        for a in witness.session(model).run(None, names):
            if not np.isfinite(a).all() or np.abs(a.astype(np.float64)).max(initial=0) > 1e6:
                return "its answers are not finite, or large"  # integers too: what an overflow gives is not stated
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:160]}"
    (out / f"n{seed:06d}.json").write_text(json.dumps(facts) + "\n")
    (out / f"n{seed:06d}.onnx").write_bytes(save(model))
    return ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    p.add_argument("--count", type=int, default=2700, help="seeds to try (default 2700)")
    p.add_argument("--one", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    if a.one is not None:
        print(one(a.one, a.out))
        return 0
    log = a.out / "tried.txt"
    tried = {int(t.split()[0]) for t in log.read_text().splitlines() if " exit code " not in t} if log.exists() else set()
    python = prepared()
    with open(log, "a") as file:
        for seed in (s for s in range(a.count) if s not in tried):
            try:
                r = subprocess.run([python, __file__, "--out", a.out, "--one", str(seed)], capture_output=True, text=True, timeout=30, env=os.environ | {"OMP_NUM_THREADS": "1"})
                why = r.stdout.strip() if r.returncode == 0 else f"exit code {r.returncode}: {r.stderr.strip()[-160:]}"
            except subprocess.TimeoutExpired:
                why = "gave up after 30 s"
            file.write(f"{seed} {why or 'usable'}".replace("\n", " ") + "\n")
            file.flush()
    print(f"{len(list(a.out.glob('*.onnx')))} usable models of {a.count} seeds in {a.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
