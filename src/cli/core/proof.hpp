// The proof of an engine: where and how it was built, what was verified, and every choice with what it was chosen from.
#pragma once

#include "build/build.hpp"

namespace peri::cli {

// One JSON object. Stands beside the engine as ENGINE.proof; `explain` reads it back.
std::string proof_json(const build::Built& built, const compile::Options& options);
std::string proof_path(const std::string& engine);

}  // namespace peri::cli
