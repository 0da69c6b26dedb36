// NumPy's .npz files, zip archives of .npy, read entry by entry; every offset and size is checked against the file.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.hpp"

namespace peri {

// The names of its arrays, as in numpy.load.
Result<std::vector<std::string>> npz_names(const std::string& path);
// One array; "" selects the only one. Stored and deflated entries are read and their checksums verified. Errors name
// the file: kInvalid (corrupt), kUsage (no such array; the existing ones are listed), kUnsupported (encrypted, another
// compression method, 4 GiB or more), kMemory; those of read_npy().
Result<Tensor> read_npz(const std::string& path, const std::string& name, DType wanted = DType::kInvalid);

}  // namespace peri
