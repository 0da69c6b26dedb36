// A number with its noun: "1 step", "2 steps", "3 processes".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peri {

inline std::string counted(int64_t n, std::string_view noun) {
  const bool hisses = noun.ends_with("s") || noun.ends_with("x") || noun.ends_with("ch");
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace peri
