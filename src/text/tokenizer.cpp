// Text → added tokens → normalised → words → pieces → truncated → with special tokens → padded.
#include "text/tokenizer.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "text/tokenizer_state.hpp"
#include "text/unicode.hpp"

namespace peri::text {

namespace {

std::u32string to_codes(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    out += c.code;
    i += static_cast<size_t>(c.bytes);
  }
  return out;
}

std::string to_utf8(const std::u32string& codes) {
  std::string out;
  out.reserve(codes.size());
  for (const char32_t c : codes) utf8_append(out, c);
  return out;
}

using Ids = std::vector<int64_t>;

}  // namespace

std::string Tokenizer::State::normalized(std::string_view text) const {
  return normalizer ? to_utf8(normalizer->apply(to_codes(text))) : std::string(text);
}

namespace {

// One text on its way to ids. Names follow the stages.
class Encoder {
 public:
  explicit Encoder(const Tokenizer::State& state) : state_(state) {}

  Result<Ids> sequence(std::string_view text) const {
    if (!utf8_valid(text)) return invalid("text is not valid UTF-8");
    Ids out;
    for (const AddedTokens::Piece& piece : state_.raw_tokens.split(text)) {
      if (piece.token)
        out.push_back(piece.token->id);
      else
        normalized_part(state_.normalized(piece.text), out);
    }
    return out;
  }

 private:
  void normalized_part(const std::string& text, Ids& out) const {
    for (const AddedTokens::Piece& piece : state_.normalized_tokens.split(text)) {
      if (piece.token)
        out.push_back(piece.token->id);
      else
        words(piece.text, out);
    }
  }

  void words(std::string_view text, Ids& out) const {
    if (!state_.bert_split) return pieces_of(text, out);
    size_t begin = 0;
    const auto flush = [&](size_t end) {
      if (begin < end) pieces_of(text.substr(begin, end - begin), out);
    };
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = utf8_decode(text, i);
      const size_t next = i + static_cast<size_t>(c.bytes);
      const uint8_t bits = char_class(c.code);
      if (bits & (kWhite | kPunct)) {
        flush(i);
        begin = bits & kWhite ? next : i;
        if (!(bits & kWhite)) flush(next);
        begin = next;
      }
      i = next;
    }
    flush(text.size());
  }

  // WordPiece: the longest known beginning, then the longest known continuation, and so on; unknown if that fails.
  void pieces_of(std::string_view word, Ids& out) const {
    const size_t before = out.size();
    const auto is_lead = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    bool known =
        word.size() <= state_.max_input_chars_per_word ||
        static_cast<uint64_t>(std::count_if(word.begin(), word.end(), is_lead)) <= state_.max_input_chars_per_word;
    for (size_t at = 0; known && at < word.size();) {
      const Vocab::Match m = state_.vocab.longest(at == 0 ? state_.word_start : state_.continuation, word.substr(at));
      known = m.bytes > 0;
      at += m.bytes;
      out.push_back(m.id);
    }
    if (known) return;
    out.resize(before);
    out.push_back(state_.unknown_id);
  }

  const Tokenizer::State& state_;
};

void cut(Ids& ids, uint64_t length, bool left) {
  if (length >= ids.size()) return;
  const auto excess = static_cast<std::ptrdiff_t>(ids.size() - length);
  if (left)
    ids.erase(ids.begin(), ids.begin() + excess);
  else
    ids.erase(ids.end() - excess, ids.end());
}

// Source of the rule for pairs: tokenizers, utils/truncation.rs.
void cut_longest_first(Ids& first, Ids& second, uint64_t length, bool left) {
  uint64_t shorter = first.size(), longer = second.size();
  const bool swapped = shorter > longer;
  if (swapped) std::swap(shorter, longer);
  longer = shorter > length ? shorter : std::max(shorter, length - shorter);
  if (shorter + longer > length) {
    shorter = length / 2;
    longer = shorter + length % 2;
  }
  cut(first, swapped ? longer : shorter, left);
  cut(second, swapped ? shorter : longer, left);
}

Status truncate(Ids& first, Ids* second, const Truncation& rule, uint64_t length) {
  const uint64_t total = first.size() + (second ? second->size() : 0);
  if (total <= length) return Ok{};
  if (rule.strategy == Truncation::kLongestFirst || length == 0) {
    if (second)
      cut_longest_first(first, *second, length, rule.left);
    else
      cut(first, length, rule.left);
    return Ok{};
  }
  Ids* target = rule.strategy == Truncation::kOnlyFirst ? &first : second;
  if (!target) return invalid("truncation \"OnlySecond\" needs a pair of texts");
  const uint64_t excess = total - length;
  if (target->size() <= excess) return invalid("text is too short to be truncated to the length wanted");
  cut(*target, target->size() - excess, rule.left);
  return Ok{};
}

