// Why a candidate may not be used, in words that reports read again.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::tune {

// Prefix of the reason of one that could not be tried for want of memory: it says nothing about the candidate.
constexpr std::string_view kLacksMemory = "memory was short: ";

inline std::string rejection(const Error& error) {
  return (error.kind == ErrorKind::kMemory ? std::string(kLacksMemory) : std::string()) + error.text();
}

}  // namespace peri::tune
