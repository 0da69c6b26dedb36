"""Class `operators`: attributes and constants an operator's definition does not allow, and sizes no machine has."""
from corpus import FLOAT, INT64, f32, floats, graph, i64, ints, model, node, one, tensor, value

X2, X3, X4 = ("x", [2, 3]), ("x", [2, 3, 4]), ("x", [1, 4, 8, 8])
MIN, MAX = -(2**63), 2**63 - 1
BIG = ("large", "overflow", "size", "memory", "exceed", "limit", "too", "wrap", "allocate")


def conv(c):
    weight = floats("w", [4, 4, 3, 3])
    for name, attrs in {
        "stride_0": {"strides": [0, 1]}, "stride_negative": {"strides": [-1, 1]}, "stride_huge": {"strides": [MAX, 1]}, "dilation_0": {"dilations": [0, 1]}, "dilation_negative": {"dilations": [1, -2]}, "dilation_wraps": {"dilations": [2**62, 2**62]},
        "kernel_0": {"kernel_shape": [0, 3]}, "kernel_negative": {"kernel_shape": [-3, 3]}, "kernel_mismatch": {"kernel_shape": [5, 5]}, "kernel_rank": {"kernel_shape": [3]}, "kernel_huge": {"kernel_shape": [2**62, 2**62]}, "group_0": {"group": 0},
        "group_negative": {"group": -1}, "group_not_dividing": {"group": 3}, "group_two_channels": {"group": 2}, "group_smallest": {"group": MIN}, "pads_negative": {"pads": [-5, -5, -5, -5]}, "pads_wrap": {"pads": [MAX, MAX, MAX, MAX]},
        "pads_few": {"pads": [1, 1]}, "pads_many": {"pads": [1] * 6}, "strides_few": {"strides": [1]}, "dilations_many": {"dilations": [1, 1, 1]}, "auto_pad_unknown": {"auto_pad": "SAME_MIDDLE"}, "pads_exabyte": {"pads": [2**40, 2**40, 0, 0]},
    }.items():  # fmt: skip
        data = one("Conv", [X4], tensors=[weight], **attrs)
        c.file("operators", f"conv_{name}", data, "survive" if name in ("stride_huge", "pads_negative") else "refuse", "Conv", next(iter(attrs)), *BIG)
    for name, dims in {"rank_3": [4, 4, 3], "rank_5": [4, 4, 3, 3, 1], "rank_0": [], "channels": [4, 5, 3, 3], "zero_channels": [4, 0, 3, 3], "larger_than_input": [4, 4, 9, 9], "rank_1": [144]}.items():
        c.file("operators", f"conv_weight_{name}", one("Conv", [X4], tensors=[floats("w", dims)]), "survive" if name == "larger_than_input" else "refuse", "Conv")
    c.file("operators", "conv_no_outputs_channels", one("Conv", [X4], tensors=[floats("w", [0, 4, 3, 3])]), "survive")
    c.file("operators", "conv_bias_length", one("Conv", [X4], tensors=[weight, floats("b", [5])]), "refuse", "Conv")
    c.file("operators", "conv_bias_rank", one("Conv", [X4], tensors=[weight, floats("b", [4, 1])]), "refuse", "Conv")
    c.file("operators", "conv_input_rank_2", one("Conv", [X2], tensors=[weight]), "refuse", "Conv")
    for name, attrs in {"output_padding": {"output_padding": [5, 5]}, "output_padding_negative": {"output_padding": [-1, 0], "strides": [2, 2]}, "output_shape_negative": {"output_shape": [-3, 8]}, "output_shape_huge": {"output_shape": [2**40, 2**40]}, "stride_wraps": {"strides": [2**62, 2**62]}, "group": {"group": 3}}.items():
        c.file("operators", f"conv_transpose_{name}", one("ConvTranspose", [X4], tensors=[weight], **attrs), "survive" if name == "output_padding" else "refuse", "ConvTranspose", *BIG)


