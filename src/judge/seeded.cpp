// Inputs by name and type.
#include "judge/seeded.hpp"

#include "base/rng.hpp"

namespace peri::judge {

Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed) {
  PERI_ASSIGN(const std::vector<int64_t> concrete, eval(port.shape, dims));
  PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, concrete));
  Rng rng(seed);
  const bool mask = port.name.find("mask") != std::string::npos;
  // Segment ids index a table of two rows in every encoder we know; other integers stay below what any vocabulary has.
  const int64_t below = port.dtype == DType::kBool || port.name.find("type_id") != std::string::npos ? 2 : 100;
  for (int64_t k = 0; k < t.numel() && port.dtype != DType::kString; ++k) {
    if (is_float(port.dtype))
      t.set_f64(k, rng.normal());
    else
      t.set_i64(k, mask ? 1 : rng.below(below));
  }
  return t;
}

Result<std::vector<Tensor>> random_inputs(const plan::Program& program, const DimBinding& dims, uint64_t seed) {
  std::vector<Tensor> out;
  for (const plan::Port& port : program.inputs) {
    PERI_ASSIGN(Tensor t, random_input(port, dims, seed + out.size()));
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace peri::judge
