// Expands the generated tables once: class bits by index for planes 0 and 1, by range above; mappings by search.
#include "text/unicode.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "text/unicode_tables.hpp"

namespace peri::text {

namespace {

constexpr char32_t kDirect = 0x20000;  // code points below have their bits at their index

struct Range {
  char32_t first, last;
  uint8_t value;  // class bit, or rank
};
struct Decomposition {
  char32_t code, first, second;  // second 0: none
};
struct Lower {
  char32_t code, lower;
};

struct Tables {
  std::vector<uint8_t> direct = std::vector<uint8_t>(kDirect);
  std::vector<Range> above;
  std::vector<Range> ranks;
  std::vector<Decomposition> decompositions;
  std::vector<Lower> lower;
  std::vector<char32_t> lower_cases;  // what they become, sorted

  Tables() {
    read_ranges(tables::removed(), kRemoved);
    read_ranges(tables::white_space(), kWhite);
    read_ranges(tables::punctuation(), kPunct);
    read_ranges(tables::stripped_marks(), kMark);
    read_ranges(tables::word_characters(), kWord);
    read_ranks();
    read_mappings();
    mark(0xAC00, 0xAC00 + 11171, kDecomposes);  // Hangul syllables, by arithmetic
    mark(0x130, 0x130, kLowers);
    std::sort(above.begin(), above.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  }

  void mark(char32_t first, char32_t last, uint8_t bit) {
    for (char32_t c = first; c <= last && c < kDirect; ++c) direct[c] |= bit;
    if (last >= kDirect) above.push_back({std::max(first, kDirect), last, bit});
  }
  void read_ranges(std::span<const int32_t> numbers, CharClass bit) {
    char32_t at = 0;
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
      const char32_t first = at + static_cast<char32_t>(numbers[i]);
      at = first + static_cast<char32_t>(numbers[i + 1]);
      mark(first, at - 1, bit);
    }
  }
  void read_ranks() {
    const std::span<const int32_t> numbers = tables::combining_ranks();
    char32_t at = 0;
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
      const char32_t first = at + static_cast<char32_t>(numbers[i]);
      at = first + static_cast<char32_t>(numbers[i + 1]);
      ranks.push_back({first, at - 1, static_cast<uint8_t>(numbers[i + 2])});
      mark(first, at - 1, kCombines);
    }
  }
  void read_mappings() {
    int32_t code = 0;
    std::span<const int32_t> numbers = tables::decompositions();
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
      code += numbers[i];
      const char32_t c = static_cast<char32_t>(code);
      decompositions.push_back(
          {c, static_cast<char32_t>(code + numbers[i + 1]), static_cast<char32_t>(numbers[i + 2])});
      mark(c, c, kDecomposes);
    }
    code = 0;
    numbers = tables::lowercase();
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
      code += numbers[i];
      const char32_t c = static_cast<char32_t>(code);
      lower.push_back({c, static_cast<char32_t>(code + numbers[i + 1])});
      mark(c, c, kLowers);
      lower_cases.push_back(lower.back().lower);
    }
    std::sort(lower_cases.begin(), lower_cases.end());
  }
};

const Tables& all() {
  static const Tables t;
  return t;
}

uint8_t rank_of(char32_t c) {
  const std::vector<Range>& ranks = all().ranks;
  const auto at =
      std::upper_bound(ranks.begin(), ranks.end(), c, [](char32_t v, const Range& r) { return v < r.first; });
  return at != ranks.begin() && c <= at[-1].last ? at[-1].value : 0;
}

void append_decomposed(std::u32string& out, char32_t c) {
  if (!(char_class(c) & kDecomposes)) {
    out += c;
    return;
  }
  if (c >= 0xAC00 && c < 0xAC00 + 11172) {  // The Unicode Standard, 3.12
    const char32_t i = c - 0xAC00;
    out += 0x1100 + i / 588;
    out += 0x1161 + i % 588 / 28;
    if (i % 28) out += 0x11A7 + i % 28;
    return;
  }
  const std::vector<Decomposition>& d = all().decompositions;
  const auto at =
      std::lower_bound(d.begin(), d.end(), c, [](const Decomposition& a, char32_t v) { return a.code < v; });
  append_decomposed(out, at->first);
  if (at->second) append_decomposed(out, at->second);
}

}  // namespace

uint8_t char_class(char32_t c) {
  const Tables& t = all();
  if (c < kDirect) return t.direct[c];
  uint8_t bits = 0;  // few ranges lie above, and hardly any text does
  for (const Range& r : t.above) {
    if (r.first > c) break;
    if (c <= r.last) bits |= r.value;
  }
  return bits;
}

bool is_han(char32_t c) {
  if (c < 0x3400) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || c <= 0x4DBF || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void decompose(std::u32string& text) {
  bool needed = false;
  for (const char32_t c : text) needed |= (char_class(c) & (kDecomposes | kCombines)) != 0;
  if (!needed) return;
  std::u32string out;
  out.reserve(text.size() + 16);
  for (const char32_t c : text) append_decomposed(out, c);
  for (size_t i = 0; i < out.size();) {
    size_t end = i;
    while (end < out.size() && (char_class(out[end]) & kCombines)) ++end;
    if (end - i > 1)
      std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(end),
                       [](char32_t a, char32_t b) { return rank_of(a) < rank_of(b); });
    i = end + 1;
  }
  text = std::move(out);
}

bool is_lower_case(char32_t c) {
  const std::vector<char32_t>& l = all().lower_cases;
  return std::binary_search(l.begin(), l.end(), c);
}

void append_lower(std::u32string& out, char32_t c) {
  if (!(char_class(c) & kLowers)) {
    out += c;
    return;
  }
  if (c == 0x130) {
    out += U"i\u0307";
    return;
  }
  const std::vector<Lower>& l = all().lower;
  out += std::lower_bound(l.begin(), l.end(), c, [](const Lower& a, char32_t v) { return a.code < v; })->lower;
}

}  // namespace peri::text
