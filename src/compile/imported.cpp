// Any model as a graph: an ONNX file, a folder of weights, or a folder with an ONNX file and a tokenizer.
#include "compile/compile.hpp"
#include "compile/other_files.hpp"
#include "compile/own_names.hpp"
#include "compile/pinned.hpp"
#include "hf/foreign.hpp"
#include "hf/import.hpp"
#include "hf/texts.hpp"
#include "onnx/import.hpp"
#include "plan/class_names.hpp"
#include "plan/identity.hpp"
#include "text/pipeline.hpp"

namespace peri::compile {

namespace {
void add_text_sections(hf::ImportedFolder model, std::vector<plan::Section>* sections) {
  if (!model.no_tokenizer.empty())
    sections->push_back({std::string(text::kNoTokenizerSection), std::move(model.no_tokenizer)});
  if (!model.tokenizer) return;
  sections->push_back({std::string(text::kTokenizerSection), std::move(model.folder.tokenizer)});
  sections->push_back({std::string(text::kPipelineSection), std::move(model.pipeline)});
}

Result<Imported> import_hf(hf::Folder folder) {
  Imported out;
  PERI_ASSIGN(hf::ImportedFolder model, hf::import_weights(std::move(folder), true));
  out.graph = std::move(model.graph);
  out.notes = std::move(model.notes);
  out.check_files = [weights = model.weights] { return weights->check(); };
  out.sections.push_back({std::string(plan::kFolderSection), "huggingface"});
  add_text_sections(std::move(model), &out.sections);
  return out;
}

Result<Imported> import_onnx(const std::string& model, const std::map<std::string, std::string>& fixed,
                             const ImportSizes& sizes) {
  Imported out;
  Pinned pinned;
  PERI_ASSIGN(onnx::ImportedModel imported, import_pinned(model, fixed, sizes, &pinned));
  out.graph = std::move(imported.graph);
  out.notes = std::move(imported.report.notes);
  if (!pinned.sizes.empty() || !pinned.also.empty())
    out.sections.push_back({std::string(plan::kPinnedSection), pinned_text(pinned)});
  if (!pinned.sizes.empty()) out.notes.push_back(fixed_note(pinned.sizes));
  if (!imported.same.empty()) out.sections.push_back({std::string(kSameSection), same_text(imported.same)});
  std::string lines;
  for (const auto& [name, value] : fixed) lines += name + "=" + value + "\n";
  if (!fixed.empty()) out.sections.push_back({std::string(kFixedSection), lines});
  if (std::string text = plan::class_names_text(imported.report.class_names); !text.empty())
    out.sections.push_back({std::string(plan::kClassNamesSection), std::move(text)});
  out.check_files = [files = std::move(imported.files)]() -> Status {
    for (const auto& file : files) PERI_TRY(file->check());
    return Ok{};
  };
  return out;
}

// The folder's ONNX file, and beside it what makes its inputs from texts.
Result<Imported> import_onnx_of(hf::Folder folder, const std::map<std::string, std::string>& fixed,
                                const ImportSizes& sizes) {
  PERI_ASSIGN(Imported out, import_onnx(folder.onnx, fixed, sizes));
  hf::ImportedFolder model;
  model.graph = std::move(out.graph);
  model.notes = std::move(folder.notes);
  model.folder = std::move(folder);
  PERI_TRY(hf::add_texts(model));
  out.graph = std::move(model.graph);
  out.notes.insert(out.notes.begin(), model.notes.begin(), model.notes.end());
  add_text_sections(std::move(model), &out.sections);
  return out;
}
}  // namespace

Result<Imported> import_any(const std::string& model, const std::map<std::string, std::string>& fixed,
                            const ImportSizes& sizes) {
  if (hf::is_folder(model)) {
    PERI_ASSIGN(hf::Folder folder, hf::read_folder(model));
    if (!folder.onnx.empty()) return import_onnx_of(std::move(folder), fixed, sizes);
    if (!fixed.empty())
      return usage("--fix is for ONNX models: a Hugging Face folder has no input to fix").in_file(model);
    return import_hf(std::move(folder));
  }
  if (std::optional<Error> foreign = hf::foreign_name(model)) return std::move(*foreign).in_file(model);
  if (std::optional<Error> other = other_file(model)) return std::move(*other);
  return import_onnx(model, fixed, sizes);
}

}  // namespace peri::compile
