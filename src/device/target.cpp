// Targets as text, and properties derived from one. Detection is in cpu.cpp.
#include "device/target.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/json.hpp"

namespace peri::device {

namespace {
constexpr std::array<std::string_view, 3> kKinds = {"cpu", "null", "cuda"};
constexpr std::array<std::string_view, 5> kCpuIsas = {"avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx_int8"};
constexpr std::array<std::string_view, 7> kMembers = {"kind",   "chip",      "isas",           "threads",
                                                      "caches", "libraries", "multiprocessors"};
constexpr size_t kMaxBytes = size_t{1} << 16;
constexpr int64_t kMaxThreads = int64_t{1} << 16, kMaxCache = int64_t{1} << 40;

Error wrong(std::string_view member, std::string_view expected, std::string_view found) {
  return invalid("this is not a target").at_node(member).expecting(expected).but_found(found);
}

Result<std::vector<std::string>> names(const Json& json, std::string_view member) {
  PERI_ASSIGN(const Json::Array* items, json.get_array(member));
  std::vector<std::string> out;
  for (const Json& item : *items) {
    PERI_ASSIGN(const std::string_view name, item.as_string());
    if (name.empty()) return wrong(member, "names", "an empty one");
    if (std::find(out.begin(), out.end(), name) != out.end())
      return wrong(member, "each name once", format("'%s' twice", std::string(name).c_str()));
    out.emplace_back(name);
  }
  return out;
}

Status check_cpu_isas(const std::vector<std::string>& isas, bool with_gpu) {
  for (size_t k = 0; k < isas.size(); ++k) {
    if (with_gpu && isas[k].starts_with("sm_")) {
      for (; k < isas.size(); ++k)
        if (!isas[k].starts_with("sm_")) return wrong("isas", "those of the GPU last", "'" + isas[k] + "' behind them");
      return Ok{};
    }
    if (std::find(kCpuIsas.begin(), kCpuIsas.end(), isas[k]) == kCpuIsas.end())
      return wrong("isas", "avx2, avx512, avx512_vnni, avx512_bf16 or amx_int8", "'" + isas[k] + "'");
    if (isas[k] != kCpuIsas[k])
      return wrong("isas", format("'%s' before '%s'", std::string(kCpuIsas[k]).c_str(), isas[k].c_str()),
                   k == 0 ? "none" : "'" + isas[k - 1] + "'");
  }
  return Ok{};
}

Result<int> count_of(const Json& json, std::string_view member) {
  PERI_ASSIGN(const int64_t n, json.get_int(member));
  if (n < 1 || n > kMaxThreads)
    return wrong(member, format("a number in [1, %lld]", static_cast<long long>(kMaxThreads)), std::to_string(n));
  return static_cast<int>(n);
}

Result<std::vector<Cache>> caches_of(const Json& json) {
  PERI_ASSIGN(const Json::Object* members, json.get_object("caches"));
  std::vector<Cache> out;
  for (const Json::Member& m : *members) {
    const auto bytes = m.value.as_int();
    if (m.key.empty() || !bytes.ok() || *bytes < 1 || *bytes > kMaxCache)
      return wrong("caches", "sizes in bytes by name", "'" + m.key + "'");
    out.push_back({m.key, *bytes});
  }
  return out;
}
}  // namespace

std::string_view kind_name(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::span<const std::string_view> cpu_isas() { return kCpuIsas; }

bool Target::has(std::string_view isa) const {
  return isa.empty() || std::find(isas.begin(), isas.end(), isa) != isas.end();
}

int64_t Target::cache_bytes(int level) const {
  const std::string begin = format("L%d ", level);
  for (const Cache& c : caches)
    if (c.name.starts_with(begin) && c.name != begin + "instruction") return c.bytes;
  return 0;
}

Target Target::limited_to(std::string_view isa) const {
  Target out = *this;
  if (isa.empty()) return out;
  const auto at = std::find(out.isas.begin(), out.isas.end(), isa);
  PERI_CHECK(at != out.isas.end(), "a target limited to an instruction set that it does not have");
  out.isas.erase(at + 1, out.isas.end());
  return out;
}

Target with_gpu(Target host, const Target& gpu) {
  host.isas.insert(host.isas.end(), gpu.isas.begin(), gpu.isas.end());
  host.libraries.insert(host.libraries.end(), gpu.libraries.begin(), gpu.libraries.end());
  host.multiprocessors = gpu.multiprocessors;
  for (const Cache& c : gpu.caches)
    if (c.name == kSharedOfBlock) host.caches.push_back(c);
  return host;
}

void write_target(JsonWriter& w, const Target& t) {
  w.begin_object().field("kind", kind_name(t.kind)).field("chip", t.chip).key("isas").begin_array();
  for (const std::string& i : t.isas) w.value(i);
  w.end_array().field("threads", t.threads);
  if (t.multiprocessors > 0) w.field("multiprocessors", t.multiprocessors);
  w.key("caches").begin_object();
  for (const Cache& c : t.caches) w.field(c.name, c.bytes);
  w.end_object().key("libraries").begin_array();
  for (const std::string& l : t.libraries) w.value(l);
  w.end_array().end_object();
}

std::string target_text(const Target& target) {
  JsonWriter w;
  write_target(w, target);
  return w.take();
}

Result<Target> parse_target(std::string_view text) {
  PERI_ASSIGN(const Json json, parse_json(text, {4, kMaxBytes, 0}));
  if (!json.is_object()) return wrong("", "an object", json.kind_name());
  for (const Json::Member& m : json.members())
    if (std::find(kMembers.begin(), kMembers.end(), m.key) == kMembers.end())
      return wrong(m.key, "kind, chip, isas, threads, caches, libraries and multiprocessors", "an unknown member");
  Target t;
  PERI_ASSIGN(const std::string_view kind, json.get_string("kind"));
  const auto known = std::find(kKinds.begin(), kKinds.end(), kind);
  if (known == kKinds.end()) return wrong("kind", "cpu, null or cuda", "'" + std::string(kind) + "'");
  t.kind = static_cast<Kind>(known - kKinds.begin());
  PERI_ASSIGN(t.chip, json.get_string("chip"));
  PERI_ASSIGN(t.isas, names(json, "isas"));
  PERI_ASSIGN(t.threads, count_of(json, "threads"));
  if (json.find("multiprocessors")) {  // older texts say none
    PERI_ASSIGN(t.multiprocessors, count_of(json, "multiprocessors"));
  }
  if (t.kind == Kind::kCpu) PERI_TRY(check_cpu_isas(t.isas, t.multiprocessors > 0));
  PERI_ASSIGN(t.caches, caches_of(json));
  PERI_ASSIGN(t.libraries, names(json, "libraries"));
  return t;
}

Result<Target> read_target(const std::string& path) {
  PERI_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  auto target = parse_target(text);
  if (!target.ok()) return std::move(target).error().in_file(path);
  return target;
}

}  // namespace peri::device
