// The addend is read where it stands.
#include "kernels/cuda/code/gemm_sum.hpp"

namespace peri::kernels::cuda {

Result<std::string> gemm_sum_text(const Problem& problem, const ir::Node& product, Signature* signature) {
  std::string value = "sum";
  if (product.op == "gemm") {
    const auto scaled = [](double f, const std::string& v) { return f == 1.0 ? v : format("(float)(%.9g) * ", f) + v; };
    value = scaled(product.f("alpha", 1.0), "sum");
    if (product.in(2)) {
      PERI_ASSIGN(const std::string c, signature->value(problem, *product.in(2)));
      std::vector<int64_t> d = dims_of(*product.in(2));
      while (d.size() < 2) d.insert(d.begin(), 1);
      std::string at = d[0] == 1 ? "" : d[1] == 1 ? "m" : "m * PERI_N";
      if (d[1] != 1) at += at.empty() ? "n" : " + n";
      const std::string element = loaded(product.in(2)->type.dtype, c + "[" + (at.empty() ? "0" : at) + "]");
      value += " + " + scaled(product.f("beta", 1.0), element);
    }
  }
  return "PERI_DEVICE float peri_sum(const peri_sum_type sum, const PERI_INDEX batch, const PERI_INDEX m, const "
         "PERI_INDEX n, PERI_PARAMETERS) {\n  return " +
         value + ";\n}\n";
}

}  // namespace peri::kernels::cuda
