// Inputs of a model made from texts: --text, and the prompt before them.
#pragma once

#include "base/tensor.hpp"
#include "cli/entry.hpp"
#include "plan/program.hpp"

namespace peri::cli {

// The flags of a command that takes texts too: --text behind --input, and those of the prompt at the end.
std::vector<Flag> with_texts(std::vector<Flag> flags);
// Checked before a model is built: it takes texts, and no other inputs are given.
Status check_texts(const Arguments& arguments);
// The words that give another process the same texts and prompt.
std::vector<std::string> text_words(const Arguments& arguments);
// Inputs of the program made from --text, which is given; errors name the model.
Result<std::vector<Tensor>> read_texts(const Arguments& arguments, const plan::Program& program);

}  // namespace peri::cli
