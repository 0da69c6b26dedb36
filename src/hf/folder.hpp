// A Hugging Face folder as described by its JSON files: architecture, sizes, and how sentence vectors are computed from
// token vectors. Nothing is executed; every statement of a file is checked or refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace peri::hf {

enum class Pooling { kNone, kMean, kCls, kMax };  // kNone: the model gives token vectors only
std::string_view pooling_name(Pooling pooling);

struct Folder {
  std::string path;
  std::string model_type;               // config.json
  std::shared_ptr<const Json> config;   // config.json, for the architecture to read
  Pooling pooling = Pooling::kNone;     // modules.json and the configuration of its pooling module
  int64_t pooling_width = 0;            // width of token vectors that the pooling expects; 0: not said
  bool normalize = false;               // sentence vectors get length 1
  std::optional<int64_t> max_sequence;  // sentence_bert_config.json: longest text in tokens, special ones counted
  std::string tokenizer;                // text of tokenizer.json, empty if there is none
};

// Reads config.json (required), modules.json, the pooling's config.json, sentence_bert_config.json and tokenizer.json.
// Errors name the file: kInvalid for what breaks its rules, kUnsupported for a module, pooling, quantisation or custom
// code that we lack. Files in the folder may be symlinks as hub caches make them; nothing else outside is opened.
Result<Folder> read_folder(const std::string& path);

// An integer of a config that must lie in 1..max. Error names the key. The second form has a value for an absent key.
Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max);
Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max, int64_t fallback);

}  // namespace peri::hf
