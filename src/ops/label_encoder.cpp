// LabelEncoder of ai.onnx.ml: maps each key to its value, all others to the default. Numbers are compared as numbers;
// NaN equals NaN.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include "ops/reference/elements.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kLabels = types({DType::kString, DType::kI64, DType::kI32, DType::kI16, DType::kF32, DType::kF64});

// Keys or values, whichever attribute holds them: `side` is "keys" or "values".
Result<RefTensor> list_of(const ir::Node& node, const std::string& side) {
  RefTensor out;
  if (const Tensor* t = node.tensor(side + "_tensor")) {
    out = to_ref(*t);
    out.dims = {t->numel()};
    return out;
  }
  if (const auto it = node.attrs.find(side + "_strings"); it != node.attrs.end()) {
    out = make_ref(DType::kString, {0});
    out.s = std::get<std::vector<std::string>>(it->second);
    out.dims = {static_cast<int64_t>(out.s.size())};
    return out;
  }
  if (node.has(side + "_int64s")) {
    out = make_ref(DType::kI64, {0});
    out.i = node.ints(side + "_int64s");
    out.dims = {static_cast<int64_t>(out.i.size())};
    return out;
  }
  if (!node.has(side + "_floats")) return invalid("a label encoder has no %s", side.c_str());
  out = make_ref(DType::kF32, {0});
  out.f = node.floats(side + "_floats");
  out.dims = {static_cast<int64_t>(out.f.size())};
  return out;
}

RefTensor fallback_of(const ir::Node& node, DType type) {
  if (const Tensor* t = node.tensor("default_tensor"); t && t->dtype() == type && t->numel() == 1) return to_ref(*t);
  RefTensor out = make_ref(type, {1});
  if (type == DType::kString)
    out.s[0] = node.s("default_string", "_Unused");
  else if (out.floating())
    out.f[0] = node.f("default_float", -0.0);
  else
    out.i[0] = node.i("default_int64", -1);
  return out;
}

// What numbers and texts are looked up by; NaN stands before all.
std::pair<double, std::string> key_at(const RefTensor& t, int64_t at) {
  if (t.dtype == DType::kString) return {0, t.s[static_cast<size_t>(at)]};
  if (!t.floating()) return {0, std::to_string(t.i[static_cast<size_t>(at)])};
  const double v = t.f[static_cast<size_t>(at)];
  return std::isnan(v) ? std::pair<double, std::string>{0, "nan"} : std::pair<double, std::string>{v, ""};
}

Result<Tensor> categories(const ir::Node& node) {
  PERI_ASSIGN(const RefTensor keys, list_of(node, "keys"));
  return from_ref(keys);
}

// Version 1: the place of a text in a list, or the text at a place.
Status upgrade(ir::Graph&, ir::Node& node, int) {
  const auto it = node.attrs.find("classes_strings");
  if (it == node.attrs.end()) return Ok{};
  if (node.inputs.empty() || !node.inputs[0]) return invalid("a label encoder has no x");
  const auto names = std::get<std::vector<std::string>>(it->second);
  std::vector<int64_t> places(names.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  const bool named = node.inputs[0]->type.dtype == DType::kString;
  node.attrs.erase(it);
  node.attrs.insert_or_assign(named ? "keys_strings" : "values_strings", names);
  node.attrs.insert_or_assign(named ? "values_int64s" : "keys_int64s", places);
  return Ok{};
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const RefTensor keys, list_of(c.node, "keys"));
  PERI_ASSIGN(const RefTensor values, list_of(c.node, "values"));
  if (keys.numel() != values.numel())
    return invalid("a label encoder has keys and values of different number")
        .expecting(std::to_string(keys.numel()))
        .but_found(std::to_string(values.numel()));
  if (keys.floating() != is_float(c.dtype(0)) || (keys.dtype == DType::kString) != (c.dtype(0) == DType::kString))
    return invalid("the keys of a label encoder have another type than x")
        .expecting(std::string(dtype_name(c.dtype(0))))
        .but_found(std::string(dtype_name(keys.dtype)));
  if (!contains(kLabels, values.dtype))
    return unsupported("labels of type %s", std::string(dtype_name(values.dtype)).c_str());
  c.set(0, values.dtype, c.shape(0));
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  PERI_ASSIGN(const RefTensor keys, list_of(call.node, "keys"));
  PERI_ASSIGN(const RefTensor values, list_of(call.node, "values"));
  const RefTensor otherwise = fallback_of(call.node, values.dtype);
  if (keys.dtype == DType::kString) {
    std::unordered_map<std::string_view, int64_t> places;
    for (size_t k = 0; k < keys.s.size(); ++k) places.emplace(keys.s[k], static_cast<int64_t>(k));
    for (int64_t n = 0; n < call.count(); ++n) {
      const int64_t p = call.position(n);
      const auto it = places.find(x.s[static_cast<size_t>(p)]);
      it == places.end() ? copy_element(otherwise, 0, call.out[0], p)
                         : copy_element(values, it->second, call.out[0], p);
    }
    return Ok{};
  }
  std::map<std::pair<double, std::string>, int64_t> places;
  for (int64_t k = 0; k < keys.numel(); ++k) places.emplace(key_at(keys, k), k);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const auto it = places.find(key_at(x, p));
    it == places.end() ? copy_element(otherwise, 0, call.out[0], p) : copy_element(values, it->second, call.out[0], p);
  }
  return Ok{};
}
}  // namespace

extern const Entry label_encoder_entry;
const Entry label_encoder_entry{{
    {.name = "label_encoder",
     .onnx = "LabelEncoder",
     .domain = "ai.onnx.ml",
     .versions = {1, 2, 4},
     .inputs = {{"x", kLabels}},
     .outputs = {{"y"}},
     .attrs = {{"keys_strings", AttrKind::kStrings},
               {"keys_int64s", AttrKind::kInts},
               {"keys_floats", AttrKind::kFloats},
               {"keys_tensor", AttrKind::kTensor},
               {"values_strings", AttrKind::kStrings},
               {"values_int64s", AttrKind::kInts},
               {"values_floats", AttrKind::kFloats},
               {"values_tensor", AttrKind::kTensor},
               {"default_string", AttrKind::kString, false, "_Unused"},
               {"default_int64", AttrKind::kInt, false, "-1"},
               {"default_float", AttrKind::kFloat, false, "-0"},
               {"default_tensor", AttrKind::kTensor},
               {"classes_strings", AttrKind::kStrings}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull_same,
     .jumps = true,
     .categories = categories,
     .samples = {"graph { const x: string[3] = [\"a\", \"b\", \"z\"]; y = label_encoder(x) {keys_strings=[\"a\", "
                 "\"b\"], values_int64s=[4, 5], default_int64=7}; output y }",
                 "graph { input x: i64[2,2]; y = label_encoder(x) {keys_int64s=[0, 1, 2], values_floats=[0.5, 1.5, "
                 "2.5]}; output y }",
                 "graph { const x: f32[3] = [1.0, nan, 2.0]; y = label_encoder(x) {keys_floats=[1.0, nan], "
                 "values_strings=[\"one\", \"none\"]}; output y }"}},
}};
}  // namespace peri::ops
