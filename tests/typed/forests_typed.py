#!/usr/bin/env python3
"""Forests by kernel: what a row gets does not depend on how many rows it comes with, nor on which of its trees go down together."""
import numpy
import onnx
from onnx import TensorProto, helper

from typed import Typed, main

FEATURES = 6


def tree(rng, leaves, uneven):
    """Nodes of one tree: by place the feature, threshold and both ways, or None for a leaf."""
    nodes, open_ = [None], [0]
    while len(open_) < leaves:
        at = open_.pop(rng.integers(len(open_)) if uneven else 0)
        nodes[at] = (int(rng.integers(FEATURES)), float(numpy.float32(rng.normal())), len(nodes), len(nodes) + 1)
        open_ += [len(nodes), len(nodes) + 1]
        nodes += [None, None]
    return nodes


class Forests(Typed):
    def forest(self, shapes, wide, seed):
        """A regressor of trees of these shapes: leaves, and whether it is uneven."""
        rng = numpy.random.default_rng(seed)
        t, n = {k: [] for k in ("ids", "weights", "treeids", "nodeids")}, {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")}
        for k, (leaves, uneven) in enumerate(shapes):
            for at, node in enumerate(tree(rng, leaves, uneven)):
                feature, split, yes, no = node or (0, 0.0, 0, 0)
                for name, value in zip(n, (k, at, feature, "BRANCH_LEQ" if node else "LEAF", split, yes, no)):
                    n[name].append(value)
                if not node:
                    for name, value in zip(t, (0, float(numpy.float32(rng.normal())), k, at)):
                        t[name].append(value)
        kind = TensorProto.DOUBLE if wide else TensorProto.FLOAT
        attributes = {"n_targets": 1, **{"nodes_" + k: v for k, v in n.items()}, **{"target_" + k: v for k, v in t.items()}}
        for name in ("nodes_values", "target_weights") if wide else ():
            values = attributes.pop(name)
            attributes[name + "_as_tensor"] = helper.make_tensor(name, kind, [len(values)], values)
        node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
        io = [helper.make_tensor_value_info("x", kind, ["n", FEATURES]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])]
        onnx.save(helper.make_model(helper.make_graph([node], "g", io[:1], io[1:]), ir_version=8,
                                    opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]), self.folder / "f.onnx")

    def answers(self, rows, built_for):
        numpy.save(self.folder / "x.npy", rows)
        self.ends(0, "run", "f.onnx", "--dims", f"x.0={built_for}", "-i", "x=x.npy", "--no-tune", "--output-dir", "out", "--force", "--quiet")
        return numpy.load(self.folder / "out/y.npy")

    def test_rows_alone_and_together(self):
        big, odd, small = (255, False), (200, True), (5, False)
        for wide in (False, True):
            for shapes in ([big] * 17, [odd] * 8, [big], [big, small, odd] * 5, [small] * 9 + [big] * 2 + [small], [(1, False), odd]):
                self.forest(shapes, wide, len(shapes))
                x = numpy.random.default_rng(4).normal(size=(83, FEATURES)).astype(numpy.float64 if wide else numpy.float32)
                x[7, 2] = numpy.nan
                want = self.answers(x, 83)
                for count in (1, 3, 15, 17, 66):
                    self.assertTrue((self.answers(x[:count], count) == want[:count]).all(), (wide, shapes, count))
                self.assertTrue((self.answers(x[7:9], 2) == want[7:9]).all())
                self.ends(0, "verify", "f.onnx", "--dims", "x.0=3", "--no-tune")


if __name__ == "__main__":
    main()
