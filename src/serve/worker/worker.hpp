// Worker: a process that runs models for the server, which starts, monitors and replaces it. When it ends, requests in
// progress fail with an error that states so; those waiting for a slot wait for the next process.
#pragma once

#include <sys/types.h>

#include <array>
#include <string_view>

#include "serve/http/message.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

struct WorkerOptions {
  std::string program;                        // started with `arguments` and the descriptors of worker/host.hpp
  std::vector<std::string> arguments;         // from the command's name on
  std::string name = "worker";                // for messages: "worker cpu"
  int64_t gpu = 0;                            // number of its device among those of its kind; -1: a CPU
  uint64_t memory_bytes = uint64_t{2} << 30;  // of the region; only used pages take memory
  int64_t stuck_after_ns = 800'000'000;       // without a heartbeat: it is reported as stuck
  int64_t kill_after_ns = 60'000'000'000;     // without a heartbeat or progress of pending work: it is killed; 0: never
  int64_t patience_ns = 10'000'000'000;       // how long requests wait for a worker to start before they are refused
  // Interval of attempts to load a model again, about the time of a restart. An attempt may read the whole model, and
  // the cause of a failure, a device or memory, rarely disappears sooner.
  int64_t retry_ns = 5'000'000'000;
  Log log;
};

// Why a process ended.
enum class WorkerEnd : uint8_t {
  kSignal,  // by a signal that the server did not send
  kStatus,  // it exited
  kDevice,  // it exited because of a permanent failure of its device
  kStuck,   // killed by the server: no progress
  kBroken,  // killed by the server: it wrote invalid data
};
constexpr std::array<std::string_view, 5> kWorkerEnds = {"signal", "status", "device", "stuck", "broken"};

struct WorkerCounts {
  bool up = false;
  int64_t pid = 0;
  uint64_t starts = 0, deaths = 0, lost_requests = 0;
  std::array<uint64_t, kWorkerEnds.size()> ends = {};  // number of ends, by WorkerEnd
  uint64_t memory_used = 0, under_way = 0;
  device::MemoryInfo device;  // of its device; 0, 0: no memory of its own, or unknown
};

// Thread-safe, except the destructor and stop(): one thread at a time calls these, and the destructor only when no
// other call is in progress.
class Worker {
 public:
  // Errors: the program does not exist, or has another version.
  static Result<std::unique_ptr<Worker>> start(WorkerOptions options);
  // Ends the process. Requests in progress get errors.
  ~Worker();
  // Loads a model in the process. The returned servable may outlive this object and survives restarts, each of which
  // loads the model again; any thread may release it. Errors: those of the worker's loader; kRefused: the process died
  // while loading, there is none, or it has as many models as it may have. `say` is called in this thread.
  Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say);
  WorkerCounts counts() const;
  // Ends the process permanently: requests in progress get errors, and so do later ones of the servables, which remain
  // valid after stop() and after this object. May be called again.
  void stop();
  // For the event loop of a thread that submits requests: it takes answers itself, also those to other threads'
  // requests. It may outlive this object.
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
