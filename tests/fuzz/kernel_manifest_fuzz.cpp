// Any bytes as a manifest of a kernel from outside, and behind a line "---" as its source: refused with a field, or a
// kernel whose pattern matches itself and whose sizes obey their own rules.
// links: kernels
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernels/outside/manifest.hpp"
#include "kernels/outside/pattern.hpp"

namespace {
void check(bool holds) {
  if (!holds) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace outside = peri::kernels::outside;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kBetween = "\n---\n";
  const size_t end = all.find(kBetween);
  const auto m = outside::parse_manifest(all.substr(0, end), "f");
  if (!m.ok()) {
    check(m.error().kind != peri::ErrorKind::kInternal && !m.error().message.empty() && m.error().file == "f");
    return 0;
  }
  check(!m->parameters.empty() && !m->grid.empty() && m->grid.size() <= 3);
  peri::DimBinding sizes;
  for (const auto& [name, rule] : m->sizes) {
    sizes[name] = rule.at_least(1);
    check(rule.allows(sizes[name]) && rule.allows(rule.at_least(INT32_MAX)));
  }
  if (end != all.npos) {
    const peri::Status fits = outside::check_source(*m, all.substr(end + kBetween.size()), "s");
    check(fits.ok() || fits.error().kind == peri::ErrorKind::kInvalid);
  }
  // At sizes of its own it is found, with these sizes, or its nodes take no such sizes.
  peri::ir::Graph g = m->pattern.clone();
  for (peri::ir::Value* v : g.inputs) v->type.shape = peri::substitute(*v->type.shape, sizes);
  if (!peri::ops::infer_graph(g).ok()) return 0;
  const auto found = outside::match(m->pattern, {&g, std::vector<bool>(g.inputs.size(), false)});
  if (found.ok()) check(found->sizes == sizes);
  return 0;
}
