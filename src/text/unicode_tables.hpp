// The generated tables in compact form (see tools/make_unicode_tables.py); unicode.cpp expands them.
#pragma once

#include <cstdint>
#include <span>

namespace peri::text::tables {

// Ranges of code points: pairs (gap since the end of the range before, length).
std::span<const int32_t> removed();
std::span<const int32_t> white_space();
std::span<const int32_t> punctuation();
std::span<const int32_t> stripped_marks();
std::span<const int32_t> word_characters();
// Triples (gap, length, rank of the canonical combining class from 1).
std::span<const int32_t> combining_ranks();
// Triples (distance from the code before, first - code, second or 0).
std::span<const int32_t> decompositions();
// Pairs (distance from the code before, lower - code).
std::span<const int32_t> lowercase();

}  // namespace peri::text::tables
