// What a build did, for the person who waited for it: what was tried and what of it was rejected and why, what the
// engine is expected to take, and how near its answers came to their bounds.
#pragma once

#include <string>
#include <vector>

#include "build/request.hpp"

namespace peri::build {

struct BuildSummary {
  struct Rejection {
    std::string step, candidate, why;
  };
  double predicted_ms = 0, conversion_ms = 0;
  bool predicted = false;  // all steps have times: the sum means something
  int64_t problems = 0, tried = 0, from_cache = 0, untimed = 0, refused = 0;
  std::vector<Rejection> rejected;  // candidates of the steps, with what a judge of the whole engine refused
  double worst_error = -1;          // largest error over its bound of any chosen candidate; -1: none was verified
  std::string worst_step, worst_candidate;
  int64_t steps = 0, device_steps = 0, reference_steps = 0, conversions = 0;
  int64_t engine_bytes = 0, weight_bytes = 0;
  std::string engine, proof;  // files; "" none
};

BuildSummary summary_of(const Made& made, const std::string& engine_path);
// Lines for people. Of rejections the first few.
std::vector<std::string> summary_lines(const BuildSummary& summary);
void write_summary(JsonWriter& w, const BuildSummary& summary);  // an object

}  // namespace peri::build
