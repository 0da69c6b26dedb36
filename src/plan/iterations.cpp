// Reads and writes the section "max_iterations": a decimal number.
#include "plan/iterations.hpp"

#include <algorithm>
#include <charconv>

namespace peri::plan {

bool has_loop(const Program& program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const Step& s) {
    return s.executor == "loop" ||
           std::any_of(s.bodies.begin(), s.bodies.end(), [](const auto& body) { return has_loop(*body); });
  });
}

void set_iterations(Program* program, int64_t limit) {
  if (limit > 0) program->sections.push_back({std::string(kIterationsSection), std::to_string(limit)});
}

Result<int64_t> iterations_of(const Program& program) {
  const Section* const kept = program.section(kIterationsSection);
  if (!kept) return int64_t{0};
  int64_t limit = 0;
  const char* const end = kept->bytes.data() + kept->bytes.size();
  const auto read = std::from_chars(kept->bytes.data(), end, limit);
  if (read.ec == std::errc() && read.ptr == end && limit > 0) return limit;
  return invalid("the section '%s' is not a number above 0", std::string(kIterationsSection).c_str());
}

}  // namespace peri::plan
