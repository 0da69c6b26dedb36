// Output for users: a line per output, its largest elements with their labels, all of its elements; and the first step
// that produced a NaN or an infinity.
#pragma once

#include <optional>

#include "base/json.hpp"
#include "base/tensor.hpp"
#include "cli/console/page.hpp"
#include "runtime/engine.hpp"

namespace peri::cli {

// What is shown of an output beside its line.
struct Shown {
  bool print = false;               // every element
  int64_t top = 0;                  // the largest along the last axis, for each of its rows; 0: none
  std::vector<std::string> labels;  // of the positions along the last axis
};
// Of --print, --top-k and --labels.
Result<Shown> shown_of(const Arguments& arguments);
// Writes the output as an object as well. kUsage where --top-k or --labels does not fit it.
Status show_output(const Page& page, JsonWriter& w, const std::string& name, const Tensor& output, const Shown& shown);

// How many elements are NaN, how many infinite; none in what is no floating-point tensor.
struct NoNumbers {
  int64_t nan = 0, infinite = 0;
  std::string text() const;  // "3 NaN, 1 Inf"; "": none
};
NoNumbers no_numbers(const Tensor& t);

// Watches a session's next run, until it is destroyed: the first step whose results hold NaN or Inf.
class NumberWatch {
 public:
  explicit NumberWatch(runtime::Session* session);
  ~NumberWatch();
  const std::string& found() const { return found_; }  // the step in words; "": none so far

 private:
  runtime::Session* session_;
  std::string found_;
};

// The tensor in another element type. kUsage for a value that the type does not hold: NaN or a fraction as an integer,
// one out of range.
Result<Tensor> cast(const Tensor& t, DType to);
bool can_cast(DType from, DType to);  // both are real numbers

}  // namespace peri::cli
