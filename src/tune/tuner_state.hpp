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
  std::vector<const Candidate*> samples_to_foresee;  // one a kernel; so many of them were
  size_t samples_foreseen = 0;
  std::map<std::string, Crossing, std::less<>> crossings;
  Stats stats;

  bool stopped() const { return options.stop && options.stop(); }
  // Takes what the cache knows of a candidate; false if it has to be tried.
  bool recall(const std::string& key, const ir::Graph& region, Candidate* c);
  // After an interruption: where something was tried, only that may be chosen.
  void leave_untried(Candidates* all);
  const SampleVerdict& samples(const kernels::Kernel& kernel, const std::string& library);
  void decide(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  // Verdicts of the worker, else of this process, one for each; also written into the candidates and the cache.
  std::vector<Verdict> judged(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                              std::vector<Candidate*> fresh, const Terms& terms);
  // Tries what the cache does not know of the candidates from `first` on, and beside them what they are held against.
  void decide_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, size_t first,
                  Candidates* all);
  // Tries what had to wait for others (Turn), or says why not.
  void decide_later(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                    std::vector<Candidate> later, bool all_known, Candidates* all);
  // Whether nothing but the order of guesses decides: then one right candidate of a problem is enough, and each more
  // that a device tries is code to be compiled.
  bool first_right() const { return !options.measure && options.verify && !options.own_executor.empty(); }
  // Tries one after the other, in their order, what nothing was found out about, until one is right here and at the
  // sizes of `also`; says of the rest that it was not tried.
  void decide_first_right(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                          std::span<const ir::Graph> also, Candidates* all);
  // Whether samples of this one's kernel run when it is chosen.
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
  // Under which times are kept: they hold for what is read between the runs.
  // The worker's judge; null if there is none (any more), and then stats say why.
  RemoteJudge* worker();
  // Has a worker open its device while the model is still rewritten, where this machine's cache knows of no kernel.
  void open_ahead();
  Judge& here();
};

}  // namespace peri::tune
