// A place in a text and the words from there on: names, strings, numbers, between blanks and comments ("#" to the end
// of the line). Errors name line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::ir {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}
  bool finished();  // nothing follows
  Error fail(const char* what) const;

 protected:
  void skip();  // blanks and comments
  char peek();  // of the next word; 0 at the end
  bool take(char c);
  bool word(std::string_view w);  // takes it where nothing of a name follows
  Result<std::string> identifier();
  Result<std::string> string();  // in quotes, with \" \\ and \xHH
  Result<std::string> name();    // either
  // A number: integer, or float (has '.', 'e', inf, nan). `integer` tells which. Beyond int64 it keeps a uint64's bits.
  Result<double> number(bool* integer, int64_t* as_int);
  Result<int64_t> integer();

  std::string_view text_;
  size_t at_ = 0;

 private:
  Error bad_number(size_t start);
};

}  // namespace peri::ir
