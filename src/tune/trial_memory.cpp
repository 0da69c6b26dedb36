// Counts copies of arguments and results by what Trial, Expected and Peers keep.
#include "tune/trial_memory.hpp"

namespace peri::tune {

static double numel_of(const ir::Value& v) {
  double n = 1;
  for (const Dim& d : *v.type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1.0;
  return n;
}

static double bytes_of(const ir::Value& v) { return numel_of(v) * dtype_bits(v.type.dtype) / 8.0; }

double bytes_of(const ir::Graph& region) {
  double bytes = 0;
  for (const auto* list : {&region.inputs, &region.outputs})
    for (const ir::Value* v : *list) bytes += bytes_of(*v);
  return bytes;
}

double trial_bytes(const ir::Graph& region) {
  double bytes = 0;
  for (const ir::Value* v : region.inputs) bytes += 4 * bytes_of(*v);
  for (const ir::Value* v : region.outputs) bytes += 7 * bytes_of(*v);
  return bytes;
}

double reference_bytes(const ir::Graph& region) {
  double bytes = 0;
  for (const auto& v : region.values()) bytes += (v->producer ? 16 : 8) * numel_of(*v);
  return bytes;
}

}  // namespace peri::tune
