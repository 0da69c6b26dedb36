// Reading of /proc and /sys: what is missing there is left out.
#include "cli/core/machine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.hpp"
#include "base/thread_pool.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"

namespace peri::cli {

namespace {
// A file of the kernel's: its size reads as 0, so it is read until its end.
std::string kernel_text(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  char block[4096];
  for (ssize_t n; fd.valid() && out.size() < (1u << 20) && (n = read(fd.get(), block, sizeof block)) > 0;)
    out.append(block, static_cast<size_t>(n));
  return out;
}
std::string trimmed(std::string s) {
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
  return s;
}
// The value of "key   : value" or "key:  value".
std::string field_of(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t colon = text.find(':', at), end = text.find('\n', at);
  if (colon == std::string::npos || colon > end) return "";
  const size_t first = text.find_first_not_of(" \t", colon + 1);
  return first == std::string::npos || first > end ? "" : trimmed(text.substr(first, end - first));
}
}  // namespace

MachineFacts machine_facts() {
  MachineFacts m;
  m.cpu = field_of(kernel_text("/proc/cpuinfo"), "model name");
  if (m.cpu.empty()) m.cpu = "unknown";
  m.cpus = usable_cpus();
  m.isas = kernels::detect_machine(m.cpus).isas;
  const std::string memory = kernel_text("/proc/meminfo");
  m.memory_bytes = std::atoll(field_of(memory, "MemTotal").c_str()) << 10;
  m.available_bytes = std::atoll(field_of(memory, "MemAvailable").c_str()) << 10;
  for (int k = 0; k < 8; ++k) {
    const std::string dir = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(k) + "/";
    const std::string level = trimmed(kernel_text(dir + "level")), size = trimmed(kernel_text(dir + "size"));
    std::string type = trimmed(kernel_text(dir + "type"));
    if (level.empty() || size.empty()) break;
    for (char& c : type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    m.caches.emplace_back("L" + level + " " + type, std::atoll(size.c_str()) << (size.back() == 'M' ? 20 : 10));
  }
  m.libraries = exec::libraries();
  return m;
}

void write_machine(JsonWriter& w, const MachineFacts& m) {
  w.begin_object().field("cpu", m.cpu).field("cpus", m.cpus).key("isas").begin_array();
  for (const std::string& i : m.isas) w.value(i);
  w.end_array().key("caches").begin_object();
  for (const auto& [name, bytes] : m.caches) w.field(name, bytes);
  w.end_object()
      .field("memory_bytes", m.memory_bytes)
      .field("available_bytes", m.available_bytes)
      .key("libraries")
      .begin_array();
  for (const std::string& l : m.libraries) w.value(l);
  w.end_array().end_object();
}

namespace {
// What times depend on, as one text.
std::string kind_of(const Json& machine) {
  std::string text;
  if (const auto cpu = machine.get_string("cpu"); cpu.ok()) text = *cpu;
  if (const Json* isas = machine.find("isas"))
    for (const Json& isa : isas->items()) text += ", " + std::string(isa.as_string().ok() ? *isa.as_string() : "");
  if (const Json* caches = machine.find("caches"))
    for (const Json::Member& c : caches->members())
      text += ", " + c.key + " " + std::to_string(c.value.as_int().ok() ? *c.value.as_int() : 0);
  return text;
}
}  // namespace

Status check_machine(const MachineFacts& here, const Json& recorded) {
  JsonWriter w;
  write_machine(w, here);
  PERI_ASSIGN(const Json own, parse_json(w.take()));
  if (kind_of(own) == kind_of(recorded)) return Ok{};
  return refused("its times were taken on another machine").expecting(kind_of(own)).but_found(kind_of(recorded));
}

}  // namespace peri::cli
