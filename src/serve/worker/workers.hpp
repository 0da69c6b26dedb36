// Workers: one worker process per device, with every model in each of them. A request goes where there is most room; if
// a worker fails, the others continue to answer.
#pragma once

#include "serve/worker/worker.hpp"

namespace peri::serve {

class Workers {
 public:
  Workers() = default;
  // One process for each of the options, of which there is one at least.
  static Result<std::unique_ptr<Workers>> start(std::vector<WorkerOptions> options);
  // Loads a model in all of them, or in those whose GPUs its configuration names. The sizes of batches that the first
  // finds right hold for the others, which are of the same kind; where one answers the canary otherwise than the first,
  // that is refused.
  Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say);
  // As of Worker, by worker.
  std::vector<std::pair<std::string, WorkerCounts>> counts() const;
  void stop();
  std::unique_ptr<LoopGuest> guest();

 private:
  std::vector<std::unique_ptr<Worker>> all_;
};

// Whether each GPU that a configuration names is one of these, the numbers of a server's devices, -1: a CPU.
Status check_gpus(const ModelConfig& config, const std::vector<int64_t>& devices);

// One model that several servables run alike, as one. REQUIRES: they have the same ports, and answer later.
std::shared_ptr<runtime::Servable> spread(std::vector<std::shared_ptr<runtime::Servable>> over);

}  // namespace peri::serve
