// Conversion of attributes, and the table of attributes that only older versions of operators have.
#include "onnx/attributes.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "onnx/first_forms.hpp"
#include "onnx/proto_reader.hpp"

namespace peri::onnx {

namespace {
using ops::AttrKind;

// Attributes that an operator lost, or whose type changed, between opset 7 and the newest (from the schemas of the onnx
// package, onnx.defs.get_all_schemas_with_history).
struct OldAttr {
  std::string_view op, name;
  AttrType type;
};
constexpr OldAttr kOldAttrs[] = {
    {"BatchNormalization", "spatial", AttrType::kInt},
    {"Clip", "max", AttrType::kFloat},
    {"Clip", "min", AttrType::kFloat},
    {"DFT", "axis", AttrType::kInt},
    {"Dropout", "ratio", AttrType::kFloat},
    {"Pad", "value", AttrType::kFloat},
    {"Pad", "pads", AttrType::kInts},
    {"ReduceL1", "axes", AttrType::kInts},
    {"ReduceL2", "axes", AttrType::kInts},
    {"ReduceLogSum", "axes", AttrType::kInts},
    {"ReduceLogSumExp", "axes", AttrType::kInts},
    {"ReduceMax", "axes", AttrType::kInts},
    {"ReduceMean", "axes", AttrType::kInts},
    {"ReduceMin", "axes", AttrType::kInts},
    {"ReduceProd", "axes", AttrType::kInts},
    {"ReduceSum", "axes", AttrType::kInts},
    {"ReduceSumSquare", "axes", AttrType::kInts},
    {"Slice", "ends", AttrType::kInts},
    {"Slice", "starts", AttrType::kInts},
    {"Slice", "axes", AttrType::kInts},
    {"Split", "split", AttrType::kInts},
    {"Squeeze", "axes", AttrType::kInts},
    {"TopK", "k", AttrType::kInt},
    {"Unsqueeze", "axes", AttrType::kInts},
    {"Upsample", "scales", AttrType::kFloats},
};

AttrType type_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
    case AttrKind::kType: return AttrType::kInt;
    case AttrKind::kFloat: return AttrType::kFloat;
    case AttrKind::kString: return AttrType::kString;
    case AttrKind::kInts:
    case AttrKind::kDims: return AttrType::kInts;
    case AttrKind::kFloats: return AttrType::kFloats;
    case AttrKind::kStrings: return AttrType::kStrings;
    case AttrKind::kTensor: return AttrType::kTensor;
    case AttrKind::kGraph: return AttrType::kGraph;
  }
  return AttrType::kUndefined;
}

Result<std::string> text_of(std::string_view bytes) {
  if (!utf8_valid(bytes)) return invalid("text of an attribute is not UTF-8");
  return std::string(bytes);
}

Result<ir::Attr> convert(const AttrRecord& a, AttrKind kind, WeightFiles& weights) {
  switch (a.type) {
    case AttrType::kFloat: return ir::Attr(static_cast<double>(a.f));
    case AttrType::kInt: {
      if (kind != AttrKind::kType) return ir::Attr(a.i);
      if (a.i < INT32_MIN || a.i > INT32_MAX) return invalid("a type is out of range");
      PERI_ASSIGN(const DType t, dtype_from_onnx(static_cast<int32_t>(a.i)));
      return ir::Attr(static_cast<int64_t>(t));
    }
    case AttrType::kString: {
      PERI_ASSIGN(std::string s, text_of(a.s));
      return ir::Attr(std::move(s));
    }
    case AttrType::kInts:
      if (kind == AttrKind::kDims) return ir::Attr(std::vector<Dim>(a.ints.begin(), a.ints.end()));
      return ir::Attr(a.ints);
    case AttrType::kFloats: return ir::Attr(std::vector<double>(a.floats.begin(), a.floats.end()));
    case AttrType::kStrings: {
      std::vector<std::string> out;
      for (std::string_view s : a.strings) {
        PERI_ASSIGN(std::string text, text_of(s));
        out.push_back(std::move(text));
      }
      return ir::Attr(std::move(out));
    }
    case AttrType::kTensor: {
      PERI_ASSIGN(const TensorRecord record, read_tensor(a.message, weights.base()));
      PERI_ASSIGN(Tensor t, weights.tensor(record));
      return ir::Attr(std::move(t));
    }
    default: return unsupported("attributes of type %s are not supported", std::string(attr_type_name(a.type)).c_str());
  }
}

