// Inputs of a load's requests in the forms of perf_analyzer: JSON with the answers that are wanted, or a folder with a
// file for each input.
#pragma once

#include "base/json.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {

// The requests of subject.data_path, at least one. `inputs`, `outputs`: of the model's metadata; outputs may be null.
// Errors: kIo; kInvalid: not of these forms, or not of the model's inputs and outputs; kUsage: see wire.hpp.
Result<std::vector<LoadRequest>> requests_of_files(const LoadSubject& subject, const Json::Array& inputs,
                                                   const Json* outputs);

// An input of the metadata, without values. `source`: who gives the shape, for messages.
Result<LoadTensor> empty_tensor(const LoadSubject& subject, const Json& input, const char* source);
int64_t elements_of(const LoadTensor& t);

}  // namespace peri::serve
