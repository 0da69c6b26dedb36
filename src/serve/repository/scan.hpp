// What lies in a model repository: <model>/<version>/model.{engine,onnx} (or a Hugging Face folder in place of that
// file, or of all versions) and <model>/config.pbtxt or config.yaml. Names that are not plain file names are passed
// over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::serve {

struct FoundVersion {
  int64_t version = 0;
  std::string folder;
  uint64_t stamp = 0;  // of names, sizes and times of its files
};

struct FoundModel {
  std::string name;
  std::string folder;
  std::string config_path;             // "": there is none
  bool two_configs = false;            // of both forms: which of them holds is not said
  uint64_t config_stamp = 0;           // likewise
  std::vector<FoundVersion> versions;  // ascending
  uint64_t stamp() const;
};

// Letters, digits, '.', '_', '-', '+', no dot at its beginning, at most 200.
bool plain_name(std::string_view name);
// A part of a path whose characters came as "%2B": clients quote the '+' of a model's name. Empty: it is no such name.
std::string decoded_name(std::string_view part);
// A sentence as clients may read it: of each absolute path what stands behind its last '/'.
std::string without_paths(std::string_view text);
// Models of a repository by name, each with the configuration of its folder configs/ that is called `config_name`, if
// there is one. Errors: kIo.
Result<std::vector<FoundModel>> scan_repository(const std::string& root, const std::string& config_name = "");
// Its folders that are no models because of their names, the first of them; hidden ones are meant to be none.
std::vector<std::string> misnamed_folders(const std::string& root);
// One of them. Errors: kInvalid (no plain name), kIo (there is no such folder).
Result<FoundModel> scan_model(const std::string& root, std::string_view name, const std::string& config_name = "");
// The file, or the folder of Hugging Face's, that a version is loaded from; a folder of the file's name holds the file
// and what belongs to it. `wanted`: default_model_filename, or "".
Result<std::string> model_path(const FoundVersion& version, const std::string& wanted);

}  // namespace peri::serve
