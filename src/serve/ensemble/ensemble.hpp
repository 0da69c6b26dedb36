// An ensemble: models put together as a graph whose edges are named tensors. It is checked when it is loaded (every
// tensor made once, every input of every step there and of its type, no circle), and runs each step as soon as its
// inputs are there, by the queue of that step's model.
#pragma once

#include <functional>

#include "runtime/servable.hpp"
#include "serve/config/model_config.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

// A model that is served now; null: there is none.
using FindModel = std::function<ServedPtr(const std::string& name, const std::string& version)>;

// Models are looked up again for each request, so that they may be replaced. `find` outlives what comes back. Errors
// name step, tensor and what was expected.
Result<std::shared_ptr<runtime::Servable>> make_ensemble(const ModelConfig& config, FindModel find);

}  // namespace peri::serve
