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

// Verification::against where it is the peer, or the reference.
constexpr const char *kOnnxRuntime = "ONNX Runtime", *kFloat64 = "float64 reference";

// How far an output may lie from the expected one.
struct Budget {
  double max_error = 1e-4;        // as a share of the output's range
  double min_cosine = -1;         // means subtracted
  double max_change = INFINITY;   // as a share of the difference between the outputs for two seeds
  bool nan_equal = false;         // NaN on both sides is agreement; else it is outside
  bool given = false;             // max_error applies to every type; else narrow types have their own rounding
  DType precision = DType::kF32;  // of the engine: what its weights were rounded to; set by verify()
  Tolerance tolerance;            // for Difference::l0

  double allowed(DType type) const;
};
// The allowed error of an engine that stores values, or its weights, in 16 bits, where rounding them moves the output
// by `moved`, both as shares of the output's range; always less than a wrong output's error (judge/whole.hpp).
double room_for_rounding(double moved);
// For another runtime, whose own error is of the same size.
Budget peer_budget();

// The subject of verification: an engine and the graph it must agree with.
struct Subject {
  std::string path;  // the model's or engine's, for errors
  std::shared_ptr<const runtime::Engine> engine;
  ir::Graph reference;                  // the model before any pass, or the source of an engine
  bool source = false;                  // it is an engine's source: its steps can be compared with its values by name
  std::function<Status()> check_files;  // kIo if a file was truncated since it was mapped; empty: no files
  int64_t weights_checked = 0;          // hashes recomputed
  std::vector<std::string> notes;       // of its build, if it was built for this
};

struct VerifyTerms {
  std::vector<uint64_t> seeds = {1, 2};
  bool given = false;  // the inputs are the caller's, for one run: no seed is told
  // The inputs of a seed; empty: seeded ones at the sizes that the engine was tuned for.
  std::function<Result<std::vector<Tensor>>(uint64_t seed)> inputs;
  // The sizes of the results of `inputs`, where they are known in advance: a reference that would take hours is refused
  // before they are created.
  std::optional<DimBinding> sizes;
  std::string reference_dir;  // compare outputs with DIR/NAME.npy; "" not
  std::string peer_model;     // compare outputs with ONNX Runtime's for this file; "" not
  int threads = 1;            // of the reference and of ONNX Runtime
  bool bisect = false;        // also judge every step of the last run
  bool steps_only = false;    // judge every step of one run, by the last seed, and not the whole: outputs stay empty
  Budget budget;
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<bool()> stop;  // once true it ends with kCancelled
  void tell(const std::string& what) const {
    if (progress) progress(0, 0, what);
  }
};

// One output of one run.
struct OutputVerdict {
  uint64_t seed = 0;  // 0 where the inputs were given
  std::string output, type;
  Difference difference;
  std::optional<double> of_change;  // the error as a share of the difference between two seeds' outputs
  bool inside = false;
  // For an output outside its budget that depends on roundings which float32 does not decide, compared value by value
  // (judge/followed.hpp): the number of values compared, and of their elements that are ties. 0: the output is within
  // its budget, or wrong.
  int64_t followed = 0, ties = 0;
  // For such an output, against ONNX Runtime: how far its own output moves by one rounding of the inputs. If the output
  // is more than twice as far from it, it is not followed: the two programs do not compute the same.
  double peer_moves = 0;
  // For such an output that ONNX Runtime's own does not move as far: ONNX Runtime's is within the budget against the
  // float64 reference; or how far the reference's own moves where each operation errs by its round-off.
  bool peer_near = false;
  double reference_moves = 0;
  // Against the float64 reference, of an output outside its budget: how far the model's own answer moves by one
  // rounding of its inputs and weights, as a share of its range, where that explains the error. If it is inside, each
  // of `followed` values that the engine keeps on the way is within its own error.
  double model_moves = 0;
  // Against ONNX Runtime, of an output outside its budget: the largest errors of both against the float64 reference, as
  // shares of its range. `peer_is_off`: ours is within the budget there, and ONNX Runtime's means the same and is not.
  std::optional<double> own_error = {}, peer_error = {};
  // Where that was of the model with its weights rounded, as the engine keeps them: how far rounding them moves the
  // model's answer, as a share of its range. `own_error` is then set without ONNX Runtime, too.
  double stored_moves = 0;
  bool peer_is_off = false;
};

struct Verification {
  std::string path, against;
  double max_error = 0;           // of the budget
  DType precision = DType::kF32;  // of the engine
  double allowed = 0;             // the largest error allowed for any output's type
  double worst = 0;               // the largest error, as a share of its output's range, of `measured` outputs
  size_t measured = 0;            // outputs that are held by such a share: neither followed nor by_rounding
  int64_t weights_checked = 0;
  size_t runs = 0;
  int64_t compared = 0;      // elements of outputs
  int64_t both_nan = 0;      // elements that were NaN on both sides; of steps alone, NaN in outputs
  size_t followed = 0;       // outputs that were compared value by value
  size_t by_rounding = 0;    // outputs whose range is too small beside their size for a share of it (judge/budget.hpp)
  size_t moved = 0;          // outputs that are as far off as the model's own answer moves by one rounding
  std::string empty_shapes;  // an output without elements whose shape is another in ONNX Runtime; "": none
  size_t peer_off = 0;       // outputs of which ONNX Runtime's is the inexact one
  size_t stored = 0;         // outputs that are right by the model with its weights rounded
  bool rounded = false;      // the reference is an engine's source, whose weights are those that it keeps in 16 bits
  std::vector<OutputVerdict> outputs;
  std::string draws;                               // a node that draws random numbers; "": none
  std::string outside;                             // the first output outside its budget, in words; empty: none
  std::optional<std::vector<StepVerdict>> bisect;  // up to the first wrong one
  std::string bisected;                            // its outcome in words
  bool passed = false;
  std::string text() const;  // the outcome in one line
};

// kRefused where the float64 reference would take hours at these sizes.
Status check_affordable(const ir::Graph& reference, const DimBinding& sizes);
// Errors: those of a run and of the reference; kRefused where the reference would take hours; kUnsupported and kInvalid
// of ONNX Runtime (judge/peer.hpp); kCancelled. An output outside its budget is not an error.
Result<Verification> verify(const Subject& subject, const VerifyTerms& terms);
std::string verification_json(const Verification& v);

}  // namespace peri::judge
