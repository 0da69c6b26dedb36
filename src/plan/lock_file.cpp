// Locks to JSON and back, and access to their choices by key.
#include "plan/lock_file.hpp"

#include <algorithm>
#include <set>

#include "base/file.hpp"
#include "base/json.hpp"

namespace peri::plan {

const FileKind kLockFile{"a lock file", [](std::string_view head) { return head.starts_with("{\n \"peri_lock\":"); }};

namespace {
constexpr size_t kMaxLockBytes = size_t{64} << 20;

void write_choices(JsonWriter& w, std::string_view name, const std::vector<LockedChoice>& choices) {
  w.key(name).begin_array();
  for (const LockedChoice& c : choices) {
    w.begin_object().field("name", c.name).field("key", c.key).field("candidate", c.candidate);
    w.field("layouts", c.layouts).field("requires_isa", c.requires_isa).field("library", c.library);
    if (!c.fallback.empty()) w.field("fallback", c.fallback).field("fallback_isa", c.fallback_isa);
    w.end_object();
  }
  w.end_array();
}

Result<std::vector<LockedChoice>> read_choices(const Json& json, std::string_view name) {
  PERI_ASSIGN(const Json::Array* list, json.get_array(name));
  std::vector<LockedChoice> out;
  for (const Json& item : *list) {
    LockedChoice c;
    PERI_ASSIGN(c.name, item.get_string("name"));
    PERI_ASSIGN(c.key, item.get_string("key"));
    PERI_ASSIGN(c.candidate, item.get_string("candidate"));
    PERI_ASSIGN(c.layouts, item.get_string("layouts"));
    PERI_ASSIGN(c.requires_isa, item.get_string("requires_isa"));
    PERI_ASSIGN(c.library, item.get_string("library"));
    // Locks of older builds say "elsewhere".
    PERI_ASSIGN(const std::string_view older, item.get_string("elsewhere", ""));
    PERI_ASSIGN(const std::string_view older_isa, item.get_string("elsewhere_isa", ""));
    PERI_ASSIGN(c.fallback, item.get_string("fallback", older));
    PERI_ASSIGN(c.fallback_isa, item.get_string("fallback_isa", older_isa));
    out.push_back(std::move(c));
  }
  return out;
}
}  // namespace

std::vector<std::string> isas_of(const Lock& lock) {
  std::set<std::string> out;
  for (const auto* list : {&lock.regions, &lock.conversions})
    for (const LockedChoice& c : *list)
      for (const std::string& isa : {c.requires_isa, c.fallback_isa})
        if (!isa.empty()) out.insert(isa);
  return {out.begin(), out.end()};
}

namespace {
Result<std::map<std::string, int64_t>> read_dims(const Json::Object& members) {
  std::map<std::string, int64_t> out;
  for (const Json::Member& m : members) {
    PERI_ASSIGN(out[m.key], m.value.as_int());
  }
  return out;
}
}  // namespace

std::string lock_text(const Lock& lock) {
  JsonWriter w(1);
  w.begin_object().field("peri_lock", kLockFormat).field("builder", lock.builder).field("backend", lock.backend);
  if (!lock.model.identity.empty()) {
    w.key("model").begin_object().field("name", lock.model.name).field("identity", lock.model.identity);
    w.field("structure", lock.model.structure).end_object();
  }
  if (!lock.interrupted.empty()) w.field("interrupted", lock.interrupted);
  if (!lock.dtype.empty()) w.field("dtype", lock.dtype);
  if (!lock.io_dtype.empty()) w.field("io_dtype", lock.io_dtype);
  w.field("provider", lock.provider).key("isas").begin_array();
  for (const std::string& isa : isas_of(lock)) w.value(isa);
  w.end_array().key("dims").begin_object();
  for (const auto& [name, value] : lock.dims) w.field(name, value);
  w.end_object();
  if (!lock.also.empty()) {
    w.key("also").begin_array();
    for (const auto& dims : lock.also) {
      w.begin_object();
      for (const auto& [name, value] : dims) w.field(name, value);
      w.end_object();
    }
    w.end_array();
  }
  for (const auto& [key, limits] : {std::pair{"at_least", &lock.at_least}, std::pair{"at_most", &lock.at_most}}) {
    if (limits->empty()) continue;
    w.key(key).begin_object();
    for (const auto& [name, value] : *limits) w.field(name, value);
    w.end_object();
  }
  if (lock.max_iterations > 0) w.field("max_iterations", lock.max_iterations);
  if (!lock.fixed.empty()) {
    w.key("fixed").begin_object();
    for (const auto& [name, value] : lock.fixed) w.field(name, value);
    w.end_object();
  }
  w.key("disabled_passes").begin_array();
  for (const std::string& name : lock.disabled_passes) w.value(name);
  w.end_array();
  write_choices(w, "regions", lock.regions);
  write_choices(w, "conversions", lock.conversions);
  w.end_object();
  return w.take() + "\n";
}

Result<Lock> parse_lock(std::string_view text) {
  const auto no_lock = [](const std::string& found) {
    return invalid("not a lock file").expecting("what peri build --lock FILE writes").but_found(found);
  };
  if (!text.starts_with('{')) return no_lock("a file of another kind");
  const auto parsed = parse_json(text, {.max_bytes = kMaxLockBytes});
  if (!parsed.ok()) return Error(parsed.error()).advise("the lock file is cut or damaged: build with --lock again");
  const Json& json = *parsed;
  if (json.find("engine_hash")) return no_lock("the proof of an engine");
  if (!json.find("peri_lock")) return no_lock("JSON without 'peri_lock'");
  PERI_ASSIGN(const int64_t format, json.get_int("peri_lock"));
  if (format != kLockFormat)
    return refused("a lock of another format").expecting(std::to_string(kLockFormat)).but_found(std::to_string(format));
  Lock out;
  PERI_ASSIGN(out.builder, json.get_string("builder"));
  PERI_ASSIGN(out.backend, json.get_string("backend"));
  if (const Json* model = json.find("model")) {
    PERI_ASSIGN(out.model.name, model->get_string("name"));
    PERI_ASSIGN(out.model.identity, model->get_string("identity"));
    PERI_ASSIGN(out.model.structure, model->get_string("structure"));
  }
  PERI_ASSIGN(out.provider, json.get_string("provider"));
  PERI_ASSIGN(out.interrupted, json.get_string("interrupted", ""));
  PERI_ASSIGN(out.dtype, json.get_string("dtype", ""));
  PERI_ASSIGN(out.io_dtype, json.get_string("io_dtype", ""));
  PERI_ASSIGN(const Json::Object* dims, json.get_object("dims"));
  PERI_ASSIGN(out.dims, read_dims(*dims));
  if (json.find("also")) {
    PERI_ASSIGN(const Json::Array* also, json.get_array("also"));
    for (const Json& item : *also) {
      PERI_ASSIGN(const Json::Object* members, item.as_object());
      PERI_ASSIGN(out.also.emplace_back(), read_dims(*members));
    }
  }
  for (const auto& [key, limits] : {std::pair{"at_least", &out.at_least}, std::pair{"at_most", &out.at_most}}) {
    if (!json.find(key)) continue;
    PERI_ASSIGN(const Json::Object* members, json.get_object(key));
    PERI_ASSIGN(*limits, read_dims(*members));
  }
  if (json.find("max_iterations")) {
    PERI_ASSIGN(out.max_iterations, json.get_int("max_iterations"));
    if (out.max_iterations < 1)
      return invalid("'max_iterations' is below 1").but_found(std::to_string(out.max_iterations));
  }
  if (json.find("fixed")) {
    PERI_ASSIGN(const Json::Object* fixed, json.get_object("fixed"));
    for (const Json::Member& m : *fixed) {
      PERI_ASSIGN(const std::string_view value, m.value.as_string());
      out.fixed[m.key] = value;
    }
  }
  PERI_ASSIGN(const Json::Array* passes, json.get_array("disabled_passes"));
  for (const Json& name : *passes) {
    PERI_ASSIGN(const std::string_view word, name.as_string());
    out.disabled_passes.emplace_back(word);
  }
  PERI_ASSIGN(out.regions, read_choices(json, "regions"));
  PERI_ASSIGN(out.conversions, read_choices(json, "conversions"));
  return out;
}

Result<Lock> read_lock(const std::string& path) {
  PERI_ASSIGN(const std::string text, read_file(path, kMaxLockBytes));
  auto lock = parse_lock(text);
  if (!lock.ok()) return std::move(lock).error().in_file(path);
  return lock;
}

LockReader::LockReader(const Lock* lock) : lock_(lock) {
  if (!lock) return;
  for (size_t k = lock->regions.size(); k-- > 0;) left_[lock->regions[k].key].push_back(k);
}

Result<const LockedChoice*> LockReader::region(const std::string& key, std::string_view node) {
  const auto it = left_.find(key);
  if (it == left_.end() || it->second.empty())
    return refused("the lock says nothing about region %s", key.c_str())
        .at_node(node)
        .advise("it was made for another model, other passes or another version: build with --lock again");
  const size_t k = it->second.back();
  it->second.pop_back();
  return &lock_->regions[k];
}

bool LockReader::has(const std::string& key, std::string_view name) const {
  const auto it = left_.find(key);
  return it != left_.end() &&
         std::any_of(it->second.begin(), it->second.end(), [&](size_t k) { return lock_->regions[k].name == name; });
}

Result<const LockedChoice*> LockReader::conversion(const std::string& key, std::string_view node) const {
  for (const LockedChoice& c : lock_->conversions)
    if (c.key == key) return &c;
  return refused("the lock says nothing about the change of layout %s", key.c_str())
      .at_node(node)
      .advise("build with --lock again");
}

Status LockReader::all_used() const {
  if (!lock_) return Ok{};
  for (const LockedChoice& c : lock_->regions)
    if (const auto it = left_.find(c.key); !it->second.empty())
      return refused("the lock holds region %s, which this model does not have", c.key.c_str())
          .at_node(c.name)
          .advise("it was made for another model: build with --lock again");
  return Ok{};
}

}  // namespace peri::plan
