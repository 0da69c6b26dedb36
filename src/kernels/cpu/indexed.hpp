// An instance of tasks any of which may find an index out of range: the run then fails with an error about it.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {

// An index from a run's data, int32 or int64.
inline int64_t index_at(const void* indices, bool wide, int64_t k) {
  return wide ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
}

// Phase 0 clears the flag; then each phase of `phases` runs its tasks, which return whether all indices were in range.
class IndexedInstance final : public Instance {
 public:
  using Run = std::function<bool(int64_t task, const Args& args)>;
  struct Phase {
    int64_t tasks;
    Run run;
  };
  // `expected`: the valid range as text. `taken`: the input whose memory the result may reuse; -1: none.
  IndexedInstance(std::vector<Phase> phases, std::string expected, int taken = -1, size_t scratch = 0)
      : Instance(needs_of(phases, scratch)),
        phases_(std::move(phases)),
        expected_(std::move(expected)),
        taken_(taken) {}
  static Result<std::unique_ptr<Instance>> make(std::vector<Phase> phases, std::string expected, int taken = -1,
                                                size_t scratch = 0) {
    return std::unique_ptr<Instance>(
        std::make_unique<IndexedInstance>(std::move(phases), std::move(expected), taken, scratch));
  }
  void run_task(int phase, int64_t task, const Args& args) const override {
    auto* bad = reinterpret_cast<std::atomic<int64_t>*>(args.workspace);
    if (phase == 0) return bad->store(0);
    if (!phases_[static_cast<size_t>(phase) - 1].run(task, args)) bad->store(1);
  }
  Status finish(const Args& args) const override {
    if (reinterpret_cast<std::atomic<int64_t>*>(args.workspace)->load() == 0) return Ok{};
    return invalid("an index is out of range").expecting(expected_).advise("check the input that holds the indices");
  }
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }

 private:
  static Needs needs_of(const std::vector<Phase>& phases, size_t scratch) {
    Needs out{sizeof(std::atomic<int64_t>), scratch, {1}, {}};
    for (const Phase& p : phases) out.tasks.push_back(p.tasks);
    return out;
  }
  std::vector<Phase> phases_;
  std::string expected_;
  int taken_;
};

}  // namespace peri::kernels
