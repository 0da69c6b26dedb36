// The outcome of a build for each outside kernel, which is always reported.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "compile/compile.hpp"

namespace peri::build {

struct OutsideFate {
  std::string kernel, manifest;
  int64_t chosen = 0;    // steps that it runs
  int64_t slower = 0;    // steps at which it was correct, and another was chosen
  int64_t rejected = 0;  // steps at which it was wrong, or failed to run
  bool tried = false;    // perhaps on parts of steps, which are not in a report
  std::string why;       // of a rejection, else of the most informative refusal
  std::string text() const;
};
// For all added kernels, in that order.
std::vector<OutsideFate> outside_fates(const compile::Compiled& compiled);
void write_fates(JsonWriter& w, const std::vector<OutsideFate>& fates);  // a member of an open object

}  // namespace peri::build
