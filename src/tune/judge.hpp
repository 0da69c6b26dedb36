// Judge: verdicts about the candidates of a problem, from running them here: whether each is correct there, how fast it
// is, and (samples()) whether its kernel is correct on the small and edge samples of every op that it supports.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "tune/crossing.hpp"
#include "tune/resolved.hpp"
#include "tune/spent.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

struct Verdict {
  Evidence evidence = {};
  bool lasting = true;  // false: temporary (no memory, killed), not to be stored
  bool tried = true;    // false: nothing was run, the problem itself cannot be judged here
};

// Parameters of a judgement.
struct Terms {
  bool measure = true, verify = true;
  bool other_dims =
      false;  // the problem is a tuned one at other dims: fewer positions, and slowness is no reason to refuse
  uint64_t seed = 7;
  double budget_ms = 60, model_bytes = 1e12;
  std::function<bool()> stop = {};  // once true no further candidate is tried: those get no verdict
  bool ahead = false;               // only prepare, judge nothing: see Judge::foresee()
};

struct SampleVerdict {
  int64_t samples = 0;  // offers for samples that ran and were correct
  std::string failed;   // the first that was not, with its error; empty: none
  bool lasting = true;
  int64_t left_out = 0;  // offers that were not run: on a device, some
  int64_t unmade = 0;    // offers that could not be run here: another ISA, or refused on creation
  Spent spent = {};
};

// Called before a candidate is prepared (null), before it runs (null), and with its verdict. A verdict may be reported
// again when a later comparison revokes it.
using Told = std::function<void(size_t candidate, const Verdict* verdict)>;

class Judge {
 public:
  // `device`: which one of several devices is used, "cuda:1"; "": the first of each kind.
  explicit Judge(int threads, std::string device = "");
  ~Judge();
  // Every candidate gets a verdict. Equal terms give equal results, except times. A problem whose reference is too
  // expensive is judged by comparing providers: two that agree are correct.
  void judge(const ir::Graph& region, const std::vector<bool>& constant, std::span<const Candidate* const> candidates,
             const Terms& terms, const Told& told);
  // Tier 1: every sample that the kernel supports, in full, alone and with epilogues, each configuration. A kernel that
  // supports none is refused. `before`: called before each problem of them.
  SampleVerdict samples(const kernels::Kernel& kernel, const std::function<void()>& before = {});
  // Opens a device of this kind in advance; an error is reported when it is used.
  void open_ahead(std::string_view device);
  // Starts preparations for samples().
  void foresee_samples(const kernels::Kernel& kernel);
  // What the candidate's library chooses for the problem.
  Resolved resolve(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate);
  // The time of copying values to a device of this kind and back.
  Result<Crossing> crossing(std::string_view device);
  // Starts preparations for candidates of a device: their code is compiled by other threads.
  void foresee(const ir::Graph& region, const std::vector<bool>& constant,
               std::span<const Candidate* const> candidates);
  // Whether a candidate has made a device unusable for this process. Waits for devices.
  bool lost();
  // The time spent by judge() since the last call.
  Spent take_spent();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the evidence's time is plausible: one below `floor_ms` is a measurement error, and is removed with its
// reason.
bool believe_time(double floor_ms, const bench::Ceilings& ceilings, Evidence* evidence);

// Bytes to read between timed runs: as many as the model has weights, but at most 5/4 of the last cache, beyond which
// there is no effect; where the model stays in the last cache, only as many as evict the private caches of these
// threads' cores. Rounded down to a power of two, since it is part of the key of times.
size_t traffic_bytes(double model_bytes, const device::Target& cpu, int threads);

}  // namespace peri::tune
