// Memory of this machine, or of the control groups of this process: its total and what is available.
#pragma once

#include <cstdint>
#include <string>

namespace peri::serve {

struct Ram {
  int64_t total_bytes = 0, available_bytes = 0;  // 0, 0: unknown
  bool known() const { return total_bytes > 0; }
  double used_share() const {
    return known() ? 1.0 - static_cast<double>(available_bytes) / static_cast<double>(total_bytes) : 0;
  }
};

// `root`: prefix of /proc and /sys, for tests.
Ram read_ram(const std::string& root = "");
int64_t resident_bytes();  // of this process

}  // namespace peri::serve
