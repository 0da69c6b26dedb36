// Tensor: element type, concrete dims and shared, immutable-by-convention bytes in row-major order. The only form of
// tensors on the host: model constants (views into a mapped file), test data, inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"

namespace peri {

class Tensor {
 public:
  Tensor() = default;

  // Zero-filled, 64-byte aligned storage. Errors: a size that is negative, overflows, or cannot be allocated.
  static Result<Tensor> zeros(DType dtype, std::vector<int64_t> dims);
  // The same without clearing: contents are undefined (string tensors: empty strings). For memory that is filled at
  // once.
  static Result<Tensor> uninitialized(DType dtype, std::vector<int64_t> dims);
  // A view of `bytes` that must be exactly the tensor's size; `keep` owns them. No alignment is promised.
  static Result<Tensor> view(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                             std::shared_ptr<const void> keep);
  static Result<Tensor> strings(std::vector<int64_t> dims, std::vector<std::string> values);
  template <class T>
  static Tensor of(DType dtype, std::vector<int64_t> dims, std::span<const T> values);
  static Tensor of_i64(std::vector<int64_t> dims, std::span<const int64_t> values);
  static Tensor of_f32(std::vector<int64_t> dims, std::span<const float> values);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t numel() const { return numel_; }
  bool defined() const { return dtype_ != DType::kInvalid; }

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const void* data() const { return data_; }
  // Writable bytes of a tensor made by zeros() or of(). REQUIRES: this tensor is not yet shared with a reader.
  std::byte* mutable_data() { return const_cast<std::byte*>(data_); }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(numel_)};
  }
  template <class T>
  T* mutable_as() {
    return reinterpret_cast<T*>(mutable_data());
  }
  const std::vector<std::string>& string_values() const;
  std::vector<std::string>& mutable_strings();

  // Element i (row-major) as a double / int64; any non-string, non-complex type, packed ones too. Unsigned 64-bit
  // values keep their bits in i64().
  double f64(int64_t i) const;
  int64_t i64(int64_t i) const;
  // Sets element i, rounding to the type (integers: value modulo 2^bits; bool: value != 0).
  void set_f64(int64_t i, double v);
  void set_i64(int64_t i, int64_t v);

  // The same bytes under other dims with the same number of elements.
  Result<Tensor> reshaped(std::vector<int64_t> dims) const;
  // 64-bit content hash over dtype, dims and bytes (xxh3); stable across machines.
  uint64_t content_hash() const;
  bool same_content(const Tensor& other) const;

 private:
  DType dtype_ = DType::kInvalid;
  std::vector<int64_t> dims_;
  int64_t numel_ = 0;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> keep_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

template <class T>
Tensor Tensor::of(DType dtype, std::vector<int64_t> dims, std::span<const T> values) {
  PERI_CHECK(dtype_size(dtype) == static_cast<int>(sizeof(T)));
  auto t = zeros(dtype, std::move(dims));
  PERI_CHECK(t.ok() && t->numel() == static_cast<int64_t>(values.size()), "Tensor::of: dims do not match values");
  if (!values.empty()) __builtin_memcpy(t->mutable_data(), values.data(), values.size() * sizeof(T));
  return std::move(t).value();
}

// "f32[2,3]"
std::string tensor_type_text(const Tensor& t);

}  // namespace peri
