// Characters outside ASCII mean nothing to a shell, but some of them to a terminal.
#include "base/shell_word.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "base/utf8.hpp"

namespace peri {

namespace {
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80) != 0 ||
         std::string_view("_-./:,=@%+").find(c) != std::string_view::npos;
}

// In the quotes of $'...', where a backslash begins an escape.
std::string escaped(std::string_view text) {
  std::string out = "$'";
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    const auto bytes = static_cast<size_t>(c.bytes);
    const bool shown = c.valid && !obeyed(c.code);
    for (size_t k = i; k < i + bytes; ++k) {
      if (!shown)
        out += format("\\x%02x", static_cast<unsigned char>(text[k]));
      else if (text[k] == '\'' || text[k] == '\\')
        (out += '\\') += text[k];
      else
        out += text[k];
    }
    i += bytes;
  }
  return out + "'";
}
}  // namespace

std::string shell_word(std::string_view text) {
  if (printable(text) != text) return escaped(text);
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace peri
