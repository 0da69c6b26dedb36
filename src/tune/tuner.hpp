// Tuner: for a problem, every candidate of every kernel with its offer, its verdict and its time, or the reason for its
// refusal. The choice is data: printed, cached, locked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/entry.hpp"
#include "tune/evidence.hpp"
#include "tune/spent.hpp"

namespace peri::tune {

// When a candidate is tried: with the first ones; where the first of its kernel came close to the fastest; where
// nothing else of its provider is correct.
enum class Turn : uint8_t { kFirst, kIfClose, kLastResort };

struct Candidate {
  const kernels::Kernel* kernel = nullptr;
  kernels::Offer offer;
  Evidence evidence = {};
  // Runs the region at sizes for which this one is not valid (offer.holds_for); null: it is valid for all.
  std::shared_ptr<const Candidate> fallback = nullptr;
  Turn turn = Turn::kFirst;
  bool waits = false;      // not tried: without times the first correct one is chosen; `rejected` says so
  std::string id() const;  // "gemm_f32@1 {mr=12 nr=32}": its name in lock files and reports
  // Of a run; -1: only its library knows, and it was not measured.
  int64_t workspace_bytes() const;
};
struct Refusal {
  std::string kernel, reason;
};
struct Candidates {
  std::vector<Candidate> list;  // least estimate or time first
  std::vector<Refusal> refusals;
};
// Correct ones first, of those the timed ones, of those by time; equals keep their order.
void put_fastest_first(std::vector<Candidate>* list);

// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kAgainShare = 0.04;

struct Options {
  bool measure = true;  // false: the first offer is chosen, nothing is run
  bool verify = true;
  std::string provider;    // only this provider ("" all); the reference is always allowed as last resort
  std::string cache_path;  // folder of the timing cache; "" none
  bool retune = false;     // cached results about candidates are determined anew, and replaced
  int threads = 1;
  std::optional<device::Target>
      target;               // to plan for; none: this machine. Candidates for another machine are not tried
  std::string device = "";  // "cuda:1": the device on which candidates are tried; "": the first
  uint64_t seed = 7;
  double budget_ms = 60;  // for timing one candidate
  std::string worker;     // the program that verifies and times (see worker.hpp); "": this process
  std::string why_no_worker = "no worker was asked for";  // where there is none
  double model_bytes = 1e12;                // of all weights of the model: the amount read between two runs of a step
  std::vector<std::string> executors = {};  // only kernels of these executors; empty: all
  // Where a kernel of this executor supports a region, no other is offered it; "": all are.
  std::string own_executor = "";
  // Kernels, of this executor if one is named, are tried before their samples ran: the caller checks wrong_on_samples()
  // for its choices. Code is compiled while candidates are tried, and samples of kernels that are not chosen never run.
  bool late_samples = false;
  // Offers whose workspace, or memory for each thread, takes more bytes are refused, as a session would refuse them; 0:
  // this machine's memory (runtime::EngineOptions::memory_bytes).
  int64_t memory_bytes = 0;
  double budget_seconds = 0;   // of the tuner's life; afterwards as if `stop` returned true; 0: no limit
  int settings = 0;            // largest number of settings of the fastest kernel's tunables that are tried
  std::function<bool()> stop;  // once true nothing more is verified or measured: the choice uses what is known by then
};

class Tuner {
 public:
  explicit Tuner(Options options);
  ~Tuner();
  const device::Target& target() const;  // what candidates are offered for
  const Options& options() const;
  // Sets Options::model_bytes once it is known. REQUIRES: nothing was measured yet.
  void set_model_bytes(double bytes);

