// Recognises files that are given as a model but are not one, by their content, and names the command that reads
// them.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace peri::compile {

// An error (kInvalid, naming the file) where it is JSON, a NumPy array, a Git LFS pointer, a web page; kIo where there
// is no such file and it is named as the models of the Hugging Face hub are; none for a possible model, or an
// unreadable file.
std::optional<Error> other_file(const std::string& path);

}  // namespace peri::compile