def pool(c):
    for op in ("MaxPool", "AveragePool"):
        for name, attrs in {
            "kernel_0": {"kernel_shape": [0, 2]}, "kernel_negative": {"kernel_shape": [-1, 2]}, "kernel_rank": {"kernel_shape": [2]}, "kernel_large": {"kernel_shape": [9, 9]}, "kernel_wraps": {"kernel_shape": [2**62, 2**62]}, "stride_0": {"kernel_shape": [2, 2], "strides": [0, 0]},
            "pads_negative": {"kernel_shape": [2, 2], "pads": [-1, -1, -1, -1]}, "pads_over_kernel": {"kernel_shape": [2, 2], "pads": [3, 3, 3, 3]}, "pads_wrap": {"kernel_shape": [2, 2], "pads": [MAX] * 4}, "no_kernel": {"strides": [1, 1]},
        }.items():  # fmt: skip
            c.file("operators", f"{op.lower()}_{name}", one(op, [X4], **attrs), "survive" if name in ("pads_negative", "pads_over_kernel", "kernel_large") else "refuse", op)
        c.file("operators", f"{op.lower()}_rank_2", one(op, [X2], kernel_shape=[2, 2]), "refuse", op)


def axes(c):
    for op, attrs in {"Softmax": {}, "LogSoftmax": {}, "Hardmax": {}, "ArgMax": {}, "Flatten": {}, "LayerNormalization": {}, "Gather": {}, "Concat": {}, "Split": {}, "LpNormalization": {}}.items():
        for axis in (3, -4, MAX, MIN):
            inputs = [X3] + ([("b", [2, 3, 4])] if op == "Concat" else [("i", [2], INT64)] if op == "Gather" else [("s", [4])] if op == "LayerNormalization" else [])
            must = "survive" if op == "Flatten" and axis == 3 else "refuse"
            c.file("operators", f"{op.lower()}_axis_{axis}", one(op, inputs, kinds=[INT64] if op == "ArgMax" else (), axis=axis, **attrs), must, "axis", op)
    for name, perm in {"repeated": [0, 0, 1], "outside": [0, 1, 3], "negative": [0, -1, 1], "short": [0, 1], "long": [0, 1, 2, 3], "extreme": [MIN, MAX, 0]}.items():
        c.file("operators", f"transpose_{name}", one("Transpose", [X3], perm=perm), "refuse", "perm", "Transpose")
    for op in ("ReduceSum", "Squeeze", "Unsqueeze"):
        for name, values in {"outside": [7], "negative": [-9], "repeated": [1, 1], "extreme": [MIN]}.items():
            c.file("operators", f"{op.lower()}_axes_{name}", one(op, [("x", [1, 1, 4])], tensors=[ints("axes", *values)]), "survive" if op in ("ReduceSum", "Squeeze") and name == "repeated" else "refuse", "ax", op)
    c.file("operators", "squeeze_not_one", one("Squeeze", [X3], tensors=[ints("axes", 1)]), "refuse", "Squeeze")
    c.file("operators", "concat_mismatch", one("Concat", [X3, ("b", [2, 5, 6])], axis=0), "refuse", "Concat")
    c.file("operators", "concat_ranks", one("Concat", [X3, ("b", [2, 3])], axis=0), "refuse", "Concat")


