// The contents of a model repository: <model>/<version>/model.{engine,onnx} (or a Hugging Face folder instead of that
// file, or of all versions) and <model>/config.pbtxt or config.yaml. Names that are not plain file names are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::serve {

struct FoundVersion {
  int64_t version = 0;
  std::string folder;
  uint64_t stamp = 0;  // hash of names, sizes and times of its files
};

struct FoundModel {
  std::string name;
  std::string folder;
  std::string config_path;             // "": none
  bool two_configs = false;            // both formats are present, which is an error
  uint64_t config_stamp = 0;           // hash of the configuration file
  uint64_t beside_stamp = 0;           // of other files that it may name: labels, samples, initial states
  std::vector<FoundVersion> versions;  // ascending
  uint64_t stamp() const;
  uint64_t stamp(const FoundVersion& version) const;  // of what one of them is made of
};

// Letters, digits, '.', '_', '-', '+'; no leading dot; at most 200 characters.
bool plain_name(std::string_view name);
// Decodes percent escapes in a part of a path: clients escape the '+' of a model's name. Empty: not a valid name.
std::string decoded_name(std::string_view part);
// A message for clients: each absolute path is reduced to its last part.
std::string without_paths(std::string_view text);
// The same for paths below `root` too, which may be relative.
std::string without_root(std::string text, const std::string& root);
// Models of a repository by name. The configuration is the file `config_name` in the model's folder configs/, if
// present. Errors: kIo; kMemory (more than 100,000 files in a folder).
Result<std::vector<FoundModel>> scan_repository(const std::string& root, const std::string& config_name = "");
// Names of folders that are not valid model names, the first few; hidden folders are ignored.
std::vector<std::string> misnamed_folders(const std::string& root);
// Where a model lies that is not in a version's folder: in the repository itself, or directly in a model's folder,
// which has no version. The first few, with the place that each belongs to.
struct LooseModel {
  std::string file, belongs;  // relative to the repository: "m.onnx", "m/1/model.onnx"
};
std::vector<LooseModel> loose_models(const std::string& root);
// One model. Errors: kInvalid (not a plain name), kIo (no such folder), kMemory (as above).
Result<FoundModel> scan_model(const std::string& root, std::string_view name, const std::string& config_name = "");
// The file or Hugging Face folder that a version is loaded from; a folder with the file's name contains the file and
// its external data. `wanted`: default_model_filename, or "". Errors: kInvalid (`wanted`), kIo.
Result<std::string> model_path(const FoundVersion& version, const std::string& wanted);

// Begin of the names of files that `peri serve --tune` writes into a model's folder.
constexpr std::string_view kTuningPrefix = "batching.";
// A hash of the names and bytes of the files beside the one that a version is loaded from, or in its Hugging Face
// folder; the same for a copy. Configurations and results of --tune are no part. `path`: of model_path(). Errors: kIo.
Result<uint64_t> content_of(const std::string& path);

}  // namespace peri::serve
