// Any bytes as config.yaml: refused with a sentence, or a configuration within its bounds.
// links: serve
#include <cstdlib>

#include "serve/config/model_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = peri::serve::parse_model_config({reinterpret_cast<const char*>(data), size}, "f.yaml");
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  if (config->max_batch_size < 0 || config->max_batch_size > 65536) std::abort();
  (void)config->versions.choose({1, 2, 3}).size();
  return 0;
}
