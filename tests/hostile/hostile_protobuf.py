"""Class `protobuf`: wire bytes that no protobuf library writes."""
from corpus import FLOAT, dim, f32, good, graph, i64, model, msg, node, num, subgraph, tag, tensor, value, varint

PARSE = ("protobuf", "parse", "ONNX", "malformed", "truncated", "graph", "deep", "nest")


def nested(depth, wrap):
    """A message wrapped in itself `depth` times, built from the inside."""
    body = b""
    for _ in range(depth):
        body = wrap(body)
    return body


def relu(*more):
    return graph([node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])], [], *more)


def add(c, rng):
    def refuse(name, data, *words, **facts):
        c.file("protobuf", name, data, "refuse", *words, *PARSE, **facts)

    for depth in (40, 1000, 10000):
        deep = nested(depth, lambda g: graph([node("If", ["c"], ["o"], attributes=[subgraph("then_branch", g), subgraph("else_branch", b"")])]))
        refuse(f"subgraphs_{depth}", model(deep), "If")
    refuse("attributes_in_graphs_30000", model(nested(30000, lambda g: msg(1, msg(5, msg(6, g))))))
    refuse("groups_10000", num(1, 8) + tag(7, 3) * 10000)
    refuse("groups_closed_10000", good() + tag(999, 3) * 10000 + tag(999, 4) * 10000)
    refuse("group_end_alone", good() + tag(9, 4))
    refuse("group_end_of_another", good() + tag(999, 3) + tag(998, 4))
    refuse("varint_11_bytes", tag(1, 0) + b"\xff" * 10 + b"\x01")
    refuse("varint_endless", tag(1, 0) + b"\x80" * 100000)
    refuse("varint_cut", good() + tag(5, 0) + b"\x80")
    for size in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1):
        refuse(f"length_{size}", num(1, 8) + tag(7, 2) + varint(size) + good())
        refuse(f"raw_length_{size}", num(1, 8) + msg(7, tag(5, 2) + varint(size)))
    refuse("length_past_graph_end", num(1, 8) + tag(7, 2) + varint(500) + relu())
    for wire in (0, 1, 5, 6, 7):
        refuse(f"graph_wire_type_{wire}", num(1, 8) + tag(7, wire) + b"\x01\x02\x03\x04\x05\x06\x07\x08")
    refuse("field_zero", good() + b"\x02\x01x")
    c.file("protobuf", "field_largest", good() + msg(2**29 - 1, "x"), "load")
    refuse("field_too_large", good() + varint((2**29 << 3 | 2) + 2**40) + b"\x01x")
    c.file("protobuf", "ir_version_as_text", msg(1, "8") + msg(7, relu()) + msg(8, num(2, 17)), "survive")
    c.file("protobuf", "unknown_fields_4_mib", good() + msg(1001, b"\0" * (4 << 20)), "survive")
    c.file("protobuf", "unknown_fields_64_mib", good() + msg(1001, b"\0" * (64 << 20)), "survive")
    c.file("protobuf", "unknown_fields_100000_small", good() + b"".join(num(1002 + i % 7, i) for i in range(100000)), "survive")
    weight = tensor("w", [2, 3], f32(*range(6)))
    scalar_dims = num(1, 2) + num(1, 3)
    packed_dims = msg(1, varint(2), varint(3))
    for name, dims in (("dims_plain", scalar_dims), ("dims_packed", packed_dims), ("dims_mixed", num(1, 2) + msg(1, varint(3)))):
        t = dims + num(2, FLOAT) + msg(8, "w") + msg(9, f32(*range(6)))
        c.file("protobuf", name, model(graph([node("Add", ["x", "w"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])], [t])), "load", run=True)
    unpacked = num(1, 6) + num(2, FLOAT) + msg(8, "w") + b"".join(tag(4, 5) + f32(i) for i in range(6))
    c.file("protobuf", "float_data_unpacked", model(graph([node("Add", ["x", "w"], ["y"])], [value("x", [6])], [value("y", [6])], [unpacked])), "load", run=True)
    packed_cut = num(1, 6) + num(2, FLOAT) + msg(8, "w") + msg(4, f32(*range(5)), b"\0\0")
    refuse("float_data_packed_cut", model(graph([node("Add", ["x", "w"], ["y"])], [value("x", [6])], [value("y", [6])], [packed_cut])), "w", "float_data", "size")
    both = msg(1, num(1, 2), msg(2, "n"))
    info = msg(1, "x") + msg(2, msg(1, num(1, FLOAT), msg(2, both, dim(3))))
    c.file("protobuf", "dim_value_and_param", model(graph([node("Relu", ["x"], ["y"])], [info], [value("y", None)])), "survive")
    twice = msg(1, "x") + msg(2, msg(1, num(1, FLOAT), msg(2, dim(2))), msg(4, msg(1, msg(1, num(1, FLOAT)))))
    c.file("protobuf", "type_tensor_and_sequence", model(graph([node("Relu", ["x"], ["y"])], [twice], [value("y", None)])), "survive")
    c.file("protobuf", "graph_in_two_parts", num(1, 8) + msg(7, msg(1, node("Relu", ["x"], ["y"])), msg(2, "g")) + msg(7, msg(11, value("x", [2])), msg(12, value("y", [2]))) + msg(8, num(2, 17)), "survive")
    c.file("protobuf", "ir_version_twice", num(1, 3) + model(relu()), "survive")
    for ir in (0, 1, 2**31, 2**63 - 1, 2**64 - 1):
        c.file("protobuf", f"ir_version_{ir}", model(relu(), ir=ir), "refuse" if ir in (2**31, 2**63 - 1) else "survive", "ir_version", "IR version", "version")
    refuse("no_ir_version", msg(7, relu()) + msg(8, num(2, 17)), "version")
    refuse("graph_is_raw_noise", num(1, 8) + msg(7, bytes(rng.integers(0, 256, 500, dtype="uint8"))))
    for i in range(20):
        noise = bytes(rng.integers(0, 256, int(rng.integers(1, 2000)), dtype="uint8"))
        c.file("protobuf", f"noise_{i:02}", noise, "refuse", *PARSE)
    c.file("protobuf", "attribute_all_fields", model(graph([node("Relu", ["x"], ["y"], attributes=[msg(1, "a") + num(3, 1) + msg(4, "s") + msg(5, weight) + msg(6, relu()) + num(20, 2)])], [value("x", [2])], [value("y", [2])])), "survive")
    c.file("protobuf", "ints_packed", model(graph([node("Transpose", ["x"], ["y"], attributes=[msg(1, "perm") + msg(8, varint(1), varint(0)) + num(20, 7)])], [value("x", [2, 3])], [value("y", [3, 2])])), "load", run=True)
    c.file("protobuf", "negative_int64_in_ten_bytes", model(graph([node("Softmax", ["x"], ["y"], axis=-1)], [value("x", [2, 3])], [value("y", [2, 3])])), "load", run=True)
    data = num(1, 2) + num(2, 7) + msg(8, "s") + msg(7, varint(3), varint(2))
    c.file("protobuf", "int64_data_packed", model(graph([node("Reshape", ["x", "s"], ["y"])], [value("x", [2, 3])], [value("y", [3, 2])], [data])), "load", run=True)
    c.file("protobuf", "raw_data_then_again", model(graph([node("Reshape", ["x", "s"], ["y"])], [value("x", [2, 3])], [value("y", [3, 2])], [tensor("s", [2], i64(9, 9), 7) + msg(9, i64(3, 2))])), "survive")
