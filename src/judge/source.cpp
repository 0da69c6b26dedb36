// Reads the source section.
#include "judge/source.hpp"

#include "ops/entry.hpp"

namespace peri::judge {

Result<ir::Graph> source_graph(const runtime::Engine& engine) {
  const plan::Program& program = engine.program();
  const plan::Section* text = program.section("source");
  if (!text) return invalid("the engine has no section 'source'").advise("build it again");
  auto weight = [&](std::string_view, uint64_t hash) -> std::optional<Tensor> {
    for (size_t k = 0; k < program.weights.size(); ++k) {
      if (program.weights[k].content_hash != hash) continue;
      auto t = engine.weight(k);
      if (t.ok()) return std::move(t).value();
    }
    return std::nullopt;
  };
  PERI_ASSIGN(ir::Graph graph, ir::parse_graph(text->bytes, weight));
  PERI_TRY(graph.sort());
  PERI_TRY(ops::infer_graph(graph));
  return graph;
}

}  // namespace peri::judge
