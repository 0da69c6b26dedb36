// Tensors of strings through the C interface: texts of the caller are copied, those of an output are described in
// place.
#pragma once

#include "base/tensor.hpp"
#include "peri/peri.h"

namespace peri::api {

// A copy of the caller's texts under `dims`. Errors name the element: kUsage (sizes, a NULL), kInvalid (not UTF-8).
Result<Tensor> strings_of(const peri_tensor& given, std::vector<int64_t> dims);
// Its texts as the caller reads them; valid as long as the tensor's memory.
std::vector<peri_string> described_strings(const Tensor& made);

}  // namespace peri::api
