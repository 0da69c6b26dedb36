// Tensor records as tensors: views of raw and external bytes where they are large, copies where they are small. Sizes
// are checked without wrapping; external data cannot lie outside the model's folder.
#pragma once

#include <map>
#include <memory>

#include "base/file.hpp"
#include "base/tensor.hpp"
#include "onnx/model.hpp"

namespace peri::onnx {

// The bytes of a model file and of the files that its tensors refer to. Tensors share ownership of what they view.
class WeightFiles {
 public:
  // `dir`: the folder of the model, in which external names are resolved. `model`: its file, for messages. `remember`:
  // ImportOptions::remember.
  WeightFiles(std::shared_ptr<const void> keep, std::string_view bytes, std::string dir, std::string model,
              bool remember = false)
      : keep_(std::move(keep)), bytes_(bytes), dir_(std::move(dir)), model_(std::move(model)), remember_(remember) {}

  const char* base() const { return bytes_.data(); }
  // Limits the total bytes of dense forms of sparse tensors, relative to the size of the file itself.
  Status charge_dense(int64_t bytes);

  // A tensor of a record. Errors: kInvalid (size, field, dims, location), kIo, kUnsupported; they name the tensor.
  Result<Tensor> tensor(const TensorRecord& t);
  // The dense form of a sparse tensor: indices strictly ascending and inside the dims.
  Result<Tensor> dense(const SparseTensorRecord& s);

  // Files mapped so far, to be checked after use (a truncated file reads as zeros).
  const std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>>& external_files() const {
    return external_;
  }

 private:
  Result<Tensor> plain_tensor(const TensorRecord& t);
  Result<Tensor> external_tensor(const TensorRecord& t, DType dtype, int64_t size);
  Result<std::shared_ptr<const MappedFile>> open_external(std::string_view location);
  Error no_external(Error why, std::string_view location) const;

  std::shared_ptr<const void> keep_;
  std::string_view bytes_;
  std::string dir_, model_;
  bool remember_;
  int64_t dense_bytes_ = 0;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> external_;
};

}  // namespace peri::onnx
