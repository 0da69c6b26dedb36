// One table for both directions.
#include "serve/kserve/datatype.hpp"

#include <algorithm>

namespace peri::serve {

static constexpr std::pair<std::string_view, DType> kNames[] = {
    {"BOOL", DType::kBool},    {"UINT8", DType::kU8},  {"UINT16", DType::kU16}, {"UINT32", DType::kU32},
    {"UINT64", DType::kU64},   {"INT8", DType::kI8},   {"INT16", DType::kI16},  {"INT32", DType::kI32},
    {"INT64", DType::kI64},    {"FP16", DType::kF16},  {"FP32", DType::kF32},   {"FP64", DType::kF64},
    {"BYTES", DType::kString}, {"BF16", DType::kBF16},
};

std::string_view datatype_name(DType dtype) {
  for (const auto& [name, t] : kNames)
    if (t == dtype) return name;
  return "";
}

Result<DType> parse_datatype(std::string_view name) {
  for (const auto& [known, t] : kNames)
    if (known == name) return t;
  return invalid("'%.*s' is not a datatype of this protocol", static_cast<int>(std::min<size_t>(name.size(), 40)),
                 name.data());
}

std::string config_datatype(DType dtype) {
  return dtype == DType::kString ? "TYPE_STRING" : "TYPE_" + std::string(datatype_name(dtype));
}

}  // namespace peri::serve