  // Candidates of a problem with concrete dims, all layouts. Verified and timed according to the options; results are
  // stored by the problem's text, so that equal layers are tried once. `also`: the region at other dims (see
  // bound_at()). Where a candidate is offered there too (see offered()) it must be correct there, or it is rejected.
  // Calls for one region with and without `also` share its times. `only`: the kernels to consider (none: all); where
  // all were tried before all are returned.
  const Candidates& candidates(const ir::Graph& region, const std::vector<bool>& constant,
                               std::span<const ir::Graph> also = {}, std::span<const kernels::Kernel* const> only = {});
  // Visits a timed candidate once more, after other work: for candidates that a cover depends on. Returns the resulting
  // time, which is also cached. All such visits take at most kAgainShare of the tuner's time; beyond it, where the
  // build is interrupted, and where nothing was timed by this tuner, so that the choice follows the cache, returns what
  // was known before.
  Evidence time_again(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate);
  // The same before anything is verified or timed: the kernels' offers.
  const Candidates& offers(const ir::Graph& region, const std::vector<bool>& constant);
  // Announces problems that candidates() will be asked for: preparations for their trials on a device are started.
  void foresee(const ir::Graph& region, const std::vector<bool>& constant,
               std::span<const kernels::Kernel* const> only = {});
  // The same for the samples of those kernels that are expected to be chosen, once all problems were announced.
  void foresee_samples();
  // Why nothing of the candidate's kernel may be chosen; "": its samples were correct, and ran now if not before, or
  // nothing is verified.
  std::string wrong_on_samples(const Candidate& candidate);
  // Whether any kernel but the reference supports the region (no measurement).
  bool accepted(const ir::Graph& region, const std::vector<bool>& constant);
  // Whether the candidate is offered for the same region at other dims too, with the same configuration, layouts and
  // memory sharing (where sizes are equal there).
  bool offered(const Candidate& candidate, const ir::Graph& region, const std::vector<bool>& constant);
  // Candidates of other executors than the own one for a region that the own one supports too, verified and timed as
  // the others; where it may be cheaper to run a region where its neighbours run.
  const Candidates& beside(const ir::Graph& region, const std::vector<bool>& constant,
                           std::span<const ir::Graph> also = {});
  // The time of copying this many bytes to a device of this kind or back; measured once where candidates are tried, and
  // cached.
  double crossing_ms(std::string_view device, double bytes);
  // Measured time of converting a tensor of these dims from one layout to another, in ms.
  double convert_ms(DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from, const ir::Layout& to);

  // The work to qualify a kernel: offers for samples that ran and were correct, that were skipped and that could not be
  // created; runs on problems, of these with results sharing memory of arguments, and why none of its candidates is
  // chosen.
  struct KernelRuns {
    int64_t samples = 0, samples_left_out = 0, samples_unmade = 0, runs = 0, shared_runs = 0;
    std::string failed;
    double sample_seconds = 0;  // of this build: 0 where the cache had the verdict
  };
  struct Stats {
    std::map<std::string, KernelRuns> kernels;
    int64_t begun = 0;  // second of the epoch: older evidence is from another build
    int64_t problems = 0, candidates = 0, measured = 0, from_cache = 0, rejected = 0;
    int64_t untimed = 0;   // candidates whose time was not plausible
    int64_t untried = 0;   // problems of which nothing was verified or measured, since `stop` said so
    int64_t compared = 0;  // candidates whose whole result was compared with that of another provider
    int64_t kernels_sampled = 0, sample_runs = 0,
            kernels_refused = 0;        // tier 1: kernels, their right runs, and those that failed
    int64_t runs = 0, shared_runs = 0;  // of candidates, to verify them; with results in arguments' memory
    int64_t other_dims = 0,
            other_dims_skipped = 0;  // problems at other dims, and candidates at dims that were too expensive
    int64_t again = 0;               // further visits to candidates that a cover depends on
    double seconds = 0, sample_seconds = 0, again_seconds = 0;
    Spent samples_spent, trials_spent;  // as reported by the worker; the rest of `seconds` is everything else
    bool worker = false;                // a worker process verified and timed, or would have if anything had been new
    int64_t worker_deaths = 0;
    std::string worker_trouble;  // why this process did it instead
    std::string cache_trouble;   // why the timing cache was not used; empty: it was, or none was requested
  };
  Stats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A region with symbolic dims at each binding where it has concrete ones: what candidates() takes as `also`.
std::vector<ir::Graph> bound_at(const ir::Graph& region, std::span<const DimBinding> also);

}  // namespace peri::tune
