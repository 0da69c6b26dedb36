"""The sentence encoder of a BERT folder written out as an ONNX graph from the same weights, so that ONNX Runtime can
run beside our engine: embeddings, encoder layers, mean over the tokens, length one."""
import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def read_safetensors(path):
    """name → float32 array of a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body, found = memoryview(data)[8 + size :], {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            low, high = entry["data_offsets"]
            found[name] = np.frombuffer(body[low:high], np.float32).reshape(entry["shape"])
    return found


class Writer:
    def __init__(self, weights):
        self.weights, self.nodes, self.initializers, self.held = weights, [], [], set()

    def constant(self, name, array):
        if name not in self.held:
            self.held.add(name)
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, name, transposed=False):
        return self.constant(name, self.weights[name].T if transposed else self.weights[name])

    def op(self, kind, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def linear(self, x, name):
        return self.op("Add", self.op("MatMul", x, self.weight(f"{name}.weight", True)), self.weight(f"{name}.bias"))

    def norm(self, x, name, epsilon):
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), axis=-1, epsilon=epsilon)

    def gelu(self, x):
        one, half = self.constant("one", np.float32(1)), self.constant("half", np.float32(0.5))
        erf = self.op("Erf", self.op("Div", x, self.constant("root_two", np.float32(2**0.5))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, one)), half)


def layer(w, x, bias, name, config):
    heads, width = config["num_attention_heads"], config["hidden_size"] // config["num_attention_heads"]
    split, join = (w.constant("split", np.array([0, 0, heads, width])), w.constant("join", np.array([0, 0, heads * width])))
    q, k, v = (w.op("Transpose", w.op("Reshape", w.linear(x, f"{name}.attention.self.{part}"), split), perm=perm)
               for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
    scores = w.op("Add", w.op("Div", w.op("MatMul", q, k), w.constant("root_width", np.float32(width**0.5))), bias)
    mixed = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    out = w.linear(w.op("Reshape", mixed, join), f"{name}.attention.output.dense")
    x = w.norm(w.op("Add", out, x), f"{name}.attention.output.LayerNorm", config["layer_norm_eps"])
    inner = w.gelu(w.linear(x, f"{name}.intermediate.dense"))
    return w.norm(w.op("Add", w.linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm", config["layer_norm_eps"])


def sentence_encoder(folder):
    """Bytes of the ONNX model: input_ids, attention_mask, token_type_ids i64[batch,sequence] → embedding f32[batch,hidden]."""
    config = json.loads((folder / "config.json").read_text())
    w = Writer(read_safetensors(folder / "model.safetensors"))
    end = w.op("Shape", "input_ids", start=1, end=2)
    ids = w.op("Slice", w.constant("positions", np.arange(config["max_position_embeddings"])), w.constant("zero", np.array([0])), end)
    words = w.op("Gather", w.weight("embeddings.word_embeddings.weight"), "input_ids")
    kinds = w.op("Gather", w.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
    places = w.op("Gather", w.weight("embeddings.position_embeddings.weight"), ids)
    x = w.norm(w.op("Add", w.op("Add", words, kinds), places), "embeddings.LayerNorm", config["layer_norm_eps"])
    mask = w.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    wide = w.op("Unsqueeze", mask, w.constant("axes", np.array([1, 2])))
    bias = w.op("Mul", w.op("Sub", wide, w.constant("one", np.float32(1))), w.constant("far", np.float32(1e9)))
    for k in range(config["num_hidden_layers"]):
        x = layer(w, x, bias, f"encoder.layer.{k}", config)
    column = w.op("Unsqueeze", mask, w.constant("last", np.array([2])))
    total = w.op("ReduceSum", w.op("Mul", x, column), w.constant("tokens", np.array([1])), keepdims=0)
    mean = w.op("Div", total, w.op("ReduceSum", mask, w.constant("tokens", np.array([1])), keepdims=1))
    length = w.op("ReduceL2", mean, axes=[1], keepdims=1)
    w.nodes.append(helper.make_node("Div", [mean, length], ["embedding"]))
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", config["hidden_size"]])]
    graph = helper.make_graph(w.nodes, "sentence_encoder", inputs, outputs, w.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
