// Folders are listed by name, so that results do not depend on the file system's order.
#include "serve/repository/scan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "serve/http/head.hpp"

namespace peri::serve {

namespace fs = std::filesystem;

bool plain_name(std::string_view name) {
  if (name.empty() || name.size() > 200 || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '+';
  });
}

std::string decoded_name(std::string_view part) {
  std::string out = percent_decoded(part);
  return plain_name(out) ? out : "";
}

static Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::error_code ec;
  std::vector<fs::path> out;
  for (auto it = fs::directory_iterator(folder, ec); !ec && it != fs::directory_iterator(); it.increment(ec)) {
    if (out.size() == 100000)
      return Error(ErrorKind::kMemory, "more than 100,000 files in a folder").in_file(folder.string());
    out.push_back(it->path());
  }
  if (ec)
    return io_error("cannot list the folder: %s", ec.message().c_str())
        .in_file(folder.string())
        .advise("it must exist and be readable by this user");
  std::sort(out.begin(), out.end());
  return out;
}

// Hashes name, size and times of a file; for a folder, of its contents. The time of the last change of any kind tells a
// file that was put in place of another with its time of writing.
static void add_stamp(const fs::path& path, int depth, Hasher* h) {
  std::error_code ec;
  h->add(path.filename().string());
  if (fs::is_directory(path, ec)) {
    const auto inside = entries_of(path);
    if (inside.ok() && depth < 4)
      for (const fs::path& p : *inside)
        if (!p.filename().string().starts_with(kTuningPrefix)) add_stamp(p, depth + 1, h);
    return;
  }
  struct stat at = {};
  if (::stat(path.c_str(), &at) != 0) return;
  h->add_i64(at.st_size).add_i64(static_cast<int64_t>(at.st_ino));
  for (const timespec& when : {at.st_mtim, at.st_ctim}) h->add_i64(when.tv_sec).add_i64(when.tv_nsec);
}

static uint64_t stamp_of(const fs::path& path) {
  Hasher h;
  add_stamp(path, 0, &h);
  return h.digest();
}

static Status add_content(const fs::path& path, int depth, Hasher* h) {
  std::error_code ec;
  const std::string name = path.filename().string();
  if (depth > 0) h->add(name).add_i64(static_cast<int64_t>(name.size()));
  if (fs::is_directory(path, ec)) {
    PERI_ASSIGN(const std::vector<fs::path> inside, entries_of(path));
    for (const fs::path& p : inside)
      if (const std::string own = p.filename().string();
          depth < 4 && own != "configs" && !own.starts_with("config.pbtxt") && !own.starts_with("config.yaml") &&
          !own.starts_with(kTuningPrefix))
        PERI_TRY(add_content(p, depth + 1, h));
    return Ok{};
  }
  PERI_ASSIGN(const MappedFile file, MappedFile::open(path.string()));
  h->add_bytes(file.bytes().data(), file.bytes().size()).add_i64(static_cast<int64_t>(file.bytes().size()));
  return Ok{};
}

Result<uint64_t> content_of(const std::string& path) {
  std::error_code ec;
  const fs::path whole = fs::is_directory(path, ec) ? fs::path(path) : fs::path(path).parent_path();
  Hasher h;
  PERI_TRY(add_content(whole, 0, &h));
  return h.digest();
}

uint64_t FoundModel::stamp() const {
  Hasher h;
  h.add_i64(static_cast<int64_t>(config_stamp)).add_i64(static_cast<int64_t>(beside_stamp));
  for (const FoundVersion& v : versions) h.add_i64(v.version).add_i64(static_cast<int64_t>(v.stamp));
  return h.digest();
}

uint64_t FoundModel::stamp(const FoundVersion& version) const {
  Hasher h;
  for (const uint64_t one : {version.stamp, config_stamp, beside_stamp}) h.add_i64(static_cast<int64_t>(one));
  return h.digest();
}

// Whether a configuration may name what stands beside the versions: others' temporary files, and what --tune writes,
// are no part of a model.
static bool may_be_named(const std::string& file) {
  return file[0] != '.' && file != "configs" && !file.starts_with(kTuningPrefix);
}

Result<FoundModel> scan_model(const std::string& root, std::string_view name, const std::string& config_name) {
  if (!plain_name(name))
    return invalid("this is not a valid model name").expecting("letters, digits, '.', '_', '-' and '+'");
  FoundModel out;
  out.name = name;
  const fs::path folder = fs::path(root) / out.name;
  out.folder = folder.string();
  PERI_ASSIGN(const std::vector<fs::path> files, entries_of(folder));
  std::error_code ec;
  for (const fs::path& p : files) {
    const std::string file = p.filename().string();
    const bool config = file == "config.pbtxt" || file == "config.yaml";
    if (config) {
      out.two_configs = !out.config_path.empty();
      out.config_path = p.string();
      out.config_stamp ^= stamp_of(p);
    }
    int64_t version = 0;
    const auto read = std::from_chars(file.data(), file.data() + file.size(), version);
    const bool numbered =
        read.ec == std::errc() && read.ptr == file.data() + file.size() && version >= 1 && file[0] != '0';
    if (numbered && fs::is_directory(p, ec))
      out.versions.push_back({version, p.string(), stamp_of(p)});
    else if (!config && may_be_named(file))
      out.beside_stamp = Hasher(out.beside_stamp).add_i64(static_cast<int64_t>(stamp_of(p))).digest();
  }
  if (!config_name.empty())
    for (const char* form : {".pbtxt", ".yaml"})
      if (const fs::path p = folder / "configs" / (config_name + form); fs::is_regular_file(p, ec)) {
        out.two_configs = out.config_path.starts_with((folder / "configs").string());
        out.config_path = p.string();
        out.config_stamp = stamp_of(p);
      }
  // A Hugging Face folder without version folders is version 1.
  if (out.versions.empty() && fs::is_regular_file(folder / "config.json", ec))
    out.versions.push_back({1, out.folder, stamp_of(folder)});
  std::sort(out.versions.begin(), out.versions.end(),
            [](const auto& a, const auto& b) { return a.version < b.version; });
  return out;
}

