// A file: a line with the format, the key, the length of the log and a checksum; the log; the code.
#include "device/cuda/code_cache.hpp"

#include <unistd.h>

#include <charconv>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/kept_files.hpp"
#include "base/trust.hpp"

namespace peri::device::cuda {

namespace {
constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr std::string_view kFormat = "peri cubin 1 ";
constexpr size_t kLogDigits = 8;

std::string path_of(const std::string& folder, const std::string& key) {
  return folder + "/" + key + std::string(kMachineCode.suffix);
}

std::string head(const std::string& key, const CachedCode& code) {
  const uint64_t sum = Hasher().add(key).add(code.log).add(code.cubin).digest();
  return std::string(kFormat) + key + format(" %0*zx ", static_cast<int>(kLogDigits), code.log.size()) + hex64(sum) +
         "\n";
}
}  // namespace

Found read_code(const std::string& folder, const std::string& key, CachedCode* out, std::string* remark) {
  const std::string path = path_of(folder, key);
  if (folder.empty() || access(path.c_str(), F_OK) != 0) return Found::kNo;
  std::string wrong = distrust_folder(folder);
  if (wrong.empty()) wrong = distrust_file(path);
  const auto ignored = [&](const std::string& why) {
    *remark = "the cache's " + path + " is ignored: " + why;
    return Found::kIgnored;
  };
  if (!wrong.empty()) return ignored(wrong);
  auto text = read_file(path, kMaxBytes);
  if (!text.ok()) return ignored(text.error().message);
  const size_t lead = kFormat.size() + key.size() + 1, bytes = lead + kLogDigits + 1 + 16 + 1;
  size_t log = 0;
  if (text->size() < bytes) return ignored("it is cut");
  const char* const digits = text->data() + lead;
  if (std::from_chars(digits, digits + kLogDigits, log, 16).ec != std::errc() || log > text->size() - bytes)
    return ignored("its head is broken");
  CachedCode code{text->substr(bytes + log), text->substr(bytes, log)};
  if (text->substr(0, bytes) != head(key, code)) return ignored("its checksum is another");
  (void)hold_kept(path);  // used now: the others are deleted first
  *out = std::move(code);
  return Found::kYes;
}

std::string write_code(const std::string& folder, const std::string& key, const CachedCode& code) {
  if (folder.empty()) return "";
  make_own_folders(folder);
  const std::string wrong = distrust_folder(folder);
  if (!wrong.empty()) return "nothing is kept in " + folder + ": " + wrong;
  const Status written = write_file_atomic(path_of(folder, key), head(key, code) + code.log + code.cubin);
  return written.ok() ? "" : written.error().text();
}

}  // namespace peri::device::cuda
