// A client's configuration cannot name files of the model's folder: a file of labels, for example, would be returned in
// responses.
#include "serve/repository/configuration.hpp"

#include <algorithm>

#include "base/file.hpp"

namespace peri::serve {

constexpr int64_t kMaxConfigBytes = 1 << 20;

static Result<ModelConfig> read_given(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '{')
    return invalid("the configuration of the order is not an object of JSON");
  if (static_cast<int64_t>(text.size()) > kMaxConfigBytes)
    return invalid("the configuration of the order has more than 1 MiB");
  return parse_model_config(text, "config.yaml", ConfigFrom::kClient);
}

static Result<ModelConfig> read_own(const FoundModel& found) {
  if (found.two_configs)
    return invalid("the model has two configurations").expecting("config.pbtxt or config.yaml").in_file(found.folder);
  if (found.config_path.empty()) return ModelConfig();
  PERI_ASSIGN(const std::string text, read_file(found.config_path, kMaxConfigBytes));
  return parse_model_config(text, found.config_path);
}

Result<ModelConfig> configuration_of(const FoundModel& found, const std::optional<std::string>& given) {
  PERI_ASSIGN(ModelConfig config, given ? read_given(*given) : read_own(found));
  if (!config.name.empty() && config.name != found.name)
    return invalid("the configuration's name is not the folder's")
        .expecting(found.name)
        .but_found(config.name)
        .in_file(given ? "" : found.config_path);
  config.name = found.name;
  return config;
}

}  // namespace peri::serve
