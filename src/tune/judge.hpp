// Judge: verdicts about the candidates of a problem, from running them here: whether each is right there, how fast it
// is, and (samples()) whether its kernel is right on the small and edge samples of every op that it supports.
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
  bool lasting = true;  // false: of this moment (no memory, killed), not to be kept
  bool tried = true;    // false: nothing was run, the problem itself cannot be judged here
};

// What a judge is asked to do.
struct Terms {
  bool measure = true, verify = true;
  bool other_dims =
      false;  // the problem is a tuned one at other dims: fewer positions, and slow is no reason to refuse
  uint64_t seed = 7;
  double budget_ms = 60, model_bytes = 1e12;
  std::function<bool()> stop = {};  // once true no further candidate is tried: it gets no verdict
  bool ahead = false;               // nothing is judged now: see Judge::foresee()
};

struct SampleVerdict {
  int64_t samples = 0;  // offers for samples that ran and were right
  std::string failed;   // the first that was not, with its error; empty: none
  bool lasting = true;
  int64_t left_out = 0;  // offers that were not run: on a device a part of them is
  int64_t unmade = 0;    // offers that could not be run here: another ISA, or refused as they were made
  Spent spent = {};
};

// Told before a candidate is made ready (null), before it runs (null), and with its verdict. A verdict may be told
// again when a later comparison revokes it.
using Told = std::function<void(size_t candidate, const Verdict* verdict)>;

class Judge {
 public:
  // `device`: which one of several candidates are tried on, "cuda:1"; "": the first of each kind.
  explicit Judge(int threads, std::string device = "");
  ~Judge();
  // Every candidate gets a verdict. Equal terms give equal answers, but for the times. A problem whose reference is too
  // expensive is judged by the answers of other providers alone: two that agree are right.
  void judge(const ir::Graph& region, const std::vector<bool>& constant, std::span<const Candidate* const> candidates,
             const Terms& terms, const Told& told);
  // Tier 1: every sample that the kernel takes, in full, alone and with epilogues, each configuration. A kernel that
  // takes none is refused.
  // `before`: called before each problem of them.
  SampleVerdict samples(const kernels::Kernel& kernel, const std::function<void()>& before = {});
  // Opens a device of this kind, which trials will want; what fails is told when it is asked for.
  void open_ahead(std::string_view device);
  // Begins what samples() will wait for.
  void foresee_samples(const kernels::Kernel& kernel);
  // What the candidate's library chooses for the problem.
  Resolved resolve(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate);
  // What it takes to bring values to a device of this kind and back.
  Result<Crossing> crossing(std::string_view device);
  // Begins what can be done before candidates of a device are tried: their code is compiled by other threads.
  void foresee(const ir::Graph& region, const std::vector<bool>& constant,
               std::span<const Candidate* const> candidates);
  // Whether a candidate has brought a device to an end for this process. Waits for devices.
  bool lost();
  // By judge() since the last call.
  Spent take_spent();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the evidence's time may be: one below `floor_ms` is an error in the measurement, taken out with its reason.
bool believe_time(double floor_ms, const bench::Ceilings& ceilings, Evidence* evidence);

// Bytes that are read between timed runs: as many as the model has weights, of which more than 5/4 of the last cache
// make no difference; where the model stays in the last cache, no more than replaces what the cores of these threads
// hold in their own. A power of two below that, since times are kept by it.
size_t traffic_bytes(double model_bytes, const device::Target& cpu, int threads);

}  // namespace peri::tune
