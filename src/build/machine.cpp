// The target of this machine and its memory, as JSON.
#include "build/machine.hpp"

#include "exec/entry.hpp"

namespace peri::build {

MachineFacts machine_facts() {
  return {device::cpu_target(device::this_cpu().threads, exec::libraries()), device::host_memory()};
}

void write_machine(JsonWriter& w, const MachineFacts& m) {
  const device::Target& t = m.target;
  w.begin_object().field("cpu", cpu_name(m)).field("cpus", t.threads).key("isas").begin_array();
  for (const std::string& i : t.isas) w.value(i);
  w.end_array().key("caches").begin_object();
  for (const device::Cache& c : t.caches) w.field(c.name, c.bytes);
  w.end_object()
      .field("memory_bytes", m.memory.total_bytes)
      .field("available_bytes", m.memory.available_bytes)
      .key("libraries")
      .begin_array();
  for (const std::string& l : t.libraries) w.value(l);
  w.end_array().end_object();
}

std::string cpu_name(const MachineFacts& m) { return m.target.chip.empty() ? "unknown" : m.target.chip; }

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

}  // namespace peri::build
