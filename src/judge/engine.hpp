// Judges a whole engine: that what runs is right, not only its parts. At each of a few sizes the engine runs with its
// planned memory, every step judged on its actual inputs; runs again with every buffer in poisoned memory of its own,
// where the bits must agree; and where that is cheap the whole output is compared with float64.
#pragma once

#include <optional>

#include "judge/steps.hpp"

namespace peri::judge {

// A model of more is not run by the judge: at 500 GFLOP/s one run of it takes 20 s, and there are several.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kMaxRunFlops = 1e13;

struct Terms {
  DimBinding tuned_for;
  std::vector<DimBinding> bounds;  // the smallest and largest sizes that were asked for
  uint64_t seed = 11;
  std::function<bool()> stop;  // once true the rest is left out, and said so
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

// What was done at one size.
struct SizeEvidence {
  DimBinding sizes;
  int64_t steps_judged = 0;         // in float64
  int64_t steps_by_definition = 0;  // run by the reference itself, or moved by a control step
  int64_t positions = 0;
  double worst_step = 0;      // largest |error| / bound of a step
  bool same_bits = false;     // planned and separate memory gave the same bits
  double whole = -1;          // largest |error| / bound of the answers; -1: not compared
  int64_t followed = 0;       // values of the model proven on the way to answers behind a rounding or a choice
  std::string whole_because;  // why not, or which outputs were left out
  bool no_memory = false;     // `limit` is this machine's memory
  std::string limit;          // why the model itself cannot run at this size; then nothing above holds
};

// "batch=1,sequence=128".
std::string sizes_text(const DimBinding& sizes);

// A step whose choice has to go.
struct Fault {
  size_t step = 0;
  std::string name, candidate, why;
  DimBinding sizes;
};

struct EngineVerdict {
  std::vector<SizeEvidence> sizes;
  std::optional<Fault> fault;
  std::string wrong;       // the answer is wrong though every step is right: the rewriting is at fault
  std::string incomplete;  // what was left out, because of `stop` or memory
  bool lasting = true;     // false: what was left out hangs on this run alone, on `stop` or on memory
  double seconds = 0;      // that it took to find out
  int64_t since = 0;       // second of the epoch at which that was done
  bool earlier = false;    // by an earlier build (see kept.hpp)
  bool right() const { return !fault && wrong.empty(); }
};

// `imported`: the model before any pass, whose answers count. `graph`: after the passes, as lowered. The engine must
// have been made of them. Errors: only what says nothing about the engine.
Result<EngineVerdict> judge_engine(std::shared_ptr<const runtime::Engine> engine, const ir::Graph& imported,
                                   const ir::Graph& graph, const Terms& terms);

}  // namespace peri::judge
