// Prepares models for serving: an engine file, or a model that is built once and stored as an engine; checked against
// its configuration, its batches compared with single runs, warmed up.
#pragma once

#include "build/request.hpp"
#include "serve/repository/repository.hpp"

namespace peri::build {

struct ServeOptions {
  int threads = 0;            // of all instances of a model together; 0: the CPUs this process may use
  Request build;              // options of builds; model and files are set here
  double check_seconds = 10;  // time limit for comparing batches with single runs
};

// Errors name file, tensor and configuration.
Result<serve::Loaded> load_servable(const ServeOptions& options, const serve::LoadOrder& order,
                                    const std::function<void(const std::string&)>& say);

}  // namespace peri::build
