// The steps in the order that `tokenizers` has: each sees the result of the one before.
#include "text/bert_normalizer.hpp"

#include "text/unicode.hpp"

namespace peri::text {

std::u32string BertNormalizer::apply(std::u32string text) const {
  std::u32string out;
  out.reserve(text.size() + 8);
  for (const char32_t c : text) {
    const uint8_t bits = char_class(c);
    if (clean_text && (bits & kRemoved)) continue;
    if (clean_text && (bits & kWhite)) {
      out += U' ';
    } else if (handle_chinese_chars && is_han(c)) {
      out += U' ';
      out += c;
      out += U' ';
    } else {
      out += c;
    }
  }
  if (strip_accents) {
    decompose(out);
    std::erase_if(out, [](char32_t c) { return (char_class(c) & kMark) != 0; });
  }
  if (!lowercase) return out;
  text.clear();
  for (const char32_t c : out) append_lower(text, c);
  return text;
}

}  // namespace peri::text
