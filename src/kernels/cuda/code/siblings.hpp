// Products of one left side as one: what each of them stores, by the columns that are its own.
#pragma once

#include <string>
#include <vector>

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

constexpr size_t kMaxProducts = 8;  // each is a comparison and a text of its own in the code

// Each product of the region as a graph of its own, with all of the region's arguments, by results. Refuses fewer than
// two, more than kMaxProducts, and those that share more than arguments.
Result<std::vector<ir::Graph>> products_alone(const ir::Graph& region);

// The functions of all chains as one. Columns stand side by side, eight neighbours in one product.
class SiblingFinishes {
 public:
  // The next of so many products, from its text of width 8 (chain.hpp); returns "  if (n < END) ", or "  " for the
  // last.
  std::string add(std::string finish, int64_t columns, size_t products);
  // peri_finish and peri_finish_8, of element i of PERI_N columns; `type` that of an element in a register.
  std::string text(const std::string& type) const;

 private:
  size_t count_ = 0;
  int64_t columns_ = 0;
  std::string finishes_, one_, eight_;
};

}  // namespace peri::kernels::cuda
