// Verification: compares an engine's outputs with the float64 reference, files or ONNX Runtime within a budget, and
// names the first step that is wrong.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "ir/graph.hpp"
#include "judge/difference.hpp"
#include "judge/steps.hpp"

namespace peri::judge {

// How far an answer may lie from the wanted one.
struct Budget {
  double max_error = 1e-4;        // as a share of the output's range
  double min_cosine = -1;         // means subtracted
  double max_change = INFINITY;   // as a share of the change between the answers of two seeds
  bool nan_equal = false;         // NaN against NaN is agreement; else it says nothing, and is outside
  bool given = false;             // max_error holds for every type; else coarse types have their own rounding
  DType precision = DType::kF32;  // of the engine: what its weights were rounded to; verify() sets it
  Tolerance tolerance;            // of what Difference::l0 counts

  double allowed(DType type) const;
};
// What an engine that keeps values in 16 bits may be off by where rounding every value to them moves the answer by
// `moved`, both as shares of the output's range; never as much as a wrong answer is (judge/whole.hpp).
double room_for_rounding(double moved);
// Against another runtime, whose own error is of our size.
Budget peer_budget();

// What is verified: an engine and the graph it must agree with.
struct Subject {
  std::string path;  // the model's or engine's, for errors
  std::shared_ptr<const runtime::Engine> engine;
  ir::Graph reference;                  // the model before any pass, or the source of an engine
  bool source = false;                  // it is an engine's source: its steps can be held against its values by name
  std::function<Status()> check_files;  // kIo if a file was cut since it was mapped; empty: no files
  int64_t weights_checked = 0;          // hashes recomputed
};

struct VerifyTerms {
  std::vector<uint64_t> seeds = {1, 2};
  // The inputs of a seed; empty: seeded ones at the sizes that the engine was tuned for.
  std::function<Result<std::vector<Tensor>>(uint64_t seed)> inputs;
  // The sizes of what `inputs` makes, where they are known before: what the reference would take hours for is refused
  // before they are made.
  std::optional<DimBinding> sizes;
  std::string reference_dir;  // hold answers against DIR/NAME.npy; "" not
  std::string peer_model;     // hold answers against ONNX Runtime's of this file; "" not
  int threads = 1;            // of the reference and of ONNX Runtime
  bool bisect = false;        // also judge every step of the last run
  Budget budget;
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<bool()> stop;  // once true it ends with kCancelled
};

// One output of one run.
struct OutputVerdict {
  uint64_t seed = 0;
  std::string output, type;
  Difference difference;
  std::optional<double> of_change;  // the error as a share of the change between two seeds' answers
  bool inside = false;
  // An answer outside of its budget behind roundings that float32 does not decide, held value by value
  // (judge/followed.hpp): how many values were, and their elements that are ties. 0: the answer is within its budget,
  // or wrong.
  int64_t followed = 0, ties = 0;
  // Against ONNX Runtime, of such an answer: how far its own moves by one rounding of the inputs. An answer that lies
  // more than twice as far from it is not followed: the two programs do not mean the same.
  double peer_moves = 0;
};

struct Verification {
  std::string path, against;
  double max_error = 0;           // of the budget
  DType precision = DType::kF32;  // of the engine
  double allowed = 0;             // the most that any output's type is allowed
  double worst = 0;               // the largest error, as a share of its output's range, of outputs not followed
  int64_t weights_checked = 0;
  size_t runs = 0;
  int64_t both_nan = 0;  // elements that were NaN on both sides
  size_t followed = 0;   // answers that were held value by value
  std::vector<OutputVerdict> outputs;
  std::string outside;                             // the first answer outside its budget, in words; empty: none
  std::optional<std::vector<StepVerdict>> bisect;  // up to the first wrong one
  std::string bisected;                            // its outcome in words
  bool passed = false;
  std::string text() const;  // the outcome in one line
};

// kRefused where the float64 reference would take hours at these sizes.
Status check_affordable(const ir::Graph& reference, const DimBinding& sizes);
// Errors: those of a run and of the reference; kRefused where the reference would take hours; kUnsupported and kInvalid
// of ONNX Runtime (judge/peer.hpp); kCancelled. An answer outside its budget is none.
Result<Verification> verify(const Subject& subject, const VerifyTerms& terms);
std::string verification_json(const Verification& v);

}  // namespace peri::judge
