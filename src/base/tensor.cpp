// Storage, element access for every type, and the content hash of host tensors.
#include "base/tensor.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/dim.hpp"
#include "base/hash.hpp"
#include "base/plural.hpp"

namespace peri {

namespace {
// Large blocks start on a 2 MiB page and ask for huge pages: 512 times fewer faults when weights are packed, fewer TLB
// misses when they are read.
constexpr size_t kHugePage = size_t{2} << 20;

void* allocate(size_t size) {
  if (size > (size_t{1} << 46)) return nullptr;
  const size_t align = size >= 2 * kHugePage ? kHugePage : 64;
  void* p = std::aligned_alloc(align, (size + 64 + align - 1) / align * align);
  if (p && align == kHugePage) madvise(p, size, MADV_HUGEPAGE);
  return p;
}
}  // namespace

Result<Tensor> Tensor::zeros(DType dtype, std::vector<int64_t> dims) {
  PERI_ASSIGN(Tensor t, uninitialized(dtype, std::move(dims)));
  if (t.size_) std::memset(t.mutable_data(), 0, t.size_);
  return t;
}

Result<Tensor> Tensor::uninitialized(DType dtype, std::vector<int64_t> dims) {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  Tensor t;
  t.dtype_ = dtype;
  t.numel_ = n;
  if (dtype == DType::kString) {
    if (n > (int64_t{1} << 28))
      return Error(ErrorKind::kMemory,
                   format("a string tensor of %lld elements is beyond the cap", static_cast<long long>(n)));
    t.dims_ = std::move(dims);
    t.strings_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(n));
    return t;
  }
  PERI_ASSIGN(const int64_t size, dtype_bytes(dtype, n));
  void* p = allocate(static_cast<size_t>(size));
  if (!p)
    return Error(ErrorKind::kMemory, format("cannot allocate %lld bytes", static_cast<long long>(size)))
        .advise("give smaller sizes, or the process more memory");
  t.dims_ = std::move(dims);
  t.data_ = static_cast<const std::byte*>(p);
  t.size_ = static_cast<size_t>(size);
  t.keep_ = std::shared_ptr<const void>(p, [](const void* q) { std::free(const_cast<void*>(q)); });
  return t;
}

Result<Tensor> Tensor::view(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                            std::shared_ptr<const void> keep) {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  PERI_ASSIGN(const int64_t size, dtype_bytes(dtype, n));
  if (static_cast<uint64_t>(size) != bytes.size())
    return invalid("tensor data has the wrong size")
        .expecting(counted(size, "byte") + " for its type and dims")
        .but_found(counted(static_cast<int64_t>(bytes.size()), "byte"));
  Tensor t;
  t.dtype_ = dtype;
  t.dims_ = std::move(dims);
  t.numel_ = n;
  t.data_ = bytes.data();
  t.size_ = bytes.size();
  t.keep_ = std::move(keep);
  return t;
}

Result<Tensor> Tensor::strings(std::vector<int64_t> dims, std::vector<std::string> values) {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  if (n != static_cast<int64_t>(values.size()))
    return invalid("a string tensor needs %lld values, found %zu", static_cast<long long>(n), values.size());
  Tensor t;
  t.dtype_ = DType::kString;
  t.dims_ = std::move(dims);
  t.numel_ = n;
  t.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return t;
}

Tensor Tensor::of_i64(std::vector<int64_t> dims, std::span<const int64_t> values) {
  return of<int64_t>(DType::kI64, std::move(dims), values);
}
Tensor Tensor::of_f32(std::vector<int64_t> dims, std::span<const float> values) {
  return of<float>(DType::kF32, std::move(dims), values);
}

const std::vector<std::string>& Tensor::string_values() const {
  static const std::vector<std::string> kNone;
  return strings_ ? *strings_ : kNone;
}
std::vector<std::string>& Tensor::mutable_strings() {
  PERI_CHECK(strings_ != nullptr);
  return *strings_;
}

