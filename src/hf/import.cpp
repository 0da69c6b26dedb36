// Folder → graph: description, weights, architecture, inference; then the tokenizer, checked against the vocabulary.
#include "hf/import.hpp"

#include <filesystem>

#include "base/fault.hpp"
#include "base/path.hpp"
#include "hf/entry.hpp"
#include "hf/texts.hpp"
#include "ops/entry.hpp"

namespace peri::hf {

void note_part(ImportedFolder& out) {
  constexpr const char* kModules = "modules.json";
  const std::string above = std::filesystem::path(out.folder.path).parent_path().string();
  const std::string parent = above.empty() ? "." : above;
  if (!stands_in(parent, kModules) || stands_in(out.folder.path, kModules)) return;
  out.notes.push_back(
      "modules.json stands beside the folder: as a part of that model it has neither its pooling nor "
      "its normalisation; move the folder's files beside modules.json, and say \"path\": \"\" there");
}

std::optional<Error> unread_vocabulary(const Folder& folder) {
  for (const char* name : {"vocab.txt", "vocab.json", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model"})
    if (folder.tokenizer.empty() && stands_in(folder.path, name))
      return unsupported("the tokenizer is not read from this file")
          .in_file(folder.path + "/" + name)
          .expecting("tokenizer.json beside it")
          .advise("make it: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
  return std::nullopt;
}

void note_vocabulary(ImportedFolder& out) {
  std::optional<Error> unread = unread_vocabulary(out.folder);
  if (!unread) return;
  out.notes.push_back(unread->text());
  unread->remedy.clear();  // who asks for texts later is told ways out
  out.no_tokenizer = unread->text();
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
}

Result<std::string> onnx_file_of(const std::string& model) {
  if (!is_folder(model)) return model;
  PERI_ASSIGN(Folder folder, read_folder(model));
  if (folder.onnx.empty())
    return usage("ONNX Runtime runs ONNX files, and the folder's model is its weights").in_file(model);
  return std::move(folder.onnx);
}

Result<ImportedFolder> import_folder(const std::string& path) {
  PERI_ASSIGN(Folder folder, read_folder(path));
  if (!folder.onnx.empty()) return usage("the folder's model is an ONNX file").in_file(folder.onnx);
  return import_weights(std::move(folder));
}

Result<ImportedFolder> import_weights(Folder folder, bool remember) {
  ImportedFolder out;
  out.folder = std::move(folder);
  out.notes = out.folder.notes;
  const Entry* const arch = find(out.folder.model_type);
  PERI_CHECK(arch, "read_folder() takes weights of a known model_type only");
  PERI_ASSIGN(Weights weights, Weights::open_folder(out.folder.path, remember));
  out.weights = std::make_shared<const Weights>(std::move(weights));
  Result<ir::Graph> graph = arch->build(out.folder, *out.weights, &out.notes);
  if (!graph.ok()) return std::move(graph).error().in_file(out.folder.path);
  out.graph = std::move(*graph);
  PERI_TRY(out.graph.sort());
  PERI_TRY(ops::infer_graph(out.graph));
  PERI_TRY(ir::verify_structure(out.graph));
  if (!out.folder.tokenizer.empty())
    PERI_TRY(add_tokenizer(out, out.graph.output_names[0]));
  else
    note_vocabulary(out);
  note_part(out);
  PERI_TRY(out.check_files());
  return out;
}

}  // namespace peri::hf
