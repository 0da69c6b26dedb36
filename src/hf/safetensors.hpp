// safetensors: named tensors of one file or of a folder's shards, as views of the mapped files. Every field of a header
// is checked before it is used; no byte of a tensor is copied.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/file.hpp"
#include "base/tensor.hpp"

namespace peri::hf {

// One tensor of one file: `size` bytes from `offset`, counted from the start of the file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Reads the header of a whole file: 8 bytes of little-endian length N ≤ 100,000,000, N bytes of JSON that begin with
// '{', then the tensors, which fill the rest from its first byte to its last without hole or overlap, each of exactly
// the size of its shape and dtype. Format: huggingface/safetensors, README "Format". Errors: kInvalid (naming tensor
// and field), kUnsupported (an unsupported dtype), kMemory. Result in order of offset.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file);

// The weights of a model: all tensors of its files by name. Immutable and thread-safe.
class Weights {
 public:
  // One file.
  static Result<Weights> open_file(const std::string& path);
  // `folder`/model.safetensors or, if there is none, the shards listed in `folder`/model.safetensors.index.json. Shards
  // must be in the folder; a shard that is missing, and a tensor that is missing from its shard or occurs in two, are
  // errors. `remember`: the files are read once and known by their bytes from then on (base/remembered_file.hpp).
  static Result<Weights> open_folder(const std::string& folder, bool remember = false);

  size_t count() const { return tensors_.size(); }
  std::vector<std::string_view> names() const;  // sorted
  const TensorInfo* find(std::string_view name) const;
  // A view of the file's bytes, which stay mapped for the tensor's lifetime. Error if there is no such tensor.
  Result<Tensor> tensor(std::string_view name) const;
  uint64_t total_bytes() const;
  // kIo, naming the file, if one was cut or overwritten since it was opened: call it after the tensors were read.
  Status check() const;

 private:
  struct Placed {
    TensorInfo info;
    size_t file = 0;
  };
  Status add_file(const Fd& fd, const std::string& name, bool remember);
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Placed, std::less<>> tensors_;
};

}  // namespace peri::hf
