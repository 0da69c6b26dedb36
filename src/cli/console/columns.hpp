// Tables of names in any script: how many columns of a terminal text takes, and text filled up to a number of them.
#pragma once

#include <string>
#include <string_view>

namespace peri::cli {

// As most terminals show it: 2 for the wide characters of East Asian scripts and for pictures, 0 for marks over others.
size_t columns_of(std::string_view text);
// The text, made printable(), with spaces behind it up to this many columns; unchanged where it is longer.
std::string in_columns(std::string_view text, size_t columns);
// The beginning of it that has at most this many columns, with ".." at its end where that is not all.
std::string cut_to_columns(std::string_view text, size_t columns);

}  // namespace peri::cli