def shapes(c):
    def tensors(name, op, inputs, *values, must="refuse", by="build", words=(), **attrs):
        c.file("operators", name, one(op, inputs, tensors=values, **attrs), must, op, *words, by=by)

    for name, values in {"mismatch": [5, 5], "two_infer": [-1, -1], "below_infer": [-2, 3], "infer_not_dividing": [-1, 5], "wraps": [2**32, 2**32], "wraps_to_6": [2**62 + 3, 4], "huge": [MAX, MAX], "zero_past_rank": [2, 3, 0]}.items():
        tensors(f"reshape_{name}", "Reshape", [X2], ints("s", *values), words=BIG)
    tensors("reshape_rank_2_shape", "Reshape", [X2], ("s", tensor("s", [1, 2], i64(3, 2), INT64)))
    tensors("reshape_float_shape", "Reshape", [X2], floats("s", [2], 3.0))
    for op, name, values in (("Expand", "mismatch", [2, 5]), ("Expand", "exabyte", [2**20, 2**20, 2**20, 2, 3]), ("Expand", "wraps", [2**32, 2**32, 2, 3]), ("Expand", "negative", [-1, 2, 3]), ("Tile", "exabyte", [2**40, 2**20]), ("Tile", "negative", [-1, 1]), ("Tile", "count", [2]), ("Tile", "wraps", [2**63 - 1, 2])):
        tensors(f"{op.lower()}_{name}", op, [X2], ints("s", *values), words=BIG)
    for name, values in {"exabyte": [2**40, 2**20], "wraps": [2**32, 2**32], "negative": [-1, 3], "largest": [MAX], "terabyte": [2**38]}.items():
        c.file("operators", f"constant_of_shape_{name}", one("ConstantOfShape", [], tensors=[ints("s", *values)]), "refuse", "ConstantOfShape", *BIG)
    for name, values in {"exabyte": [0, 2**40, 0, 2**20], "wraps": [MAX, MAX, MAX, MAX], "crop_all": [-1, -2, -1, -2], "crop_past": [0, -50, 0, -50], "count": [1, 1], "extreme": [MIN, 0, MIN, 0]}.items():
        tensors(f"pad_{name}", "Pad", [X2], ints("p", *values), words=BIG, must="survive" if name == "crop_all" else "refuse")
    tensors("pad_reflect_past", "Pad", [X2], ints("p", 0, 9, 0, 9), mode="reflect", must="survive")
    tensors("pad_mode_unknown", "Pad", [X2], ints("p", 0, 1, 0, 1), mode="mirror")
    for name, scales in {"exabyte": [1.0, 1.0, 1e12, 1e12], "zero": [1.0, 1.0, 0.0, 1.0], "negative": [1.0, 1.0, -2.0, 1.0], "nan": [1.0, 1.0, float("nan"), 1.0], "inf": [1.0, 1.0, float("inf"), 1.0], "count": [1.0, 2.0]}.items():
        c.file("operators", f"resize_scales_{name}", one("Resize", [X4], tensors=[("roi", tensor("roi", [0], b"")), ("s", tensor("s", [len(scales)], f32(*scales)))]), "refuse", "Resize", "scale", *BIG)
    empty = ("e", tensor("e", [0], b""))
    for name, sizes in {"exabyte": [1, 4, 2**40, 2**20], "negative": [1, 4, -8, 8], "zero": [1, 4, 0, 8], "count": [4, 4]}.items():
        tensors(f"resize_sizes_{name}", "Resize", [X4], ("roi", tensor("roi", [0], b"")), empty, ints("sz", *sizes), words=BIG, must="survive" if name == "zero" else "refuse")
    c.file("operators", "resize_mode_unknown", one("Resize", [X4], tensors=[("roi", tensor("roi", [0], b"")), ("s", tensor("s", [4], f32(1, 1, 2, 2)))], mode="quintic"), "refuse", "Resize", "mode")
    for name, (a, b, s) in {"step_0": ([0], [2], [0]), "extreme": ([MIN], [MAX], [MAX]), "step_smallest": ([MAX], [MIN], [MIN]), "lengths": ([0, 0], [1], [1])}.items():
        tensors(f"slice_{name}", "Slice", [X2], ints("a", *a), ints("b", *b), ints("x0", 0), ints("s", *s), must="survive" if "e" == name[0] or "smallest" in name else "refuse")
    tensors("slice_axis_outside", "Slice", [X2], ints("a", 0), ints("b", 1), ints("x0", 5))
    tensors("slice_axes_repeated", "Slice", [X2], ints("a", 0, 0), ints("b", 1, 1), ints("x0", 0, 0), must="survive")
    for name, values in {"sum": [1, 2], "negative": [-1, 3], "wraps": [MAX, MAX], "empty": []}.items():
        c.file("operators", f"split_{name}", one("Split", [X2], 2, tensors=[ints("s", *values)], axis=0), "refuse", "Split", *BIG)
    for name, triple in {"delta_0": (0, 5, 0), "exabyte": (0, MAX, 1), "extreme": (MIN, MAX, 1)}.items():
        values = [(n, tensor(n, [], i64(v), INT64)) for n, v in zip("abd", triple)]
        c.file("operators", f"range_{name}", one("Range", [], tensors=values, kinds=[INT64]), "refuse", "Range", *BIG, by="run")
    c.file("operators", "range_nan", one("Range", [], tensors=[(n, tensor(n, [], f32(v))) for n, v in zip("abd", (0.0, float("nan"), 1.0))]), "survive")
    for name, k in {"past": 9, "negative": -1, "extreme": MAX}.items():
        c.file("operators", f"topk_{name}", one("TopK", [X2], 2, tensors=[ints("k", k)], kinds=[FLOAT, INT64]), "refuse", "TopK", "k", by="run")
    for name, depth in {"negative": -3, "exabyte": 2**60, "zero": 0}.items():
        c.file("operators", f"one_hot_{name}", one("OneHot", [("i", [4], INT64)], tensors=[ints("d", depth), ("v", tensor("v", [2], f32(0, 1)))]), "survive" if name == "zero" else "refuse", "OneHot", "depth", *BIG, by="run")
    for op in ("DepthToSpace", "SpaceToDepth"):
        for size in (0, -2, 3, MAX):
            c.file("operators", f"{op.lower()}_block_{size}", one(op, [X4], blocksize=size), "refuse", op, "blocksize")


