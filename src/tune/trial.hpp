// Trial: one candidate on one problem with seeded data, run by its own executor as the step of a Program: whether it is
// right in every way an engine may run it, and how long it takes.
#pragma once

#include "tune/expected.hpp"
#include "tune/given.hpp"
#include "tune/layouts.hpp"
#include "tune/trial_place.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

class Trial {
 public:
  // `given` must outlive it. `place`: the one of the kernel's executor. `choosing`: see kernels::InstantiateContext.
  // kRefused: the kernel takes the problem no more when it sees its data.
  static Result<std::unique_ptr<Trial>> create(const ir::Graph& region, const std::vector<bool>& weights,
                                               const Candidate& candidate, Given* given, const TrialPlace& place,
                                               ThreadPool* pool, bool choosing = true);
  ~Trial();
  // Runs it in each form below, all memory guarded, results and scratch poisoned before. An error if a run reports one,
  // changes an input, writes outside its memory or gives other bits than the first; or if these are wrong. Forms:
  // results in memory of their own and, where the offer says so, in that of their arguments; tasks in ascending and
  // descending order. Returns the largest |error| / radius, 0 without `expected`. `answers`: the answers too. `brief`:
  // what is expensive runs once for each memory of its results.
  Result<double> verify(const Expected* expected, Evidence* evidence, Answers* answers = nullptr, bool brief = false);
  // Writes the time of repeated runs of the step, by kTimeStatistic: `least_samples`, and more while `budget_ms` lasts
  // and they tell something (tells_enough() in rivals.hpp).
  // Where the region has weights, `rest` is read before each: in a run of the whole network as much passes through the
  // caches between two uses of a weight. The activations are read after it, as the step before has just written them.
  // On a device: what a launch more costs in a chain (chains.hpp), weights from memory where `model_bytes`, of all
  // weights of the model, are more than its last cache holds; fewer rounds where it is far from `best_ms` of another.
  Status time(double budget_ms, int64_t least_samples, std::span<const std::byte> rest, Evidence* evidence,
              double model_bytes = 0, double best_ms = -1);

 private:
  Trial();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::tune
