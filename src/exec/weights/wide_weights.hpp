// The weights of a step in the types of its region. A weight stored in 16 bits is widened when a kernel accesses it,
// and kept as long as the tensor is in use: a packed weight is in memory only once, packed.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

class WideWeights {
 public:
  // Weight k belongs to input k of the region; undefined ones are not weights.
  WideWeights(std::vector<Tensor> stored, const ir::Graph& region);

  // One instantiation's view. Keeps what it widened for its lifetime; may be used concurrently with others.
  class Turn {
   public:
    Turn(WideWeights& of, const device::Target& target) : of_(of), target_(target), own_(of.stored_.size()) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    kernels::Constants constants();

   private:
    const Tensor& at(size_t k);
    WideWeights& of_;
    const device::Target& target_;
    std::vector<Tensor> own_;
  };

  const std::vector<Tensor>& stored() const { return stored_; }
  bool narrow(size_t k) const { return narrow_[k]; }

 private:
  std::vector<Tensor> stored_;
  std::vector<bool> narrow_;  // the region's type differs from the stored one
  std::mutex mutex_;
  std::vector<std::weak_ptr<float[]>> made_;  // widened weights that are still in use
};

}  // namespace peri::exec
