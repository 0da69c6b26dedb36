// The definition of a pass: its contract in a paragraph, the passes it must follow, and example graphs before and
// after.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/entry.hpp"

namespace peri::passes {

// The types of floating-point values after the pipeline, for passes that set element types.
struct Precision {
  // float16 or bfloat16: the storage type of float32 weights that it represents exactly; other: unchanged.
  DType weights = DType::kInvalid;
  bool rounds = false;  // also those that it does not represent exactly
  // The type of results of products and of the element-wise ops after them: float32, where nothing computes in 16 bits,
  // or float16 or bfloat16, where products accumulate in float32.
  DType values = DType::kF32;
  friend bool operator==(const Precision&, const Precision&) = default;
};

struct Example {
  std::string_view name;
  std::string_view before;  // IR text; types may be left out, they are inferred
  std::string_view after;   // compared with ir::equal after dead code was removed
  Precision precision = {};
};

struct Pass {
  std::string_view name;                       // its name in --disable-pass and in dump files: "fold_constants"
  std::string_view contract;                   // what is true after it, and the reason for its position
  std::vector<std::string_view> follows = {};  // passes that must have run before it
  // Changes `graph` and returns the number of rewrites. Types are inferred before; the wrapper infers, verifies and
  // removes dead code after.
  Result<int64_t> (*run)(ir::Graph& graph) = nullptr;
  std::vector<Example> examples = {};
  // In place of `run`, for a pass that needs the precision.
  Result<int64_t> (*run_at)(ir::Graph& graph, const Precision& precision) = nullptr;
};

struct Entry {
  Pass pass;
};

std::span<const Entry* const> entries();
const Pass* find(std::string_view name);

}  // namespace peri::passes
