// Reading the JSON files of a model folder.
#include "hf/folder.hpp"

#include <algorithm>

#include <span>

#include "base/file.hpp"
#include "base/path.hpp"
#include "base/utf8.hpp"
#include "hf/entry.hpp"
#include "hf/foreign.hpp"
#include "hf/onnx_file.hpp"

namespace peri::hf {

namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;
constexpr int64_t kMaxSequence = 1 << 20;

Result<std::string> read_text(const std::string& folder, const std::string& name, size_t max_bytes) {
  PERI_ASSIGN(const Fd fd, open_beneath(folder, name, Links::kHubCache));
  PERI_ASSIGN(std::string text, read_file(fd, folder + "/" + name, max_bytes));
  if (auto foreign = foreign_content(std::as_bytes(std::span(text))); foreign && foreign->kind == ErrorKind::kInvalid)
    return std::move(*foreign).in_file(folder + "/" + name);
  return text;
}

Result<Json> read_json(const std::string& folder, const std::string& name) {
  PERI_ASSIGN(const std::string text, read_text(folder, name, kMaxConfigBytes));
  Result<Json> json = parse_json(text);
  if (!json.ok()) return std::move(json).error().in_file(folder + "/" + name);
  return json;
}

// "sentence_transformers.models.Pooling" → "Pooling"
std::string_view last_part(std::string_view type) {
  const size_t dot = type.rfind('.');
  return dot == type.npos ? type : type.substr(dot + 1);
}

Error not_supported(const char* what, std::string_view name) {
  return unsupported("%s \"%s\" is not supported", what, printable(name.substr(0, 100)).c_str());
}

constexpr const char* kExport =
    "export the model to ONNX, which then has its modules, as optimum does, and give the new folder";

Result<Pooling> pooling_mode(std::string_view mode) {
  if (mode == "mean" || mode == "pooling_mode_mean_tokens") return Pooling::kMean;
  if (mode == "cls" || mode == "pooling_mode_cls_token") return Pooling::kCls;
  if (mode == "max" || mode == "pooling_mode_max_tokens") return Pooling::kMax;
  return not_supported("pooling", mode).expecting("mean, cls or max").advise(kExport);
}

// Either "pooling_mode": "mean", or one flag for each mode; where mean has no flag, that is the default.
Status read_pooling(const Json& config, Folder& out) {
  PERI_TRY(config.as_object());
  const char* width = config.find("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  if (config.find(width)) {
    PERI_ASSIGN(out.pooling_width, config_size(config, width, 1 << 20));
  }
  PERI_ASSIGN(out.pools_prompt, config.get_bool("include_prompt", true));
  if (config.find("pooling_mode")) {
    PERI_ASSIGN(const std::string_view mode, config.get_string("pooling_mode"));
    PERI_ASSIGN(out.pooling, pooling_mode(mode));
    return Ok{};
  }
  for (const Json::Member& m : config.members()) {
    if (!m.key.starts_with("pooling_mode_")) continue;
    PERI_ASSIGN(const bool on, config.get_bool(m.key));
    if (!on) continue;
    if (out.pooling != Pooling::kNone)
      return not_supported("pooling of several kinds at once, with", m.key).advise(kExport);
    PERI_ASSIGN(out.pooling, pooling_mode(m.key));
  }
  if (out.pooling == Pooling::kNone && config.find("pooling_mode_mean_tokens"))
    return invalid("no pooling is set")
        .expecting("one of the modes mean, cls and max")
        .advise("set one of them true, as \"pooling_mode_mean_tokens\"");
  if (out.pooling == Pooling::kNone) out.pooling = Pooling::kMean;
  return Ok{};
}

// [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, ...]: a chain, in order.
Status read_modules(const Json& modules, Folder& out) {
  PERI_ASSIGN(const Json::Array* const list, modules.as_array());
  if (list->empty() || list->size() > 8) return invalid("%zu modules", list->size()).expecting("1 to 8");
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& module = (*list)[i];
    PERI_ASSIGN(const std::string_view type, module.get_string("type"));
    PERI_ASSIGN(const std::string_view path, module.get_string("path"));
    const std::string_view kind = last_part(type);
    if (!type.starts_with("sentence_transformers."))
      return unsupported("module \"%s\" is not one of sentence_transformers: Python code of its own is never run",
                         printable(type.substr(0, 100)).c_str())
          .advise(kExport);
    if ((kind == "Transformer") != (i == 0)) return not_supported("order of modules, with", type).advise(kExport);
    if (kind == "Transformer") {
      if (!path.empty())
        return not_supported("transformer in a folder of its own,", path)
            .advise("move its files beside modules.json, and say \"path\": \"\" there");
    } else if (kind == "Pooling" && out.pooling == Pooling::kNone && !out.normalize) {
      const std::string name = std::string(path) + "/config.json";
      PERI_ASSIGN(const Json config, read_json(out.path, name));
      Status read = read_pooling(config, out);
      if (!read.ok()) return std::move(read).error().in_file(out.path + "/" + name);
    } else if (kind == "Normalize" && out.pooling != Pooling::kNone) {
      out.normalize = true;  // a second changes nothing
    } else if (kind == "Pooling" || kind == "Normalize") {
      return not_supported("order of modules, with", type);
    } else {
      return not_supported("module", type).expecting("Transformer, Pooling and Normalize").advise(kExport);
    }
  }
  return Ok{};
}

