// How deep control steps may be nested: a program within a body counts one more than the program that holds it.
#pragma once

#include "base/result.hpp"

namespace peri::plan {

constexpr int kMaxBodies = 16;

inline Error bodies_too_deep() {
  return refused("bodies of If, Loop and Scan are nested too deep")
      .expecting(format("at most %d in one another", kMaxBodies))
      .advise("move the innermost out: an If of two conditions joined with And, or one Loop for two");
}

}  // namespace peri::plan
