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

std::optional<ir::Graph> source_shapes(const plan::Program& program) {
  const plan::Section* text = program.section("source");
  if (!text) return std::nullopt;
  auto graph = ir::parse_graph(text->bytes, [&](std::string_view, uint64_t hash) -> std::optional<Tensor> {
    for (const plan::Weight& w : program.weights) {
      if (w.content_hash != hash) continue;
      // The elements of a float are not read: pages that nothing touches take no memory.
      auto zeros = is_float(w.dtype) ? Tensor::uninitialized(w.dtype, w.dims) : Tensor::zeros(w.dtype, w.dims);
      return zeros.ok() ? std::optional(std::move(*zeros)) : std::nullopt;
    }
    return std::nullopt;
  });
  if (!graph.ok() || !graph->sort().ok() || !ops::infer_graph(*graph).ok()) return std::nullopt;
  return std::move(*graph);
}

}  // namespace peri::judge
