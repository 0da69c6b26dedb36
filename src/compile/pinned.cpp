// First every size, then all sizes given, then one dimension after the other is set free again.
#include "compile/pinned.hpp"

#include <charconv>

namespace peri::compile {

namespace {
// The model's inputs alone, as they are declared.
Result<ir::Graph> declared_inputs(const std::string& model) {
  PERI_ASSIGN(const onnx::ImportReport report, onnx::survey_model(model));
  ir::Graph g;
  if (!report.supported()) return g;
  for (const onnx::PortInfo& p : report.inputs)
    if (p.type.known()) g.add_input(p.name, p.type);
  return g;
}
}  // namespace

Result<onnx::ImportedModel> import_pinned(const std::string& model, const std::map<std::string, std::string>& fixed,
                                          const ImportSizes& sizes, Pinned* pinned) {
  auto at_every_size = onnx::import_model(model, {.fixed = fixed});
  if (at_every_size.ok() || at_every_size.error().kind != ErrorKind::kUnsupported) return at_every_size;
  PERI_ASSIGN(const ir::Graph inputs, declared_inputs(model));
  const DimBinding at_hand = sizes_of(inputs, sizes.at_hand);
  auto asked = resolve_dims(inputs, sizes.dims, at_hand);
  if (!asked.ok() || asked->empty()) return at_every_size;
  auto best = onnx::import_model(model, {.fixed = fixed, .sizes = *asked});
  if (!best.ok()) {  // what nobody gave may have to be as small as it can
    DimBinding small = at_hand;
    for (const auto& [name, value] : *asked) small.emplace(name, 1);
    asked = resolve_dims(inputs, sizes.dims, small);
    PERI_CHECK(asked.ok());
    best = onnx::import_model(model, {.fixed = fixed, .sizes = *asked});
  }
  if (!best.ok()) {
    Error e = std::move(at_every_size).error();
    if (e.remedy.find("--dims") == std::string::npos)
      e.remedy += (e.remedy.empty() ? "" : ", ") + std::string("or give the sizes that it has: --dims NAME=N");
    return e;
  }
  DimBinding kept = *asked;
  for (const auto& [name, value] : *asked) {
    DimBinding fewer = kept;
    fewer.erase(name);
    auto freer = onnx::import_model(model, {.fixed = fixed, .sizes = fewer});
    if (!freer.ok()) continue;
    best = std::move(freer);
    kept = std::move(fewer);
  }
  for (const auto& [key, value] : sizes.dims)
    if (value != kShapeEnds && !kept.contains(key) && !resolve_dims(best->graph, {{key, value}}).ok())
      pinned->also.emplace(key, value);
  pinned->sizes = std::move(kept);
  return best;
}

std::string pinned_text(const Pinned& pinned) {
  std::string out;
  for (const auto& [name, value] : pinned.also) out += name + "=" + std::to_string(value) + "\n";
  for (const auto& [name, value] : pinned.sizes) out += name + "=" + std::to_string(value) + "\n";
  return out;
}

std::string pinned_list(const Pinned& pinned) {
  std::string out;
  for (const auto& [name, value] : pinned.sizes) out += (out.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return out;
}

Status leave_out_pinned(const std::string& section, std::map<std::string, int64_t>* dims) {
  for (size_t at = 0; at < section.size();) {
    const size_t end = std::min(section.find('\n', at), section.size());
    const std::string line = section.substr(at, end - at);
    at = end + 1;
    const size_t equal = line.rfind('=');
    if (equal == std::string::npos) continue;
    const auto it = dims->find(line.substr(0, equal));
    if (it == dims->end()) continue;
    int64_t value = 0;
    std::from_chars(line.data() + equal + 1, line.data() + line.size(), value);
    if (it->second != value)
      return usage("dimension '%s' is fixed, since the form of the model hangs on it", it->first.c_str())
          .expecting(std::to_string(value))
          .but_found(std::to_string(it->second))
          .advise("build an engine for that size");
    dims->erase(it);
  }
  return Ok{};
}

}  // namespace peri::compile
