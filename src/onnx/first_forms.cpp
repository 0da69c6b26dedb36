// Nodes of opset 1 to 6 in the form of opset 7.
#include "onnx/first_forms.hpp"

#include <algorithm>

#include "ops/shape/upgrade.hpp"

namespace peri::onnx {
namespace {

// Only element types were added, and `consumed_inputs`, a hint for memory, went.
constexpr std::string_view kSame[] = {"Abs",        "Ceil", "Clip",    "Elu",  "Exp", "Floor", "HardSigmoid",
                                      "LeakyRelu",  "Log",  "Max",     "Mean", "Min", "Neg",   "Relu",
                                      "Reciprocal", "Selu", "Sigmoid", "Sqrt", "Sum", "Tanh"};
// The second input was stretched where `broadcast` said so, from `axis` of the first one on.
constexpr std::string_view kStretching[] = {"Add", "Sub", "Mul",   "Div",     "Pow", "And",
                                            "Or",  "Xor", "Equal", "Greater", "Less"};
// `is_test` said that the model is not trained.
constexpr std::string_view kTrained[] = {"BatchNormalization", "Dropout"};
// Opened by name below.
constexpr std::string_view kOpened[] = {"Cast", "Concat", "Gemm", "Pad", "Reshape"};

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

struct NamedType {
  std::string_view name;
  DType type;
};
constexpr NamedType kTypes[] = {{"FLOAT", DType::kF32},  {"DOUBLE", DType::kF64}, {"FLOAT16", DType::kF16},
                                {"INT8", DType::kI8},    {"INT16", DType::kI16},  {"INT32", DType::kI32},
                                {"INT64", DType::kI64},  {"UINT8", DType::kU8},   {"UINT16", DType::kU16},
                                {"UINT32", DType::kU32}, {"UINT64", DType::kU64}, {"BOOL", DType::kBool}};

Status open_cast(ir::Node& node) {
  const auto it = node.attrs.find("to");
  const auto* name = it == node.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (!name) return Ok{};
  for (const NamedType& t : kTypes) {
    if (t.name != *name) continue;
    it->second = static_cast<int64_t>(t.type);
    return Ok{};
  }
  return unsupported("a cast to '%s'", name->c_str()).at_node(node.name);
}

// The second input from `axis` of the first one on: ones stand behind it.
Status stretch(ir::Graph& graph, ir::Node& node) {
  const bool stretched = node.i("broadcast", 0) != 0, placed = node.has("axis");
  const int64_t axis = node.i("axis", 0);
  node.attrs.erase("broadcast");
  node.attrs.erase("axis");
  if (!stretched || !placed || !node.in(0) || !node.in(1)) return Ok{};
  const ir::Type &a = node.in(0)->type, &b = node.in(1)->type;
  if (!a.known() || !b.known())
    return unsupported("broadcasting of values whose ranks are not known").at_node(node.name);
  const int64_t rank = static_cast<int64_t>(a.rank()), own = static_cast<int64_t>(b.rank()),
                first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first + own > rank)
    return invalid("the axis of a broadcast is out of range").at_node(node.name).but_found(std::to_string(axis));
  std::vector<int64_t> behind;
  for (int64_t k = own; k < rank - first; ++k) behind.push_back(k);
  if (behind.empty()) return Ok{};
  ir::Node* wide = graph.add("unsqueeze", {node.in(1), ops::ints_constant(graph, "axes", behind)});
  graph.set_input(&node, 1, wide->out());
  return Ok{};
}

Status check_not_trained(ir::Node& node) {
  const bool test = node.i("is_test", 0) != 0;
  node.attrs.erase("is_test");
  if (test) return Ok{};
  return unsupported("%s as it is trained, not as it is used", node.op.c_str())
      .at_node(node.name)
      .expecting("is_test=1")
      .advise("export the model for inference");
}
}  // namespace

bool has_first_form(std::string_view op) {
  return among(kSame, op) || among(kStretching, op) || among(kTrained, op) || among(kOpened, op);
}

bool is_first_attr(std::string_view op, std::string_view name, AttrType type) {
  if (name == "consumed_inputs")
    return type == AttrType::kInts && (among(kSame, op) || among(kStretching, op) || among(kTrained, op));
  if (name == "broadcast") return type == AttrType::kInt && (among(kStretching, op) || op == "Gemm");
  if (name == "axis") return type == AttrType::kInt && among(kStretching, op);
  if (name == "is_test") return type == AttrType::kInt && among(kTrained, op);
  if (name == "to") return type == AttrType::kString && op == "Cast";
  if (name == "paddings") return type == AttrType::kInts && op == "Pad";
  return name == "shape" && type == AttrType::kInts && op == "Reshape";
}

Status open_first_form(ir::Graph& graph, ir::Node& node, int64_t opset) {
  const ops::OpDef* def = ops::find(node.op);
  if (opset >= kFirstPlainOpset || !def || !def->domain.empty() || !has_first_form(def->onnx)) return Ok{};
  node.attrs.erase("consumed_inputs");
  if (among(kTrained, def->onnx)) return check_not_trained(node);
  if (among(kStretching, def->onnx)) return stretch(graph, node);
  if (def->onnx == "Gemm") node.attrs.erase("broadcast");
  if (def->onnx == "Concat") node.attrs.emplace("axis", int64_t{1});
  if (def->onnx == "Cast") return open_cast(node);
  if (def->onnx == "Reshape") return ops::ints_to_input(graph, node, "shape", 1);
  if (auto it = node.attrs.find("paddings"); it != node.attrs.end()) {
    node.attrs["pads"] = it->second;
    node.attrs.erase("paddings");
  }
  return Ok{};
}

}  // namespace peri::onnx
