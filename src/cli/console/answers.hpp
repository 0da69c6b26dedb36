// Output for users: a line per output, its largest elements with their labels, all of its elements; and the first step
// that produced a NaN or an infinity.
#pragma once

#include <optional>

#include "base/json.hpp"
#include "base/tensor.hpp"
#include "cli/console/page.hpp"
#include "runtime/engine.hpp"

namespace peri::cli {

// What is printed of an output in addition to its line.
struct Shown {
  bool print = false;               // every element
  int64_t top = 0;                  // number of largest elements along the last axis, for each row; 0: none
  std::vector<std::string> labels;  // of the indices of the last axis
};
// From --print, --top-k and --labels.
Result<Shown> shown_of(const Arguments& arguments);
// Whether its last axis has as many elements as there are labels.
bool fits_labels(const Tensor& output, const Shown& shown);
// Prints the output and writes it as a JSON object. Errors: kUsage: --top-k or --labels does not fit it.
Status show_output(const Page& page, JsonWriter& w, const std::string& name, const Tensor& output, const Shown& shown);

// Number of NaN and infinite elements; zero for types other than floating point.
struct NoNumbers {
  int64_t nan = 0, infinite = 0;
  std::string text() const;  // "3 NaN, 1 Inf"; "": none
};
NoNumbers no_numbers(const Tensor& t);

// Observes a session's next run while it exists: the first step whose results contain NaN or Inf.
class NumberWatch {
 public:
  explicit NumberWatch(runtime::Session* session);
  ~NumberWatch();
  const std::string& found() const { return found_; }  // description of the step; "": none so far

 private:
  runtime::Session* session_;
  std::string found_;
};

// Converts to another element type. Errors: kUsage: a value is not representable: NaN or a fraction as an integer, or
// out of range.
Result<Tensor> cast(const Tensor& t, DType to);
bool can_cast(DType from, DType to);  // both are real number types

}  // namespace peri::cli
