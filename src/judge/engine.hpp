// Judges a whole engine: that what runs is correct, not only its parts. At each of a few sizes the engine runs with its
// planned memory, every step judged on its actual inputs; runs again with every buffer in separate poisoned memory,
// where the bits must agree; and where that is affordable the whole output is compared with float64.
#pragma once

#include <optional>

#include "judge/steps.hpp"

namespace peri::judge {

// A model with more is not run by the judge: at 500 GFLOP/s one run takes 20 s, and there are several.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kMaxRunFlops = 1e13;
// Nor one of whose values steps on the slow reference compute so many elements in a run: a run takes a minute.
constexpr double kMaxSlowElements = 1 << 29;

struct Terms {
  DimBinding tuned_for;
  std::vector<DimBinding> bounds;  // the requested smallest and largest sizes
  uint64_t seed = 11;
  std::function<bool()> stop;  // once true the rest is skipped, which is recorded
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

// The findings at one size.
struct SizeEvidence {
  DimBinding sizes;
  int64_t steps_judged = 0;         // in float64
  int64_t steps_by_definition = 0;  // run by the reference itself, or moved by a control step
  int64_t positions = 0;
  double worst_step = 0;   // largest |error| / bound of a step
  bool same_bits = false;  // planned and separate memory gave the same bits
  double whole = -1;       // largest |error| / bound of the outputs; -1: not compared
  int64_t followed = 0;    // values of the model verified on the way to outputs that depend on a rounding or a choice
  std::string whole_because;  // why not, which outputs were skipped, or which were held against rounded weights
  bool no_memory = false;     // `limit` is due to this machine's memory
  std::string limit;          // why the model itself cannot run at this size; the members above are then unset
  // Elements of the first output that has NaN, in the reference too, as of a logarithm of made-up inputs: of `nan_of`,
  // `nan` of `nan_elements`. They prove nothing.
  std::string nan_of = {};
  int64_t nan = 0, nan_elements = 0;
  // The first step whose sums overflow float32 on the made-up inputs, and how many read what came of it, with it. ""
  // and 0: none.
  std::string overflow = {};
  int64_t overflowed = 0;
  // The integers of the inputs that were made up: -1: as they come; 0 or 1: all are, since others end with `others`.
  int64_t integers = -1;
  std::string others = {};
};

// "batch=1,sequence=128".
std::string sizes_text(const DimBinding& sizes);

// A step whose choice must be replaced.
struct Fault {
  size_t step = 0;
  std::string name, candidate, why;
  DimBinding sizes;
};

struct EngineVerdict {
  std::vector<SizeEvidence> sizes;
  std::optional<Fault> fault;
  std::string wrong;       // the result is wrong though every step is correct: a pass is at fault
  std::string incomplete;  // what was skipped, because of `stop` or memory
  bool lasting = true;     // false: what was skipped depends on this run only, on `stop` or on memory
  double seconds = 0;      // time of the judgement
  int64_t since = 0;       // second of the epoch of the judgement
  bool earlier = false;    // by an earlier build (see kept.hpp)
  bool right() const { return !fault && wrong.empty(); }
};

// `imported`: the model before any pass, whose outputs are the reference. `graph`: after the passes, as lowered. The
// engine must have been made from them. Errors: only those that say nothing about the engine.
Result<EngineVerdict> judge_engine(std::shared_ptr<const runtime::Engine> engine, const ir::Graph& imported,
                                   const ir::Graph& graph, const Terms& terms);

}  // namespace peri::judge
