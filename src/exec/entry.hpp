// The registry of executors, as the program passes it to the runtime.
#pragma once

#include <span>
#include <vector>

#include "runtime/executor.hpp"

namespace peri::exec {

struct Entry {
  runtime::Executor executor;
};
std::span<const Entry* const> entries();
std::vector<const runtime::Executor*> table();
// Names and versions of linked libraries that variants may require: "onednn 3.2.0".
std::vector<std::string> libraries();

}  // namespace peri::exec
