// NVRTC's functions (nvrtc.h), one program per call.
#include "device/cuda/compiler.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "base/hash.hpp"
#include "base/kept_files.hpp"
#include "device/cuda/code_cache.hpp"

namespace peri::device::cuda {

namespace {
using Program = struct NvrtcProgramTag*;
constexpr int kCompilationFailed = 6;  // enum nvrtcResult: NVRTC_ERROR_COMPILATION
constexpr size_t kShownLog = 4000;
constexpr int64_t kWritesATrim = 64;                  // a folder of thousands is not listed for each file
constexpr std::string_view kFormat = "peri nvrtc 1";  // raised when the same key would give other code

struct Table {
  int (*supported_count)(int*) = nullptr;
  int (*supported)(int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

Status load(const Library& l, Table* t) {
  PERI_TRY(l.find("nvrtcGetNumSupportedArchs", &t->supported_count));
  PERI_TRY(l.find("nvrtcGetSupportedArchs", &t->supported));
  PERI_TRY(l.find("nvrtcCreateProgram", &t->create));
  PERI_TRY(l.find("nvrtcDestroyProgram", &t->destroy));
  PERI_TRY(l.find("nvrtcCompileProgram", &t->compile));
  PERI_TRY(l.find("nvrtcGetCUBINSize", &t->cubin_size));
  PERI_TRY(l.find("nvrtcGetCUBIN", &t->cubin));
  PERI_TRY(l.find("nvrtcGetProgramLogSize", &t->log_size));
  PERI_TRY(l.find("nvrtcGetProgramLog", &t->log));
  return l.find("nvrtcGetErrorString", &t->error_text);
}

struct OwnedProgram {
  const Table& table;
  Program program = nullptr;
  ~OwnedProgram() {
    if (program) table.destroy(&program);
  }
};

// "sm_90a": 90; 0 where it is none. The letters are those of features that only this chip (a) or its family (f) has.
int chip_number(std::string_view chip) {
  constexpr std::string_view kBegin = "sm_";
  if (!chip.starts_with(kBegin)) return 0;
  chip.remove_prefix(kBegin.size());
  if (chip.ends_with('a') || chip.ends_with('f')) chip.remove_suffix(1);
  int n = 0;
  const auto [end, code] = std::from_chars(chip.data(), chip.data() + chip.size(), n);
  return code == std::errc() && end == chip.data() + chip.size() && n >= 10 ? n : 0;
}

std::string log_of(const Table& table, Program program) {
  size_t bytes = 0;
  if (table.log_size(program, &bytes) != 0 || bytes <= 1) return "";
  std::string out(bytes, '\0');
  if (table.log(program, out.data()) != 0) return "";
  out.resize(out.find('\0') == std::string::npos ? bytes : out.find('\0'));
  return out;
}
}  // namespace

struct Compiler::State {
  explicit State(Library l) : library(std::move(l)) {}
  Library library;
  Table table;
  std::string folder;
  std::atomic<int64_t> compiled = 0, cached = 0, written = 0;

