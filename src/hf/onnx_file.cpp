// By the files' names alone.
#include "hf/onnx_file.hpp"

#include <algorithm>
#include <filesystem>

#include "base/utf8.hpp"

namespace peri::hf {

namespace {
constexpr int64_t kMaxListed = 10000;  // files of a folder
constexpr size_t kMaxNamed = 8;        // in an error

std::vector<std::string> onnx_files_directly_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  int64_t seen = 0;
  for (std::filesystem::directory_iterator at(folder, failed);
       !failed && at != std::filesystem::directory_iterator() && ++seen < kMaxListed; at.increment(failed)) {
    std::error_code unknown;
    if (at->path().extension() == ".onnx" && !at->is_directory(unknown)) out.push_back(at->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}
}  // namespace

std::vector<std::string> onnx_files(const std::string& folder) {
  std::vector<std::string> out = onnx_files_directly_in(folder);
  return out.empty() ? onnx_files_directly_in(folder + "/onnx") : out;
}

Error several_onnx_files(const std::string& folder, const std::vector<std::string>& files) {
  std::string names;
  for (size_t k = 0; k < std::min(files.size(), kMaxNamed); ++k)
    names += (k ? ", " : "") + printable(files[k].substr(folder.size() + 1));
  if (files.size() > kMaxNamed) names += format(" and %zu more", files.size() - kMaxNamed);
  return usage("the folder has several ONNX files, and any of them may be the model")
      .in_file(folder)
      .expecting("one .onnx file")
      .but_found(names)
      .advise("give the one that is meant, which then takes ids in place of texts: " + files[0] +
              "; for texts give a folder with config.json, tokenizer.json and that file alone, as copies or links");
}

}  // namespace peri::hf
