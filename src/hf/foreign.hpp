// Recognises unsupported files by content and by name: above all pickles, since reading one can execute code in the
// file. They are never read; the error says how to convert them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::hf {

// An error (kUnsupported, without file name) if the beginning of the file is that of another format than safetensors;
// kInvalid where it is a pointer to a file of Git LFS.
std::optional<Error> foreign_content(std::span<const std::byte> beginning);

// The same by the file's name: pytorch_model.bin, model.pt, tf_model.h5, ...
std::optional<Error> foreign_name(std::string_view name);

// For a folder without safetensors: names the weights that it contains instead, or says that it contains none. Never
// `ok`.
Error no_weights(const std::string& folder);

}  // namespace peri::hf
