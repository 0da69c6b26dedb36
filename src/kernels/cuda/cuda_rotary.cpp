// Kernel cuda_rotary: rotary_embedding on a GPU, with or without positions, pairs side by side or half a head apart;
// one thread per element. A position beyond the caches is the run's error.
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "rotary_embedding") return refused("not a rotary embedding");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list) {
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
      if (v->type.dtype == DType::kF64) return refused("takes f32, f16 and bf16 only").but_found("f64");
    }
  const std::vector<int64_t> d = dims_of(*n.in(0));
  if (cuda::elements_of(d) == 0) return cuda::Planned{};
  const bool four = d.size() == 4, interleaved = n.i("interleaved") != 0;
  const int64_t heads = four ? d[1] : n.i("num_heads"), places = d[four ? 2 : 1], depth = four ? d[3] : d[2] / heads;
  const int64_t turned = n.i("rotary_embedding_dim"), width = turned == 0 ? depth : turned;
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string cosine, s.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string sine, s.value(p, *n.in(2)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  const std::string depth_text = s.size(depth), heads_text = s.size(heads), places_text = s.size(places),
                    half = s.size(width / 2);
  cuda::Planned out;
  std::string body = "    const PERI_INDEX d = i % " + depth_text + ", place = i / " + depth_text +
                     (four ? "" : " / " + heads_text) + " % " + places_text + ", b = i / " + depth_text + " / " +
                     heads_text + " / " + places_text + ";\n    if (d >= 2 * " + half + ") {\n      " + to +
                     "[i] = " + x + "[i];\n      continue;\n    }\n    peri_i64 row = b * " + places_text +
                     " + place;\n";
  if (n.in(3)) {
    PERI_ASSIGN(const std::string ids, s.value(p, *n.in(3)));
    const int64_t rows = dims_of(*n.in(1))[0];
    const std::string end = s.size(rows);
    body += "    row = (peri_i64)" + ids + "[row];\n    if (row < 0) row += " + end +
            ";\n    if (row < 0 || row >= " + end + ") *" + s.fault() + " = 1, row = 0;\n";
    out.faults = {invalid("a position of rotary_embedding is out of range")
                      .expecting(format("positions in [0, %lld)", static_cast<long long>(rows)))
                      .advise("check the input that holds the positions")};
    if (rows == 0) return refused("caches without rows");
  }
  body += interleaved
              ? "    const bool second = d % 2 == 1;\n    const PERI_INDEX pair = d / 2, other = second ? i - 1 "
                ": i + 1;\n"
              : "    const bool second = d >= " + half + ";\n    const PERI_INDEX pair = d % " + half +
                    ", other = second ? i - " + half + " : i + " + half + ";\n";
  const DType type = n.in(0)->type.dtype;
  const std::string at = "[row * " + half + " + pair]";
  body += "    const float own = " + cuda::loaded(type, x + "[i]") + " * " +
          cuda::loaded(n.in(1)->type.dtype, cosine + at) + ", cross = " + cuda::loaded(type, x + "[other]") + " * " +
          cuda::loaded(n.in(2)->type.dtype, sine + at) + ";\n    " + to +
          "[i] = " + cuda::stored(n.out()->type.dtype, "(second ? own + cross : own - cross)") + ";\n";
  const int64_t count = cuda::elements_of(d);
  out.launches = cuda::each_launch(p, s, "peri_rotary", count, cuda::each_text("peri_rotary", s.size(count), body));
  return out;
}
}  // namespace

extern const Entry cuda_rotary_entry;
const Entry cuda_rotary_entry = cuda::entry_of<plan>("cuda_rotary", "rotary_embedding on a GPU, positions of a run");

}  // namespace peri::kernels
