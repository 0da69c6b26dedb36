// A key of the sources a kernel is made from, so that what was found of it holds until they change.
#pragma once

#include <span>
#include <string_view>

#include "kernels/entry.hpp"

namespace peri::kernels {

// Made by the build for each entry, in the order of entries(): a hash of its file, of what that includes of
// src/kernels, of the thread pool, of the compiler and its flags.
std::span<const std::string_view> source_keys();

// Empty for a kernel that the build did not gather.
std::string_view source_key(const Kernel& kernel);

}  // namespace peri::kernels
