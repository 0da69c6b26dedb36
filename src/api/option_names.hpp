// Messages of lower modules name options as the command line does, "--dims"; callers of the library need its names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::api {

// The text with each option named as peri.h names it: "--dims NAME=N" is "the option dims". Whole commands ("peri build
// MODEL --backend cuda") stay as they are typed.
std::string in_words_of_library(std::string_view text);
// Every part but file and node, which are the user's own names.
Error in_words_of_library(Error error);

}  // namespace peri::api
