// Lines for users on standard output: none under --quiet or if the JSON object goes to standard output. Names from a
// model are always escaped before they reach the terminal (printable()).
#pragma once

#include <string>

#include "base/byte_text.hpp"
#include "cli/entry.hpp"

namespace peri::cli {

class Page {
 public:
  explicit Page(const Arguments& arguments);
  [[gnu::format(printf, 2, 3)]] void line(const char* fmt, ...) const;

 private:
  bool silent_;
};

}  // namespace peri::cli
