// Which model an engine was made of, whatever was chosen and wherever: the section "identity", a hash of the graph and
// the weights as imported. Engines of one model have it in common, those of two models do not.
#pragma once

#include <string>
#include <string_view>

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kIdentitySection = "identity";

// 16 hexadecimal digits; "" for a program that does not say.
inline std::string identity_of(const Program& program) {
  const Section* s = program.section(kIdentitySection);
  return s ? s->bytes : "";
}

}  // namespace peri::plan
