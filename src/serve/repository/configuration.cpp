// A client's configuration cannot name files of the model's folder: a file of labels, for example, would be returned in
// responses.
#include "serve/repository/configuration.hpp"

#include <algorithm>
#include <charconv>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/plural.hpp"
#include "base/utf8.hpp"

namespace peri::serve {

constexpr int64_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kMaxLabelBytes = 64 << 20;

// In valid JSON, characters above U+FFFF that are escaped in two parts, as YAML does not read them, are written out.
static std::string without_pairs(std::string_view json) {
  const auto part = [&](size_t at) -> uint32_t {  // 0: no \uXXXX begins there
    uint32_t code = 0;
    if (at + 6 <= json.size() && json.substr(at, 2) == "\\u")
      std::from_chars(json.data() + at + 2, json.data() + at + 6, code, 16);
    return code;
  };
  std::string out;
  for (size_t k = 0; k < json.size();) {
    const size_t bytes = json[k] == '\\' ? 2 : 1;
    if (const uint32_t high = part(k); high >= 0xD800 && high < 0xDC00) {
      utf8_append(out, 0x10000 + ((high - 0xD800) << 10) + (part(k + 6) - 0xDC00));
      k += 12;
    } else {
      out += json.substr(k, bytes);
      k += bytes;
    }
  }
  return out;
}

static Result<ModelConfig> read_given(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '{')
    return invalid("the configuration of the load request is not an object of JSON");
  if (static_cast<int64_t>(text.size()) > kMaxConfigBytes)
    return invalid("the configuration of the load request has more than 1 MiB");
  Result<Json> json = parse_json(text);  // YAML takes more than JSON, and tells faults in other words
  Result<ModelConfig> config = json.ok() ? parse_model_config(without_pairs(text), "config.yaml", ConfigFrom::kClient)
                                         : Result<ModelConfig>(std::move(json).error());
  if (config.ok()) return config;
  Error error = std::move(config).error();
  error.file = "the configuration of the load request";  // the model's folder holds no such file
  return error;
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

// Elements of a row, each a class; -1: open.
static int64_t classes_of(const Shape& shape, bool batched) {
  int64_t out = 1;
  for (size_t k = batched || (shape.size() > 1 && !shape[0].is_const()) ? 1 : 0; k < shape.size(); ++k) {
    if (!shape[k].is_const()) return -1;
    out *= shape[k].value();
  }
  return out;
}

std::string labels_note(const ModelConfig& config, const plan::ClassNames& labels,
                        std::span<const plan::Port> outputs) {
  std::string out;
  for (const PortConfig& p : config.outputs) {
    const auto names = labels.find(p.name);
    const auto port =
        std::find_if(outputs.begin(), outputs.end(), [&](const plan::Port& o) { return o.name == p.name; });
    if (p.labels.empty() || names == labels.end() || port == outputs.end()) continue;
    auto lines = std::ssize(names->second);
    while (lines > 0 && names->second[static_cast<size_t>(lines - 1)].empty()) --lines;
    const int64_t classes = classes_of(port->shape, config.max_batch_size > 0);
    if (classes < 0 || classes == lines) continue;
    out += (out.empty() ? "" : "; ") + format("the label_filename '%s' has %s for output '%s', which has %s",
                                              p.labels.c_str(), counted(lines, "line").c_str(), p.name.c_str(),
                                              counted(classes, "class").c_str());
  }
  return out;
}

}  // namespace peri::serve
