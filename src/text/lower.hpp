// The lower case of a whole text, as Python's str.lower(): what a model's folder asks for before its tokenizer.
#pragma once

#include <string>
#include <string_view>

namespace peri::text {

// `text` must be valid UTF-8. A capital sigma at the end of a word becomes a final one (The Unicode Standard, table
// 3-17, Final_Sigma); letters of scripts other than Greek count as its neighbours where they have a case of their own.
std::string lower_case(std::string_view text);

}  // namespace peri::text
