// From texts to model inputs: the tokenizer of a model and the names of the model's inputs, as an engine stores
// them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.hpp"
#include "text/tokenizer.hpp"

namespace peri::text {

// Names of the sections of an engine that hold a tokenizer.json and a PipelineSpec.
inline constexpr std::string_view kTokenizerSection = "tokenizer", kPipelineSection = "text_pipeline";
// In their place: why the model's own tokenizer is not used.
inline constexpr std::string_view kNoTokenizerSection = "no_tokenizer";

// How texts become inputs. Every input is i64[batch,sequence].
struct PipelineSpec {
  int64_t max_length = 512;  // ids of a text, special ones included; longer texts are truncated
  bool has_type_ids = false;
  std::string ids = "input_ids", mask = "attention_mask", types = "token_type_ids";
  std::string output = "embedding";                          // the output that is the result for a text
  std::string prompt;                                        // stands before each text
  std::vector<std::pair<std::string, std::string>> prompts;  // those that a caller may name, by name
  bool lowercase = false;                                    // of prompt and text, before the tokenizer
  TokenizerRules rules;                                      // where they differ from those of the tokenizer.json

  std::string to_json() const;
  static Result<PipelineSpec> from_json(std::string_view json);
};

class TextPipeline {
 public:
  // From the texts of a tokenizer.json and of PipelineSpec::to_json(): the sections of an engine.
  static Result<TextPipeline> from_sections(std::string_view tokenizer, std::string_view spec);

  const PipelineSpec& spec() const { return spec_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // The prompt of this name. Errors: kUsage: the model has none, with the names that it has.
  Result<std::string_view> prompt_named(std::string_view name) const;
  // Tensors by input name for a batch of at least one text, padded to the longest. Any number of threads. `prompt`
  // stands before each text; by default it is the model's own.
  Result<std::vector<std::pair<std::string, Tensor>>> inputs(std::span<const std::string> texts,
                                                             std::optional<std::string_view> prompt = {}) const;

 private:
  TextPipeline(Tokenizer tokenizer, PipelineSpec spec) : tokenizer_(std::move(tokenizer)), spec_(std::move(spec)) {}
  Tokenizer tokenizer_;
  PipelineSpec spec_;
};

}  // namespace peri::text
