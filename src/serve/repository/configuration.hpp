// A model's configuration: that of its folder, or one that came with the order to load it.
#pragma once

#include <optional>

#include "serve/config/model_config.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

// `given`: JSON as Triton's clients send it, in place of what the folder has; it names no files. Errors: kInvalid.
Result<ModelConfig> configuration_of(const FoundModel& found, const std::optional<std::string>& given);

}  // namespace peri::serve
