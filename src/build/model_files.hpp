// The files behind a model, beside the one that names it.
#pragma once

#include <string>
#include <vector>

namespace peri::build {

// Of a folder those in it; of an ONNX file those that its external data lies in, as far as they are there.
std::vector<std::string> files_behind(const std::string& model);

}  // namespace peri::build
