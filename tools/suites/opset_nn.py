"""Samples of convolution, matrix product, pooling and normalisation."""
import numpy as np
from opset_cases import Sample, values

# name → (input shape, weight shape, bias, attributes)
CONVS = {
    "plain": ((1, 2, 5, 5), (3, 2, 3, 3), False, {}), "bias": ((2, 3, 6, 5), (4, 3, 3, 3), True, {"pads": [1, 1, 1, 1]}), "stride": ((1, 3, 9, 8), (2, 3, 3, 3), True, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "dilated": ((1, 2, 9, 9), (2, 2, 3, 3), False, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}), "pointwise": ((2, 8, 4, 4), (5, 8, 1, 1), True, {}),
    "depthwise": ((1, 6, 7, 7), (6, 1, 3, 3), True, {"group": 6, "pads": [1, 1, 1, 1]}), "multiplier": ((1, 3, 6, 6), (6, 1, 3, 3), False, {"group": 3}), "groups": ((2, 4, 6, 6), (6, 2, 3, 3), True, {"group": 2}),
    "uneven_pads": ((1, 2, 5, 6), (2, 2, 2, 3), False, {"pads": [1, 0, 0, 2]}), "same_upper": ((1, 2, 7, 8), (2, 2, 3, 2), False, {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "same_lower": ((1, 2, 7, 8), (2, 2, 2, 4), False, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}), "valid": ((1, 2, 7, 8), (2, 2, 3, 3), False, {"auto_pad": "VALID"}),
    "kernel_shape": ((1, 1, 5, 5), (1, 1, 5, 3), False, {"kernel_shape": [5, 3]}), "one_d": ((2, 3, 11), (4, 3, 3), True, {"pads": [1, 1], "strides": [2]}), "one_d_dilated": ((1, 2, 13), (2, 2, 3), False, {"dilations": [3]}),
    "three_d": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), True, {"pads": [0, 1, 1, 0, 1, 1]}), "three_d_group": ((1, 4, 4, 4, 4), (4, 1, 3, 3, 3), False, {"group": 4, "strides": [1, 2, 1]}),
    "wide": ((1, 17, 6, 6), (19, 17, 3, 3), True, {"pads": [1, 1, 1, 1]}), "batch0": ((0, 2, 5, 5), (3, 2, 3, 3), False, {}),
}  # fmt: skip


def conv(v):
    for name, (x, w, bias, attrs) in CONVS.items():
        rng = v.rng(name)
        inputs = [values(rng, x), values(rng, w)] + ([values(rng, w[:1])] if bias else [])
        yield Sample(name, inputs, attrs, const=(1, 2) if bias else (1,), both=name == "batch0")
    rng = v.rng("input_weight")
    yield Sample("input_weight", [values(rng, (1, 2, 5, 5)), values(rng, (3, 2, 3, 3)), values(rng, (3,))])
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (1, 3, 6, 6), t), values(rng, (4, 3, 3, 3), t), values(rng, (4,), t)], {"pads": [1, 1, 1, 1]}, const=(1, 2))


TRANSPOSED = {
    "plain": ((1, 2, 3, 3), (2, 4, 3, 3), False, {}), "stride": ((1, 2, 4, 3), (2, 3, 2, 2), True, {"strides": [2, 2]}), "pads": ((1, 2, 5, 5), (2, 3, 3, 3), True, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output_padding": ((1, 2, 4, 4), (2, 2, 3, 3), False, {"strides": [3, 2], "output_padding": [1, 1]}), "output_shape": ((1, 1, 3, 3), (1, 2, 3, 3), False, {"strides": [3, 2], "output_shape": [10, 8]}),
    "dilated": ((1, 1, 4, 4), (1, 1, 2, 2), False, {"dilations": [2, 2]}), "group": ((1, 4, 3, 3), (4, 2, 3, 3), True, {"group": 2}), "depthwise": ((1, 3, 4, 4), (3, 1, 2, 2), False, {"group": 3, "strides": [2, 2]}),
    "same_upper": ((1, 1, 3, 3), (1, 2, 3, 3), False, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}), "same_lower": ((1, 1, 3, 3), (1, 2, 3, 3), False, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "one_d": ((1, 2, 5), (2, 3, 3), True, {"strides": [2]}), "three_d": ((1, 1, 2, 3, 3), (1, 2, 2, 2, 2), False, {"strides": [1, 2, 2]}),
}  # fmt: skip


def conv_transpose(v):
    for name, (x, w, bias, attrs) in TRANSPOSED.items():
        rng = v.rng(name)
        inputs = [values(rng, x), values(rng, w)] + ([values(rng, (w[1] * attrs.get("group", 1),))] if bias else [])
        yield Sample(name, inputs, attrs, const=(1, 2) if bias else (1,))
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (1, 2, 3, 3), t), values(rng, (2, 2, 3, 3), t)], {"strides": [2, 2]}, const=(1,))


