// Reads the sections "pinned" and "same".
#include "compile/own_names.hpp"

#include <algorithm>

#include "compile/pinned.hpp"
#include "onnx/equal_sizes.hpp"

namespace peri::compile {

std::map<std::string, std::string> own_names(const std::vector<plan::Section>& sections) {
  std::map<std::string, std::string> out;
  for (const plan::Section& s : sections) {
    for (size_t at = 0; s.name == kSameSection && at < s.bytes.size();) {
      const size_t end = std::min(s.bytes.find('\n', at), s.bytes.size());
      const std::string line = s.bytes.substr(at, end - at);
      at = end + 1;
      if (const size_t tab = line.find('\t'); tab != std::string::npos) out[line.substr(0, tab)] = line.substr(tab + 1);
    }
  }
  return out;
}

std::string same_text(const onnx::SameSizes& same) {
  std::string out;
  for (const auto& [name, to] : same) out += name + '\t' + to.name + '\n';
  return out;
}

Status to_own_names(const std::vector<plan::Section>& sections, std::map<std::string, int64_t>* dims) {
  for (const plan::Section& s : sections)
    if (s.name == plan::kPinnedSection) PERI_TRY(leave_out_pinned(s.bytes, dims));
  std::map<std::string, std::string> said;  // by the name that stays
  for (const auto& [name, kept] : own_names(sections)) {
    const auto given = dims->find(name);
    if (given == dims->end()) continue;
    const int64_t value = given->second;
    dims->erase(given);
    const auto [at, fresh] = dims->emplace(kept, value);
    const std::string first = said.contains(kept) ? said[kept] : kept;
    if (!fresh && at->second != value)
      return usage("'%s' and '%s' are the same dimension and are given different sizes", first.c_str(), name.c_str())
          .expecting(first + "=" + std::to_string(at->second))
          .but_found(name + "=" + std::to_string(value));
    if (fresh) said[kept] = name;
  }
  return Ok{};
}

std::string own_name(const std::vector<plan::Section>& sections, const std::string& name) {
  const auto pairs = own_names(sections);
  const auto it = pairs.find(name);
  return it == pairs.end() ? name : it->second;
}

std::map<std::string, int64_t> fixed_dims(const plan::Program& program) {
  std::map<std::string, int64_t> out;
  const plan::Section* const pinned = program.section(plan::kPinnedSection);
  if (!pinned) return out;
  for (const auto& [name, value] : plan::pinned_sizes(pinned->bytes)) out.emplace(name, value);
  for (const plan::Port& port : program.inputs)
    for (size_t axis = 0; axis < port.shape.size(); ++axis) out.erase(port.name + "." + std::to_string(axis));
  return out;
}

void write_own_names(const plan::Program& program, JsonWriter* w) {
  if (const auto fixed = fixed_dims(program); !fixed.empty()) {
    w->key("fixed_dims").begin_object();
    for (const auto& [name, size] : fixed) w->field(name, size);
    w->end_object();
  }
  if (const auto same = own_names(program.sections); !same.empty()) {
    w->key("same_dims").begin_object();
    for (const auto& [name, kept] : same) w->field(name, kept);
    w->end_object();
  }
}

std::vector<std::string> dims_notes(const plan::Program& program) {
  std::vector<std::string> out;
  if (const auto fixed = fixed_dims(program); !fixed.empty()) out.push_back(fixed_note({fixed.begin(), fixed.end()}));
  onnx::SameSizes same;
  for (const auto& [name, kept] : own_names(program.sections)) same[name] = {kept, ""};
  for (std::string& note : onnx::same_notes(same)) out.push_back(std::move(note));
  return out;
}

}  // namespace peri::compile
