// Lower case, code point by code point but for the sigma.
#include "text/lower.hpp"

#include <string_view>

#include "base/utf8.hpp"
#include "text/unicode.hpp"

namespace peri::text {

namespace {

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

bool is_greek(char32_t c) { return (c >= 0x370 && c < 0x400) || (c >= 0x1F00 && c < 0x2000); }

bool is_cased(char32_t c) {
  return (char_class(c) & kLowers) || is_lower_case(c) || (is_greek(c) && (char_class(c) & kWord));
}

// What may stand between a sigma and the letters that decide its form: marks, apostrophes and the like.
bool is_passed_over(char32_t c) {
  constexpr std::u32string_view kSigns =
      U"'.:^`\u00A8\u00AF\u00B4\u00B7\u00B8\u02B9\u02BC\u0384\u0385\u0387"
      U"\u1FBD\u1FBF\u1FC0\u1FC1\u1FEF\u1FFD\u1FFE\u2018\u2019\u2024\u2027";
  return (char_class(c) & kMark) || (c > 0xA0 && (char_class(c) & kRemoved)) || kSigns.find(c) != kSigns.npos;
}

bool is_final(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && is_passed_over(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_passed_over(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::u32string codes, lower;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    codes += c.code;
    i += static_cast<size_t>(c.bytes);
  }
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == kCapitalSigma && is_final(codes, i))
      lower += kFinalSigma;
    else
      append_lower(lower, codes[i]);
  }
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : lower) utf8_append(out, c);
  return out;
}

}  // namespace peri::text
