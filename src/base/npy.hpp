// NumPy's .npy files (format 1 to 3) as tensors and back, fully validated; pickled data is never read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/file_uses.hpp"
#include "base/tensor.hpp"

namespace peri {

// Types that NumPy lacks are stored as void (bf16 as '<V2'; the 8-bit floats and, one byte per element, the sub-byte
// types as '<V1'), as the ml_dtypes package writes them. `wanted` says which type a void is; without it V2 is bf16.
// Strings ('U', 'S') lose trailing NULs, as in NumPy. Fortran order is transposed. Errors: kInvalid (broken header,
// wrong size, trailing bytes), kUnsupported (objects, records, big-endian data); they name the file.
Result<Tensor> read_npy(const std::string& path, DType wanted = DType::kInvalid);
// The same for bytes owned by `keep`; the tensor may be a view of them.
Result<Tensor> parse_npy(std::string_view bytes, std::shared_ptr<const void> keep, DType wanted = DType::kInvalid);

extern const FileKind kNpyFile;
// Written completely or not at all. Strings are written as 'U', or as 'S' if one of them is not UTF-8.
Status write_npy(const std::string& path, const Tensor& t);
std::string npy_bytes(const Tensor& t);

}  // namespace peri
