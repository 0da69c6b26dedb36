// What a pass states: its contract in a paragraph, what it must follow, and example graphs before and after.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/entry.hpp"

namespace peri::passes {

// In what the pipeline is to leave floating-point values: what a pass that sets element types is told.
struct Precision {
  // float16 or bfloat16: the type in which float32 weights are stored that it holds exactly; other: as they are.
  DType weights = DType::kInvalid;
  bool rounds = false;  // those that it does not hold exactly too
  // What values are that products make and element-wise ops take on: float32, where nothing computes in 16 bits, or
  // float16 or bfloat16, where products add in float32.
  DType values = DType::kF32;
  friend bool operator==(const Precision&, const Precision&) = default;
};

struct Example {
  std::string_view name;
  std::string_view before;  // IR text; types may be left out, they are inferred
  std::string_view after;   // compared with ir::equal after dead code is gone
  Precision precision = {};
};

struct Pass {
  std::string_view name;                       // as --disable-pass and the dump file call it: "fold_constants"
  std::string_view contract;                   // what is true after it and why it stands where it stands
  std::vector<std::string_view> follows = {};  // passes that must have run before it
  // Changes `graph` and returns how many rewrites it made. Types are inferred before; the wrapper infers, verifies and
  // removes dead code after.
  Result<int64_t> (*run)(ir::Graph& graph) = nullptr;
  std::vector<Example> examples = {};
  // In place of `run`, for a pass that asks for the precision.
  Result<int64_t> (*run_at)(ir::Graph& graph, const Precision& precision) = nullptr;
};

struct Entry {
  Pass pass;
};

std::span<const Entry* const> entries();
const Pass* find(std::string_view name);

}  // namespace peri::passes
