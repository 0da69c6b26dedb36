// Configurations of cuDNN's kernels as text, and what they make of it.
#include "kernels/cuda/code/dnn_config.hpp"

#include <algorithm>

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

namespace {
using device::cuda::DnnReady;
constexpr std::string_view kSizes = "sizes", kVersion = "version", kEngine = "engine", kKnobs = "knobs";

int64_t number_of(const device::cuda::Version& v) { return 10000 * v.major + 100 * v.minor + v.patch; }

Result<std::string_view> word_of(std::string_view config, std::string_view name) {
  const std::string key = std::string(name) + "=";
  for (std::string_view rest = config; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word.starts_with(key)) return word.substr(key.size());
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return invalid("bad configuration").at_node(std::string(name)).but_found("nothing");
}
}  // namespace

std::vector<std::string_view> dnn_words() { return {kSizes, kVersion, kEngine, kKnobs}; }

std::string dnn_sizes(std::span<const int64_t> sizes) {
  std::string out;
  for (const int64_t size : sizes) out += (out.empty() ? "" : "x") + std::to_string(size);
  return out;
}

std::string dnn_config(const std::string& sizes, const device::cuda::Version& version,
                       const device::cuda::DnnChoice& choice) {
  std::string knobs;
  for (const auto& [type, value] : choice.knobs)
    knobs += (knobs.empty() ? "" : ",") + std::to_string(type) + ":" + std::to_string(value);
  return std::string(kSizes) + "=" + sizes + " " + std::string(kVersion) + "=" + std::to_string(number_of(version)) +
         " " + std::string(kEngine) + "=" + std::to_string(choice.engine) + " " + std::string(kKnobs) + "=" +
         (knobs.empty() ? "none" : knobs);
}

Result<std::vector<std::string>> dnn_configs(const device::cuda::DnnProblem& problem, const std::string& sizes,
                                             int most, device::Device* device) {
  auto* const gpu = dynamic_cast<device::cuda::CudaDevice*>(device);
  if (!gpu) return refused("cuDNN is asked for a GPU");
  PERI_ASSIGN(const auto library, device::cuda::Cudnn::of(*gpu));
  gpu->keep(library);
  PERI_ASSIGN(const std::vector<device::cuda::DnnChoice> choices, library->choices(problem, most));
  std::vector<std::string> out;
  for (const device::cuda::DnnChoice& c : choices) out.push_back(dnn_config(sizes, library->version(), c));
  return out;
}

Result<DnnConfig> read_dnn_config(std::string_view config) {
  constexpr size_t kMaxKnobs = 64;  // more than an engine has
  DnnConfig out;
  if (config == kHeuristic) return out;
  out.resolved = true;
  PERI_ASSIGN(const std::string_view sizes, word_of(config, kSizes));
  PERI_ASSIGN(std::string_view knobs, word_of(config, kKnobs));
  PERI_ASSIGN(out.version, config_int(config, kVersion, 0, INT32_MAX, 0));
  PERI_ASSIGN(out.choice.engine, config_int(config, kEngine, 0, INT32_MAX, 0));
  out.sizes = sizes;
  while (!knobs.empty() && knobs != "none") {
    const std::string_view one = knobs.substr(0, knobs.find(','));
    const size_t colon = one.find(':');
    if (colon == one.npos || out.choice.knobs.size() == kMaxKnobs)
      return invalid("bad configuration").at_node(std::string(kKnobs)).but_found(std::string(knobs));
    const std::string pair =
        "type=" + std::string(one.substr(0, colon)) + " value=" + std::string(one.substr(colon + 1));
    PERI_ASSIGN(const int64_t type, config_int(pair, "type", 0, INT32_MAX, 0));
    PERI_ASSIGN(const int64_t value, config_int(pair, "value", INT32_MIN, INT32_MAX, 0));
    out.choice.knobs.emplace_back(type, value);
    knobs.remove_prefix(std::min(knobs.size(), one.size() + 1));
  }
  return out;
}

Result<std::unique_ptr<const DnnReady>> dnn_ready(const device::cuda::Cudnn& library,
                                                  const device::cuda::DnnProblem& problem, const std::string& sizes,
                                                  const DnnConfig& config, size_t workspace, bool choosing) {
  if (config.resolved && config.sizes == sizes && config.version == number_of(library.version())) {
    auto made = library.make(problem, &config.choice, workspace);
    if (made.ok() || choosing || made.error().kind != ErrorKind::kRefused) return made;
  } else if (config.resolved && choosing && config.sizes == sizes) {
    return refused("another version of cuDNN chose it").but_found(library.version().text());
  }
  return library.make(problem, nullptr, workspace);
}

}  // namespace peri::kernels::cuda
