// Reading of the source section.
#include "judge/source.hpp"

#include "ops/entry.hpp"

namespace peri::cli {

Result<ir::Graph> source_graph(const plan::LoadedEngine& engine) {
  const plan::Section* text = engine.program.section("source");
  if (!text) return invalid("the engine has no section 'source'").in_file(engine.file->name()).advise("build it again");
  auto weight = [&](std::string_view, uint64_t hash) -> std::optional<Tensor> {
    for (const plan::Weight& w : engine.program.weights) {
      if (w.content_hash != hash) continue;
      auto t = Tensor::view(w.dtype, w.dims, engine.weight_bytes.subspan(w.offset, w.bytes), engine.file);
      if (t.ok()) return std::move(t).value();
    }
    return std::nullopt;
  };
  auto graph = ir::parse_graph(text->bytes, weight);
  if (!graph.ok()) return std::move(graph).error().in_file(engine.file->name());
  PERI_TRY(graph->sort());
  PERI_TRY(ops::infer_graph(*graph));
  return std::move(graph).value();
}

}  // namespace peri::cli
