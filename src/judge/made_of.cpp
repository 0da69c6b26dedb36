// A second import; an interface in other types is tried where the first differs.
#include "judge/made_of.hpp"

#include <algorithm>
#include <charconv>

#include "base/hash.hpp"
#include "base/system_text.hpp"
#include "base/version.hpp"
#include "compile/compile.hpp"
#include "compile/interface_types.hpp"
#include "plan/identity.hpp"
#include "plan/pinned.hpp"

namespace peri::judge {

namespace {
// The lines NAME=VALUE of a section; none of a line that can be read in two ways.
std::optional<std::map<std::string, std::string>> values_of(const plan::Program& program, std::string_view section) {
  std::map<std::string, std::string> out;
  const plan::Section* const s = program.section(section);
  for (const std::string& line : parts_of(s ? s->bytes : std::string_view(), "\n")) {
    const size_t equal = line.find('=');
    if (equal == std::string::npos || line.find('=', equal + 1) != std::string::npos) return std::nullopt;
    out.emplace(line.substr(0, equal), line.substr(equal + 1));
  }
  return out;
}

// The sizes of the build: those that its structure depends on, and the inputs at the tuned sizes.
compile::ImportSizes sizes_of(const plan::Program& program, const std::map<std::string, std::string>& pinned) {
  compile::ImportSizes out;
  for (const auto& [name, text] : pinned) std::from_chars(text.data(), text.data() + text.size(), out.dims[name]);
  const DimBinding tuned_for(program.tuned_for.begin(), program.tuned_for.end());
  for (const plan::Port& p : program.inputs) {
    compile::InputShape& input = out.at_hand.emplace_back();
    input.name = p.name;
    for (const Dim& d : p.shape) {
      const auto size = d.eval(tuned_for);
      input.dims.push_back(size.ok() ? *size : 1);
      if (d.is_symbol() && !provably_at_least(d, 1)) out.least.emplace(d.symbol_name(), 0);
    }
  }
  return out;
}

std::string identity_of(const ir::Graph& graph) { return hex64(hash_text(ir::print(graph))); }
}  // namespace

Result<std::optional<ir::Graph>> model_made_of(const plan::Program& program, const std::string& model) {
  const std::string own = plan::identity_of(program);
  if (own.empty() || program.builder != "peri " + std::string(version())) return std::optional<ir::Graph>();
  if (program.section(plan::kFolderSection)) return std::optional<ir::Graph>();
  const auto fixed = values_of(program, compile::kFixedSection), pinned = values_of(program, plan::kPinnedSection);
  if (!fixed || !pinned) return std::optional<ir::Graph>();
  const auto another = [&](const std::string& found) {
    return usage("the engine was not made from this model")
        .expecting("a model of identity " + own)
        .but_found(found)
        .advise("give the model that it was made from");
  };
  auto imported = compile::import_any(model, *fixed, sizes_of(program, *pinned));
  if (!imported.ok()) {  // no engine is made so of what peri, or this model, does not support
    const ErrorKind kind = imported.error().kind;
    const bool differs = kind == ErrorKind::kUsage || kind == ErrorKind::kUnsupported;
    return differs ? another("one that cannot be built so: " + imported.error().message) : imported.error();
  }
  const std::string other = identity_of(imported->graph);
  if (other == own) return std::optional(std::move(imported->graph));
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    ir::Graph graph = imported->graph.clone();
    if (compile::set_interface_types(graph, type).ok() && identity_of(graph) == own)
      return std::optional(std::move(graph));
  }
  for (const plan::Port& p : program.outputs)
    if (!std::ranges::count(imported->graph.output_names, p.name))
      return usage("the engine's output '%s' is none of this model's", p.name.c_str())
          .advise(
              "give the model that it was made from; where a folder's pooling makes it, verify the ONNX file itself");
  return another("identity " + other);
}

}  // namespace peri::judge
