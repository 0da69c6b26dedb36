// The outcome of a build for each kernel from outside, which is reported in every case.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "compile/compile.hpp"

namespace peri::build {

struct OutsideFate {
  std::string kernel, manifest;
  int64_t chosen = 0;    // steps that it runs
  int64_t slower = 0;    // steps at which it was right, and another was taken
  int64_t rejected = 0;  // steps at which it was wrong, or did not run
  bool tried = false;    // perhaps on parts of steps, which are in no report
  std::string why;       // of a rejection, else of the refusal that says most
  std::string text() const;
};
// Of all that were added, in that order.
std::vector<OutsideFate> outside_fates(const compile::Compiled& compiled);
void write_fates(JsonWriter& w, const std::vector<OutsideFate>& fates);  // a member of an open object

}  // namespace peri::build
