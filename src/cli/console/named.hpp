// Words NAME=VALUE, where a name is any text of a model: it may contain "=", and so may a value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peri::cli {

struct Named {
  std::string name, value;
};
// Each way to read a word, shortest name first; empty if it has no "=" behind a name.
std::vector<Named> readings(const std::string& word);
// The reading with the longest name that is one of `names`; if none is, the first. REQUIRES a reading.
const Named& reading_of(std::span<const Named> readings, std::span<const std::string_view> names);

}  // namespace peri::cli
