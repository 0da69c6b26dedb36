// Ties the importer together: read or map, survey, build, complete.
#include "onnx/import.hpp"

#include <algorithm>
#include <limits>

#include "base/path.hpp"
#include "base/plural.hpp"
#include "base/remembered_file.hpp"
#include "onnx/build_graph.hpp"
#include "onnx/complete_graph.hpp"
#include "onnx/equal_sizes.hpp"
#include "onnx/fixed.hpp"
#include "onnx/joined_sizes.hpp"
#include "onnx/survey.hpp"

namespace peri::onnx {

namespace {
// A protobuf message cannot be larger: a larger file is damaged or no protobuf.
constexpr uint64_t kMaxFile = std::numeric_limits<int32_t>::max();

struct Source {
  std::shared_ptr<const void> keep;
  std::string_view bytes;
  std::shared_ptr<const MappedFile> map;  // null: read into memory
};

Result<Source> open_source(const std::string& path, const ImportOptions& options) {
  PERI_ASSIGN(const Fd fd, open_file(path));
  PERI_ASSIGN(const uint64_t size, file_size(fd, path));
  if (size > kMaxFile)
    return invalid("the file is larger than an ONNX file can be")
        .in_file(path)
        .expecting("at most 2147483647 bytes")
        .but_found(counted(static_cast<int64_t>(size), "byte"))
        .advise("store the weights as external data (onnx.save with save_as_external_data=True)");
  Source s;
  if (size < options.map_from_bytes) {
    PERI_ASSIGN(std::string text, read_file(fd, path, static_cast<size_t>(size) + 1));
    auto kept = std::make_shared<const std::string>(std::move(text));
    s.bytes = *kept;
    s.keep = kept;
    return s;
  }
  PERI_ASSIGN(MappedFile map, MappedFile::map(fd, path));
  if (options.remember) remember(map);
  s.map = std::make_shared<const MappedFile>(std::move(map));
  s.bytes = s.map->text();
  s.keep = s.map;
  return s;
}

std::vector<Symbol> symbols_of(const ir::Graph& g) {
  std::vector<Symbol> out;
  for (const ir::Value* v : g.inputs) {
    if (!v->type.shape) continue;
    for (size_t a = 0; a < v->type.shape->size(); ++a) {
      const Dim& d = (*v->type.shape)[a];
      if (!d.is_symbol()) continue;
      const std::string name = d.symbol_name();
      auto it = std::find_if(out.begin(), out.end(), [&](const Symbol& s) { return s.name == name; });
      if (it == out.end()) it = out.insert(out.end(), Symbol{name, {}});
      it->axes.push_back(v->name + "." + std::to_string(a));
    }
  }
  return out;
}

// A file cut while it was read reads as zeros: then that is the error, whatever the zeros looked like.
template <class T>
Result<T> unless_cut(const Source& source, Result<T> result) {
  if (source.map) PERI_TRY(source.map->check());
  return result;
}
}  // namespace

Status ImportedModel::check_files() const {
  for (const auto& file : files) PERI_TRY(file->check());
  return Ok{};
}

Result<ImportedModel> import_bytes(std::string_view bytes, std::shared_ptr<const void> keep, const std::string& path,
                                   const std::string& dir, const ImportOptions& options) {
  PERI_ASSIGN(Survey survey, survey_bytes(bytes, path, options));
  if (!survey.report.supported()) return survey.report.refusal();
  if (Status fixed = fix_inputs(options, &survey); !fixed.ok()) return std::move(fixed).error().in_file(path);
  fix_sizes(options, &survey);
  WeightFiles weights(keep, bytes, dir, path, options.remember);
  ImportedModel out;
  auto work = [&]() -> Status {
    PERI_ASSIGN(BuiltGraph built, build_graph(survey, weights));
    PERI_TRY(complete_graph(built, &survey.report.outputs, &survey.report.notes));
    out.graph = std::move(built.graph);
    return Ok{};
  };
  Status done = work();
  for (const auto& [name, file] : weights.external_files()) {
    PERI_TRY(file->check());
    out.files.push_back(file);
  }
  if (!done.ok()) return std::move(done).error().in_file(path);
  if (const SameSizes same = equal_sizes(out.graph); !same.empty()) {
    ImportOptions again = options;
    again.same = merged(options.same, same);
    auto unified = import_bytes(bytes, keep, path, dir, again);
    if (unified.ok()) return unified;
  }
  if (auto open = joined_sizes(out.graph); !open.empty()) {
    ImportOptions again = options;
    again.from_zero.merge(open);
    auto from_zero = import_bytes(bytes, std::move(keep), path, dir, again);
    if (from_zero.ok()) return from_zero;
  }
  for (const auto& [name, container] : survey.containers)
    out.lengths.emplace(name, static_cast<int64_t>(container.elements.size()));
  out.symbols = symbols_of(out.graph);
  out.same = options.same;
  for (std::string& note : same_notes(out.same)) survey.report.notes.push_back(std::move(note));
  out.report = std::move(survey.report);
  out.metadata.insert(survey.model.metadata.begin(), survey.model.metadata.end());
  return out;
}

Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options) {
  PERI_ASSIGN(const Source source, open_source(path, options));
  Result<ImportedModel> out =
      unless_cut(source, import_bytes(source.bytes, source.keep, path, folder_of(path), options));
  if (out.ok() && source.map) out->files.push_back(source.map);
  return out;
}

Result<ImportReport> survey_model(const std::string& path, const ImportOptions& options) {
  PERI_ASSIGN(const Source source, open_source(path, options));
  auto work = [&]() -> Result<ImportReport> {
    PERI_ASSIGN(Survey survey, survey_bytes(source.bytes, path, options));
    return std::move(survey.report);
  };
  return unless_cut(source, work());
}

}  // namespace peri::onnx
