// Re-runs one problem, named as in a proof, a failure or by a user: every kernel's candidates for it are verified and
// timed as in a build.
#pragma once

#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "tune/tuner.hpp"

namespace peri::build {

struct ReplayRequest {
  // A problem's text, a file with it, "region @HASH" of the timing cache, or with `engine` the key or the name of a
  // step; "seed=N" may follow.
  std::string line;
  std::string engine = {};                 // whose proof is searched; "" none
  std::vector<std::string> variable = {};  // inputs that are not constant weights, whatever the text says
  std::string provider = {};               // only candidates of this provider; "" all
  std::string backend = "auto";            // whose kernels
  std::string device = {};                 // "cuda:1": one of several; "": the first
  int threads = 0;                         // 0: the CPUs this process may use
  double budget_ms = 200;                  // timing of one candidate
  std::function<bool()> stop = {};         // once true the remaining candidates are not tried
};

// Whether nothing is known of a candidate: it was too large for this machine.
bool is_untried(const tune::Evidence& evidence);

struct Replay {
  problem::Problem problem;
  uint64_t seed = 7;  // of the data
  double flops = 0;
  tune::Candidates candidates;     // fastest first
  std::vector<std::string> notes;  // what was not tried, and why
  std::string terms;               // what times rest on: how warm weights are; "": on a device

  int64_t wrong() const;        // candidates that were rejected
  int64_t untried() const;      // of which nothing is known: too large for this machine
  std::string summary() const;  // a line
};

// Neither writes to the timing cache nor reads verdicts from it. Errors: kUsage for a line that identifies no problem
// or has an unbound size, those of the text's parser.
Result<Replay> replay(const ReplayRequest& request);
void write_replay(JsonWriter& w, const Replay& replay);  // an object

}  // namespace peri::build
