// Health of each loaded model: whether its work makes progress, whether its worker is alive, and whether it still
// answers a known request as it did when it was loaded. A failure makes it not "ready", with the reason; recovery makes
// it ready again.
#pragma once

#include "serve/memory/ram.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

struct HealthOptions {
  int64_t look_ms = 50;
  int64_t stuck_after_ns = 800'000'000;      // work under way and nothing done
  int64_t canary_every_ns = 10'000'000'000;  // 0: never
  // Shares of the machine's memory, or of the control group's, that are in use: from the first on it is said, from the
  // second on batches are made smaller too.
  double memory_high = 0.90, memory_full = 0.97;
  std::function<Ram()> read_memory = [] { return read_ram(); };
  // Of devices with memory of their own, by their names; may be null. The same thresholds hold for each.
  std::function<std::map<std::string, Ram>()> read_devices;
  // What ended a device of this very process, where models run in it: none is ready from then on; may be null.
  std::function<std::optional<Error>()> lost;
  Log log;
  std::function<void()> changed;  // a model is ready again, or is no more; may be null
};

// Of the machine's memory, or of a device's: the fuller one.
enum class MemoryAlert : uint8_t { kNone, kHigh, kFull };

class Health {
 public:
  Health(const Repository& repository, HealthOptions options);
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  // One look at every model at a time, as the thread of start() takes it.
  void look(int64_t now);
  void start();
  // Looks at memory. Above `memory_full` the batches of every model are halved, with each look again.
  void look_at_memory();
  MemoryAlert memory_alert() const { return alert_; }

 private:
  struct Watched;
  void ask(const ServedPtr& served, const std::shared_ptr<Watched>& canary);

  const Repository& repository_;
  const HealthOptions options_;
  std::map<const Model*, std::shared_ptr<Watched>> canaries_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::atomic<MemoryAlert> alert_{MemoryAlert::kNone};
  std::thread thread_;
};

}  // namespace peri::serve
