// Words for inputs that nobody gave.
#include "cli/console/made_up.hpp"

#include <algorithm>

#include "cli/console/terminal.hpp"
#include "judge/seeded.hpp"

namespace peri::cli {

namespace {
constexpr std::string_view kMadeUp = "the inputs are made up: give your own";  // as the judge may have said
}

bool may_be_of_made_up(const Arguments& arguments, const Error& error) {
  if (arguments.has("--input") || arguments.has("--text") || error.kind != ErrorKind::kInvalid) return false;
  return error.remedy.empty() || error.remedy.starts_with("check the input") || error.remedy.starts_with(kMadeUp);
}

bool has_integers(const plan::Program& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [](const plan::Port& port) { return judge::counts(port.dtype); });
}

Error of_made_up(Error error) {
  const std::string before = error.remedy.starts_with(kMadeUp) || error.remedy.empty() ? "" : "; else " + error.remedy;
  error.remedy = std::string(kMadeUp) + " with --input NAME=FILE" + before;
  return error;
}

std::vector<Tensor> with_integers(std::optional<int64_t> value, std::vector<Tensor> inputs) {
  if (value) judge::set_integers(*value, &inputs);
  return inputs;
}

void note_integers(int64_t value, const Error& others) {
  Error why = others;
  why.remedy.clear();
  say(format("note: the inputs are made up, and all their integers are %lld, since others end with: %s",
             static_cast<long long>(value), why.text().c_str()));
}

}  // namespace peri::cli