# name → (input shape, attributes, first version of AveragePool, MaxPool, LpPool that has them; 0 = never)
POOLS = {
    "plain": ((1, 2, 6, 6), {"kernel_shape": [2, 2]}, 7, 7, 7), "stride": ((2, 3, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 2]}, 7, 7, 7), "pads": ((1, 2, 7, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 7, 7, 7),
    "uneven_pads": ((1, 1, 5, 6), {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}, 7, 7, 7), "same_upper": ((1, 2, 7, 8), {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 3]}, 7, 7, 7),
    "same_lower": ((1, 2, 7, 8), {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER", "strides": [2, 2]}, 7, 7, 7), "valid": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "VALID", "strides": [2, 2]}, 7, 7, 7),
    "one_d": ((1, 3, 11), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 7, 7, 7), "three_d": ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2]}, 7, 7, 7),
    "include_pad": ((1, 2, 5, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 7, 0, 0), "include_pad_3d": ((1, 1, 4, 4, 4), {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "count_include_pad": 1, "strides": [2, 2, 2]}, 7, 0, 0),
    "ceil": ((1, 2, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, 10, 10, 18), "ceil_pads": ((1, 1, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}, 10, 10, 18),
    "ceil_past": ((1, 1, 5, 5), {"kernel_shape": [1, 1], "strides": [3, 3], "pads": [0, 0, 0, 0], "ceil_mode": 1}, 22, 22, 22), "ceil_include": ((1, 1, 6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1}, 19, 0, 0),
    "dilated": ((1, 2, 8, 8), {"kernel_shape": [2, 3], "dilations": [2, 2]}, 19, 10, 18), "dilated_ceil": ((1, 1, 9, 9), {"kernel_shape": [3, 3], "dilations": [2, 2], "strides": [3, 3], "ceil_mode": 1}, 19, 10, 18),
}  # fmt: skip


def pool(v):
    column = {"AveragePool": 2, "MaxPool": 3, "LpPool": 4}[v.op]
    for name, row in POOLS.items():
        if row[column] and v.version >= row[column] or row[column] == 7:
            yield Sample(name, [values(v.rng(name), row[0])], row[1], both="ceil" in name)
    x = values(v.rng("x"), (1, 2, 6, 6))
    if v.op == "LpPool":
        yield Sample("p1", [x], {"kernel_shape": [3, 3], "p": 1})
        yield Sample("p3", [abs(x)], {"kernel_shape": [2, 2], "p": 3, "strides": [2, 2]})
    if v.op == "MaxPool" and v.version >= 8:
        yield Sample("indices", [x], {"kernel_shape": [2, 2], "strides": [2, 2]}, outputs=2)
        yield Sample("indices_pads", [x], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, outputs=2)
        yield Sample("indices_column", [x], {"kernel_shape": [2, 2], "storage_order": 1}, outputs=2)
        yield Sample("negative", [-abs(x) - 1], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (1, 2, 6, 6), t)], {"kernel_shape": [3, 3], "strides": [2, 2]}, both=v.op == "LpPool" and t.name == "float64")


