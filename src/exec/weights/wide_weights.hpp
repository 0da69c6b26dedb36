// The weights of a step in the types its region states. A weight stored in 16 bits is widened when a kernel asks for
// it, and kept as long as the tensor is used: a packed weight is in memory only once, packed.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

class WideWeights {
 public:
  // Weight k belongs to input k of the region; undefined ones are no weights.
  WideWeights(std::vector<Tensor> stored, const ir::Graph& region);

  // What one instantiation sees. Keeps what it widened until it goes; thread-safe beside others.
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
  std::vector<bool> narrow_;  // a region states another type than the stored one
  std::mutex mutex_;
  std::vector<std::weak_ptr<float[]>> made_;  // what was widened and somebody still has
};

}  // namespace peri::exec
