// A key of the sources an op's definition is made from: what its reference says may change when they do.
#pragma once

#include <span>
#include <string_view>

#include "ops/entry.hpp"

namespace peri::ops {

// Made by the build for each entry, in the order of entries(): a hash of its file and of what that includes of src/ops.
std::span<const std::string_view> source_keys();

// Empty for a name that no entry defines.
std::string_view source_key(std::string_view ir_name);

}  // namespace peri::ops
