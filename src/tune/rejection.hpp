// Why a candidate may not be used, in words that reports read again.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::tune {

// Prefix of the reason of one that could not be tried for want of memory: it says nothing about the candidate.
constexpr std::string_view kLacksMemory = "memory was short: ";

// The same of one that was left out, and of one whose device or place could not be had.
constexpr std::string_view kNotTried = "not tried: ";
constexpr std::string_view kCannotBeTried = "cannot be tried: ";

// The same of the kernels that an option leaves out, of whose offers nothing is known.
constexpr std::string_view kLeftOut = "left out by ";

// Whether a reason says nothing about the candidate itself.
inline bool was_untried(std::string_view reason) {
  return reason.starts_with(kLacksMemory) || reason.starts_with(kNotTried) || reason.starts_with(kCannotBeTried);
}

inline std::string rejection(const Error& error) {
  return (error.kind == ErrorKind::kMemory ? std::string(kLacksMemory) : std::string()) + error.text();
}

}  // namespace peri::tune
