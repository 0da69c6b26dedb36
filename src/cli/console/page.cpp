// Prints text for users.
#include "cli/console/page.hpp"

#include <cstdarg>
#include <cstdio>

#include "base/utf8.hpp"
#include "cli/console/terminal.hpp"

namespace peri::cli {

Page::Page(const Arguments& arguments) : silent_(arguments.has("--quiet") || arguments.get("--json") == "-") {}

void Page::line(const char* fmt, ...) const {
  if (silent_) return;
  va_list list, again;
  va_start(list, fmt);
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, fmt, list);
  va_end(list);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, fmt, again);
  va_end(again);
  std::printf("%s\n", wrapped(printable(text), output_columns()).c_str());
}

}  // namespace peri::cli
