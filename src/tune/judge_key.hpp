// A key of the sources that judge and time candidates: results are valid until they change.
#pragma once

#include <string_view>

namespace peri::tune {

// Made by the build: a hash of all of src/tune, src/exec and src/runtime, of the compiler and its flags.
std::string_view judge_key();

}  // namespace peri::tune