Encoding assemble(const std::vector<TemplatePiece>& pieces, const Ids& first, const Ids& second, bool special) {
  Encoding out;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == TemplatePiece::kSpecial && !special) continue;
    const Ids& ids = piece.kind == TemplatePiece::kFirst    ? first
                     : piece.kind == TemplatePiece::kSecond ? second
                                                            : piece.ids;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.type_ids.insert(out.type_ids.end(), ids.size(), piece.type_id);
  }
  out.attention_mask.assign(out.ids.size(), 1);
  return out;
}

void pad(std::span<Encoding> batch, const std::optional<PaddingRule>& file_rule, Padding wanted) {
  if (wanted == Padding::kNone || (wanted == Padding::kAsFile && !file_rule)) return;
  PaddingRule rule = file_rule.value_or(PaddingRule{});
  if (wanted == Padding::kLongest) {
    rule.fixed.reset();
    rule.multiple = 0;
  }
  size_t length = 0;
  for (const Encoding& e : batch) length = std::max(length, e.ids.size());
  if (rule.fixed) length = static_cast<size_t>(*rule.fixed);
  const size_t multiple = static_cast<size_t>(rule.multiple);
  if (multiple > 0) length = (length + multiple - 1) / multiple * multiple;
  for (Encoding& e : batch) {
    if (e.ids.size() >= length) continue;
    const size_t n = length - e.ids.size();
    const auto fill = [&](Ids& ids, int64_t v) { ids.insert(rule.left ? ids.begin() : ids.end(), n, v); };
    fill(e.ids, rule.id);
    fill(e.type_ids, rule.type_id);
    fill(e.attention_mask, 0);
  }
}

Result<Encoding> encode_unpadded(const Tokenizer::State& state, std::string_view text, const std::string_view* other,
                                 const EncodeOptions& options) {
  const Encoder encoder(state);
  PERI_ASSIGN(Ids first, encoder.sequence(text));
  Ids second;
  if (other) {
    PERI_ASSIGN(second, encoder.sequence(*other));
  }
  const std::vector<TemplatePiece>& pieces = other ? state.pair : state.single;
  const uint64_t added = options.special_tokens ? added_by(pieces) : 0;
  std::optional<Truncation> rule = state.truncation;
  if (options.max_length) {
    if (*options.max_length < 0) return usage("max_length is negative");
    if (!rule) rule.emplace().left = state.truncates_left;
    rule->max_length = static_cast<uint64_t>(*options.max_length);
  }
  if (rule) {
    if (rule->max_length < added)
      return invalid("truncation to %llu ids leaves no room for %llu special ones",
                     static_cast<unsigned long long>(rule->max_length), static_cast<unsigned long long>(added));
    PERI_TRY(truncate(first, other ? &second : nullptr, *rule, rule->max_length - added));
  }
  return assemble(pieces, first, second, options.special_tokens);
}

}  // namespace

Result<Encoding> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  PERI_ASSIGN(Encoding out, encode_unpadded(*state_, text, nullptr, options));
  pad({&out, 1}, state_->padding, options.padding);
  return out;
}

Result<Encoding> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                        const EncodeOptions& options) const {
  PERI_ASSIGN(Encoding out, encode_unpadded(*state_, first, &second, options));
  pad({&out, 1}, state_->padding, options.padding);
  return out;
}

Result<std::vector<Encoding>> Tokenizer::encode_batch(std::span<const std::string> texts,
                                                      const EncodeOptions& options) const {
  std::vector<Encoding> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) {
    PERI_ASSIGN(Encoding e, encode_unpadded(*state_, text, nullptr, options));
    out.push_back(std::move(e));
  }
  pad(out, state_->padding, options.padding);
  return out;
}

TokenizerRules Tokenizer::rules() const {
  TokenizerRules out;
  out.truncates_left = state_->truncates_left;
  if (const std::optional<BertNormalizer>& n = state_->normalizer) {
    out.lowercase = n->lowercase;
    out.strip_accents = n->strip_accents;
    out.splits_han = n->handle_chinese_chars;
  }
  return out;
}

Result<std::string> Tokenizer::normalize(std::string_view text) const {
  if (!utf8_valid(text)) return invalid("text is not valid UTF-8");
  return state_->normalized(text);
}

std::optional<uint32_t> Tokenizer::token_id(std::string_view token) const {
  if (const auto at = state_->added_ids.find(token); at != state_->added_ids.end()) return at->second;
  return state_->vocab.id(token);
}

uint32_t Tokenizer::max_id() const { return state_->max_id; }

}  // namespace peri::text
