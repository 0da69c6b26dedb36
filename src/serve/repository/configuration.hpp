// A model's configuration: that of its folder, or the one sent with the request to load it.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "plan/class_names.hpp"
#include "serve/config/model_config.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

// `given`: JSON in Triton's format, used instead of the folder's; it must not name files. Errors: kInvalid, kIo.
Result<ModelConfig> configuration_of(const FoundModel& found, const std::optional<std::string>& given);
// The names of classes, by output: of a label_filename in the model's folder, else those of the engine's `sections`.
Result<plan::ClassNames> labels_of(const std::string& folder, const ModelConfig& config,
                                   const std::map<std::string, std::string>& sections);
// What is wrong with the lines of label files beside the classes of the outputs that they name; "": nothing is seen.
std::string labels_note(const ModelConfig& config, const plan::ClassNames& labels, std::span<const plan::Port> outputs);

}  // namespace peri::serve
