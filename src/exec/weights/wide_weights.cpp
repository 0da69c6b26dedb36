// Widened once for all who have it at the same time.
#include "exec/weights/wide_weights.hpp"

#include <algorithm>
#include <memory>

#include "kernels/cpu/move/widened.hpp"

namespace peri::exec {

WideWeights::WideWeights(std::vector<Tensor> stored, const ir::Graph& region)
    : stored_(std::move(stored)), made_(stored_.size()) {
  for (size_t k = 0; k < stored_.size(); ++k)
    narrow_.push_back(stored_[k].defined() && k < region.inputs.size() && region.inputs[k]->type.dtype == DType::kF32 &&
                      kernels::is_narrow_float(stored_[k].dtype()));
}

kernels::Constants WideWeights::Turn::constants() {
  if (std::find(of_.narrow_.begin(), of_.narrow_.end(), true) == of_.narrow_.end()) return {of_.stored_};
  return {of_.stored_, [this](size_t k) -> const Tensor& { return at(k); }};
}

const Tensor& WideWeights::Turn::at(size_t k) {
  if (!of_.narrow_[k]) return of_.stored_[k];
  if (own_[k].defined()) return own_[k];
  const std::lock_guard<std::mutex> lock(of_.mutex_);
  constexpr size_t kAlign = 64;  // a cache line
  const Tensor& stored = of_.stored_[k];
  const size_t bytes = static_cast<size_t>(stored.numel()) * sizeof(float);
  std::shared_ptr<float[]> memory = of_.made_[k].lock();
  const bool made = memory != nullptr;
  // Without memory this throws, which is an error of kind kMemory where the instance is made.
  if (!made) memory = std::make_shared_for_overwrite<float[]>((bytes + kAlign) / sizeof(float));
  void* at = memory.get();
  size_t room = bytes + kAlign;
  auto* wide = static_cast<float*>(std::align(kAlign, bytes, at, room));
  if (!made) kernels::cpu::widen(stored, target_, wide);
  of_.made_[k] = memory;
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(wide), bytes);
  own_[k] = *Tensor::view(DType::kF32, stored.dims(), all, std::move(memory));
  return own_[k];
}

}  // namespace peri::exec