def global_pool(v):
    for name, shape in {"image": (2, 3, 5, 6), "line": (2, 3, 7), "volume": (1, 2, 3, 4, 5), "one": (2, 3, 1, 1)}.items():
        yield Sample(name, [values(v.rng(name), shape)])
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (1, 3, 4, 4), t)])


def statistics(rng, count, dtype=np.float32):
    return [values(rng, (count,), dtype), values(rng, (count,), dtype), values(rng, (count,), dtype), values(rng, (count,), dtype, "positive")]


def batch_norm(v):
    for name, shape in {"image": (2, 3, 4, 5), "line": (2, 3, 7), "rows": (4, 5), "volume": (1, 2, 3, 3, 3), "one": (1, 1, 1, 1)}.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, shape), *statistics(rng, shape[1])], const=(1, 2, 3, 4))
    rng = v.rng("epsilon")
    yield Sample("epsilon", [values(rng, (2, 3, 4)), *statistics(rng, 3)], {"epsilon": 0.1}, const=(1, 2, 3, 4))
    yield Sample("inputs", [values(rng, (2, 3, 4)), *statistics(rng, 3)])
    if v.has("training_mode"):
        yield Sample("training", [values(rng, (2, 3, 4)), *statistics(rng, 3)], {"training_mode": 1, "momentum": 0.8}, outputs=3)
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (2, 3, 4), t), *statistics(rng, 3, t)])


def scaled_norm(v):
    """InstanceNormalization, GroupNormalization."""
    groups = {"two": ((2, 4, 5, 5), 2), "one": ((2, 4, 5), 1), "each": ((1, 6, 4, 4), 6), "tail": ((1, 6, 3, 7), 3)}
    for name, (shape, count) in groups.items():
        for t in (np.float32,) if name != "tail" else v.sweep("T"):
            rng = v.rng(f"{name}{t}")
            group = v.op == "GroupNormalization"
            size = count if group and v.version < 21 else shape[1]
            inputs = [values(rng, shape, t), values(rng, (size,), t), values(rng, (size,), t)]
            yield Sample(f"{name}_{np.dtype(t).name}", inputs, {"num_groups": count} if group else {}, const=(1, 2))
    rng = v.rng("epsilon")
    attrs = {"epsilon": 0.05} | ({"num_groups": 2} if v.op == "GroupNormalization" else {})
    yield Sample("epsilon", [values(rng, (2, 2, 9)), values(rng, (2,)), values(rng, (2,))], attrs)


def layer_norm(v):
    """LayerNormalization, RMSNormalization."""
    outputs = 3 if v.op == "LayerNormalization" else 1
    for name, (shape, axis) in {"last": ((2, 3, 8), None), "axis1": ((2, 3, 4), 1), "axis0": ((3, 4), 0), "negative": ((2, 3, 4), -2), "tail": ((5, 67), -1)}.items():
        rng = v.rng(name)
        size = shape[axis if axis is not None else -1 :]
        inputs = [values(rng, shape), values(rng, size)] + ([values(rng, size)] if outputs == 3 else [])
        attrs = {} if axis is None else {"axis": axis}
        yield Sample(name, inputs, attrs, const=(1, 2)[: len(inputs) - 1])
        if outputs == 3:
            yield Sample(f"{name}_all_outputs", inputs, attrs | {"epsilon": 1e-3}, outputs=3)
            yield Sample(f"{name}_no_bias", inputs[:2], attrs, const=(1,))
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (4, 9), t), values(rng, (9,), t)])
    rng = v.rng("broadcast")
    yield Sample("broadcast", [values(rng, (2, 3, 4)), values(rng, (1, 4))], {"axis": 1}, both=True)


def lrn(v):
    # Even sizes and double are the reference evaluator's to answer; it squares as many channels as there are images.
    for name, (shape, attrs) in {"three": ((1, 6, 3, 3), {"size": 3}), "five": ((2, 7, 2, 3), {"size": 5, "alpha": 0.01, "beta": 0.6, "bias": 2.0}), "even": ((6, 6, 3, 3), {"size": 4, "alpha": 0.5}), "one": ((1, 3, 2, 2), {"size": 1, "alpha": 1.0})}.items():
        yield Sample(name, [values(v.rng(name), shape)], attrs)
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (5, 5, 3, 3), t)], {"size": 3, "alpha": 0.1})


