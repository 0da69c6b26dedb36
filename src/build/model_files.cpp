// External data is found by its key in the bytes of the model, which need not be a whole one.
#include "build/model_files.hpp"

#include <filesystem>

#include "base/file.hpp"
#include "build/open.hpp"

namespace peri::build {

namespace {
namespace fs = std::filesystem;
constexpr std::string_view kLocation =
    "\x0a\x08location\x12";        // the key of a StringStringEntryProto, then its value's tag
constexpr size_t kMaxPath = 4096;  // PATH_MAX of Linux

// The text behind a length of at most two bytes.
std::string_view value_at(std::string_view bytes) {
  if (bytes.empty()) return {};
  size_t size = static_cast<unsigned char>(bytes[0]), head = 1;
  if (size >= 128 && bytes.size() > 1) {
    size = (size & 127) | static_cast<size_t>(static_cast<unsigned char>(bytes[1])) << 7;
    head = 2;
  }
  return size <= kMaxPath && head + size <= bytes.size() ? bytes.substr(head, size) : std::string_view();
}
}  // namespace

std::vector<std::string> files_behind(const std::string& model) {
  std::vector<std::string> out;
  std::error_code failed;
  if (fs::is_directory(model, failed)) {
    for (fs::directory_iterator at(model, failed), end; !failed && at != end; at.increment(failed))
      if (std::error_code unknown; at->is_regular_file(unknown)) out.push_back(at->path().string());
    return out;
  }
  if (!fs::is_regular_file(model, failed) || is_engine(model)) return out;
  const auto mapped = MappedFile::open(model);
  if (!mapped.ok()) return out;
  const std::string_view text = mapped->text();
  for (size_t at = text.find(kLocation); at != std::string_view::npos; at = text.find(kLocation, at + 1)) {
    const std::string_view name = value_at(text.substr(at + kLocation.size()));
    const fs::path path = fs::path(model).parent_path() / fs::path(name);
    if (name.empty() || (!out.empty() && out.back() == path.string())) continue;
    if (fs::is_regular_file(path, failed)) out.push_back(path.string());
  }
  return out;
}

}  // namespace peri::build
