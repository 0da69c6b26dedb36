// How a version is queued, as its configuration has it.
#pragma once

#include "serve/repository/repository.hpp"

namespace peri::serve {

// Without its form, which is made of the model's ports.
ModelOptions options_of(const ModelConfig& config, const Loaded& loaded, const RepositoryOptions& repository);

// What its runs claim among those of other models. Errors: as of Turns::join().
Result<std::shared_ptr<Turns::Share>> share_of(const ModelConfig& config, Turns& turns);

}  // namespace peri::serve
