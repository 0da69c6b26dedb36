"""Classes `graph` and `functions`: graphs that are no DAG of known operators, and functions that explode."""
from corpus import INT64, attr, f32, good, graph, model, msg, node, num, one, subgraph, tensor, value


def xy(nodes, outputs=("y",), inputs=("x",), tensors=(), **more):
    return model(graph(nodes, [value(i, [2, 3]) for i in inputs], [value(o, None) for o in outputs], tensors), **more)


def relu(a="x", b="y", **more):
    return node("Relu", [a], [b], **more)


def names(c):
    def refuse(name, data, *words):
        c.file("graph", name, data, "refuse", *words)

    refuse("self_loop", xy([node("Add", ["x", "y"], ["y"], name="loop")]), "y", "cycle", "before", "undefined", "defined")
    refuse("cycle_of_two", xy([node("Add", ["x", "b"], ["a"]), relu("a", "b"), relu("b", "y")]), "b", "cycle", "undefined", "defined")
    refuse("cycle_of_1000", xy([node("Add", ["x", "v999"], ["v0"])] + [relu(f"v{i}", f"v{i + 1}") for i in range(999)], ["v999"]), "v999", "cycle", "undefined", "defined")
    c.file("graph", "out_of_order", xy([relu("a", "y"), relu("x", "a")]), "survive")
    refuse("output_twice", xy([relu(), relu(name="second")]), "y", "twice", "duplicate", "more than once", "already")
    refuse("output_twice_in_a_node", xy([node("Dropout", ["x"], ["y", "y"])]), "y", "twice", "duplicate", "more than once", "already")
    refuse("output_is_input", xy([node("Relu", ["x"], ["x"])], ["x"]), "x", "twice", "duplicate", "already", "input")
    refuse("output_is_initializer", xy([node("Relu", ["x"], ["w"]), relu("w")], tensors=[tensor("w", [2], f32(1, 2))]), "w", "twice", "duplicate", "already", "initializer")
    refuse("input_twice", xy([relu()], inputs=("x", "x")), "x", "twice", "duplicate", "more than once", "already")
    c.file("graph", "graph_output_twice", xy([relu()], ["y", "y"]), "load")  # as ONNX Runtime takes it: one output
    refuse("undefined_input", xy([node("Add", ["x", "ghost"], ["y"])]), "ghost")
    refuse("undefined_output", xy([relu()], ["ghost"]), "ghost")
    refuse("empty_output_name", xy([relu()], [""]), "name", "output", "empty")
    refuse("empty_input_name", xy([relu()], inputs=("",)), "name", "input", "empty", "x")
    refuse("no_outputs", xy([relu()], []), "output")
    c.file("graph", "no_nodes", xy([], ["x"]), "survive")
    refuse("nothing", model(graph()), "output", "empty", "graph")
    refuse("no_graph", num(1, 8) + msg(8, num(2, 17)), "graph")
    refuse("empty_graph_message", num(1, 8) + msg(7) + msg(8, num(2, 17)), "graph", "output", "empty", "name")
    refuse("input_without_type", model(graph([relu()], [msg(1, "x")], [value("y", None)])), "x", "type")
    for kind in (0, 999, 2**31 - 1, -1):
        refuse(f"input_type_{kind}", model(graph([relu()], [value("x", [2], kind)], [value("y", None)])), "x", "type")
    for size in (-1, -(2**63)):
        data = model(graph([relu()], [value("x", [size, 3])], [value("y", None)]))
        c.file("graph", f"input_dim_{size}", data, "survive" if size == -1 else "refuse", "x", "dim", "negative")
    refuse("input_dims_wrap", model(graph([relu()], [value("x", [2**32, 2**32])], [value("y", None)])), "x", "large", "overflow", "size")
    refuse("input_dims_exabyte", model(graph([relu()], [value("x", [2**31, 2**31])], [value("y", None)])), "x", "large", "overflow", "size", "memory")
    c.file("graph", "input_rank_100000", model(graph([relu()], [value("x", [1] * 100000)], [value("y", None)])), "survive")
    refuse("output_other_type", model(graph([relu()], [value("x", [2])], [value("y", [2], INT64)])), "y", "type")
    c.file("graph", "output_other_shape", model(graph([relu()], [value("x", [2])], [value("y", [7])])), "survive")
    c.file("graph", "output_other_rank", model(graph([relu()], [value("x", [2])], [value("y", [2, 1, 1])])), "survive")
    c.file("graph", "symbol_odd_names", model(graph([relu()], [value("x", ["a+b", "floor(x/2)", "", "-1", "batch*" * 40])], [value("y", None)])), "survive")
    c.file("graph", "symbol_100_kib", model(graph([relu()], [value("x", ["s" * 100000, 3])], [value("y", None)])), "survive")
    many = [value(f"x{i}", [1]) for i in range(20000)]
    c.file("graph", "inputs_20000", model(graph([relu("x0")], many, [value("y", None)])), "survive")
    c.file("graph", "value_info_contradicts", model(graph([relu("x", "a"), relu("a", "y")], [value("x", [2, 3])], [value("y", None)], [], msg(13, value("a", [5, 5, 5])))), "survive")


