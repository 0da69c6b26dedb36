// Health of each loaded model: whether its work makes progress, whether its worker is alive, and whether it still
// answers a known request as it did when it was loaded. A failure makes it not "ready", with the reason; recovery makes
// it ready again.
#pragma once

#include "serve/memory/ram.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

struct HealthOptions {
  int64_t look_ms = 50;
  int64_t stuck_after_ns = 800'000'000;      // work in progress without any completed
  int64_t canary_every_ns = 10'000'000'000;  // 0: never
  // Used shares of the memory of the machine, or of the control group: above the first a warning is reported, above the
  // second batches are reduced too.
  double memory_high = 0.90, memory_full = 0.97;
  std::function<Ram()> read_memory = [] { return read_ram(); };
  // Of devices with their own memory, by name; may be null. The same thresholds apply to each.
  std::function<std::map<std::string, Ram>()> read_devices;
  // The error that disabled a device of this process, if models run in it: none is ready from then on; may be null.
  std::function<std::optional<Error>()> lost;
  Log log;
  std::function<void()> changed;  // a model became ready, or is no longer; may be null
};

// Of the machine's memory, or of a device's: whichever is fuller.
enum class MemoryAlert : uint8_t { kNone, kHigh, kFull };

class Health {
 public:
  Health(const Repository& repository, HealthOptions options);
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  // Checks every model once; called periodically by the thread of start(), and by any thread on which models were
  // loaded or unloaded, since ensembles depend on them.
  void look(int64_t now);
  void start();
  // Checks memory. Above `memory_full` the batch sizes of every model are halved at each check.
  void look_at_memory();
  MemoryAlert memory_alert() const { return alert_; }

 private:
  struct Watched;
  bool look_once(int64_t now);
  void ask(const ServedPtr& served, const std::shared_ptr<Watched>& canary);

  const Repository& repository_;
  const HealthOptions options_;
  std::mutex look_mutex_;
  std::map<const Model*, std::shared_ptr<Watched>> canaries_;  // guarded by look_mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::atomic<MemoryAlert> alert_{MemoryAlert::kNone};
  std::thread thread_;
};

}  // namespace peri::serve