// Of the files' names, sentence-transformers reads the first that is there.
Status read_sentences(Folder& out) {
  for (const char* name :
       {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
        "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
        "sentence_xlnet_config.json"}) {
    if (!stands_in(out.path, name)) continue;
    const auto read = [&]() -> Status {
      PERI_ASSIGN(const Json config, read_json(out.path, name));
      if (const Json* v = config.find("max_seq_length"); v && !v->is_null()) {
        PERI_ASSIGN(out.max_sequence, config_size(config, "max_seq_length", kMaxSequence));
      }
      PERI_ASSIGN(out.lowercase, config.get_bool("do_lower_case", false));
      return Ok{};
    };
    Status done = read();
    if (!done.ok()) return std::move(done).error().in_file(out.path + "/" + name);
    return Ok{};
  }
  return Ok{};
}

// Where a tokenizer has no limit, its file says a huge number, such as 1e30.
Status read_model_max(const Json& config, Folder& out) {
  constexpr std::string_view kKey = "model_max_length";
  if (const Json* v = config.find(kKey); !v || v->is_null()) return Ok{};
  PERI_ASSIGN(const double most, config.get_double(kKey));
  if (most > kMaxSequence) return Ok{};
  PERI_ASSIGN(out.model_max, config_size(config, kKey, kMaxSequence));
  return Ok{};
}

// Where BERT's normalizer comes from as transformers loads a tokenizer.
enum class Normalizer {
  kOfFile,      // tokenizer.json
  kOfClass,     // its class makes it anew of its parameters, whatever tokenizer.json says
  kOfClassOf4,  // so it does in versions 3 and 4, and not in 5
};
struct Maker {
  std::string_view name;
  Normalizer from;
};

// By the name of its class; without one, the architecture selects the class.
Normalizer normalizer_of(const Json& config, const Folder& folder) {
  using enum Normalizer;
  constexpr Maker kClasses[] = {{"BertTokenizer", kOfClass},
                                {"ConvBertTokenizer", kOfClassOf4},
                                {"DPRContextEncoderTokenizer", kOfClassOf4},
                                {"DPRQuestionEncoderTokenizer", kOfClassOf4},
                                {"DPRReaderTokenizer", kOfClassOf4},
                                {"DistilBertTokenizer", kOfClass},
                                {"ElectraTokenizer", kOfClass},
                                {"FunnelTokenizer", kOfClass},
                                {"LayoutLMTokenizer", kOfClass},
                                {"LxmertTokenizer", kOfClass},
                                {"MPNetTokenizer", kOfClass},
                                {"MobileBertTokenizer", kOfClass},
                                {"RealmTokenizer", kOfClassOf4},
                                {"RetriBertTokenizer", kOfClassOf4},
                                {"SplinterTokenizer", kOfClass},
                                {"SqueezeBertTokenizer", kOfClass}};
  constexpr Maker kTypes[] = {
      {"align", kOfClass},    {"bert", kOfClass},         {"blip", kOfClass},          {"bros", kOfClass},
      {"convbert", kOfClass}, {"chinese_clip", kOfClass}, {"distilbert", kOfClass},    {"dpr", kOfClassOf4},
      {"electra", kOfClass},  {"ernie", kOfClass},        {"funnel", kOfClass},        {"git", kOfClass},
      {"layoutlm", kOfClass}, {"lxmert", kOfClass},       {"megatron-bert", kOfClass}, {"mobilebert", kOfClass},
      {"mpnet", kOfClass},    {"nezha", kOfClassOf4},     {"nomic_bert", kOfClass},    {"qdqbert", kOfClassOf4},
      {"realm", kOfClassOf4}, {"retribert", kOfClassOf4}, {"splinter", kOfClass},      {"squeezebert", kOfClass},
      {"vilt", kOfClass},     {"visual_bert", kOfClass}};
  const auto among = [](std::span<const Maker> all, std::string_view name) {
    const auto it = std::find_if(all.begin(), all.end(), [&](const Maker& m) { return m.name == name; });
    return it == all.end() ? kOfFile : it->from;
  };
  for (const Json* from : {&config, folder.config.get()}) {
    const Json* named = from->find("tokenizer_class");
    if (!named || !named->is_string()) continue;
    std::string_view name = named->as_string().value();
    if (name.ends_with("Fast")) name.remove_suffix(4);
    return among(kClasses, name);
  }
  return among(kTypes, folder.model_type);
}

