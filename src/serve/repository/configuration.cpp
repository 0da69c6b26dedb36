// A client's configuration cannot name files of the model's folder: a file of labels, for example, would be returned in
// responses.
#include "serve/repository/configuration.hpp"

#include <algorithm>

#include "base/file.hpp"

namespace peri::serve {

constexpr int64_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kMaxLabelBytes = 64 << 20;

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

// One line per class.
static Result<std::vector<std::string>> lines_of(const std::string& folder, const std::string& file) {
  if (!plain_name(file)) return invalid("label_filename must be a plain file name").but_found(file);
  PERI_ASSIGN(const std::string text, read_file(folder + "/" + file, kMaxLabelBytes));
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    if (out.back().ends_with('\r')) out.back().pop_back();
    at = end + 1;
  }
  return out;
}

Result<plan::ClassNames> labels_of(const std::string& folder, const ModelConfig& config,
                                   const std::map<std::string, std::string>& sections) {
  plan::ClassNames out;
  if (const auto own = sections.find(std::string(plan::kClassNamesSection)); own != sections.end()) {
    PERI_ASSIGN(out, plan::read_class_names(own->second));
  }
  for (const PortConfig& p : config.outputs)
    if (!p.labels.empty()) {
      PERI_ASSIGN(out[p.name], lines_of(folder, p.labels));
    }
  return out;
}

}  // namespace peri::serve
