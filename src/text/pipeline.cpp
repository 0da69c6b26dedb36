// Batches of texts as tensors.
#include "text/pipeline.hpp"

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "text/lower.hpp"

namespace peri::text {

namespace {
struct Rule {
  const char* key;
  std::optional<bool> TokenizerRules::* of;
};
constexpr Rule kRules[] = {{"truncates_left", &TokenizerRules::truncates_left},
                           {"lowercase", &TokenizerRules::lowercase},
                           {"strip_accents", &TokenizerRules::strip_accents},
                           {"splits_han", &TokenizerRules::splits_han}};
}  // namespace

std::string PipelineSpec::to_json() const {
  JsonWriter w;
  w.begin_object().field("max_length", max_length).field("ids", ids).field("mask", mask);
  if (has_type_ids) w.field("types", types);
  w.field("output", output);
  if (!prompt.empty()) w.field("prompt", prompt);
  if (!prompts.empty()) {
    w.key("prompts").begin_object();
    for (const auto& [name, text] : prompts) w.field(name, text);
    w.end_object();
  }
  if (lowercase) w.field("lowercase", true);
  if (rules != TokenizerRules{}) {
    w.key("tokenizer").begin_object();
    for (const auto& [key, of] : kRules)
      if (rules.*of) w.field(key, *(rules.*of));
    w.end_object();
  }
  w.end_object();
  return w.take();
}

Result<PipelineSpec> PipelineSpec::from_json(std::string_view json) {
  PERI_ASSIGN(const Json v, parse_json(json));
  PipelineSpec out;
  PERI_ASSIGN(out.max_length, v.get_int("max_length"));
  if (out.max_length < 1 || out.max_length > 1 << 24)
    return invalid("value out of range").at_node("max_length").but_found(std::to_string(out.max_length));
  PERI_ASSIGN(const std::string_view ids, v.get_string("ids"));
  PERI_ASSIGN(const std::string_view mask, v.get_string("mask"));
  PERI_ASSIGN(const std::string_view output, v.get_string("output"));
  out.ids = ids;
  out.mask = mask;
  out.output = output;
  PERI_ASSIGN(const std::string_view prompt, v.get_string("prompt", ""));
  out.prompt = prompt;
  if (const Json* prompts = v.find("prompts")) {
    PERI_TRY(prompts->as_object());
    for (const Json::Member& m : prompts->members()) {
      PERI_ASSIGN(const std::string_view text, prompts->get_string(m.key));
      out.prompts.emplace_back(m.key, text);
    }
  }
  PERI_ASSIGN(out.lowercase, v.get_bool("lowercase", false));
  if (const Json* rules = v.find("tokenizer")) {
    PERI_TRY(rules->as_object());
    for (const auto& [key, of] : kRules)
      if (rules->find(key)) {
        PERI_ASSIGN(out.rules.*of, rules->get_bool(key));
      }
  }
  out.has_type_ids = v.find("types") != nullptr;
  if (out.has_type_ids) {
    PERI_ASSIGN(const std::string_view types, v.get_string("types"));
    out.types = types;
  }
  return out;
}

Result<TextPipeline> TextPipeline::from_sections(std::string_view tokenizer, std::string_view spec) {
  PERI_ASSIGN(PipelineSpec read, PipelineSpec::from_json(spec));
  PERI_ASSIGN(Tokenizer made, Tokenizer::from_json(tokenizer, read.rules));
  return TextPipeline(std::move(made), std::move(read));
}

Result<std::string_view> TextPipeline::prompt_named(std::string_view name) const {
  constexpr size_t kMaxListed = 50;
  std::string known;
  for (size_t k = 0; k < spec_.prompts.size(); ++k) {
    const auto& [of, text] = spec_.prompts[k];
    if (of == name) return std::string_view(text);
    if (k < kMaxListed) known += (k ? ", " : "") + printable(of);
    if (k == kMaxListed) known += ", ...";
  }
  Error none = usage("the model has no prompt of this name").but_found(printable(name.substr(0, 60)));
  return known.empty() ? std::move(none).advise("it has no prompts: leave the name out")
                       : std::move(none).expecting("one of: " + known);
}

Result<std::vector<std::pair<std::string, Tensor>>> TextPipeline::inputs(std::span<const std::string> texts,
                                                                         std::optional<std::string_view> prompt) const {
  if (texts.empty()) return usage("no text given");
  const std::string_view before = prompt.value_or(spec_.prompt);
  std::vector<std::string> changed;
  if (!before.empty() || spec_.lowercase) {
    for (const std::string& text : texts) {
      if (!utf8_valid(text)) return invalid("text is not valid UTF-8");
      const std::string whole = std::string(before) + text;
      changed.push_back(spec_.lowercase ? lower_case(whole) : whole);
    }
    texts = changed;
  }
  EncodeOptions options;
  options.max_length = spec_.max_length;
  options.padding = Padding::kLongest;
  PERI_ASSIGN(const std::vector<Encoding> batch, tokenizer_.encode_batch(texts, options));
  if (batch[0].ids.empty())  // the longest of them
    return invalid(texts.size() == 1 ? "the text has no tokens" : "none of the texts has a token")
        .but_found(printable(texts[0].substr(0, 60)).empty() ? "an empty text" : printable(texts[0].substr(0, 60)))
        .advise("leave it out: the model's tokenizer adds no tokens of its own");
  const std::vector<int64_t> dims = {static_cast<int64_t>(batch.size()), static_cast<int64_t>(batch[0].ids.size())};
  std::vector<std::pair<std::string, Tensor>> out;
  const auto put = [&](const std::string& name, std::vector<int64_t> Encoding::* row) {
    std::vector<int64_t> all;
    for (const Encoding& e : batch) all.insert(all.end(), (e.*row).begin(), (e.*row).end());
    out.emplace_back(name, Tensor::of_i64(dims, all));
  };
  put(spec_.ids, &Encoding::ids);
  put(spec_.mask, &Encoding::attention_mask);
  if (spec_.has_type_ids) put(spec_.types, &Encoding::type_ids);
  return out;
}

}  // namespace peri::text