Status read_rules(const Json& config, Folder& out) {
  if (const Json* side = config.find("truncation_side"); side && !side->is_null()) {
    PERI_ASSIGN(const std::string_view from, config.get_string("truncation_side"));
    if (from != "left" && from != "right")
      return invalid("unknown side")
          .at_node("truncation_side")
          .expecting("left or right")
          .but_found(printable(from.substr(0, 60)));
    out.rules.truncates_left = from == "left";
  }
  const Normalizer from = normalizer_of(config, out);
  if (from == Normalizer::kOfFile) return Ok{};
  out.rules_of_4 = from == Normalizer::kOfClassOf4;
  PERI_ASSIGN(out.rules.lowercase, config.get_bool("do_lower_case", true));
  PERI_ASSIGN(out.rules.strip_accents, config.get_bool("strip_accents", *out.rules.lowercase));
  PERI_ASSIGN(out.rules.splits_han, config.get_bool("tokenize_chinese_chars", true));
  return Ok{};
}

Status read_tokenizer_config(Folder& out) {
  constexpr const char* kFile = "tokenizer_config.json";
  PERI_ASSIGN(Json config, Json::object({}));
  if (stands_in(out.path, kFile)) {
    PERI_ASSIGN(config, read_json(out.path, kFile));
  }
  Status read = read_model_max(config, out);
  if (read.ok()) read = read_rules(config, out);
  if (!read.ok()) return std::move(read).error().in_file(out.path + "/" + kFile);
  return Ok{};
}

// {"prompts": {"query": "query: ", ...}, "default_prompt_name": "query" or null}
Status read_prompts(const Json& config, Folder& out) {
  const Json* prompts = config.find("prompts");
  if (prompts && !prompts->is_null()) {
    PERI_ASSIGN(const Json::Object* const all, config.get_object("prompts"));
    for (const Json::Member& m : *all) {
      if (m.value.is_null()) continue;
      PERI_ASSIGN(const std::string_view text, prompts->get_string(m.key));
      out.prompts.emplace_back(m.key, text);
    }
  }
  const Json* name = config.find("default_prompt_name");
  if (!name || name->is_null()) return Ok{};
  PERI_ASSIGN(const std::string_view key, config.get_string("default_prompt_name"));
  for (const auto& [of, text] : out.prompts)
    if (of == key) {
      out.prompt = text;
      return Ok{};
    }
  return invalid("the default prompt is not among the prompts")
      .at_node("default_prompt_name")
      .but_found(printable(key.substr(0, 60)));
}

// Whether weights of this configuration could be the model.
Status check_weights_usable(const Folder& out, const Json& config) {
  const std::string file = out.path + "/config.json";
  for (const char* key : {"auto_map", "quantization_config"})
    if (const Json* v = config.find(key); v && !v->is_null())
      return unsupported(std::string_view(key) == "auto_map"
                             ? "the model brings Python code of its own, which is never run"
                             : "quantised weights are not supported")
          .in_file(file)
          .at_node(key)
          .advise("export the model to ONNX and put that file into the folder, as model.onnx");
  if (find(out.model_type)) return Ok{};
  std::string known;
  for (const Entry* e : entries()) known += (known.empty() ? "" : ", ") + std::string(e->model_type);
  return unsupported("model_type \"%s\" is not supported", printable(out.model_type.substr(0, 60)).c_str())
      .in_file(file)
      .at_node("model_type")
      .expecting("one of " + known)
      .advise("export the model to ONNX and put that file into the folder, as model.onnx");
}

