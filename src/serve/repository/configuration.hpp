// A model's configuration: that of its folder, or the one sent with the request to load it.
#pragma once

#include <optional>

#include "serve/config/model_config.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

// `given`: JSON in Triton's format, used instead of the folder's; it must not name files. Errors: kInvalid, kIo.
Result<ModelConfig> configuration_of(const FoundModel& found, const std::optional<std::string>& given);

}  // namespace peri::serve
