// Flags of `serve` that tune batch settings for an objective.
#pragma once

#include "cli/entry.hpp"
#include "serve/tune/tuner.hpp"

namespace peri::cli {

std::vector<Flag> tuning_flags();
// The function that tunes versions when they are loaded.
Result<serve::Settle> tuner_of(const Arguments& arguments, std::function<void(const std::string&)> say);

}  // namespace peri::cli
