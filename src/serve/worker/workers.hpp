// Workers: one worker process per device, each with every model. A request goes to the least loaded worker; if a worker
// fails, the others continue to answer.
#pragma once

#include "serve/worker/worker.hpp"

namespace peri::serve {

class Workers {
 public:
  Workers() = default;
  // Starts one process for each of the options. REQUIRES: at least one.
  static Result<std::unique_ptr<Workers>> start(std::vector<WorkerOptions> options);
  // Loads a model in all workers, or in those whose GPUs its configuration names. The batch sizes determined by the
  // first also apply to the others, which are of the same kind; a worker whose canary answer differs from the first's
  // is refused.
  Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say);
  // Counts of each worker, by its name.
  std::vector<std::pair<std::string, WorkerCounts>> counts() const;
  void stop();
  std::unique_ptr<LoopGuest> guest();

 private:
  std::vector<std::unique_ptr<Worker>> all_;
};

// Checks that each GPU named by a configuration is in `devices`, the server's device numbers (-1: a CPU).
Status check_gpus(const ModelConfig& config, const std::vector<int64_t>& devices);

// Combines servables of one model. REQUIRES: they have equal ports and answer asynchronously.
std::shared_ptr<runtime::Servable> spread(std::vector<std::shared_ptr<runtime::Servable>> over);

}  // namespace peri::serve
