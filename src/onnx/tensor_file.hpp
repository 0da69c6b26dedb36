// Test data and inputs in ONNX's format: a file that is one TensorProto, SequenceProto or OptionalProto.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.hpp"

namespace peri::onnx {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// A file of one TensorProto; external data is resolved in its folder. Errors name the file.
Result<NamedTensor> read_tensor_file(const std::string& path);
// The tensors of a SequenceProto, in order, or the tensor of an OptionalProto (none: empty). Sequences of anything but
// tensors are kUnsupported.
Result<std::vector<Tensor>> read_sequence_file(const std::string& path);
// Written completely or not at all.
Status write_tensor_file(const std::string& path, const Tensor& t, std::string_view name);

}  // namespace peri::onnx
