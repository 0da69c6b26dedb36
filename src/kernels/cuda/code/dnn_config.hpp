// What cuDNN chose, as words of a configuration: "sizes=8x64x56x56x64 version=91900 engine=41 knobs=2:1,3:0".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/cudnn.hpp"

namespace peri::kernels::cuda {

// The words that replace kHeuristic: the sizes of the query, the library's version, its choice.
std::vector<std::string_view> dnn_words();
std::string dnn_sizes(std::span<const int64_t> sizes);
std::string dnn_config(const std::string& sizes, const device::cuda::Version& version,
                       const device::cuda::DnnChoice& choice);

// Configurations of the first choices, at most `most`, of the library on the device, which keeps it. kRefused: not a
// GPU; else the library's errors.
Result<std::vector<std::string>> dnn_configs(const device::cuda::DnnProblem& problem, const std::string& sizes,
                                             int most, device::Device* device);

struct DnnConfig {
  bool resolved = false;  // false: the library chooses
  std::string sizes;
  int64_t version = 0;
  device::cuda::DnnChoice choice;
};
// kInvalid for text that dnn_config() does not write.
Result<DnnConfig> read_dnn_config(std::string_view config);

// The choice, where this library made it for these sizes and still accepts it; else the library's own. While the tuner
// chooses, any other than the named one is refused.
Result<std::unique_ptr<const device::cuda::DnnReady>> dnn_ready(const device::cuda::Cudnn& library,
                                                                const device::cuda::DnnProblem& problem,
                                                                const std::string& sizes, const DnnConfig& config,
                                                                size_t workspace, bool choosing);

}  // namespace peri::kernels::cuda
