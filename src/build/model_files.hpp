// The files behind one that a command reads.
#pragma once

#include <string>
#include <vector>

namespace peri::build {

// Of a folder those in it and in its folders, also behind links; of an ONNX file those that its external data lies in,
// of the manifest of a kernel its source, as far as they are there.
std::vector<std::string> files_behind(const std::string& path);

}  // namespace peri::build
