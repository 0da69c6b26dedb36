// The float64 reference of one run in the ways that an answer may be held against: with the model's own weights, with
// those that an engine keeps in 16 bits, and with every value rounded. Each is made where it is first asked for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "judge/verify.hpp"
#include "ops/entry.hpp"

namespace peri::judge {

// Whether a type is of fewer bits of fraction than float32.
bool is_narrow(DType type);

class References {
 public:
  // `model`: the one that an engine was made of, as imported, where the subject's reference is that engine's source;
  // null: it is not known. All must outlive this.
  References(const Subject& subject, const ir::Graph* model, std::span<const Tensor> inputs, int threads)
      : s_(subject), model_(model), inputs_(inputs), threads_(threads) {}

  // Of the subject's reference. An error is kept: what it was asked for is not judged.
  Result<const std::vector<Tensor>*> plain();
  // Of the model with its own weights, and with them as the engine keeps them; the same where it keeps them so.
  Result<const std::vector<Tensor>*> own();
  Result<const std::vector<Tensor>*> stored();
  // Whether the engine keeps weights in 16 bits, and the model's own are known to differ from those.
  bool parts() const;
  // By how much of its range rounding every value moves output `k` of `want`, for an engine that keeps values in 16
  // bits; 0 for another.
  Result<double> moved_by_values(const Tensor& want, size_t k);

  std::vector<Tensor>* kept_plain() { return &plain_; }

 private:
  Result<const std::vector<Tensor>*> made(std::vector<Tensor>* out, const ir::Graph& graph) const;

  const Subject& s_;
  const ir::Graph* const model_;
  const std::span<const Tensor> inputs_;
  const int threads_;
  std::vector<Tensor> plain_, own_, stored_, narrow_;
};

}  // namespace peri::judge