def nodes(c):
    def refuse(name, data, *words):
        c.file("graph", name, data, "refuse", *words)

    refuse("unknown_operator", xy([node("Frobnicate", ["x"], ["y"])]), "Frobnicate")
    refuse("unknown_domain", xy([node("Relu", ["x"], ["y"], domain="com.example")]), "com.example")
    refuse("unknown_operators_three", xy([node("FirstOdd", ["x"], ["a"]), node("SecondOdd", ["a"], ["b"]), node("ThirdOdd", ["b"], ["y"])]), "ThirdOdd")
    refuse("no_operator", xy([node("", ["x"], ["y"])]), "op_type", "operator", "node")
    for op in ("Loop", "Scan", "If"):
        refuse(f"{op.lower()}_without_body", xy([node(op, ["x"], ["y"])]), op)
    body = graph([node("Identity", ["cond"], ["cond_out"])], [value("i", [], INT64), value("cond", [], 9)], [value("cond_out", [], 9)])
    trips = tensor("trips", [], (2**63 - 1).to_bytes(8, "little"), INT64)
    refuse("loop_2_63_trips", xy([node("Loop", ["trips", ""], ["y"], attributes=[subgraph("body", body)])], tensors=[trips]), "Loop")
    for op, inputs in (("QuantizeLinear", ["x", "s"]), ("DequantizeLinear", ["x", "s"])):
        refuse(f"{op.lower()}", xy([node(op, inputs, ["y"])], tensors=[tensor("s", [], f32(0.1))]), op)
    for op, inputs in {"Add": ["x"], "Gemm": ["x"], "Conv": ["x"], "Where": ["x", "x"], "Relu": [], "Concat": []}.items():
        refuse(f"too_few_inputs_{op.lower()}", xy([node(op, inputs, ["y"], **({"axis": 0} if op == "Concat" else {}))]), op, "input")
    for op, count in {"Relu": 2, "Add": 3, "Gemm": 4, "MatMul": 9}.items():
        refuse(f"too_many_inputs_{op.lower()}", xy([node(op, ["x"] * count, ["y"])]), op, "input")
    refuse("required_input_empty", xy([node("Add", ["x", ""], ["y"])]), "Add", "input")
    refuse("too_many_outputs", xy([node("Relu", ["x"], ["y", "z"])], ["y", "z"]), "Relu", "output")
    refuse("no_node_outputs", xy([node("Relu", ["x"], []), relu()]), "Relu", "output")
    refuse("empty_node_output", xy([node("Relu", ["x"], [""]), relu()]), "Relu", "output", "name")
    for op in ("Cast", "Concat", "DepthToSpace", "MaxPool", "Einsum", "GroupNormalization"):
        refuse(f"required_attribute_{op.lower()}", xy([node(op, ["x"] * (3 if op == "GroupNormalization" else 1), ["y"])], opset=21), "attribute", op)
    for name, v in {"float": 1.0, "text": "1", "ints": [1], "tensor": tensor("t", [1], f32(1))}.items():
        refuse(f"softmax_axis_is_{name}", xy([node("Softmax", ["x"], ["y"], axis=v)]), "axis")
        refuse(f"concat_axis_is_{name}", xy([node("Concat", ["x", "x"], ["y"], axis=v)]), "axis")
    refuse("attribute_type_lies", xy([node("Softmax", ["x"], ["y"], attributes=[msg(1, "axis") + num(3, 1) + num(20, 1)])]), "axis")
    refuse("attribute_type_unknown", xy([node("Softmax", ["x"], ["y"], attributes=[msg(1, "axis") + num(3, 1) + num(20, 99)])]), "axis", "attribute")
    c.file("graph", "attribute_type_absent", xy([node("Softmax", ["x"], ["y"], attributes=[msg(1, "axis") + num(3, 1)])]), "survive")
    refuse("attribute_unknown", xy([node("Relu", ["x"], ["y"], frobnicate=1)]), "frobnicate")
    refuse("attribute_twice", xy([node("Softmax", ["x"], ["y"], attributes=[attr("axis", 0), attr("axis", 1)])]), "axis")
    refuse("attribute_without_name", xy([node("Relu", ["x"], ["y"], attributes=[num(3, 1) + num(20, 2)])]), "attribute", "name", "Relu")
    refuse("attribute_ref_outside_function", xy([node("Softmax", ["x"], ["y"], attributes=[msg(1, "axis") + msg(21, "a") + num(20, 2)])]), "axis", "ref", "attribute")
    refuse("mixed_types", model(graph([node("Add", ["x", "i"], ["y"])], [value("x", [2]), value("i", [2], INT64)], [value("y", None)])), "Add", "type")
    refuse("type_not_allowed", model(graph([node("MatMul", ["x", "x"], ["y"])], [value("x", [2, 2], 9)], [value("y", None, 9)])), "MatMul", "type")
    for version in (1, 6):
        c.file("graph", f"opset_{version}", xy([relu()], opset=version), "load")
    for version in (0, 29 + 970, 2**31, 2**63 - 1, -1):
        refuse(f"opset_{version}", xy([relu()], opset=version), "opset")
    refuse("opset_absent", xy([relu()], opset=None), "opset")
    ml_only = model(graph([relu()], [value("x", [2])], [value("y", None)]), None, 8, msg(8, msg(1, "ai.onnx.ml"), num(2, 3)))
    c.file("graph", "opset_other_domain_only", ml_only, "load")  # as ONNX Runtime takes it: at the version usual with it
    c.file("graph", "opset_twice", model(graph([relu()], [value("x", [2])], [value("y", None)]), 17, 8, msg(8, msg(1, ""), num(2, 13))), "survive")
    c.file("graph", "opset_twice_equal", model(graph([relu()], [value("x", [2])], [value("y", None)]), 17, 8, msg(8, msg(1, "ai.onnx"), num(2, 17))), "survive")
    refuse("operator_too_new", xy([node("Mish", ["x"], ["y"])], opset=13), "Mish")
    refuse("operator_gone", xy([node("Upsample", ["x", "x"], ["y"])], opset=17), "Upsample")


