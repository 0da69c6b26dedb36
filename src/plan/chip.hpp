// Which chip of a device an engine's choices were made for: the section "chip". They are right on every chip of its
// class, and perhaps not the fastest on another.
#pragma once

#include <string>
#include <string_view>

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kChipSection = "chip";

// "NVIDIA H200 (132 multiprocessors)"; "" for a program that runs on no device, or does not say.
inline std::string chip_of(const Program& program) {
  const Section* s = program.section(kChipSection);
  return s && program.devices.size() > 1 ? s->bytes : "";
}

}  // namespace peri::plan