Result<ir::Attr> import_attr(const AttrRecord& a, const NodeRecord& node, const ops::OpDef& def, int64_t opset,
                             WeightFiles& weights) {
  const auto spec =
      std::find_if(def.attrs.begin(), def.attrs.end(), [&](const ops::AttrSpec& s) { return s.name == a.name; });
  const auto old = std::find_if(std::begin(kOldAttrs), std::end(kOldAttrs),
                                [&](const OldAttr& o) { return o.op == node.op && o.name == a.name; });
  const bool by_spec = spec != def.attrs.end() && a.type == type_of(spec->kind);
  const bool by_old = (old != std::end(kOldAttrs) && a.type == old->type) ||
                      (opset < kFirstPlainOpset && node.domain.empty() && is_first_attr(node.op, a.name, a.type));
  if (by_spec || by_old) return convert(a, by_spec ? spec->kind : AttrKind::kInt, weights);
  const std::string name(a.name), op(node.op);
  if (spec == def.attrs.end() && old == std::end(kOldAttrs))
    return invalid("%s has no attribute '%s'", op.c_str(), name.c_str());
  return invalid("attribute '%s' of %s has the wrong type", name.c_str(), op.c_str())
      .expecting(std::string(attr_type_name(spec != def.attrs.end() ? type_of(spec->kind) : old->type)))
      .but_found(std::string(attr_type_name(a.type)));
}
}  // namespace

Result<ir::Attrs> import_attrs(const NodeRecord& node, const ops::OpDef& def, int64_t opset, WeightFiles& weights) {
  ir::Attrs out;
  for (const AttrRecord& a : node.attrs) {
    if (a.type == AttrType::kType && node.op == "Optional") continue;  // of what it would hold
    Result<ir::Attr> attr = import_attr(a, node, def, opset, weights);
    if (!attr.ok()) return std::move(attr).error().at_node(node.label());
    out.emplace(a.name, std::move(attr).value());
  }
  return out;
}

Result<Tensor> constant_value(const NodeRecord& node, WeightFiles& weights) {
  auto value = [&]() -> Result<Tensor> {
    if (node.attrs.size() != 1) return invalid("a Constant needs exactly one value");
    const AttrRecord& a = node.attrs[0];
    const int64_t count = static_cast<int64_t>(std::max({a.ints.size(), a.floats.size(), a.strings.size()}));
    if (a.name == "value" && a.type == AttrType::kTensor) {
      PERI_ASSIGN(const TensorRecord t, read_tensor(a.message, weights.base()));
      return weights.tensor(t);
    }
    if (a.name == "sparse_value" && a.type == AttrType::kSparseTensor) {
      PERI_ASSIGN(const SparseTensorRecord t, read_sparse_tensor(a.message, weights.base()));
      return weights.dense(t);
    }
    if (a.name == "value_float" && a.type == AttrType::kFloat) return Tensor::of_f32({}, std::span(&a.f, 1));
    if (a.name == "value_floats" && a.type == AttrType::kFloats) return Tensor::of_f32({count}, a.floats);
    if (a.name == "value_int" && a.type == AttrType::kInt) return Tensor::of_i64({}, std::span(&a.i, 1));
    if (a.name == "value_ints" && a.type == AttrType::kInts) return Tensor::of_i64({count}, a.ints);
    if (a.name == "value_string" && a.type == AttrType::kString) return Tensor::strings({}, {std::string(a.s)});
    if (a.name == "value_strings" && a.type == AttrType::kStrings)
      return Tensor::strings({count}, std::vector<std::string>(a.strings.begin(), a.strings.end()));
    return invalid("a Constant has the attribute '%s' of type %s", std::string(a.name).c_str(),
                   std::string(attr_type_name(a.type)).c_str())
        .expecting("value, value_float(s), value_int(s), value_string(s) or sparse_value");
  };
  Result<Tensor> out = value();
  if (!out.ok()) return std::move(out).error().at_node(node.label());
  return out;
}

}  // namespace peri::onnx
