// Element types by the names that other programs use for them.
#pragma once

#include "base/dtype.hpp"

namespace peri {

// "f32", and what NumPy, ONNX and other runtimes call it: "float32", "fp32", "float"; "int64", "uint8", "half",
// "double", "bfloat16". Errors: kInvalid: no type is called that.
Result<DType> dtype_of_any_name(std::string_view name);

}  // namespace peri