def gemm(v):
    for i in range(4):
        rng, ta, tb = v.rng(f"t{i}"), i & 1, i >> 1
        yield Sample(f"trans{ta}{tb}", [values(rng, (5, 3) if ta else (3, 5)), values(rng, (4, 5) if tb else (5, 4)), values(rng, (3, 4))], {"transA": ta, "transB": tb})
    for name, c in {"row": (4,), "column": (3, 1), "one": (1,), "scalar": (), "one_row": (1, 4)}.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, (3, 5)), values(rng, (5, 4)), values(rng, c)], {"alpha": 0.5, "beta": 2.0}, const=(1, 2))
    rng = v.rng("beta0")
    yield Sample("beta0", [values(rng, (3, 5)), values(rng, (5, 4)), values(rng, (4,))], {"beta": 0.0})
    yield Sample("wide", [values(rng, (17, 33)), values(rng, (33, 65)), values(rng, (65,))], const=(1, 2))
    if v.version >= 11:
        yield Sample("no_c", [values(rng, (3, 5)), values(rng, (5, 4))], {"alpha": 0.25})
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (2, 3), t), values(rng, (3, 4), t), values(rng, (4,), t)])


def matmul(v):
    pairs = {"plain": ((3, 5), (5, 4)), "vectors": ((5,), (5,)), "vector_left": ((5,), (2, 5, 3)), "vector_right": ((2, 3, 5), (5,)), "batch": ((2, 3, 5), (2, 5, 4)), "broadcast": ((2, 1, 3, 5), (4, 5, 2)),
             "shared": ((2, 3, 5), (5, 4)), "left_shared": ((3, 5), (2, 5, 4)), "wide": ((17, 33), (33, 65)), "empty_inner": ((3, 0), (0, 4)), "empty": ((0, 3), (3, 4)), "row": ((1, 67), (67, 3))}  # fmt: skip
    for name, (a, b) in pairs.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, a), values(rng, b)], both=name.startswith("empty"))
    rng = v.rng("const")
    yield Sample("const", [values(rng, (2, 3, 8)), values(rng, (8, 6))], const=(1,))
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (3, 5), t), values(rng, (5, 2), t)])


EINSUMS = {
    "matmul": ("ij,jk->ik", (3, 4), (4, 5)), "implicit": ("ij,jk", (3, 4), (4, 5)), "transpose": ("ij->ji", (3, 4)), "sum": ("ij->", (3, 4)), "rows": ("ij->i", (3, 4)), "diagonal": ("ii->i", (4, 4)),
    "trace": ("ii", (4, 4)), "batch": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), "attention": ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), "ellipsis": ("...ij,...jk->...ik", (2, 1, 3, 4), (1, 3, 4, 2)),
    "outer": ("i,j->ij", (3,), (4,)), "dot": ("i,i", (5,), (5,)), "three": ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), "spaces": (" ij , jk -> ki ", (2, 3), (3, 4)), "elementwise": ("ij,ij->ij", (2, 3), (2, 3)),
}  # fmt: skip


def einsum(v):
    for name, (equation, *shapes) in EINSUMS.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, s) for s in shapes], {"equation": equation})
    for t in v.sweep("T"):
        rng = v.rng(t.name)
        yield Sample(t.name, [values(rng, (2, 3), t), values(rng, (3, 2), t)], {"equation": "ij,jk->ik"})


SAMPLES = {
    "Conv": conv, "ConvTranspose": conv_transpose, "AveragePool": pool, "MaxPool": pool, "LpPool": pool, "GlobalAveragePool": global_pool, "GlobalMaxPool": global_pool, "BatchNormalization": batch_norm,
    "InstanceNormalization": scaled_norm, "GroupNormalization": scaled_norm, "LayerNormalization": layer_norm, "RMSNormalization": layer_norm, "LRN": lrn, "Gemm": gemm, "MatMul": matmul, "Einsum": einsum,
}  # fmt: skip