def products(c):
    pairs = {"MatMul": (("x", [2, 3]), ("b", [4, 5])), "MatMul_batch": (("x", [2, 3, 4]), ("b", [3, 4, 5])), "MatMul_scalar": (("x", []), ("b", [3])), "Gemm": (("x", [2, 3]), ("b", [4, 5])), "Gemm_rank": (("x", [2, 3, 4]), ("b", [4, 5])), "Add": (("x", [2, 3]), ("b", [4, 5])), "Where": (("x", [2], 9), ("b", [2, 3]), ("d", [4]))}
    for name, inputs in pairs.items():
        op = name.split("_")[0]
        c.file("operators", f"{name.lower()}_mismatch", one(op, list(inputs)), "refuse", op)
    c.file("operators", "matmul_exabyte", one("MatMul", [("x", [2**31, 1]), ("b", [1, 2**31])]), "refuse", *BIG)
    c.file("operators", "add_broadcasts_to_exabyte", one("Add", [("x", [2**31, 1]), ("b", [1, 2**31])]), "refuse", *BIG)
    for name, equation in {"empty": "", "no_comma": "ij->ij", "three_terms": "ij,jk,kl->il", "output_unknown": "ij,jk->iz", "output_repeated": "ij,jk->ii", "arrows": "ij->jk->ik", "digits": "12,23->13", "dots": "i..j,jk->ik", "long": "i" * 100000 + ",jk->ik", "rank": "ijk,jk->ik", "binary": "\x00\xff,->", "case": "iI,Ij->ij" * 2, "mismatch": "ij,ik->jk"}.items():
        c.file("operators", f"einsum_{name}", one("Einsum", [("x", [2, 3]), ("b", [4, 5])], equation=equation), "refuse", "Einsum", "equation")
    for op, extra in {"BatchNormalization": ["s", "b", "m", "v"], "InstanceNormalization": ["s", "b"], "GroupNormalization": ["s", "b"]}.items():
        attrs = {"num_groups": 2} if op == "GroupNormalization" else {}
        c.file("operators", f"{op.lower()}_channels", one(op, [X4], tensors=[floats(n, [5]) for n in extra], opset=21, **attrs), "refuse", op)
        c.file("operators", f"{op.lower()}_rank", one(op, [X4], tensors=[floats(n, [4, 4]) for n in extra], opset=21, **attrs), "refuse", op)
        c.file("operators", f"{op.lower()}_epsilon_nan", one(op, [X4], tensors=[floats(n, [4]) for n in extra], opset=21, epsilon=float("nan"), **attrs), "survive")
    for groups in (0, -1, 3, MAX):
        c.file("operators", f"groupnormalization_groups_{groups}", one("GroupNormalization", [X4], tensors=[floats("s", [4]), floats("b", [4])], opset=21, num_groups=groups), "refuse", "GroupNormalization", "num_groups")
    c.file("operators", "layernormalization_scale", one("LayerNormalization", [X3], tensors=[floats("s", [5])]), "refuse", "LayerNormalization")
    for size in (0, -3, 2**62):
        c.file("operators", f"lrn_size_{size}", one("LRN", [X4], size=size), "survive" if size > 0 else "refuse", "LRN", "size")


