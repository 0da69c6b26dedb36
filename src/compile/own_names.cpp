// Reads the sections "pinned" and "same".
#include "compile/own_names.hpp"

#include <algorithm>

#include "compile/pinned.hpp"

namespace peri::compile {

namespace {
std::map<std::string, std::string> pairs_of(const std::vector<plan::Section>& sections) {
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
}  // namespace

std::string same_text(const onnx::SameSizes& same) {
  std::string out;
  for (const auto& [name, to] : same) out += name + '\t' + to.name + '\n';
  return out;
}

Status to_own_names(const std::vector<plan::Section>& sections, std::map<std::string, int64_t>* dims) {
  for (const plan::Section& s : sections)
    if (s.name == kPinnedSection) PERI_TRY(leave_out_pinned(s.bytes, dims));
  std::map<std::string, std::string> said;  // by the name that stays
  for (const auto& [name, kept] : pairs_of(sections)) {
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
  const auto pairs = pairs_of(sections);
  const auto it = pairs.find(name);
  return it == pairs.end() ? name : it->second;
}

}  // namespace peri::compile
