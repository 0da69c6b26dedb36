// Trial: one candidate on one problem with seeded data, run by its own executor as the step of a Program: whether it is
// correct in every way an engine may run it, and how long it takes.
#pragma once

#include "tune/expected.hpp"
#include "tune/given.hpp"
#include "tune/layouts.hpp"
#include "tune/trial_place.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

class Trial {
 public:
  // `given` must outlive it. `place`: that of the kernel's executor. `choosing`: see kernels::InstantiateContext.
  // kRefused: the kernel refuses the problem once it sees its data.
  static Result<std::unique_ptr<Trial>> create(const ir::Graph& region, const std::vector<bool>& weights,
                                               const Candidate& candidate, Given* given, const TrialPlace& place,
                                               ThreadPool* pool, bool choosing = true);
  ~Trial();
  // Runs it in each form below, all memory guarded, results and scratch poisoned before. An error if a run reports one,
  // changes an input, writes outside its memory or gives other bits than the first; or if these are wrong. Forms:
  // results in separate memory and, where the offer allows it, in that of their arguments; tasks in ascending and
  // descending order. Returns the largest |error| / radius, 0 without `expected`. `answers`: also returns the results.
  // `brief`: an expensive candidate runs only once for each placement of its results.
  Result<double> verify(const Expected* expected, Evidence* evidence, Answers* answers = nullptr, bool brief = false);
  // Measures repeated runs of the step, by kTimeStatistic: `least_samples`, and more while `budget_ms` lasts and they
  // are informative (tells_enough() in rivals.hpp). Where the region has weights, `rest` is read before each: in a run
  // of the whole network as much passes through the caches between two uses of a weight. The activations are read after
  // it, as the previous step has just written them. On a device: the cost of one more launch in a chain (chains.hpp),
  // weights from memory where `model_bytes`, of all weights of the model, exceed its last cache; fewer rounds where it
  // is far from `best_ms` of another.
  Status time(double budget_ms, int64_t least_samples, std::span<const std::byte> rest, Evidence* evidence,
              double model_bytes = 0, double best_ms = -1);

 private:
  Trial();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::tune
