// Widths by ranges of Unicode (East Asian Width W and F, and combining marks), coarse at their ends.
#include "cli/console/columns.hpp"

#include <algorithm>
#include <iterator>

#include "base/utf8.hpp"

namespace peri::cli {

namespace {
struct Range {
  char32_t first, last;
};
constexpr Range kWide[] = {{0x1100, 0x115f},   {0x231a, 0x231b},   {0x2e80, 0x303e},  {0x3041, 0x4dbf},
                           {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
                           {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                           {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
constexpr Range kOver[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x64b, 0x65f},  {0x1ab0, 0x1aff},
                           {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

template <size_t kCount>
bool is_in(const Range (&ranges)[kCount], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const Range& r) { return r.first <= code && code <= r.last; });
}

size_t columns_of(char32_t code) { return is_in(kOver, code) ? 0 : is_in(kWide, code) ? 2 : 1; }

// Bytes of the beginning that has at most this many columns.
size_t bytes_within(std::string_view text, size_t columns) {
  size_t at = 0, used = 0;
  while (at < text.size()) {
    const Utf8Char c = utf8_decode(text, at);
    used += columns_of(c.code);
    if (used > columns) break;
    at += static_cast<size_t>(c.bytes);
  }
  return at;
}
}  // namespace

size_t columns_of(std::string_view text) {
  size_t out = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    out += columns_of(c.code);
    at += static_cast<size_t>(c.bytes);
  }
  return out;
}

std::string in_columns(std::string_view text, size_t columns) {
  std::string out = printable(text);
  const size_t used = columns_of(out);
  if (used < columns) out.append(columns - used, ' ');
  return out;
}

std::string cut_to_columns(std::string_view text, size_t columns) {
  std::string whole = printable(text);
  if (columns_of(whole) <= columns) return whole;
  constexpr std::string_view kMore = "..";
  return whole.substr(0, bytes_within(whole, columns - std::min(columns, kMore.size()))) + std::string(kMore);
}

}  // namespace peri::cli
