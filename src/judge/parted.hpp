// Whether two answers that part, ours and ONNX Runtime's, may both be right.
#pragma once

#include "judge/verify.hpp"

namespace peri::judge {

Result<std::vector<Tensor>> reference_outputs(const ir::Graph& model, std::span<const Tensor> inputs, int threads);

// One output of one run, and what ONNX Runtime gave.
struct PartedRun {
  const ir::Graph& model;  // that both compute, for the reference
  std::span<const Tensor> inputs, theirs;
  size_t output = 0;
  std::vector<Tensor>* exact = nullptr;  // the float64 reference's outputs, made where they are needed
};

// Whether ONNX Runtime's answer means the same as the reference's where ours is as far from it as `o` says: its own
// moves as far by one rounding of the inputs, or it is within the budget against the reference, or the reference's own
// moves as far where each operation errs by its round-off. `why` where none holds. Errors: those of ONNX Runtime;
// kCancelled.
Result<bool> means_the_same(const Subject& s, const VerifyTerms& terms, const Budget& budget, const PartedRun& run,
                            OutputVerdict* o, std::string* why);

}  // namespace peri::judge