Status read_config(Folder& out) {
  if (!stands_in(out.path, "config.json")) {
    const std::vector<std::string> onnx = onnx_files(out.path);
    return invalid("not a Hugging Face folder: it has no config.json")
        .in_file(out.path)
        .advise(onnx.size() != 1 ? "give the folder of a model, or an .onnx file" : "give the file itself: " + onnx[0]);
  }
  PERI_ASSIGN(Json config, read_json(out.path, "config.json"));
  const std::string file = out.path + "/config.json";
  Result<std::string_view> type = config.get_string("model_type");
  if (!type.ok()) return std::move(type).error().in_file(file);
  out.model_type = *type;
  const Status usable = check_weights_usable(out, config);
  const bool weights = stands_in(out.path, "model.safetensors") || stands_in(out.path, "model.safetensors.index.json");
  if (!usable.ok() || !weights) {
    const std::vector<std::string> onnx = onnx_files(out.path);
    if (onnx.size() > 1) return several_onnx_files(out.path, onnx);
    if (!onnx.empty()) out.onnx = onnx[0];
  }
  if (out.onnx.empty()) PERI_TRY(usable);
  if (!out.onnx.empty() && weights)
    out.notes.push_back("the folder's weights are not read (" + usable.error().message + "): " + out.onnx +
                        " is the model");
  out.config = std::make_shared<const Json>(std::move(config));
  return Ok{};
}

}  // namespace

std::string_view pooling_name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kNone: return "none";
    case Pooling::kMean: return "mean";
    case Pooling::kCls: return "cls";
    case Pooling::kMax: return "max";
  }
  return "none";
}

Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max) {
  Result<int64_t> v = config.get_int(key);
  if (!v.ok()) return v;
  if (*v >= 1 && *v <= max) return v;
  return invalid("size out of range")
      .at_node(key)
      .expecting(format("1 to %lld", static_cast<long long>(max)))
      .but_found(std::to_string(*v));
}

Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max, int64_t fallback) {
  return config.find(key) ? config_size(config, key, max) : Result<int64_t>(fallback);
}

static Status read_modules_of(Folder& out) {
  PERI_ASSIGN(const Json modules, read_json(out.path, "modules.json"));
  Status read = read_modules(modules, out);
  if (!read.ok()) return std::move(read).error().in_file(out.path + "/modules.json");
  return Ok{};
}

Result<Folder> read_folder(const std::string& path) {
  Folder out;
  out.path = path;
  while (out.path.size() > 1 && out.path.back() == '/') out.path.pop_back();
  // Before config.json, which may be in a folder of the first module's.
  Status modules = stands_in(out.path, "modules.json") ? read_modules_of(out) : Status(Ok{});
  if (!modules.ok() && !stands_in(out.path, "config.json") && onnx_files(out.path).empty())
    return std::move(modules).error();
  PERI_TRY(read_config(out));
  if (!modules.ok() && !out.onnx.empty() && modules.error().kind == ErrorKind::kUnsupported) {
    Error why = modules.error();
    why.remedy.clear();
    out.notes.push_back("the outputs are those of the ONNX file, and no module is added: " + why.text());
    out.pooling = Pooling::kNone;
    out.normalize = false;
  } else if (!modules.ok()) {
    return std::move(modules).error();
  }
  PERI_TRY(read_sentences(out));
  if ((out.pooling != Pooling::kNone || !out.onnx.empty()) &&
      stands_in(out.path, "config_sentence_transformers.json")) {
    PERI_ASSIGN(const Json config, read_json(out.path, "config_sentence_transformers.json"));
    Status read = read_prompts(config, out);
    if (!read.ok()) return std::move(read).error().in_file(out.path + "/config_sentence_transformers.json");
  }
  PERI_TRY(read_tokenizer_config(out));
  if (stands_in(out.path, "tokenizer.json")) {
    PERI_ASSIGN(out.tokenizer, read_text(out.path, "tokenizer.json", kMaxTokenizerBytes));
    if (out.tokenizer.empty())  // which would be a folder that never had one
      return invalid("the file is empty")
          .in_file(out.path + "/tokenizer.json")
          .advise("download it again, or delete it");
  }
  return out;
}

}  // namespace peri::hf