def large(c):
    chain = [msg(1, f"v{i}") + msg(2, f"v{i + 1}") + msg(4, "Neg") for i in range(20000)]
    c.file("large", "nodes_20000", model(graph(chain, [value("v0", [1])], [value("v20000", None)])), "survive", only="inspect")
    chain += [msg(1, f"v{i}") + msg(2, f"v{i + 1}") + msg(4, "Neg") for i in range(20000, 1000000)]
    c.file("large", "nodes_1000000", model(graph(chain, [value("v0", [1])], [value("v1000000", None)])), "survive", only="inspect")
    wide = [node("Sum", ["x"] * 100000, ["y"])]
    c.file("large", "inputs_of_a_node_100000", xy(wide), "survive", only="inspect")
    small = [tensor(f"t{i}", [], f32(i)) for i in range(100000)]
    c.file("large", "initializers_100000", xy([relu()], tensors=small), "survive", only="inspect")
    doubling = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(60)]
    c.file("large", "concat_doubles_60_times", model(graph(doubling, [value("v0", [1])], [value("v60", None)])), "refuse", "Concat", "large", "size", "memory", "overflow", by="build")
    folding = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(34)]
    c.file("large", "constants_double_34_times", model(graph([*folding, node("Add", ["x", "v34"], ["y"])], [value("x", [1])], [value("y", None)], [tensor("v0", [1], f32(1))])), "survive")
    squares = [node("Mul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(5000)]
    c.file("large", "diamonds_5000", model(graph(squares, [value("v0", [1])], [value("v5000", None)])), "survive", only="inspect")
    deep = [node("Add", [f"s{i}", "one"], [f"s{i + 1}"]) for i in range(500)]
    shaped = [node("Shape", ["x"], ["s0"]), *deep, node("ConstantOfShape", ["s500"], ["y"])]
    c.file("large", "dimension_expression_500_deep", model(graph(shaped, [value("x", ["n"])], [value("y", None)], [tensor("one", [1], (1).to_bytes(8, "little"), INT64)])), "survive")
    double = [node("Add", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(64)]
    shaped = [node("Shape", ["x"], ["s0"]), *double, node("ConstantOfShape", ["s64"], ["y"])]
    c.file("large", "dimension_expression_doubles_64", model(graph(shaped, [value("x", ["n"])], [value("y", None)])), "survive")


def function(name, nodes, inputs=("a",), outputs=("b",), domain="local", *more):
    parts = [msg(1, name)] + [msg(4, i) for i in inputs] + [msg(5, o) for o in outputs] + [msg(7, n) for n in nodes] + [msg(9, msg(1, ""), num(2, 17)), msg(9, msg(1, "local"), num(2, 1)), msg(10, domain)]
    return msg(25, *parts, *more)


def call(name, a="a", b="b"):
    return node(name, [a], [b], domain="local")


def functions(c):
    def write(name, calls, made, must="refuse", *words, **facts):
        g = graph(calls, [value("x", [2, 3])], [value("y", None)])
        c.file("functions", name, model(g, 17, 8, msg(8, msg(1, "local"), num(2, 1)), *made), must, *words, **facts)

    top = [call("f0", "x", "y")]
    write("good", top, [function("f0", [relu("a", "b")])], "load", run=True)
    write("calls_itself", top, [function("f0", [call("f0")])], "refuse", "f0", "recurs", "circle", "cycle")
    write("calls_in_a_circle", top, [function("f0", [call("f1")]), function("f1", [call("f2")]), function("f2", [call("f0")])], "refuse", "f0", "recurs", "circle", "cycle")
    bomb = [function(f"f{i}", [call(f"f{i + 1}", "a", "t"), call(f"f{i + 1}", "t", "b")]) for i in range(30)] + [function("f30", [relu("a", "b")])]
    write("expands_2_30_fold", top, bomb, "refuse", "function", "expan", "nodes", "large", "limit", "f")
    deep = [function(f"f{i}", [call(f"f{i + 1}")]) for i in range(20000)] + [function("f20000", [relu("a", "b")])]
    write("depth_20000", top, deep, "survive")
    write("undefined_function", [call("ghost", "x", "y")], [], "refuse", "ghost")
    write("twice", top, [function("f0", [relu("a", "b")]), function("f0", [node("Neg", ["a"], ["b"])])], "refuse", "f0")
    write("undefined_inside", top, [function("f0", [node("Add", ["a", "ghost"], ["b"])])], "refuse", "ghost")
    write("output_not_made", top, [function("f0", [relu("a", "c")])], "refuse", "b")
    write("too_many_inputs", [node("f0", ["x", "x"], ["y"], domain="local")], [function("f0", [relu("a", "b")])], "refuse", "f0", "input")
    write("too_many_outputs", [node("f0", ["x"], ["y", "z"], domain="local")], [function("f0", [relu("a", "b")])], "refuse", "f0", "output")
    ref = node("Softmax", ["a"], ["b"], attributes=[msg(1, "axis") + msg(21, "ghost") + num(20, 2)])
    write("attribute_ref_undeclared", top, [function("f0", [ref])], "survive")
    write("no_domain_opset", top, [msg(25, msg(1, "f0"), msg(4, "a"), msg(5, "b"), msg(7, relu("a", "b")), msg(10, "local"))], "survive")
    write("shadows_an_operator", [relu("x", "y")], [function("Relu", [node("Neg", ["a"], ["b"])], domain="")], "survive")
    write("empty", top, [function("f0", [])], "refuse", "b", "f0")
    write("cycle_inside", top, [function("f0", [node("Add", ["a", "b"], ["b"])])], "refuse", "b", "cycle", "defined")


def add(c, rng):
    c.file("graph", "good", good(), "load", run=True)
    c.file("graph", "good_one", one("Relu", [("x", [2, 3])]), "load", run=True)
    names(c)
    nodes(c)
    large(c)
    functions(c)
