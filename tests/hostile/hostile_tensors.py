"""Class `tensors`: initializers whose dims, type and data do not belong together."""
from corpus import FLOAT, INT64, STRING, f32, graph, model, msg, node, num, tensor, value

DATA = ("data", "size", "bytes", "elements", "length", "dims", "shape")


def using(t, name="w"):
    """A model that adds the tensor `w` to x."""
    return model(graph([node("Add", ["x", name], ["y"])], [value("x", ["batch", 4])], [value("y", None)], [t]))


def add(c, rng):
    def refuse(name, t, *words):
        c.file("tensors", name, using(t), "refuse", *(words or DATA))

    four = f32(1, 2, 3, 4)
    c.file("tensors", "good", using(tensor("w", [4], four)), "load", run=True)
    for name, dims in {
        "negative": [-1], "negative_pair": [-2, -2], "smallest": [-(2**63)], "wraps_to_zero": [2**32, 2**32], "wraps_to_four": [2**62 + 1, 4], "wraps_small": [2**31, 2**31, 2**2, 1], "over_2_63": [2**62, 2, 1],
        "bytes_wrap": [2**62], "bytes_wrap_to_16": [2**62 + 4], "largest": [2**63 - 1], "huge": [2**40], "zero_and_huge": [0, 2**62, 2**62, 2**62], "many_twos": [2] * 64, "petabyte": [2**25, 2**25],
    }.items():  # fmt: skip
        refuse(f"dims_{name}", tensor("w", dims, four), *DATA, "negative", "overflow", "dimension", "large")
    refuse("dims_zero_with_data", tensor("w", [0], four))
    refuse("rank_1000", tensor("w", [2] + [1] * 999, four), *DATA, "rank")
    c.file("tensors", "rank_1000_consistent", using(tensor("w", [4] + [1] * 999, four)), "survive")
    c.file("tensors", "rank_1000000", using(tensor("w", [1] * 1000000, f32(1))), "survive")
    for name, raw in {"short": four[:-1], "one_short": four[:-4], "long": four + b"\0", "one_long": four + f32(5), "empty": b""}.items():
        refuse(f"raw_{name}", tensor("w", [4], raw))
    refuse("no_data", tensor("w", [4]))
    refuse("scalar_without_data", tensor("w", []))
    for name, more in {"float_data_short": msg(4, f32(1, 2)), "float_data_long": msg(4, f32(1, 2, 3, 4, 5)), "int32_data_in_float": msg(5, b"\1\2\3\4"), "double_data_in_float": msg(10, b"\0" * 32), "string_data_in_float": b"".join(msg(6, "s") for _ in range(4))}.items():
        refuse(name, tensor("w", [4], None, FLOAT, more))
    refuse("raw_and_float_data", tensor("w", [4], four, FLOAT, msg(4, four)), *DATA, "both", "more than one")
    c.file("tensors", "float_data_good", using(tensor("w", [4], None, FLOAT, msg(4, four))), "load", run=True)
    c.file("tensors", "raw_empty_and_float_data", using(tensor("w", [4], b"", FLOAT, msg(4, four))), "survive")
    for kind in (0, 27 + 100, 999, 2**31 - 1, -1, -(2**31)):
        refuse(f"type_{kind}", tensor("w", [4], four, kind), "type", "data_type")
    refuse("string_raw", tensor("w", [4], b"abcd", STRING), "string", "type", *DATA)
    refuse("string_short", tensor("w", [4], None, STRING, msg(6, "a")), "string", "type", *DATA)
    refuse("int64_in_int32_data", tensor("w", [2], None, INT64, msg(5, b"\1\2")), *DATA, "type")
    refuse("half_out_of_range", tensor("w", [4], None, 10, msg(5, b"\xff\xff\xff\xff\x0f" * 4)), *DATA, "range", "type", "float16")
    refuse("bool_out_of_range_short", tensor("w", [4], b"\2\3", 9), *DATA, "type")
    for kind, label in ((21, "uint4"), (22, "int4"), (23, "float4")):
        for size in (0, 1, 3):
            refuse(f"{label}_odd_{size}_bytes", tensor("w", [3], b"\x21" * size, kind), *DATA, "type", label)
    refuse("uint4_over_15", tensor("w", [4], None, 21, msg(5, b"\xff\x7f")), *DATA, "type", "range", "uint4")
    refuse("segment", tensor("w", [4], four, FLOAT, msg(3, num(1, 0), num(2, 4))), "segment", *DATA)
    refuse("location_unknown", tensor("w", [4], four, FLOAT, num(14, 7)), "location", *DATA)
    refuse("external_without_entries", tensor("w", [4], None, FLOAT, num(14, 1)), "external", "location")
    refuse("external_and_raw", tensor("w", [4], four, FLOAT, num(14, 1), msg(13, msg(1, "location"), msg(2, "w.bin"))), "external", *DATA, "open", "exist")
    good = tensor("w", [4], four)
    # The last of a name counts, as in ONNX Runtime, unless they differ in more than their elements.
    for name, second, fate in (("two_of_a_name", tensor("w", [4], f32(9, 9, 9, 9)), ["load"]),
                               ("two_of_a_name_and_two_shapes", tensor("w", [2], f32(9, 9)), ["refuse", "w", "duplicate", "twice", "more than once"])):
        twin = model(graph([node("Add", ["x", "w"], ["y"])], [value("x", ["batch", 4])], [value("y", None)], [good, second]))
        c.file("tensors", name, twin, *fate)
    c.file("tensors", "no_name", using(tensor("", [4], four), ""), "refuse", "name", "input", "missing", "required")
    as_input = model(graph([node("Add", ["x", "w"], ["y"])], [value("x", ["batch", 4]), value("w", [5])], [value("y", None)], [good]))
    c.file("tensors", "declared_otherwise", as_input, "refuse", "w", "shape")
    as_type = model(graph([node("Add", ["x", "w"], ["y"])], [value("x", ["batch", 4]), value("w", [4], INT64)], [value("y", None)], [good]))
    c.file("tensors", "declared_other_type", as_type, "refuse", "w", "type")
    sparse(c)
    constant = node("Constant", [], ["w"], value=tensor("v", [4], four[:-2]))
    c.file("tensors", "constant_short", model(graph([constant, node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", None)])), "refuse", *DATA)
    constant = node("Constant", [], ["w"], value=tensor("v", [2**40, 2**40], b""))
    c.file("tensors", "constant_huge", model(graph([constant, node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", None)])), "refuse", *DATA, "overflow", "large")
    for label, bits in (("nan", 0x7FC00000), ("signalling_nan", 0x7F800001), ("inf", 0x7F800000), ("subnormal", 1)):
        c.file("tensors", f"values_{label}", using(tensor("w", [4], bits.to_bytes(4, "little") * 4)), "load", run=True)


def sparse(c):
    """SparseTensorProto: values = 1, indices = 2, dims = 3."""
    for name, (indices, shape, dims) in {
        "good": ([0, 5], [2], [2, 4]), "outside": ([0, 8], [2], [2, 4]), "negative": ([-1, 3], [2], [2, 4]), "unsorted": ([5, 0], [2], [2, 4]), "repeated": ([3, 3], [2], [2, 4]), "rank2_outside": ([0, 0, 2, 9], [2, 2], [2, 4]),
        "dims_wrap": ([0, 5], [2], [2**32, 2**32]), "dims_huge": ([0, 5], [2], [2**20, 2**30]), "more_indices": ([0, 1, 2], [3], [2, 4]),
    }.items():  # fmt: skip
        body = msg(1, tensor("w", [2], f32(1, 2))) + msg(2, tensor("", shape, b"".join(i.to_bytes(8, "little", signed=True) for i in indices), INT64)) + b"".join(num(3, d) for d in dims)
        data = model(graph([node("Add", ["x", "w"], ["y"])], [value("x", ["batch", 4])], [value("y", None)], [], msg(15, body)))
        c.file("tensors", f"sparse_{name}", data, "survive" if name == "good" else "refuse", "sparse", "w", "index", "indices")
