// The declared type of a graph input or output: dimensions are numbers, names, expressions over names, or new names if
// nothing is known.
#include <algorithm>
#include <set>

#include "onnx/proto_reader.hpp"
#include "onnx/survey.hpp"

namespace peri::onnx {

namespace {
Dim named_dim(std::string_view text, const std::set<std::string>& names) {
  auto parsed = Dim::parse(text);
  const bool marked = text.find('?') != std::string_view::npos;  // which a name of a model does not mean
  if (marked || !parsed.ok() || parsed->is_poison() || parsed->is_const()) return Dim::symbol(text);
  std::set<std::string> used;
  parsed->collect_symbols(used);
  const bool over_names = std::includes(names.begin(), names.end(), used.begin(), used.end());
  return parsed->is_symbol() || over_names ? std::move(parsed).value() : Dim::symbol(text);
}
// Exporters write these for a size that they do not know: each is one of its own.
bool names_a_size(std::string_view text) { return !text.empty() && text != "?" && text != "-1"; }
}  // namespace

Result<ir::Type> declared_type(const ValueRecord& v, const std::set<std::string>& names) {
  static constexpr const char* kKinds[] = {"of no type", "tensors",   "sparse tensors", "sequences",
                                           "maps",       "optionals", "opaque values"};
  if (v.kind == ValueKind::kNone)
    return invalid("a graph input has no type").at_node(v.name).advise("run onnx.shape_inference, or export again");
  if (v.kind != ValueKind::kTensor)
    return unsupported("graph inputs and outputs that are %s are not supported", kKinds[static_cast<int>(v.kind)])
        .at_node(v.name)
        .advise("export the model with tensors only");
  ir::Type type;
  Result<DType> dtype = dtype_from_onnx(v.elem_type);
  if (!dtype.ok()) return std::move(dtype).error().at_node(v.name);
  type.dtype = *dtype;
  if (!v.shape) return type;
  if (v.shape->size() > 32)
    return invalid("a value has rank %zu", v.shape->size()).at_node(v.name).expecting("rank 32 at most");
  type.shape.emplace();
  for (const DimRecord& d : *v.shape) {
    if (d.value && *d.value >= 0) {
      type.shape->push_back(Dim(*d.value));
    } else if (d.value && *d.value != -1) {
      return invalid("a dimension is negative")
          .at_node(v.name)
          .expecting("0 or more, or a name")
          .but_found(format("%lld", static_cast<long long>(*d.value)));
    } else if (!d.value && names_a_size(d.param)) {
      type.shape->push_back(named_dim(d.param, names));
    } else {
      std::string fresh = std::string(v.name) + "_dim_" + std::to_string(type.shape->size());
      while (names.contains(fresh)) fresh += '_';
      type.shape->push_back(Dim::symbol(fresh));
    }
  }
  return type;
}

}  // namespace peri::onnx
