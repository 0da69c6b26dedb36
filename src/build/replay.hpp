// Re-runs one problem, named as in a proof, a failure or by a user: every kernel's candidates for it are verified and
// timed as in a build.
#pragma once

#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "tune/tuner.hpp"

namespace peri::build {

struct ReplayRequest {
  // A problem's text, a file that holds it, "region @HASH" of the timing cache, or with `engine` the key or the name of
  // a step; "seed=N" may follow.
  std::string line;
  std::string engine = {};                 // whose proof is asked; "" none
  std::vector<std::string> variable = {};  // inputs that are no constant weights, whatever the text says
  std::string provider = {};               // only candidates of this provider; "" all
  std::string backend = "auto";            // whose kernels
  std::string device = {};                 // "cuda:1": which one of several; "": the first
  int threads = 0;                         // 0: the CPUs this process may use
  double budget_ms = 200;                  // timing of one candidate
  std::function<bool()> stop = {};         // once true what was not tried yet stays so
};

struct Replay {
  problem::Problem problem;
  uint64_t seed = 7;  // of the data
  double flops = 0;
  tune::Candidates candidates;     // fastest first
  std::vector<std::string> notes;  // what was not asked, and why

  int64_t wrong() const;
  int64_t untried()
      const;  // of which nothing is known: too large for this machine        // candidates that were rejected
  std::string summary() const;  // a line
};

// Nothing is written to the timing cache, and no verdict is taken from it. Errors: kUsage for a line that names nothing
// or an open size, those of the text's parser.
Result<Replay> replay(const ReplayRequest& request);
void write_replay(JsonWriter& w, const Replay& replay);  // an object

}  // namespace peri::build
