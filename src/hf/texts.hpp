// What makes the inputs of a graph from texts, as a folder has it: its tokenizer, and the pooling of token vectors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hf/import.hpp"

namespace peri::hf {

// Why an input of this name and type cannot be made from texts; none where it can.
std::optional<std::string> unfit_for_texts(std::string_view name, const ir::Type& type);

// Takes the folder's tokenizer for the graph, whose inputs are made from texts; `output` answers a text as a whole.
Status add_tokenizer(ImportedFolder& out, std::string_view output);

// Completes an import whose graph is that of the folder's ONNX file: the folder's pooling of its token vectors, where
// it has none of its own, and the tokenizer. Where the graph does not fit, a note says so.
Status add_texts(ImportedFolder& out);

}  // namespace peri::hf
