// Tokenizer: text to the ids a model was trained with, as a `tokenizer.json` says. WordPiece with BERT's normalisation
// and splitting; the ids are those of the `tokenizers` package.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::text {

// One text, or pair of texts, as a model takes it. The three have one length.
struct Encoding {
  std::vector<int64_t> ids;
  std::vector<int64_t> type_ids;
  std::vector<int64_t> attention_mask;  // 0 for padding
};

enum class Padding {
  kAsFile,  // as the file says; its "BatchLongest" means the longest of this call
  kNone,
  kLongest,  // to the longest of this call, with the file's direction and pad id if it has them
};

struct EncodeOptions {
  bool special_tokens = true;
  std::optional<int64_t> max_length = {};  // truncates to this instead of to the file's length; special tokens count
  Padding padding = Padding::kAsFile;
};

class Tokenizer {
 public:
  struct State;  // what the file says, tokenizer_state.hpp

  // Reads the text of a tokenizer.json. kUnsupported names a model, normalizer, pre-tokenizer or post-processor we
  // lack; kInvalid names the field that is wrong. The file's name is for the caller to add.
  static Result<Tokenizer> from_json(std::string_view json);

  // Errors: kInvalid for a text that is not UTF-8, and for a truncation that cannot be met (OnlySecond without a pair).
  // Linear in the text. Any number of threads.
  Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> encode_pair(std::string_view first, std::string_view second,
                               const EncodeOptions& options = {}) const;
  // Texts padded together.
  Result<std::vector<Encoding>> encode_batch(std::span<const std::string> texts,
                                             const EncodeOptions& options = {}) const;

  // The text as the normalizer leaves it (for tests and for people).
  Result<std::string> normalize(std::string_view text) const;

  // Id of an added token or of a token of the vocabulary.
  std::optional<uint32_t> token_id(std::string_view token) const;
  // The largest id it can give: a model needs an embedding of at least one more row.
  uint32_t max_id() const;

 private:
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  friend class TokenizerReader;
  std::shared_ptr<const State> state_;
};

}  // namespace peri::text
