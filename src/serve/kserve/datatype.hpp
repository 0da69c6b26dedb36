// Names of element types in KServe's protocol ("FP32") and in configurations ("TYPE_FP32").
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.hpp"

namespace peri::serve {

// "" for a type without a name in the protocol.
std::string_view datatype_name(DType dtype);
Result<DType> parse_datatype(std::string_view name);
std::string config_datatype(DType dtype);  // "TYPE_FP32", "TYPE_STRING"

}  // namespace peri::serve
