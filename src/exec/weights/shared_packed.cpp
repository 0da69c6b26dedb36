// Found by a hash, and compared.
#include "exec/weights/shared_packed.hpp"

#include <cstring>

#include "base/hash.hpp"
#include "base/heap.hpp"

namespace peri::exec {

namespace {
constexpr int64_t kMinShared = 4096;           // bytes: fewer are not worth a look
constexpr int64_t kMaxGrowth = 16;             // of a weight when it is packed: Winograd of 6 x 6 outputs takes 7.1
constexpr size_t kMaxFree = size_t{64} << 20;  // bytes of what was packed again that the allocator may keep

struct PackedBytes {
  Tensor tensor;
  std::shared_ptr<const StepStore> from;
  bool mapped = false;  // of a file, which another process may cut
};
}  // namespace

Result<Tensor> SharedPacked::get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) {
  Tensor own = store_ ? store_->find(form, bytes) : Tensor();
  const bool found = own.defined();
  if (!found) {
    PERI_ASSIGN(own, Tensor::uninitialized(DType::kU8, {bytes}));
    make(own.mutable_data());
  }
  const auto keep = [&](const Tensor& t) {
    if (store_ && !found) store_->keep(form, t);
  };
  if (!share_ || bytes < kMinShared || bytes / kMaxGrowth > common_bytes_) {
    keep(own);
    return own;
  }
  const auto size = static_cast<size_t>(bytes);
  auto fresh = std::make_shared<PackedBytes>(PackedBytes{own, store_, found});
  const auto known = share_->get<PackedBytes>(
      format("packed %s %zu", hex64(hash_bytes(own.data(), size)).c_str(), size), [&] { return fresh; });
  if (known != fresh && std::memcmp(known->tensor.data(), own.data(), size) != 0) {
    keep(own);
    return own;
  }
  if (known->from && known->from != store_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    others_.push_back(known->from);
  }
  // What waits to be written is what stays in memory anyway, without the store that came with it: that would hold the
  // files which hold the queue. What a file holds may be cut before it is copied.
  keep(known->mapped ? own : known->tensor);
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
