// NumPy's .npz files, zip archives of .npy, read entry by entry; every offset and size is checked against the file.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.hpp"

namespace peri {

// The names of the arrays in it, as numpy.load has them.
Result<std::vector<std::string>> npz_names(const std::string& path);
// One of them; "" the only one. Stored and deflated entries are taken, and their check sums held. Errors name the file:
// kInvalid (broken), kUsage (no such array; the known ones are listed), kUnsupported (encrypted, another method, 4 GiB
// or more), kMemory; those of read_npy().
Result<Tensor> read_npz(const std::string& path, const std::string& name, DType wanted = DType::kInvalid);

}  // namespace peri
