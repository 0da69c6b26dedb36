// Unicode as the `tokenizers` package implements it: classes of code points, canonical decomposition, lower case.
// Recorded from the package itself, code point by code point, because its parts follow several versions of Unicode at
// once.
#pragma once

#include <cstdint>
#include <string>

namespace peri::text {

enum CharClass : uint8_t {
  kRemoved = 1,      // removed by clean_text: control, format, private use, U+0000, U+FFFD
  kWhite = 2,        // white space
  kPunct = 4,        // a word of its own in BERT's pre-tokenisation
  kMark = 8,         // removed by strip_accents
  kWord = 16,        // \w: next to it a single_word token does not match
  kDecomposes = 32,  // has a canonical decomposition
  kLowers = 64,      // lower case differs
  kCombines = 128,   // canonical combining class is not 0
};
// A set of CharClass bits; 0 for anything above U+10FFFF.
uint8_t char_class(char32_t c);

// Han characters, which BERT surrounds with spaces.
bool is_han(char32_t c);

// Canonical decomposition of a whole text, in canonical order. Linear, except for the sorting of each run of marks.
void decompose(std::u32string& text);

// Appends the lower case of `c` (one code point, for U+0130 two).
void append_lower(std::u32string& out, char32_t c);
// Whether `c` is the lower case of another code point.
bool is_lower_case(char32_t c);

}  // namespace peri::text