namespace {
template <class T>
T load(const std::byte* p, int64_t i) {
  T v;
  std::memcpy(&v, p + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}
template <class T>
void store(std::byte* p, int64_t i, T v) {
  std::memcpy(p + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}
// Elements below a byte, low bits first; those of six bits reach into a second byte.
unsigned packed(const std::byte* p, int64_t i, int bits) {
  const int64_t at = i * bits / 8;
  const int shift = static_cast<int>(i * bits % 8);
  unsigned both = static_cast<unsigned>(p[at]);
  if (shift + bits > 8) both |= static_cast<unsigned>(p[at + 1]) << 8;
  return both >> shift & ((1u << bits) - 1);
}
void set_packed(std::byte* p, int64_t i, int bits, unsigned v) {
  const int64_t at = i * bits / 8;
  const int shift = static_cast<int>(i * bits % 8);
  const unsigned mask = ((1u << bits) - 1) << shift, put = v << shift & mask;
  p[at] = static_cast<std::byte>((static_cast<unsigned>(p[at]) & ~mask) | put);
  if (shift + bits > 8)
    p[at + 1] = static_cast<std::byte>((static_cast<unsigned>(p[at + 1]) & ~(mask >> 8)) | put >> 8);
}
}  // namespace

double Tensor::f64(int64_t i) const {
  switch (dtype_) {
    case DType::kF32: return load<float>(data_, i);
    case DType::kF64: return load<double>(data_, i);
    case DType::kF16: return f16_to_f32(load<uint16_t>(data_, i));
    case DType::kBF16: return bf16_to_f32(load<uint16_t>(data_, i));
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0: return f8_to_f32(dtype_, load<uint8_t>(data_, i));
    case DType::kF4E2M1: return f4e2m1_to_f32(static_cast<uint8_t>(packed(data_, i, 4)));
    case DType::kF6E2M3:
    case DType::kF6E3M2: return f6_to_f32(dtype_, static_cast<uint8_t>(packed(data_, i, 6)));
    case DType::kU64: return static_cast<double>(load<uint64_t>(data_, i));
    default: return static_cast<double>(i64(i));
  }
}

int64_t Tensor::i64(int64_t i) const {
  switch (dtype_) {
    case DType::kI8: return load<int8_t>(data_, i);
    case DType::kI16: return load<int16_t>(data_, i);
    case DType::kI32: return load<int32_t>(data_, i);
    case DType::kI64: return load<int64_t>(data_, i);
    case DType::kU8: return load<uint8_t>(data_, i);
    case DType::kBool: return load<uint8_t>(data_, i) != 0;
    case DType::kU16: return load<uint16_t>(data_, i);
    case DType::kU32: return load<uint32_t>(data_, i);
    case DType::kU64: return static_cast<int64_t>(load<uint64_t>(data_, i));
    case DType::kU4: return packed(data_, i, 4);
    case DType::kU2: return packed(data_, i, 2);
    case DType::kI4: return (static_cast<int>(packed(data_, i, 4)) ^ 8) - 8;
    case DType::kI2: return (static_cast<int>(packed(data_, i, 2)) ^ 2) - 2;
    case DType::kString:
    case DType::kInvalid:
    case DType::kC64:
    case DType::kC128: PERI_CHECK(false, "no integer value in a tensor of this type"); return 0;
    default: return static_cast<int64_t>(f64(i));
  }
}

void Tensor::set_f64(int64_t i, double v) {
  std::byte* p = mutable_data();
  switch (dtype_) {
    case DType::kF32: return store(p, i, static_cast<float>(v));
    case DType::kF64: return store(p, i, v);
    case DType::kF16: {  // through round_to: a detour over float would round twice
      return store(p, i, f32_to_f16(static_cast<float>(round_to(dtype_, v))));
    }
    case DType::kBF16: return store(p, i, f32_to_bf16(static_cast<float>(round_to(dtype_, v))));
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0: return store(p, i, f32_to_f8(dtype_, static_cast<float>(v), true));
    case DType::kF4E2M1: return set_packed(p, i, 4, f32_to_f4e2m1(static_cast<float>(v)));
    case DType::kF6E2M3:
    case DType::kF6E3M2: return set_packed(p, i, 6, f32_to_f6(dtype_, static_cast<float>(v)));
    default: return set_i64(i, static_cast<int64_t>(v));
  }
}

void Tensor::set_i64(int64_t i, int64_t v) {
  std::byte* p = mutable_data();
  switch (dtype_) {
    case DType::kBool: return store(p, i, static_cast<uint8_t>(v != 0));
    case DType::kI8:
    case DType::kU8: return store(p, i, static_cast<uint8_t>(v));
    case DType::kI16:
    case DType::kU16: return store(p, i, static_cast<uint16_t>(v));
    case DType::kI32:
    case DType::kU32: return store(p, i, static_cast<uint32_t>(v));
    case DType::kI64:
    case DType::kU64: return store(p, i, v);
    case DType::kI4:
    case DType::kU4: return set_packed(p, i, 4, static_cast<unsigned>(v) & 15u);
    case DType::kI2:
    case DType::kU2: return set_packed(p, i, 2, static_cast<unsigned>(v) & 3u);
    case DType::kString:
    case DType::kInvalid:
    case DType::kC64:
    case DType::kC128: PERI_CHECK(false, "no integer value in a tensor of this type"); return;
    default: return set_f64(i, static_cast<double>(v));
  }
}

Result<Tensor> Tensor::reshaped(std::vector<int64_t> dims) const {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  if (n != numel_)
    return invalid("a tensor of %lld elements cannot take a shape of %lld", static_cast<long long>(numel_),
                   static_cast<long long>(n));
  Tensor t = *this;
  t.dims_ = std::move(dims);
  return t;
}

uint64_t Tensor::content_hash() const {
  Hasher h;
  h.add(dtype_name(dtype_));
  for (int64_t d : dims_) h.add_i64(d);
  if (dtype_ == DType::kString) {
    for (const std::string& s : string_values()) h.add_i64(static_cast<int64_t>(s.size())).add(s);
  } else {
    h.add_bytes(data_, size_);
  }
  return h.digest();
}

bool Tensor::same_content(const Tensor& other) const {
  if (dtype_ != other.dtype_ || dims_ != other.dims_) return false;
  if (dtype_ == DType::kString) return string_values() == other.string_values();
  return size_ == other.size_ && (data_ == other.data_ || size_ == 0 || std::memcmp(data_, other.data_, size_) == 0);
}

std::string tensor_type_text(const Tensor& t) {
  std::string out(dtype_name(t.dtype()));
  out += '[';
  for (size_t i = 0; i < t.dims().size(); ++i) out += (i ? "," : "") + std::to_string(t.dims()[i]);
  return out + "]";
}

}  // namespace peri