def indices(c):
    at = {"past": [9], "negative": [-9], "extreme": [MIN], "largest": [MAX]}
    for name, values in at.items():
        c.file("operators", f"gather_{name}", one("Gather", [X2], tensors=[ints("i", *values)]), "refuse", "Gather", "ind", by="run", run=True)
        c.file("operators", f"gathernd_{name}", one("GatherND", [X2], tensors=[("i", tensor("i", [1, 1], i64(*values), INT64))]), "refuse", "GatherND", "ind", by="run", run=True)
        c.file("operators", f"gatherelements_{name}", one("GatherElements", [X2], tensors=[("i", tensor("i", [1, 1], i64(*values), INT64))]), "refuse", "GatherElements", "ind", by="run", run=True)
        c.file("operators", f"scatternd_{name}", one("ScatterND", [X2], tensors=[("i", tensor("i", [1, 1], i64(*values), INT64)), floats("u", [1, 3])]), "refuse", "ScatterND", "ind", by="run", run=True)
        c.file("operators", f"scatterelements_{name}", one("ScatterElements", [X2], tensors=[("i", tensor("i", [1, 1], i64(*values), INT64)), floats("u", [1, 1])]), "refuse", "ScatterElements", "ind", by="run", run=True)
        embedding = model(graph([node("Gather", ["w", "x"], ["y"])], [value("x", ["n"], INT64)], [value("y", None)], [tensor("w", [4, 2], f32(*range(8)))]))
    c.file("operators", "gather_random_ids", embedding, "survive", run=True)
    c.file("operators", "gathernd_depth", one("GatherND", [X2], tensors=[("i", tensor("i", [1, 5], i64(0, 0, 0, 0, 0), INT64))]), "refuse", "GatherND")
    c.file("operators", "gathernd_batch_dims", one("GatherND", [X2], tensors=[("i", tensor("i", [2, 1], i64(0, 0), INT64))], batch_dims=7), "refuse", "GatherND", "batch_dims")
    c.file("operators", "scatternd_updates", one("ScatterND", [X2], tensors=[("i", tensor("i", [1, 1], i64(0), INT64)), floats("u", [7, 7])]), "refuse", "ScatterND")
    c.file("operators", "scatterelements_reduction", one("ScatterElements", [X2], tensors=[("i", tensor("i", [1, 1], i64(0), INT64)), floats("u", [1, 1])], reduction="median", opset=18), "refuse", "ScatterElements", "reduction")
    c.file("operators", "compress_longer", one("Compress", [X2], tensors=[("k", tensor("k", [9], b"\1" * 9, 9))], axis=0), "survive", run=True)
    for to in (0, 999, -1, MAX):
        c.file("operators", f"cast_to_{to}", one("Cast", [X2], to=to), "refuse", "Cast", "to")
    c.file("operators", "cast_text_to_number", model(graph([node("Cast", ["s"], ["y"], to=1)], [], [value("y", None)], [tensor("s", [1], None, 8, b"\x32\x05words")])), "survive", run=True)
    for name, values in {"extreme": (MIN, -1), "zero": (5, 0)}.items():
        data = model(graph([node("Div", ["a", "b"], ["y"])], [], [value("y", None, INT64)], [tensor("a", [1], i64(values[0]), INT64), tensor("b", [1], i64(values[1]), INT64)]))
        c.file("operators", f"div_{name}", data, "survive", run=True)
        c.file("operators", f"mod_{name}", data.replace(b"\x03Div", b"\x03Mod"), "survive", run=True)
    c.file("operators", "bitshift_past_width", model(graph([node("BitShift", ["a", "b"], ["y"], direction="LEFT")], [], [value("y", None, 2)], [tensor("a", [1], b"\x03", 2), tensor("b", [1], b"\xc8", 2)])), "survive", run=True)
    c.file("operators", "reverse_sequence_past", one("ReverseSequence", [X2], tensors=[ints("n", 9, 9, 9)]), "refuse", "ReverseSequence", by="run", run=True)
    c.file("operators", "reverse_sequence_negative", one("ReverseSequence", [X2], tensors=[ints("n", -1, MIN, 1)]), "refuse", "ReverseSequence", by="run", run=True)
    c.file("operators", "cumsum_axis_outside", one("CumSum", [X2], tensors=[("a", tensor("a", [], i64(7), INT64))]), "refuse", "CumSum", "axis")
    for k in (MIN, MAX):
        c.file("operators", f"eyelike_k_{k}", one("EyeLike", [X2], k=k), "survive", run=True)
        c.file("operators", f"trilu_k_{k}", one("Trilu", [X2], tensors=[("k", tensor("k", [], i64(k), INT64))]), "survive", run=True)


def add(c, rng):
    for part in (conv, pool, axes, shapes, products, indices):
        part(c)
