// Flags as users of other programs spell them: --warmUp, --saveEngine, --onnx, --fp16. They are mapped to flags of
// peri.
#pragma once

#include <optional>
#include <string>

#include "cli/entry.hpp"

namespace peri::cli {

// A word of the command line in peri's spelling. A flag that stands for another flag with a value includes the value.
struct Spelt {
  std::string word;
  std::optional<std::string> value;
  bool positional = false;  // the flag's value is the model or engine
};
Spelt our_spelling(const Command& command, const std::string& word);
// Advice for a flag that another program has for this command; empty: unknown flag.
std::string_view advice_on(const Command& command, std::string_view word);

// The remedy for a flag that is given twice and takes one value; empty: give it once.
std::string_view advice_on_twice(const Command& command, std::string_view flag);

// The remedy for a flag of another program that does not exist here, or of another command; "": unknown flag.
std::string advice_elsewhere(const Command& command, const std::string& word);
// What to do in place of arguments that a command does not take; empty: its help says so.
std::string_view advice_on_arguments(const Command& command);
// The command line here for a command of another program, or for a flag without a command; empty: an unknown word.
std::string_view command_elsewhere(std::string_view word);

// The words of `list`, separated by spaces.
std::vector<std::string_view> words_in(std::string_view list);

}  // namespace peri::cli
