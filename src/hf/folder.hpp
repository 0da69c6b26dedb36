// A Hugging Face folder as described by its JSON files: architecture, sizes, and how sentence vectors are computed from
// token vectors. Nothing is executed; every statement of a file is checked or refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "text/tokenizer.hpp"

namespace peri::hf {

enum class Pooling { kNone, kMean, kCls, kMax };  // kNone: the model returns token vectors only
std::string_view pooling_name(Pooling pooling);

struct Folder {
  std::string path;
  std::string onnx;                     // the ONNX file that is the model; "": the weights are
  std::string model_type;               // config.json
  std::shared_ptr<const Json> config;   // config.json, read by the architecture
  Pooling pooling = Pooling::kNone;     // modules.json and the configuration of its pooling module
  int64_t pooling_width = 0;            // width of token vectors that the pooling expects; 0: not stated
  bool normalize = false;               // sentence vectors are scaled to length 1
  std::optional<int64_t> max_sequence;  // sentence_bert_config.json: longest text in tokens, special ones included
  std::optional<int64_t> model_max;     // tokenizer_config.json: the same, of less weight
  bool lowercase = false;               // the same file: texts are lowercased before the tokenizer
  std::string prompt;                   // config_sentence_transformers.json: stands before each text
  std::vector<std::pair<std::string, std::string>> prompts;  // the same file: all, by name
  bool pools_prompt = true;                                  // the pooling's configuration: the prompt's tokens count
  std::string tokenizer;                                     // text of tokenizer.json, empty if there is none
  std::vector<std::string> notes;                            // what a user should know
  text::TokenizerRules rules;  // tokenizer_config.json and the defaults of its class: these win
  bool rules_of_4 = false;     // those of BERT's normalizer do so in transformers 4, and not in 5
};

// Reads config.json (required), modules.json, the pooling's config.json, sentence_bert_config.json,
// config_sentence_transformers.json (of a folder with a pooling), tokenizer_config.json and tokenizer.json.
// The model is the folder's one ONNX file where there are no weights, or none of a kind that is read.
// Errors name the file: kInvalid for malformed files, kUnsupported for an unsupported model_type, module, pooling,
// quantisation or custom code without such a file, kUsage for several of them. Files in the folder may be symlinks as
// made by hub caches; nothing else outside is opened.
Result<Folder> read_folder(const std::string& path);

// An integer of a config in 1..max. An error names the key. The second form has a default for an absent key.
Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max);
Result<int64_t> config_size(const Json& config, std::string_view key, int64_t max, int64_t fallback);

}  // namespace peri::hf
