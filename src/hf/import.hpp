// The importer of Hugging Face folders: configuration, weights and tokenizer become a typed graph and the conversion of
// texts to the graph's inputs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hf/folder.hpp"
#include "hf/safetensors.hpp"
#include "ir/graph.hpp"
#include "text/tokenizer.hpp"

namespace peri::hf {

struct ImportedFolder {
  ir::Graph graph;  // inferred and checked; dimensions "batch" and "sequence"
  Folder folder;
  std::shared_ptr<const Weights> weights;  // the graph's constants are views of its files and keep them mapped
  std::optional<text::Tokenizer> tokenizer;
  // For the engine: text::TextPipeline::from_sections(folder.tokenizer, pipeline). Empty without a tokenizer.
  std::string pipeline;
  std::string no_tokenizer;  // why that of the folder is not used; empty where it has none, or has one that is used
  std::vector<std::string> notes;

  // kIo if a file was cut or overwritten since it was mapped: call it after weights were read and before the result is
  // used.
  Status check_files() const { return weights->check(); }
};

// True if `path` is a folder (of whatever contents).
bool is_folder(const std::string& path);

// The ONNX file that ONNX Runtime runs in a model's place: itself, or that of a folder.
Result<std::string> onnx_file_of(const std::string& model);

// What to do where a folder without tokenizer.json has the files of an older tokenizer, which are not read.
std::optional<Error> unread_vocabulary(const Folder& folder);
// The same as a note, and as what is told to who asks for texts later.
void note_vocabulary(ImportedFolder& out);
// A note where the folder is the first module of an older sentence model, given in the place of the model. What is
// beside it is not opened.
void note_part(ImportedFolder& out);

// Errors name the file, the key or weight, expectation, finding and remedy. Any folder is safe to import. An
// unsupported tokenizer is reported in a note and leaves `tokenizer` empty: the model still runs on ids. The second
// form is for what read_folder() gave, of weights: the graph of an ONNX file comes from its importer, then see
// hf/texts.hpp. `remember`: as for Weights::open_folder().
Result<ImportedFolder> import_folder(const std::string& path);
Result<ImportedFolder> import_weights(Folder folder, bool remember = false);

}  // namespace peri::hf
