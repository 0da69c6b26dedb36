// Worker: a process that runs models for the server, which starts, monitors and replaces it. When it ends, each request
// in progress gets an error that says so; those still waiting for a slot wait for its successor.
#pragma once

#include <sys/types.h>

#include <array>
#include <string_view>

#include "serve/http/message.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

struct WorkerOptions {
  std::string program;                        // started with `arguments`, descriptors as worker/host.hpp has them
  std::vector<std::string> arguments;         // from the command's name on
  std::string name = "worker";                // for people: "worker cpu"
  int64_t gpu = 0;                            // the number of its device among those of its kind; -1: it is a CPU
  uint64_t memory_bytes = uint64_t{2} << 30;  // for tensors under way; only what is used takes memory
  int64_t stuck_after_ns = 800'000'000;       // without a beat: it is in trouble
  int64_t kill_after_ns = 60'000'000'000;     // without a beat, or with work and no progress: it is ended; 0: never
  int64_t patience_ns = 10'000'000'000;  // that requests wait for a worker that cannot be had, before each is refused
  // Between attempts to load what could not be loaded again: as long as a worker itself may take to be back. Each may
  // read the whole model, and what it lacked, a device or memory, seldom comes back sooner.
  int64_t retry_ns = 5'000'000'000;
  Log log;
};

// Why a process ended.
enum class WorkerEnd : uint8_t {
  kSignal,  // killed by one that the server did not send
  kStatus,  // it ended by itself
  kDevice,  // likewise, as its device had failed for good
  kStuck,   // ended by the server: it got nothing done
  kBroken,  // likewise: it wrote what no worker writes
};
constexpr std::array<std::string_view, 5> kWorkerEnds = {"signal", "status", "device", "stuck", "broken"};

struct WorkerCounts {
  bool up = false;
  int64_t pid = 0;
  uint64_t starts = 0, deaths = 0, lost_requests = 0;
  std::array<uint64_t, kWorkerEnds.size()> ends = {};  // deaths, by WorkerEnd
  uint64_t memory_used = 0, under_way = 0;
  device::MemoryInfo device;  // of its device; 0, 0: none of its own, or not known
};

// All functions may be called from any thread.
class Worker {
 public:
  // Errors: there is no such program, or it is of another version.
  static Result<std::unique_ptr<Worker>> start(WorkerOptions options);
  // Ends the process. Requests under way get their errors.
  ~Worker();
  // Loads there. The servable that comes back keeps what it needs of this object, and works on through restarts, for
  // each of which the model is loaded again. Errors: those of the worker's loader; kRefused: it died over it.
  Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say);
  WorkerCounts counts() const;
  // Ends the process for good: all under way gets its errors. What was loaded can be given up afterwards, no more.
  void stop();
  // For the loop of a thread that hands in requests: it takes answers itself, those to others' requests too.
  std::unique_ptr<LoopGuest> guest();
  const std::string& name() const;
  int64_t gpu() const;

 private:
  class Guest;
  Worker();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace peri::serve
