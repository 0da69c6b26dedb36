// The worker: a separate process that judges candidates for a build, so that a kernel that crashes or hangs is a
// refusal and does not end the build. It generates its seeded data itself: problems are sent over the socket as text,
// weights never are.
#pragma once

#include <memory>
#include <string>

#include "tune/judge.hpp"

namespace peri::tune {

// The program to start: $PERI_WORKER; else `peri` beside the running program, or bin/peri beside the folder of the
// library that this code was loaded from. "" if there is none, or the variable says so by being empty.
std::string worker_program();

// A Judge in a worker process. A worker that dies or gives no answer in time refuses the candidate it was at, by the
// signal's name, and is replaced; one that others killed gets a second try at it. Ends with this object; the worker
// also ends with the thread that made it, and does not hear Ctrl-C.
constexpr double kStartPatienceS = 30;   // a process starts in milliseconds where nothing else runs
constexpr double kPatienceS = 120;       // with what the host does: code that is compiled late where others run beside
constexpr double kDevicePatienceS = 30;  // what runs on a device is done in seconds, or never
class RemoteJudge {
 public:
  // Starts `program worker`. An error if there is no such program, or it is of another version or build of kernels.
  // `device`: see Judge.
  static Result<std::unique_ptr<RemoteJudge>> start(const std::string& program, int threads,
                                                    double patience_s = kPatienceS, const std::string& device = "",
                                                    double device_patience_s = kDevicePatienceS);
  ~RemoteJudge();
  // As Judge does. An error: no worker could be had; candidates not told of by then have no verdict.
  Status judge(const ir::Graph& region, const std::vector<bool>& constant, std::span<const Candidate* const> candidates,
               const Terms& terms, const Told& told);
  Result<SampleVerdict> samples(const kernels::Kernel& kernel);
  Result<Resolved> resolve(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate);
  Result<Crossing> crossing(std::string_view device);
  // As Judge does; nothing is waited for. An error: no worker could be had.
  Status open_ahead(std::string_view device);
  Status foresee_samples(const kernels::Kernel& kernel);
  Status foresee(const ir::Graph& region, const std::vector<bool>& constant,
                 std::span<const Candidate* const> candidates);
  int64_t deaths() const;
  // As Judge::take_spent(): of what its workers were asked.
  Spent take_spent();

 private:
  RemoteJudge();
  struct State;
  std::unique_ptr<State> state_;
};

// The other end: answers on `socket` until it closes. `before`: called with a candidate's id before it is made ready
// and before it runs, and before each problem of samples.
constexpr int kWorkerSocket = 3;
Status serve(int socket, const std::function<void(const std::string& candidate)>& before = {});

}  // namespace peri::tune
