// How errors about a program name a buffer or a step: by number, and by name where they have one.
#pragma once

#include "plan/program.hpp"

namespace peri::plan {

inline std::string buffer_label(const Program& p, size_t k) {
  return format("buffer %zu", k) + (p.buffers[k].name.empty() ? "" : " (" + p.buffers[k].name + ")");
}
inline std::string step_label(const Program& p, size_t k) {
  return format("step %zu", k) + (p.steps[k].name.empty() ? "" : " (" + p.steps[k].name + ")");
}

// A buffer or a step, formatted only where an error needs it.
struct Label {
  const Program& p;
  size_t k;
  bool step;
  std::string operator()() const { return step ? step_label(p, k) : buffer_label(p, k); }
};

}  // namespace peri::plan
