// Printing for people.
#include "cli/console/page.hpp"

#include <cstdarg>
#include <cstdio>

namespace peri::cli {

Page::Page(const Arguments& arguments) : silent_(arguments.has("--quiet") || arguments.get("--json") == "-") {}

void Page::line(const char* fmt, ...) const {
  if (silent_) return;
  va_list list;
  va_start(list, fmt);
  std::vprintf(fmt, list);
  va_end(list);
  std::putchar('\n');
}

std::string bytes_text(double bytes) {
  const char* unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int k = 0;
  while (bytes >= 1024 && k < 4) bytes /= 1024, ++k;
  return format(k == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[k]);
}

}  // namespace peri::cli
