// Found by a hash, and compared.
#include "exec/weights/shared_packed.hpp"

#include <cstring>

#include "base/hash.hpp"
#include "base/heap.hpp"

namespace peri::exec {

namespace {
constexpr int64_t kMinShared = 4096;           // bytes: fewer are not worth a look
constexpr size_t kMaxFree = size_t{64} << 20;  // bytes of what was packed again that the allocator may keep

struct PackedBytes {
  Tensor tensor;
  std::shared_ptr<const StepStore> from;
};
}  // namespace

Result<Tensor> SharedPacked::get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) {
  Tensor own;
  if (store_) {
    PERI_ASSIGN(own, store_->get(form, bytes, make));
  } else {
    PERI_ASSIGN(own, Tensor::uninitialized(DType::kU8, {bytes}));
    make(own.mutable_data());
  }
  if (!share_ || bytes < kMinShared) return own;
  const auto size = static_cast<size_t>(bytes);
  auto fresh = std::make_shared<PackedBytes>(PackedBytes{own, store_});
  const auto known = share_->get<PackedBytes>(
      format("packed %s %zu", hex64(hash_bytes(own.data(), size)).c_str(), size), [&] { return fresh; });
  if (known != fresh && std::memcmp(known->tensor.data(), own.data(), size) != 0) return own;
  if (known->from && known->from != store_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    others_.push_back(known->from);
  }
  const bool twice = known != fresh;
  fresh.reset();
  own = Tensor();
  if (twice) give_back_memory(kMaxFree);
  return Tensor::view(DType::kU8, {bytes}, known->tensor.bytes(), known);
}

Status SharedPacked::check() const {
  if (store_) PERI_TRY(store_->check());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& other : others_) PERI_TRY(other->check());
  return Ok{};
}

}  // namespace peri::exec
