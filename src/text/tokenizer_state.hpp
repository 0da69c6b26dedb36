// The validated contents of a tokenizer.json: filled by the reader, used by the encoder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/bert_normalizer.hpp"
#include "text/tokenizer.hpp"
#include "text/vocab.hpp"

namespace peri::text {

struct Truncation {
  enum Strategy { kLongestFirst, kOnlyFirst, kOnlySecond } strategy = kLongestFirst;
  bool left = false;  // truncates at the beginning
  uint64_t max_length = 0;
};

struct PaddingRule {
  std::optional<int64_t> fixed;  // none: the longest of the batch
  int64_t multiple = 0;          // 0: any
  bool left = false;
  int64_t id = 0;
  int64_t type_id = 0;
};

// A piece of the post-processor's template: a sequence, or ids of special tokens.
struct TemplatePiece {
  enum Kind { kFirst, kSecond, kSpecial } kind = kFirst;
  int64_t type_id = 0;
  std::vector<int64_t> ids;  // kSpecial
};

struct Tokenizer::State {
  std::optional<Truncation> truncation;
  bool truncates_left = false;  // where a caller truncates and `truncation` is not set
  std::optional<PaddingRule> padding;
  AddedTokens raw_tokens;         // matched before normalisation
  AddedTokens normalized_tokens;  // matched after it
  std::map<std::string, uint32_t, std::less<>> added_ids;
  std::optional<BertNormalizer> normalizer;
  bool bert_split = false;  // BertPreTokenizer; otherwise the whole text is one word
  std::vector<TemplatePiece> single, pair;
  Vocab vocab;
  uint32_t unknown_id = 0;
  Vocab::Place word_start;    // all tokens
  Vocab::Place continuation;  // tokens that begin with the prefix ("##")
  uint64_t max_input_chars_per_word = 100;
  uint32_t max_id = 0;

  // REQUIRES: valid UTF-8.
  std::string normalized(std::string_view text) const;
};

// Number of special ids a template adds.
uint64_t added_by(const std::vector<TemplatePiece>& pieces);

}  // namespace peri::text
