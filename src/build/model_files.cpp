// External data is found by its key in the bytes of the model, which need not be a whole one.
#include "build/model_files.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "build/open.hpp"
#include "kernels/outside/manifest.hpp"

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

// Folders that links lead back to are gone through once.
void add_files_in(const fs::path& folder, std::set<std::pair<dev_t, ino_t>>* seen, std::vector<std::string>* out) {
  struct stat at;
  if (::stat(folder.c_str(), &at) != 0 || !seen->emplace(at.st_dev, at.st_ino).second) return;
  std::error_code failed;
  for (fs::directory_iterator one(folder, failed), end; !failed && one != end; one.increment(failed)) {
    std::error_code unknown;
    if (one->is_directory(unknown)) add_files_in(one->path(), seen, out);
    if (one->is_regular_file(unknown)) out->push_back(one->path().string());
  }
}

void add_external_data(const std::string& model, std::string_view text, std::vector<std::string>* out) {
  for (size_t at = text.find(kLocation); at != std::string_view::npos; at = text.find(kLocation, at + 1)) {
    const std::string_view name = value_at(text.substr(at + kLocation.size()));
    const fs::path path = fs::path(model).parent_path() / fs::path(name);
    if (name.empty() || (!out->empty() && out->back() == path.string())) continue;
    if (std::error_code unknown; fs::is_regular_file(path, unknown)) out->push_back(path.string());
  }
}
}  // namespace

std::vector<std::string> files_behind(const std::string& path) {
  std::vector<std::string> out;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    std::set<std::pair<dev_t, ino_t>> seen;
    add_files_in(path, &seen, &out);
    return out;
  }
  if (!fs::is_regular_file(path, failed) || is_engine(path)) return out;
  const auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return out;
  if (!mapped->text().starts_with('{')) {
    add_external_data(path, mapped->text(), &out);
  } else if (const auto manifest = kernels::outside::parse_manifest(mapped->text(), path); manifest.ok()) {
    out.push_back((fs::path(path).parent_path() / manifest->source).string());
  }
  return out;
}

}  // namespace peri::build
