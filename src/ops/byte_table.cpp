// byte_table (internal): maps each byte of x through a table of 256 bytes.
#include "ops/reference/cost.hpp"
#include "ops/reference/quantized.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/any_size.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  if (c.rank(1) != 1 || (c.shape(1)[0].is_const() && c.shape(1)[0].value() != 256))
    return invalid("the table has a wrong shape").expecting("[256]").but_found(shape_text(c.shape(1)));
  c.set(0, c.dtype(1), c.shape(0));
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &x = *call.in[0], &table = *call.in[1];
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t p = static_cast<size_t>(call.position(n));
    call.out[0].i[p] = table.i[static_cast<size_t>(x.i[p] & 0xff)];
  }
  return Ok{};
}

// Of x the same positions, of the table all of it.
bool pull(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 1); }
}  // namespace

extern const Entry byte_table_entry;
const Entry byte_table_entry{{
    {.name = "byte_table",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"x", kBytes}, {"table", kBytes}},
     .outputs = {{"y"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .samples = {"graph { input x: u8[2,3,5]; const t: u8[256] = seeded(50, 1); y = byte_table(x, t); output y }",
                 "graph { input x: i8[2,3,4,5]; const t: u8[256] = seeded(50, 2); y = byte_table(x, t); output y }",
                 "graph { input x: u8[0,3]; const t: i8[256] = seeded(50, 1); y = byte_table(x, t); output y }"}},
}};

}  // namespace peri::ops
