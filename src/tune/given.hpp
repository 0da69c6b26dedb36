// The arguments of one problem, for all of its candidates: weights between guards, the others in every layout that is
// requested.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tune/arguments.hpp"
#include "tune/guarded.hpp"

namespace peri::tune {

class Given {
 public:
  // Row-major tensors, one for each input of the region.
  static Result<Given> make(std::vector<Tensor> row_major, std::vector<bool> weights);
  std::span<const Tensor> row_major() const { return row_major_; }
  // Input `k` in a layout, as an array of its physical dims; created once.
  Result<Tensor> in_layout(size_t k, const ir::Layout& layout);
  // kAccuracy if a weight, or the memory around it, was changed.
  Status check_weights() const;

 private:
  std::vector<Tensor> row_major_;
  std::vector<std::shared_ptr<Guarded>> guarded_;  // null: no weight
  std::vector<uint64_t> hash_;
  std::map<std::pair<size_t, std::string>, Tensor> made_;
};

}  // namespace peri::tune
