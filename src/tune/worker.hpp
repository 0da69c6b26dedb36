// The worker: a separate process that judges candidates for a build, so that a kernel that crashes or hangs is a
// refusal and does not end the build. It generates its seeded data itself: problems are sent over the socket as text,
// weights never are.
#pragma once

#include <memory>
#include <string>

#include "tune/judge.hpp"

namespace peri::tune {

// The program to start: $PERI_WORKER; else `peri` next to the running program, or bin/peri next to the folder of the
// library that this code was loaded from. "" if there is none, or the variable is set to "".
std::string worker_program();
// Why that is "".
std::string why_no_worker();

// A Judge in a worker process. The candidate at which a worker dies or does not answer in time is refused, with the
// signal's name, and the worker is replaced; after a kill from outside the candidate gets a second try. The worker ends
// with this object, and with the thread that made it; it ignores Ctrl-C.
constexpr double kGreetingPatienceS = 5;  // the first words of a process that starts in milliseconds; another program's
                                          // may never come
constexpr double kStartPatienceS = 30;    // where others run too, until it has read the kernels
constexpr double kPatienceS = 120;        // includes host work: code that is compiled late where others run too
constexpr double kDevicePatienceS = 30;   // what runs on a device takes seconds, or hangs
class RemoteJudge {
 public:
  // Starts `program worker`. An error if there is no such program, or it is of another version or build of kernels.
  // `device`: see Judge.
  static Result<std::unique_ptr<RemoteJudge>> start(const std::string& program, int threads,
                                                    double patience_s = kPatienceS, const std::string& device = "",
                                                    double device_patience_s = kDevicePatienceS);
  ~RemoteJudge();
  // As Judge does. An error: no worker available; candidates not reported by then have no verdict.
  Status judge(const ir::Graph& region, const std::vector<bool>& constant, std::span<const Candidate* const> candidates,
               const Terms& terms, const Told& told);
  // kCancelled: `stop` said so first; nothing is known.
  Result<SampleVerdict> samples(const kernels::Kernel& kernel, const std::function<bool()>& stop = {});
  Result<Resolved> resolve(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate);
  Result<Crossing> crossing(std::string_view device);
  // As Judge does; does not wait. An error: no worker available.
  Status open_ahead(std::string_view device);
  Status foresee_samples(const kernels::Kernel& kernel);
  Status foresee(const ir::Graph& region, const std::vector<bool>& constant,
                 std::span<const Candidate* const> candidates);
  int64_t deaths() const;
  // As Judge::take_spent(), for its workers.
  Spent take_spent();

 private:
  RemoteJudge();
  struct State;
  std::unique_ptr<State> state_;
};

// The worker's side: answers on `socket` until it closes. `before`: called with a candidate's id before it is prepared
// and before it runs, and before each problem of samples.
// First of all it sends kGreeting, before it has read or prepared anything.
constexpr int kWorkerSocket = 3;
constexpr std::string_view kGreeting = "greeting";  // a member: the version
Status serve(int socket, const std::function<void(const std::string& candidate)>& before = {});

}  // namespace peri::tune
