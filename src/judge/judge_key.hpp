// A key of the sources that run and judge whole engines: a verdict about an engine is valid until they change.
#pragma once

#include <string_view>

namespace peri::judge {

// Made by the build: a hash of all modules that take part (PERI_JUDGE_OF_judge of cmake/modules.cmake), of the compiler
// and its flags.
std::string_view judge_key();

}  // namespace peri::judge
