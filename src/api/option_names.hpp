// Messages of lower modules name options as the command line does, "--dims"; callers of the library need its names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::api {

// The text with each option in the notation of peri.h: "--dims NAME=N" becomes "the option dims". Whole commands ("peri
// build MODEL --backend cuda") are unchanged.
std::string in_words_of_library(std::string_view text);
// Converts every part but file and node, which are the user's own names.
Error in_words_of_library(Error error);

}  // namespace peri::api
