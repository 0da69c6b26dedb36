#!/usr/bin/env python3
"""Writes models of one recurrent layer each, as PyTorch exports them, for peer_cpu.py: LSTM, GRU (reset behind the
product), RNN and a bidirectional LSTM, for numbers of steps and units. Weights are seeded.

  recurrent_models.py build/models/recurrent && \\
  peer_cpu.py build/models/recurrent/*.onnx --batch 1,32 --also 'peri=build/bin/peri bench {model} --dims {dims} --json -'
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(op, steps, inputs, hidden, both):
    rng = np.random.default_rng(7)
    directions, gates = 2 if both else 1, GATES[op]
    shapes = {"W": (directions, gates * hidden, inputs), "R": (directions, gates * hidden, hidden), "B": (directions, 2 * gates * hidden)}
    weights = [numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(hidden)).astype(np.float32), n) for n, s in shapes.items()]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if both else "forward"}
    if op == "GRU":
        attributes["linear_before_reset"] = 1
    node = helper.make_node(op, ["x", "W", "R", "B"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, "batch", inputs])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [steps, directions, "batch", hidden])
    graph = helper.make_graph([node], op.lower(), [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for op, steps, hidden, both in (("LSTM", 10, 128, False), ("LSTM", 100, 256, False), ("LSTM", 1000, 128, False),
                                    ("GRU", 10, 128, False), ("GRU", 100, 256, False), ("GRU", 1000, 128, False), ("RNN", 100, 128, False),
                                    ("LSTM", 100, 128, True)):
        name = f"{op.lower()}{'_both' if both else ''}_{steps}x{hidden}"
        onnx.save(model(op, steps, hidden, hidden, both), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
