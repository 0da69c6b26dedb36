// Text files of the kernel, as in /proc and /sys: words, and numbers behind keys. What is missing is no error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peri {

// The file as it is now; "" where it cannot be read.
std::string system_text(const std::string& path);

// Parts of a text between any of the characters `between`; none is empty.
std::vector<std::string> parts_of(std::string_view text, std::string_view between);
std::vector<std::string> words_of(std::string_view text);  // between blanks and ends of lines

// The number that word `k` is; `otherwise` where there is no such word or it is no number ("max").
double number_of(const std::vector<std::string>& words, size_t k, double otherwise);
// The number that a file begins with; `otherwise` where there is none.
double number_in(const std::string& path, double otherwise = 0);
// The number behind the word `key`, as in "nr_throttled 2" or "MemTotal:  10 kB"; `otherwise` where there is none.
double number_behind(std::string_view text, std::string_view key, double otherwise);

}  // namespace peri
