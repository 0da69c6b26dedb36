// The needs of an offer; configuration texts: numbers in them, and settings of tunables.
#include <algorithm>
#include <charconv>

#include "kernels/entry.hpp"

namespace peri::kernels {

namespace {
const Tunable* find_tunable(const Kernel& kernel, std::string_view name) {
  const auto it =
      std::find_if(kernel.tunables.begin(), kernel.tunables.end(), [&](const Tunable& t) { return t.name == name; });
  return it == kernel.tunables.end() ? nullptr : &*it;
}

bool is_resolved(const Kernel& kernel, std::string_view name) {
  return std::find(kernel.resolved.begin(), kernel.resolved.end(), name) != kernel.resolved.end();
}

// The words of a configuration, "a=1 b=2".
std::vector<std::string_view> words(std::string_view config) {
  std::vector<std::string_view> out;
  while (!config.empty()) {
    const size_t end = std::min(config.find(' '), config.size());
    if (end > 0) out.push_back(config.substr(0, end));
    config.remove_prefix(std::min(end + 1, config.size()));
  }
  return out;
}
}  // namespace

ir::Graph placed(const Problem& problem, const Offer& offer) {
  ir::Graph out = problem.graph->clone();
  for (size_t k = 0; k < std::min(out.inputs.size(), offer.inputs.size()); ++k)
    out.inputs[k]->type.layout = offer.inputs[k];
  for (size_t k = 0; k < std::min(out.outputs.size(), offer.outputs.size()); ++k)
    out.outputs[k]->type.layout = offer.outputs[k];
  return out;
}

Result<Needs> needs_of(const Kernel& kernel, const Problem& problem, const Offer& offer, const Target& target) {
  if (!kernel.needs) return refused("only its library knows what a run needs");
  const ir::Graph region = placed(problem, offer);
  return kernel.needs({&region, problem.constant}, offer.config, target);
}

bool has_library(const Kernel& kernel, const Target& target) {
  return kernel.library.empty() ||
         std::any_of(target.libraries.begin(), target.libraries.end(),
                     [&](const std::string& l) { return l.starts_with(std::string(kernel.library) + " "); });
}

std::string derived_config(const Kernel& kernel, std::string_view config) {
  std::string out;
  bool chosen = false;
  const auto add = [&](std::string_view word) { out += (out.empty() ? "" : " ") + std::string(word); };
  for (const std::string_view word : words(config)) {
    const std::string_view name = word.substr(0, word.find('='));
    if (is_resolved(kernel, name))
      chosen = true;
    else if (!find_tunable(kernel, name))
      add(word);
  }
  if (chosen) add(kHeuristic);
  return out;
}

Status check_resolved(const Kernel& kernel, std::string_view offered, std::string_view config) {
  std::vector<std::string_view> names;
  for (const std::string_view word : words(config)) names.push_back(word.substr(0, word.find('=')));
  std::sort(names.begin(), names.end());
  if (config != offered && derived_config(kernel, config) == offered &&
      std::adjacent_find(names.begin(), names.end()) == names.end())
    return Ok{};
  return invalid("the library's choice is not a configuration of its offer")
      .expecting("{" + std::string(offered) + "}")
      .but_found("{" + std::string(config) + "}");
}

std::vector<std::string> settings_of(const Kernel& kernel, std::string_view config, size_t most) {
  std::vector<std::string> out;
  size_t longest = 0;
  for (const Tunable& t : kernel.tunables) longest = std::max(longest, t.values.size());
  for (size_t k = 0; k < longest; ++k)
    for (const Tunable& t : kernel.tunables) {
      const Result<int64_t> set = setting(kernel, config, t.name);
      if (k >= t.values.size() || out.size() >= most || !set.ok() || *set != 0) continue;
      out.push_back(std::string(config) + (config.empty() ? "" : " ") + std::string(t.name) + "=" +
                    std::to_string(t.values[k]));
    }
  return out;
}

Result<int64_t> setting(const Kernel& kernel, std::string_view config, std::string_view name) {
  const Tunable* t = find_tunable(kernel, name);
  if (!t) return invalid("no tunable of the kernel").at_node(std::string(name));
  PERI_ASSIGN(const int64_t value, config_int(config, name, 1, INT64_MAX, 0));
  if (value != 0 && std::find(t->values.begin(), t->values.end(), value) == t->values.end())
    return invalid("bad configuration").at_node(std::string(name)).but_found(std::to_string(value));
  return value;
}

Result<int64_t> config_int(std::string_view config, std::string_view key, int64_t low, int64_t high, int64_t fallback) {
  size_t at = 0;
  while (at < config.size()) {
    size_t end = config.find(' ', at);
    if (end == std::string_view::npos) end = config.size();
    const std::string_view item = config.substr(at, end - at);
    at = end + 1;
    const size_t eq = item.find('=');
    if (eq == std::string_view::npos || item.substr(0, eq) != key) continue;
    int64_t v = 0;
    const std::string_view digits = item.substr(eq + 1);
    auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
    if (code != std::errc() || stop != digits.data() + digits.size() || v < low || v > high)
      return invalid("bad configuration")
          .at_node(std::string(key))
          .expecting(format("a number in [%lld, %lld]", static_cast<long long>(low), static_cast<long long>(high)))
          .but_found(std::string(digits));
    return v;
  }
  return fallback;
}

std::vector<int64_t> dims_of(const ir::Value& v) {
  std::vector<int64_t> out;
  for (const Dim& d : *v.type.shape) out.push_back(d.value());
  return out;
}

}  // namespace peri::kernels
