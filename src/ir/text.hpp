// Parts of the text form that printer and parser share.
#pragma once

#include <string>
#include <string_view>

namespace peri::ir {

std::string quoted(std::string_view s);        // with escapes for quote, backslash and control bytes
std::string number_text(double v);             // shortest that parses back; always with '.', 'e', "inf" or "nan"
std::string name_text(std::string_view name);  // without quotes where possible

}  // namespace peri::ir
