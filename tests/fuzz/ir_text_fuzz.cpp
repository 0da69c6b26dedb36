// Any bytes as IR text: parsed or refused; what parses is sound, prints to a text that parses to the same print, and
// goes through inference without a fault of ours; what has types is built into an engine and runs, within a budget.
// links: backends/cpu backends/null passes
#include <algorithm>
#include <set>
#include <string_view>

#include "tests/fuzz/graph_run.hpp"

namespace {
// As importers make graphs: sizes of inputs are numbers and names, and a run binds every name that an attribute has.
bool bindable(const peri::ir::Graph& graph) {
  std::set<std::string> bound, named;
  for (const peri::ir::Value* v : graph.inputs) {
    if (!v->type.known()) return false;
    for (const peri::Dim& d : *v->type.shape) {
      if (!d.is_const() && !d.is_symbol()) return false;
      d.collect_symbols(bound);
    }
  }
  for (const peri::ir::Node* n : graph.nodes)
    for (const auto& [key, attr] : n->attrs)
      if (const auto* dims = std::get_if<std::vector<peri::Dim>>(&attr))
        for (const peri::Dim& d : *dims) d.collect_symbols(named);
  return std::includes(bound.begin(), bound.end(), named.begin(), named.end());
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto graph = peri::ir::parse_graph(text);
  if (!graph.ok()) return 0;
  if (!peri::ir::verify_structure(*graph).ok()) std::abort();
  const std::string once = peri::ir::print(*graph);
  auto again = peri::ir::parse_graph(once);
  if (again.ok() && peri::ir::print(*again) != once) std::abort();
  const peri::Status inferred = peri::ops::infer_graph(*graph);
  if (!inferred.ok()) {
    peri::fuzz::stop_at_fault(inferred.error());
    return 0;
  }
  if (bindable(*graph)) peri::fuzz::build_and_run(std::move(*graph));
  return 0;
}
