// peri verify --suite: what each case of a folder came to, in words and as JSON.
#pragma once

#include <string>

#include "cli/core/arguments.hpp"

namespace peri::cli {

// Runs DIR/*/model.onnx on its data in this process. Exit code 3 where a case fails, or fewer pass than --min-passed.
Result<Outcome> verify_suite(const Arguments& arguments, const std::string& dir);

}  // namespace peri::cli
