// Arrays of the caller's tensors, with the struct size of the version that the caller was compiled against.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "peri/peri.h"

namespace peri::api {

// The number of a tensor's type as the caller set it; an enum must not be read that holds no number of its own.
inline int dtype_number(const peri_tensor& t) {
  static_assert(sizeof t.dtype == sizeof(int));
  int number = 0;
  __builtin_memcpy(&number, &t.dtype, sizeof(number));
  return number;
}

class TensorArray {
 public:
  // kUsage: no array, or an invalid struct_size.
  static Result<TensorArray> of(const peri_tensor* first, size_t count) {
    if (count && !first) return usage("no tensors are given");
    TensorArray out;
    out.first_ = reinterpret_cast<std::byte*>(const_cast<peri_tensor*>(first));
    out.count_ = count;
    if (!count) return out;
    out.stride_ = first->struct_size;
    if (out.stride_ != sizeof(peri_tensor) && out.stride_ != offsetof(peri_tensor, device_index))
      return wrong(out.stride_);
    for (size_t k = 1; k < count; ++k) {
      size_t size = 0;
      __builtin_memcpy(&size, out.at(k), sizeof(size));
      if (size != out.stride_) return wrong(size);
    }
    return out;
  }
  // Of an engine's inputs: their number is compared first, since what is read beyond an array is no struct.
  static Result<TensorArray> of_inputs(const peri_tensor* first, size_t count, size_t inputs) {
    if (count != inputs)
      return usage("another number of inputs").expecting(std::to_string(inputs)).but_found(std::to_string(count));
    return of(first, count);
  }
  size_t size() const { return count_; }
  // Members that the caller's version does not have are zero.
  peri_tensor operator[](size_t k) const {
    peri_tensor out = {};
    __builtin_memcpy(static_cast<void*>(&out), at(k), stride_);
    return out;
  }
  void set(size_t k, peri_tensor t) const {
    t.struct_size = stride_;
    __builtin_memcpy(at(k), &t, stride_);
  }

 private:
  static Error wrong(size_t size) {
    return usage("peri_tensor.struct_size is %zu", size).expecting(std::to_string(sizeof(peri_tensor)));
  }
  std::byte* at(size_t k) const { return first_ + k * stride_; }
  std::byte* first_ = nullptr;
  size_t count_ = 0, stride_ = sizeof(peri_tensor);
};

}  // namespace peri::api
