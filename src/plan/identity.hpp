// Which model an engine was made from, independent of all choices and of the machine: the section "identity", a hash of
// the graph and the weights as imported. It is equal for engines of one model and differs between models.
#pragma once

#include <string>
#include <string_view>

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kIdentitySection = "identity";
// Of an engine made from a Hugging Face folder: no ONNX file has its identity, an export of the same model either.
constexpr std::string_view kFolderSection = "folder";

// 16 hexadecimal digits; "" for a program without one.
inline std::string identity_of(const Program& program) {
  const Section* s = program.section(kIdentitySection);
  return s ? s->bytes : "";
}

}  // namespace peri::plan
