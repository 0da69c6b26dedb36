// Lines for people on standard output: nothing under --quiet or where the JSON object takes standard output. What a
// model's names hold never reaches the terminal as it is (printable()).
#pragma once

#include <string>

#include "cli/entry.hpp"

namespace peri::cli {

class Page {
 public:
  explicit Page(const Arguments& arguments);
  [[gnu::format(printf, 2, 3)]] void line(const char* fmt, ...) const;

 private:
  bool silent_;
};

// "97.8 MiB", "1.2 KiB", "12 B".
std::string bytes_text(double bytes);

}  // namespace peri::cli
