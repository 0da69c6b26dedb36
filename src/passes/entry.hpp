// What a pass states: its contract in a paragraph, what it must follow, and example graphs before and after.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/entry.hpp"

namespace peri::passes {

struct Example {
  std::string_view name;
  std::string_view before;  // IR text; types may be left out, they are inferred
  std::string_view after;   // compared with ir::equal after dead code is gone
};

struct Pass {
  std::string_view name;                       // as --disable-pass and the dump file call it: "fold_constants"
  std::string_view contract;                   // what is true after it and why it stands where it stands
  std::vector<std::string_view> follows = {};  // passes that must have run before it
  // Changes `graph` and returns how many rewrites it made. Types are inferred before; the wrapper infers, verifies and
  // removes dead code after.
  Result<int64_t> (*run)(ir::Graph& graph) = nullptr;
  std::vector<Example> examples = {};
};

struct Entry {
  Pass pass;
};

std::span<const Entry* const> entries();
const Pass* find(std::string_view name);

}  // namespace peri::passes
