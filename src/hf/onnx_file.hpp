// The ONNX files of a folder, which optimum writes beside config.json, and which the hub's folders have in one called
// onnx.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace peri::hf {

// Those directly in the folder; where there is none, those in its folder onnx. Paths from `folder` on, sorted.
std::vector<std::string> onnx_files(const std::string& folder);

// Of a folder that has several.
Error several_onnx_files(const std::string& folder, const std::vector<std::string>& files);

}  // namespace peri::hf
