// The folder's list of executors, as the composing binary hands it to the runtime.
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

}  // namespace peri::exec
