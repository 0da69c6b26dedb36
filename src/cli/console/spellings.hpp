// Flags as users of other programs spell them: --warmUp, --saveEngine, --onnx, --fp16. They are mapped to flags of
// peri.
#pragma once

#include <optional>
#include <string>

#include "cli/entry.hpp"

namespace peri::cli {

// A word of the command line by our own spelling. A flag that stands for another with a value comes with it.
struct Spelt {
  std::string word;
  std::optional<std::string> value;
  bool positional = false;  // the flag's value is the model or engine itself
};
Spelt our_spelling(const Command& command, const std::string& word);
// What to do in place of a flag that another program has for this command; empty: it is none that is known.
std::string_view advice_on(const Command& command, std::string_view word);

// What to do instead of a flag of another program that is none here: a remedy; "" where nothing is known of it.
std::string advice_elsewhere(const std::string& word);

// The words of `list`, which spaces part.
std::vector<std::string_view> words_in(std::string_view list);

}  // namespace peri::cli
