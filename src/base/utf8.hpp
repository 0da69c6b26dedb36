// UTF-8: decoding with full validation (no overlong form, no surrogate, nothing above U+10FFFF) and encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peri {

struct Utf8Char {
  char32_t code;  // U+FFFD if invalid
  int bytes;      // >= 1; an invalid sequence spans its longest well-formed beginning, as Unicode recommends
  bool valid;
};

// The character at s[at]; precondition: at < s.size().
Utf8Char utf8_decode(std::string_view s, size_t at);

// Appends `code` (a Unicode scalar value) to `out`.
void utf8_append(std::string& out, char32_t code);

bool utf8_valid(std::string_view s);

// Whether a terminal interprets the character instead of showing it, or it changes how text is displayed: C0, DEL and
// C1 controls, line separators, marks that reorder or hide text.
bool obeyed(char32_t code);

// `text` as one line that a terminal shows literally: such characters and invalid bytes are written as \x1b, \u202e.
// All else is unchanged.
std::string printable(std::string_view text);

}  // namespace peri