std::string without_paths(std::string_view text) {
  constexpr std::string_view kEnds = " \t\r\n'\"`,;:()[]{}<>|=";
  const auto ends = [&](char c) { return kEnds.find(c) != std::string_view::npos; };
  std::string out;
  for (size_t k = 0; k < text.size();) {
    const bool begins = k == 0 || ends(text[k - 1]);
    size_t end = k;
    while (end < text.size() && !ends(text[end])) ++end;
    if (!begins || text[k] != '/' || end == k + 1) {
      out.push_back(text[k++]);
      continue;
    }
    std::string_view path = text.substr(k, end - k);
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    out += path.substr(path.rfind('/') + 1);
    k = end;
  }
  return out;
}

std::string without_root(std::string text, const std::string& root) {
  if (root.empty()) return without_paths(text);
  const std::string folder = root.ends_with('/') ? root : root + "/";
  for (size_t at = 0; (at = text.find(folder, at)) != std::string::npos; ++at)  // also one with spaces
    if (at == 0 || std::string_view(" '\":(").find(text[at - 1]) != std::string_view::npos)
      text.replace(at, folder.size(), "/");
  return without_paths(text);
}

Result<std::vector<FoundModel>> scan_repository(const std::string& root, const std::string& config_name) {
  PERI_ASSIGN(const std::vector<fs::path> folders, entries_of(root));
  std::vector<FoundModel> out;
  std::error_code ec;
  for (const fs::path& p : folders) {
    const std::string name = p.filename().string();
    if (!plain_name(name) || !fs::is_directory(p, ec)) continue;
    auto found = scan_model(root, name, config_name);
    if (found.ok()) out.push_back(std::move(*found));  // otherwise it was removed meanwhile
  }
  return out;
}

constexpr size_t kTold = 10;

// Adds the models among `files`; `name`: of the folder that each belongs to, "": the file's own.
static void add_loose(const std::vector<fs::path>& files, const std::string& name, std::vector<LooseModel>* out) {
  std::error_code ec;
  for (const fs::path& p : files) {
    const std::string end = p.extension().string();
    if (out->size() == kTold || (end != ".onnx" && end != ".engine") || !fs::is_regular_file(p, ec)) continue;
    const std::string file = p.filename().string();
    out->push_back(
        {name.empty() ? file : name + "/" + file, (name.empty() ? p.stem().string() : name) + "/1/model" + end});
  }
}

std::vector<LooseModel> loose_models(const std::string& root) {
  std::vector<LooseModel> out;
  const auto files = entries_of(root);
  if (files.ok()) add_loose(*files, "", &out);
  const auto models = scan_repository(root);
  for (const FoundModel& m : models.ok() ? *models : std::vector<FoundModel>())
    if (const auto inside = entries_of(m.folder); m.versions.empty() && inside.ok()) add_loose(*inside, m.name, &out);
  return out;
}

std::vector<std::string> misnamed_folders(const std::string& root) {
  std::vector<std::string> out;
  std::error_code ec;
  const auto folders = entries_of(root);
  for (const fs::path& p : folders.ok() ? *folders : std::vector<fs::path>())
    if (const std::string name = p.filename().string();
        out.size() < kTold && name[0] != '.' && !plain_name(name) && fs::is_directory(p, ec))
      out.push_back(name);
  return out;
}

// Whether the ONNX file of a version is that of a Hugging Face folder, as optimum writes it: the folder is the model.
static bool is_text_folder(const fs::path& folder) {
  std::error_code ec;
  for (const char* name : {"config.json", "tokenizer.json", "model.onnx"})
    if (!fs::is_regular_file(folder / name, ec)) return false;
  const auto files = entries_of(folder);
  return files.ok() && std::none_of(files->begin(), files->end(), [](const fs::path& p) {
           return p.filename() == "model.engine" || p.extension() == ".safetensors" ||
                  (p.extension() == ".onnx" && p.filename() != "model.onnx");
         });
}

Result<std::string> model_path(const FoundVersion& version, const std::string& wanted) {
  if (!wanted.empty() && !plain_name(wanted))
    return invalid("default_model_filename must be a plain file name").but_found(wanted);
  std::vector<std::string> names = {"model.engine", "model.onnx"};
  if (!wanted.empty()) names = {wanted};
  if (wanted.empty() && is_text_folder(version.folder)) return version.folder;
  std::error_code ec;
  for (const std::string& n : names)
    for (const fs::path& p : {fs::path(version.folder) / n, fs::path(version.folder) / n / n})
      if (fs::is_regular_file(p, ec)) return p.string();
  if (wanted.empty() && fs::is_regular_file(fs::path(version.folder) / "config.json", ec)) return version.folder;
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  if (wanted.empty()) list += ", or the files of a Hugging Face folder";
  return io_error("the folder '%s' holds no model", version.folder.c_str()).expecting(list);
}

}  // namespace peri::serve