  Error failed(const Source& source, const char* call, int code) const {
    return Error(ErrorKind::kRefused, format("%s: %s", call, table.error_text(code))).at_node(source.name);
  }
};

Compiler::Compiler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Compiler::~Compiler() = default;
const Version& Compiler::version() const { return state_->library.version(); }
const std::string& Compiler::path() const { return state_->library.path(); }
Compiler::Counts Compiler::counts() const { return {state_->compiled, state_->cached}; }

Result<std::unique_ptr<Compiler>> Compiler::open(std::string folder) {
  PERI_ASSIGN(Library library, open_library(Vendor::kNvrtc));
  auto state = std::make_unique<State>(std::move(library));
  PERI_TRY(load(state->library, &state->table));
  state->folder = std::move(folder);
  return std::unique_ptr<Compiler>(new Compiler(std::move(state)));
}

Result<std::vector<int>> Compiler::chips() const {
  int count = 0;
  if (const int code = state_->table.supported_count(&count); code != 0 || count < 0)
    return unsupported("NVRTC does not tell its chips: error %d", code).in_file(path());
  std::vector<int> out(static_cast<size_t>(count));
  if (const int code = state_->table.supported(out.data()); code != 0)
    return unsupported("NVRTC does not tell its chips: error %d", code).in_file(path());
  return out;
}

std::string Compiler::key(const Source& source) const {
  std::string out;
  for (const uint64_t seed : {1, 2}) {
    Hasher h(seed);
    const auto add = [&h](std::string_view text) { h.add_i64(static_cast<int64_t>(text.size())).add(text); };
    add(kFormat);
    add(version().text());
    add(source.chip);
    add(source.name);  // it stands in the log
    add(source.text);
    h.add_i64(static_cast<int64_t>(source.options.size()));
    for (const std::string& o : source.options) add(o);
    for (const auto& [name, text] : source.headers) {
      add(name);
      add(text);
    }
    out += hex64(h.digest());
  }
  return out;
}

Result<Code> Compiler::compile(const Source& source) const {
  const int chip = chip_number(source.chip);
  if (chip == 0)
    return invalid("this is not a chip")
        .at_node(source.name)
        .expecting("'sm_' and a number, as 'sm_90a'")
        .but_found("'" + source.chip + "'");
  Code out;
  out.chip = source.chip;
  const std::string key = this->key(source);
  CachedCode kept;
  if (read_code(state_->folder, key, &kept, &out.remark) == Found::kYes) {
    ++state_->cached;
    out.cubin = std::move(kept.cubin);
    out.log = std::move(kept.log);
    out.cached = true;
    return out;
  }
  PERI_ASSIGN(const std::vector<int> known, chips());
  if (std::find(known.begin(), known.end(), chip) == known.end()) {
    std::string names;
    for (const int n : known) names += (names.empty() ? "sm_" : ", sm_") + std::to_string(n);
    return unsupported("NVRTC %s has no %s", version().text().c_str(), source.chip.c_str())
        .at_node(source.name)
        .in_file(path())
        .expecting(names);
  }
  PERI_ASSIGN(Code fresh, compile_anew(source));
  fresh.remark = out.remark;
  if (const std::string why = write_code(state_->folder, key, {fresh.cubin, fresh.log}); !why.empty())
    fresh.remark = why;
  else if (state_->written++ % kWritesATrim == 0)
    trim_kept(kMachineCode, state_->folder, kept_limit_bytes(kMachineCode));
  return fresh;
}

Result<Code> Compiler::compile_anew(const Source& source) const {
  const Table& t = state_->table;
  OwnedProgram owned{t};
  std::vector<const char*> names, texts;
  for (const auto& [name, text] : source.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  const int made = t.create(&owned.program, source.text.c_str(), source.name.c_str(), static_cast<int>(names.size()),
                            texts.data(), names.data());
  if (made != 0) return state_->failed(source, "nvrtcCreateProgram", made);
  const std::string chip = "--gpu-architecture=" + source.chip;
  std::vector<const char*> options = {chip.c_str(), "--std=c++17", "--ptxas-options=-v"};
  // NVRTC keeps a cache of its own below the home folder, which another process may write; ours is enough.
  if (version() >= Version{13, 0, 0}) options.push_back("--no-cache");
  if (source.lean && version() >= Version{12, 4, 0}) options.push_back("--minimal");
  for (const std::string& o : source.options) options.push_back(o.c_str());
  ++state_->compiled;
  const int done = t.compile(owned.program, static_cast<int>(options.size()), options.data());
  Code out;
  out.chip = source.chip;
  out.log = log_of(t, owned.program);
  if (done != 0) {
    const char* const what = done == kCompilationFailed ? "the source does not compile" : t.error_text(done);
    std::string shown = out.log.substr(0, kShownLog);
    std::replace(shown.begin(), shown.end(), '\n', ' ');
    return refused("%s", what).at_node(source.name).but_found(shown);
  }
  size_t bytes = 0;
  if (const int code = t.cubin_size(owned.program, &bytes); code != 0)
    return state_->failed(source, "nvrtcGetCUBINSize", code);
  if (bytes == 0) return refused("NVRTC gave no machine code for %s", source.chip.c_str()).at_node(source.name);
  out.cubin.resize(bytes);
  if (const int code = t.cubin(owned.program, out.cubin.data()); code != 0)
    return state_->failed(source, "nvrtcGetCUBIN", code);
  return out;
}

std::string code_cache_folder() {
  const std::string folder = cache_folder();
  return folder.empty() || kept_limit_bytes(kMachineCode) == 0 ? "" : kept_folder(kMachineCode, folder);
}

}  // namespace peri::device::cuda
