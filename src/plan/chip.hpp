// The chip that an engine's choices were made for: the section "chip". They are correct on every chip of its class, but
// may not be the fastest on another.
#pragma once

#include <string>
#include <string_view>

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kChipSection = "chip";

// "NVIDIA H200 (132 multiprocessors)"; "" for a program that uses no device or has no such section.
inline std::string chip_of(const Program& program) {
  const Section* s = program.section(kChipSection);
  return s && program.devices.size() > 1 ? s->bytes : "";
}

}  // namespace peri::plan
