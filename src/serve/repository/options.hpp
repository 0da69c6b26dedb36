// Queue options of a version, from its configuration.
#pragma once

#include "serve/repository/repository.hpp"

namespace peri::serve {

// Without the form, which depends on the model's ports.
ModelOptions options_of(const ModelConfig& config, const Loaded& loaded, const RepositoryOptions& repository);

// The share of the model's runs among those of other models. Errors: as for Turns::join().
Result<std::shared_ptr<Turns::Share>> share_of(const ModelConfig& config, Turns& turns);

}  // namespace peri::serve
