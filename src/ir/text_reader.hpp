// A position in a text and the tokens from there on: names, strings, numbers, separated by blanks and comments ("#" to
// the end of the line). Errors name line and column.
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
  char peek();  // first character of the next token; 0 at the end
  bool take(char c);
  bool word(std::string_view w);  // consumes it unless the name continues after it
  Result<std::string> identifier();
  Result<std::string> string();  // in quotes, with \" \\ and \xHH
  Result<std::string> name();    // bare or in quotes
  // A number: integer, or float (has '.', 'e', inf, nan); `integer` says which. An integer beyond int64 keeps the bits
  // of a uint64.
  Result<double> number(bool* integer, int64_t* as_int);
  Result<int64_t> integer();

  std::string_view text_;
  size_t at_ = 0;

 private:
  Error bad_number(size_t start);
};

}  // namespace peri::ir
