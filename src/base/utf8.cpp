// UTF-8 by the table of well-formed byte sequences (The Unicode Standard, table 3-7).
#include "base/utf8.hpp"

#include "base/result.hpp"

namespace peri {

Utf8Char utf8_decode(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {static_cast<char32_t>(lead), 1, true};
  int follow = 0;
  unsigned low = 0x80, high = 0xBF;  // range of the second byte
  char32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    follow = 1;
    code = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    follow = 2;
    code = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    follow = 3;
    code = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, false};
  }
  for (int i = 1; i <= follow; ++i) {
    const unsigned b = byte(at + static_cast<size_t>(i));
    if (b < low || b > high) return {0xFFFD, i, false};
    code = (code << 6) | (b & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {code, follow + 1, true};
}

void utf8_append(std::string& out, char32_t code) {
  const auto put = [&](char32_t v) { out += static_cast<char>(static_cast<unsigned char>(v)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool utf8_valid(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const Utf8Char c = utf8_decode(s, i);
    if (!c.valid) return false;
    i += static_cast<size_t>(c.bytes);
  }
  return true;
}

bool obeyed(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    const auto bytes = static_cast<size_t>(c.bytes);
    if (!c.valid)
      for (size_t k = i; k < i + bytes; ++k) out += format("\\x%02x", static_cast<unsigned char>(text[k]));
    else if (!obeyed(c.code))
      out.append(text, i, bytes);
    else if (c.code < 0x80)
      out += format("\\x%02x", static_cast<unsigned>(c.code));
    else
      out += format(c.code < 0x10000 ? "\\u%04x" : "\\U%08x", static_cast<unsigned>(c.code));
    i += bytes;
  }
  return out;
}

}  // namespace peri
