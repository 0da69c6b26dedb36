// Tokenizer: text to the ids that a model was trained with, as defined by a `tokenizer.json`. WordPiece with BERT's
// normalisation and splitting; the ids are those of the `tokenizers` package.
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

// One text, or pair of texts, as a model expects it. The three vectors have the same length.
struct Encoding {
  std::vector<int64_t> ids;
  std::vector<int64_t> type_ids;
  std::vector<int64_t> attention_mask;  // 0 for padding
};

enum class Padding {
  kAsFile,  // as the file says; its "BatchLongest" means the longest of this call
  kNone,
  kLongest,  // to the longest of this call, with the file's direction and pad id if present
};

struct EncodeOptions {
  bool special_tokens = true;
  std::optional<int64_t> max_length = {};  // truncates to this instead of to the file's length; special tokens included
  Padding padding = Padding::kAsFile;
};

// Rules of a tokenizer that a file beside tokenizer.json may say otherwise; one that is not set is as that file has it.
struct TokenizerRules {
  std::optional<bool> truncates_left;                        // the beginning of a long text is cut off, not its end
  std::optional<bool> lowercase, strip_accents, splits_han;  // of BERT's normalizer; they add none

  bool operator==(const TokenizerRules&) const = default;
};

class Tokenizer {
 public:
  struct State;  // the contents of the file, tokenizer_state.hpp

  // Parses the text of a tokenizer.json. kUnsupported names the type of its model, normalizer, pre-tokenizer or
  // post-processor that this class does not take; kInvalid names the field that is wrong. The caller adds the file's
  // name. `rules` win over the file's.
  static Result<Tokenizer> from_json(std::string_view json, const TokenizerRules& rules = {});

  // Errors: kInvalid for a text that is not UTF-8, and for a truncation that is impossible (OnlySecond without a pair).
  // Linear in the text. Thread-safe.
  Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> encode_pair(std::string_view first, std::string_view second,
                               const EncodeOptions& options = {}) const;
  // Several texts, padded together.
  Result<std::vector<Encoding>> encode_batch(std::span<const std::string> texts,
                                             const EncodeOptions& options = {}) const;

  // The rules that it follows; those of a normalizer that it has not are not set.
  TokenizerRules rules() const;

  // The normalizer's output (for tests and diagnostics).
  Result<std::string> normalize(std::string_view text) const;

  // Id of an added token or of a token of the vocabulary.
  std::optional<uint32_t> token_id(std::string_view token) const;
  // The largest possible id: the model's embedding needs at least one row more.
  uint32_t max_id() const;

 private:
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  friend class TokenizerReader;
  std::shared_ptr<const State> state_;
};

}  // namespace peri::text
