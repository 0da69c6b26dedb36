#!/usr/bin/env python3
"""Sums over named axes are matrix products, whatever their equation: with kernels, and NumPy's answers."""
import json

import numpy
import onnx
from onnx import TensorProto, helper

from typed import Typed, main

# equation, shapes; a letter is a dimension that is open
EQUATIONS = [
    ("...ij,...jk->...ik", "bhij", "bhjk"),
    ("...ij,jk->...ik", "abij", "jk"),
    ("...ab,...bc->...ac", [4, 1, 3, 5], [7, 5, 6]),
    ("...d,d->...", "abd", "d"),
    ("...ij->...ji", "bhij"),
    ("bij,bik->bk", "bij", "bik"),
    ("bhnd,bhde,bhn->bhne", "bhnd", "bhde", "bhn"),
    ("bij,jk,kl->bil", "bij", "jk", "kl"),
    ("bij,bjk,bkl->bil", "bij", "bjk", "bkl"),
    ("bi,oij,bj->bo", "bi", "oij", "bj"),
    ("bi,bj,bk->bijk", "bi", "bj", "bk"),
    ("ab,bc,cd,de->ae", "ab", "bc", "cd", "de"),
    ("ij,ij,ij->i", "ij", "ij", "ij"),
    ("bnd,nd->bn", [2, 3, 4], [1, 4]),
    ("ij,jk", "ij", "jk"),
    ("jb,ja", "jb", "ja"),
    ("ij->", "ij"),
    ("bij,bjk->bik", "pij", "qlk"),  # each input with names of its own, as exporters give them
    ("bhid,bhjd->bhij", "phid", "qgje"),
    ("bi,oij,bj->bo", "bi", "oaj", "pc"),
    ("ii->i", "ii"),  # diagonals
    ("ii", "ii"),
    ("bii,bij->bj", "bii", "bij"),
    ("...ii->...i", "abii"),
    ("iaj,jji->ai", "iaj", "jji"),
    ("iijj->ji", [5, 5, 3, 3]),
    ("iii->i", [4, 4, 4]),
    ("ii,ij->j", [1, 1], [1, 6]),
]


class Einsums(Typed):
    def test_many_operands_are_no_long_work(self):
        """A chain of 40 small products is one after another, where all terms together pass any count."""
        letters = [chr(97 + k) if k < 26 else chr(65 + k - 26) for k in range(41)]
        equation = ",".join(letters[k] + letters[k + 1] for k in range(40)) + f"->{letters[0]}{letters[40]}"
        names, value = [f"x{k}" for k in range(40)], helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Einsum", names, ["y"], equation=equation)], "g", [value(n, TensorProto.FLOAT, [4, 4]) for n in names], [value("y", TensorProto.FLOAT, [4, 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        self.ends(0, "build", "m.onnx", "-o", "m.engine", "--quiet", "--no-tune")
        rng = numpy.random.default_rng(3)
        wanted = numpy.eye(4)
        for n in names:
            x = rng.normal(size=(4, 4)).astype(numpy.float32) / 2
            numpy.save(self.folder / f"{n}.npy", x)
            wanted = wanted @ x.astype(numpy.float64)
        self.ends(0, "run", "m.engine", *[w for n in names for w in ("-i", f"{n}={n}.npy")], "--output-dir", "out")
        numpy.testing.assert_allclose(numpy.load(self.folder / "out/y.npy"), wanted, rtol=1e-3, atol=1e-4 * numpy.abs(wanted).max())

    def test_every_equation_has_kernels(self):
        rng = numpy.random.default_rng(3)
        for equation, *shapes in EQUATIONS:
            names = [f"x{k}" for k in range(len(shapes))]
            node = helper.make_node("Einsum", names, ["y"], equation=equation)
            value = helper.make_tensor_value_info
            graph = helper.make_graph([node], "g", [value(n, TensorProto.FLOAT, list(s)) for n, s in zip(names, shapes)], [value("y", TensorProto.FLOAT, None)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
            with self.subTest(equation):
                open_sizes = sorted({a for s in shapes for a in s if isinstance(a, str)})
                dims = ["--dims", ",".join(f"{a}=4" for a in open_sizes)] if open_sizes else []
                self.ends(0, "build", "m.onnx", *dims, "-o", "m.engine", "--quiet", "--force", "--no-tune", "--json", "b.json")
                self.assertEqual(json.loads((self.folder / "b.json").read_text())["reference_steps"], 0)
                letters = equation.split("->")[0].replace("...", "").split(",")
                plain = all(len(t) == len(s) for t, s in zip(letters, shapes))  # sizes by the equation's letters
                size = lambda a: 3 + 2 * (ord(a) % 5) if isinstance(a, str) else a
                given = {n: rng.normal(size=[size(a) for a in (t if plain and isinstance(s, str) else s)]).astype(numpy.float32) for n, t, s in zip(names, letters, shapes)}
                for n, x in given.items():
                    numpy.save(self.folder / f"{n}.npy", x)
                self.ends(0, "run", "m.engine", *[w for n in names for w in ("-i", f"{n}={n}.npy")], "--output-dir", "out")
                theirs = numpy.einsum(equation, *[x.astype(numpy.float64) for x in given.values()])
                ours = numpy.load(self.folder / "out/y.npy")
                self.assertEqual(ours.shape, theirs.shape)
                numpy.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * numpy.abs(theirs).max())


if __name__ == "__main__":
    main()
