// The registry of executors, as the program passes it to the runtime.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/executor.hpp"

namespace peri::exec {

struct Entry {
  runtime::Executor executor;
  bool by_definition = false;  // its results are the float64 reference of the region, whatever its payload says
  bool data_sizes = false;     // it runs regions whose sizes its input data decide
};
std::span<const Entry* const> entries();
std::vector<const runtime::Executor*> table();
// Null: this program has no executor of that name.
const Entry* find(std::string_view name);
// Names and versions of linked libraries that variants may require: "onednn 3.2.0".
std::vector<std::string> libraries();

}  // namespace peri::exec
