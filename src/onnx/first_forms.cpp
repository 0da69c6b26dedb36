// Nodes of opset 1 to 6 in the form of opset 7.
#include "onnx/first_forms.hpp"

#include <algorithm>
#include <cmath>

#include "ops/shape/upgrade.hpp"

namespace peri::onnx {
namespace {

// Only element types were added, and `consumed_inputs`, a hint for memory, went.
constexpr std::string_view kSame[] = {
    "Abs",       "AveragePool", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization",
    "LeakyRelu", "Log",         "Max",  "Mean", "Min", "Neg", "Relu",  "Reciprocal",  "Selu",
    "Sigmoid",   "Sqrt",        "Sum",  "Tanh"};
// The second input was stretched where `broadcast` said so, from `axis` of the first one on.
constexpr std::string_view kStretching[] = {"Add", "Sub", "Mul",   "Div",     "Pow", "And",
                                            "Or",  "Xor", "Equal", "Greater", "Less"};
// `is_test` said that the model is not trained.
constexpr std::string_view kTrained[] = {"BatchNormalization", "Dropout"};
// `output_sequence` said that the first output is used.
constexpr std::string_view kCells[] = {"GRU", "LSTM", "RNN"};
// `p` was a float.
constexpr std::string_view kNorms[] = {"GlobalLpPool", "LpPool"};
// Opened by name below.
constexpr std::string_view kOpened[] = {"Cast",    "Concat", "Gemm", "Pad",     "PRelu",
                                        "Reshape", "Split",  "Tile", "Upsample"};

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

// A slope for each channel stood alone, and not under the last axis.
Status place_slopes(ir::Graph& graph, ir::Node& node) {
  if (!node.in(0) || !node.in(1)) return Ok{};
  const ir::Type &x = node.in(0)->type, &slope = node.in(1)->type;
  if (!x.known() || !slope.known()) return unsupported("slopes of values whose ranks are not known").at_node(node.name);
  if (slope.rank() != 1 || slope.shape->front().is_const(1) || x.rank() < 3) return Ok{};
  std::vector<int64_t> behind;
  for (int64_t k = 1; k < static_cast<int64_t>(x.rank()) - 1; ++k) behind.push_back(k);
  ir::Node* wide = graph.add("unsqueeze", {node.in(1), ops::ints_constant(graph, "axes", behind)});
  graph.set_input(&node, 1, wide->out());
  return Ok{};
}

Status whole_norm(ir::Node& node) {
  const auto it = node.attrs.find("p");
  const auto* p = it == node.attrs.end() ? nullptr : std::get_if<double>(&it->second);
  if (!p) return Ok{};
  constexpr double kMaxNorm = 1 << 20;
  if (!(*p >= 1 && *p <= kMaxNorm) || *p != std::floor(*p))
    return unsupported("a norm that is not whole")
        .at_node(node.name)
        .expecting("p of 1, 2, ...")
        .but_found(format("%g", *p));
  it->second = static_cast<int64_t>(*p);
  return Ok{};
}

// The elements of an input, floats though they count.
Result<std::vector<int64_t>> counts_of(const ir::Node& node, size_t port) {
  const ir::Value* v = node.in(port);
  constexpr double kMaxCount = 1 << 30;
  std::vector<int64_t> out;
  for (int64_t k = 0; v && v->constant && k < v->constant->numel(); ++k) {
    const double n = is_float(v->constant->dtype()) ? v->constant->f64(k) : static_cast<double>(v->constant->i64(k));
    if (!(std::fabs(n) <= kMaxCount) || n != std::floor(n))
      return invalid("input %zu of %s holds no whole numbers", port, node.op.c_str()).at_node(node.name);
    out.push_back(static_cast<int64_t>(n));
  }
  if (out.empty())
    return unsupported("input %zu of %s must be a constant", port, node.op.c_str())
        .at_node(node.name)
        .advise("convert it with onnx.version_converter");
  return out;
}

// The lengths of parts were an input of floats, too; the axis had no default.
Status open_split(ir::Graph& graph, ir::Node& node, int64_t opset) {
  if (opset >= 2) return Ok{};
  if (!node.has("axis"))
    return unsupported("a split whose axis is not named").at_node(node.name).expecting("the attribute 'axis'");
  if (!node.in(1)) return Ok{};
  PERI_ASSIGN(std::vector<int64_t> lengths, counts_of(node, 1));
  graph.set_input(&node, 1, nullptr);
  node.inputs.pop_back();
  node.attrs["split"] = std::move(lengths);
  return Ok{};
}

// One axis was repeated.
Status open_tile(ir::Graph& graph, ir::Node& node, int64_t opset) {
  if (opset >= 6 || !node.in(0) || !node.in(2)) return Ok{};
  const ir::Type& x = node.in(0)->type;
  if (!x.known()) return unsupported("a tile of a value whose rank is not known").at_node(node.name);
  PERI_ASSIGN(const std::vector<int64_t> count, counts_of(node, 1));
  PERI_ASSIGN(const std::vector<int64_t> axis, counts_of(node, 2));
  const int64_t rank = static_cast<int64_t>(x.rank());
  if (count.size() != 1 || axis.size() != 1 || axis[0] < 0 || axis[0] >= rank)
    return invalid("a tile repeats one axis of its input").at_node(node.name);
  std::vector<int64_t> repeats(x.rank(), 1);
  repeats[static_cast<size_t>(axis[0])] = count[0];
  graph.set_input(&node, 2, nullptr);
  node.inputs.pop_back();
  graph.set_input(&node, 1, ops::ints_constant(graph, "repeats", repeats));
  return Ok{};
}

// Images only, with a scale for each axis.
Status open_upsample(ir::Node& node) {
  if (!node.has("height_scale") || !node.has("width_scale")) return Ok{};
  node.attrs["scales"] = std::vector<double>{1, 1, node.f("height_scale"), node.f("width_scale")};
  node.attrs.erase("height_scale");
  node.attrs.erase("width_scale");
  node.attrs.emplace("mode", std::string("nearest"));
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
  return among(kSame, op) || among(kStretching, op) || among(kTrained, op) || among(kCells, op) || among(kNorms, op) ||
         among(kOpened, op);
}

bool is_first_attr(std::string_view op, std::string_view name, AttrType type) {
  if (name == "consumed_inputs")
    return type == AttrType::kInts &&
           (among(kSame, op) || among(kStretching, op) || among(kTrained, op) || op == "PRelu");
  if (name == "broadcast") return type == AttrType::kInt && (among(kStretching, op) || op == "Gemm");
  if (name == "axis") return type == AttrType::kInt && among(kStretching, op);
  if (name == "is_test") return type == AttrType::kInt && among(kTrained, op);
  if (name == "output_sequence") return type == AttrType::kInt && among(kCells, op);
  if (name == "p") return type == AttrType::kFloat && among(kNorms, op);
  if (name == "height_scale" || name == "width_scale") return type == AttrType::kFloat && op == "Upsample";
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
  node.attrs.erase("output_sequence");
  if (among(kNorms, def->onnx)) return whole_norm(node);
  if (def->onnx == "PRelu") return place_slopes(graph, node);
  if (def->onnx == "Split") return open_split(graph, node, opset);
  if (def->onnx == "Tile") return open_tile(graph, node, opset);
  if (def->onnx == "Upsample") return open_upsample(node);
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
