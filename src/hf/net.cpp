// Nodes of a model in the form the passes know from exporters: transposed weights, axes as inputs, eps as constants.
#include "hf/net.hpp"

#include "hf/entry.hpp"

namespace peri::hf {

const Entry* find(std::string_view model_type) {
  for (const Entry* e : entries())
    if (e->model_type == model_type) return e;
  return nullptr;
}

Net::Net(std::string name, const Weights& weights, std::string_view probe,
         std::initializer_list<std::string_view> prefixes)
    : graph_(std::move(name)), weights_(weights) {
  for (const std::string_view prefix : prefixes) {
    if (!weights.find(std::string(prefix) + std::string(probe))) continue;
    prefix_ = prefix;
    break;
  }
}

static const Weights& no_weights() {
  static const Weights none;
  return none;
}

Net::Net(ir::Graph graph) : graph_(std::move(graph)), weights_(no_weights()) {}

Net::Value Net::input(std::string_view name, DType dtype, Shape shape) {
  return graph_.add_input(name, ir::Type(dtype, std::move(shape)));
}

Net::Value Net::scalar(float v) { return graph_.add_constant("scalar", Tensor::of_f32({}, std::vector<float>{v})); }

Net::Value Net::ints(std::vector<int64_t> v) {
  return graph_.add_constant("ints", Tensor::of_i64({static_cast<int64_t>(v.size())}, v));
}

Net::Value Net::weight(std::string_view name, std::vector<int64_t> dims) {
  const std::string full = prefix_ + std::string(name);
  Result<Tensor> tensor = weights_.tensor(full);
  const auto shown = [](const std::vector<int64_t>& d) { return shape_text(Shape(d.begin(), d.end())); };
  if (!tensor.ok()) {
    fail(std::move(tensor).error());
  } else if (tensor->dims() != dims) {
    fail(invalid("shape of the weight differs from config.json")
             .at_node(full)
             .expecting(shown(dims))
             .but_found(shown(tensor->dims()))
             .advise("take config.json and the weights of one model"));
  } else if (tensor->dtype() != DType::kF32 && tensor->dtype() != DType::kF16 && tensor->dtype() != DType::kBF16) {
    fail(unsupported("weight of type %s", std::string(dtype_name(tensor->dtype())).c_str())
             .at_node(full)
             .expecting("f32, f16 or bf16")
             .advise("save the model in one of these types, as by model.float().save_pretrained(FOLDER)"));
  } else {
    const bool narrow = tensor->dtype() != DType::kF32;
    const Value v = graph_.add_constant(full, std::move(*tensor));
    return narrow ? op("cast", {v}, {{"to", static_cast<int64_t>(DType::kF32)}}) : v;
  }
  return scalar(0);
}

Net::Value Net::op(std::string_view op, std::vector<Value> inputs, ir::Attrs attrs) {
  ir::Node* node = graph_.add(op, std::move(inputs), std::move(attrs), scope_ + "." + std::string(op));
  node->name = scope_;
  node->origins = {scope_};
  return node->out();
}

Net::Value Net::linear(Value x, std::string_view name, int64_t out, int64_t in) {
  scope(name);
  const Value w = weight(std::string(name) + ".weight", {out, in});
  const Value b = weight(std::string(name) + ".bias", {out});
  const Value across = op("transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}});
  return op("add", {op("matmul", {x, across}), b});
}

Net::Value Net::layer_norm(Value x, std::string_view name, int64_t width, double epsilon) {
  scope(name);
  const bool old = has_weight(std::string(name) + ".gamma");
  const Value scale = weight(std::string(name) + (old ? ".gamma" : ".weight"), {width});
  const Value shift = weight(std::string(name) + (old ? ".beta" : ".bias"), {width});
  return op("layer_normalization", {x, scale, shift}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

Net::Value Net::activation(Value x, std::string_view kind) {
  if (kind == "gelu") return op("gelu", {x}, {{"approximate", std::string("none")}});
  if (kind == "gelu_new" || kind == "gelu_pytorch_tanh") return op("gelu", {x}, {{"approximate", std::string("tanh")}});
  if (kind == "relu") return op("relu", {x});
  fail(check_activation(kind, "hidden_act").error());
  return x;
}

Status check_activation(std::string_view kind, std::string_view key) {
  for (const char* known : {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"})
    if (kind == known) return Ok{};
  return unsupported("activation \"%s\" is not supported", std::string(kind.substr(0, 60)).c_str())
      .at_node(key)
      .expecting("gelu, gelu_new, gelu_pytorch_tanh or relu")
      .advise("export the model to ONNX and give that file");
}

void Net::fail(Error e) {
  if (status_.ok()) status_ = std::move(e);
}

Result<ir::Graph> Net::finish() && {
  PERI_TRY(std::move(status_));
  return std::move(graph_);
}

Net::Value pool(Net& net, const Folder& folder, Net::Value tokens, Net::Value mask) {
  net.scope("pooling." + std::string(pooling_name(folder.pooling)));
  const ir::Attrs keep = {{"keepdims", int64_t{1}}}, drop = {{"keepdims", int64_t{0}}};
  const Net::Value over_sequence = net.ints({1});
  Net::Value out = nullptr;
  if (folder.pooling == Pooling::kCls) {
    const Net::Value first = net.op("gather", {tokens, net.ints({0})}, {{"axis", int64_t{1}}});
    out = net.op("squeeze", {first, over_sequence});
  } else if (folder.pooling == Pooling::kMax) {
    const Net::Value shown =
        net.op("unsqueeze", {net.op("cast", {mask}, {{"to", static_cast<int64_t>(DType::kBool)}}), net.ints({2})});
    out = net.op("reduce_max", {net.op("where", {shown, tokens, net.scalar(-1e9f)}), over_sequence}, drop);
  } else {
    const Net::Value weight = net.op("unsqueeze", {mask, net.ints({2})});
    const Net::Value sum = net.op("reduce_sum", {net.op("mul", {tokens, weight}), over_sequence}, drop);
    const Net::Value count = net.op("reduce_sum", {weight, over_sequence}, drop);
    out = net.op("div", {sum, net.op("max", {count, net.scalar(1e-9f)})});
  }
  if (!folder.normalize) return out;
  net.scope("normalize");
  const Net::Value length = net.op("reduce_l2", {out, net.ints({1})}, keep);
  return net.op("div", {out, net.op("max", {length, net.scalar(1e-12f)})});
}

}  // namespace peri::hf
