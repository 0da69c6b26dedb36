// The state of a tuner and how it decides a problem; its public functions are in tuner.cpp.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tune/cache.hpp"
#include "tune/candidates.hpp"
#include "tune/judge.hpp"
#include "tune/tuner.hpp"
#include "tune/worker.hpp"

namespace peri::tune {

struct Tuner::State {
  Options options;
  device::Target target;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Judge> judge;         // of this process; made when it is needed
  std::unique_ptr<RemoteJudge> remote;  // the worker's
  std::map<std::string, Candidates> by_problem;
  std::map<std::string, Candidates> offers;
  std::map<std::string, double> conversions;
  std::map<const kernels::Kernel*, SampleVerdict> sampled;
  std::set<std::string> foreseen;
  std::vector<const Candidate*> samples_to_foresee;  // one per kernel; number of them already announced
  size_t samples_foreseen = 0;
  std::map<std::string, Crossing, std::less<>> crossings;
  Stats stats;

  bool stopped() const { return options.stop && options.stop(); }
  std::function<bool()> interrupted;  // as `stopped`, but for the budget: not even samples are waited for
  // Reads what the cache knows of a candidate; false if it has to be tried.
  bool recall(const std::string& key, const ir::Graph& region, Candidate* c);
  // After an interruption: where something was tried, only that may be chosen.
  void leave_untried(Candidates* all);
  const SampleVerdict& samples(const kernels::Kernel& kernel, const std::string& library);
  void decide(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  // Verdicts of the worker, else of this process, one for each; also stored in the candidates and the cache.
  std::vector<Verdict> judged(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                              std::vector<Candidate*> fresh, const Terms& terms);
  // Tries the candidates from `first` on that the cache does not know, together with those that they are compared with.
  void decide_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, size_t first,
                  Candidates* all);
  // Tries candidates that had to wait for others (Turn), or gives the reason for not trying them.
  void decide_later(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                    std::vector<Candidate> later, bool all_known, Candidates* all);
  // Whether only the order of estimates decides: then one correct candidate of a problem is enough, and each further
  // one that a device tries compiles code.
  bool first_right() const { return !options.measure && options.verify && !options.own_executor.empty(); }
  // Tries unknown candidates one after the other, in order, until one is correct here and at the sizes of `also`; marks
  // the rest as not tried.
  void decide_first_right(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                          std::span<const ir::Graph> also, Candidates* all);
  // Whether samples of this kernel run only when it is chosen.
  bool samples_late(const kernels::Kernel& kernel) const {
    return options.late_samples && (options.own_executor.empty() || kernel.executor == options.own_executor);
  }
  // Tries settings of the fastest candidate's tunables.
  void turn(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  void decide_other_dims(const ir::Graph& region, const std::vector<bool>& constant, const ir::Graph& there,
                         Candidates* all);
  void count_runs(const Candidate& c, const Evidence& e) {
    KernelRuns& kernel = stats.kernels[std::string(c.kernel->name)];
    kernel.runs += e.runs;
    kernel.shared_runs += e.shared_runs;
  }
  // The key of times: they depend on what is read between the runs. The worker's judge; null if there is none (any
  // more), in which case the stats say why.
  RemoteJudge* worker();
  // Has a worker open its device while the passes still run, where this machine's cache knows no kernel.
  void open_ahead();
  Judge& here();
};

}  // namespace peri::tune
