// Any bytes as IR text: parsed or refused; what parses is sound, prints to a text that parses to the same print, and
// goes through inference without a fault of ours; what has types is built into an engine and runs, within a budget.
// links: backends/cpu passes
#include <string_view>

#include "tests/fuzz/graph_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto graph = peri::ir::parse_graph(text);
  if (!graph.ok()) return 0;
  if (!peri::ir::verify_structure(*graph).ok()) std::abort();
  const std::string once = peri::ir::print(*graph);
  auto again = peri::ir::parse_graph(once);
  if (again.ok() && peri::ir::print(*again) != once) std::abort();
  const peri::Status inferred = peri::ops::infer_graph(*graph);
  if (!inferred.ok()) return peri::fuzz::stop_at_fault(inferred.error()), 0;
  const auto known = [](const peri::ir::Value* v) { return v->type.known(); };
  if (std::all_of(graph->inputs.begin(), graph->inputs.end(), known)) peri::fuzz::build_and_run(std::move(*graph));
  return 0;
}
