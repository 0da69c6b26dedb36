// Loops over the elements of a grid.
#include "kernels/cuda/code/each.hpp"

#include "kernels/block/space.hpp"

namespace peri::kernels::cuda {

std::string coordinates_text(const std::vector<int64_t>& dims, Signature* signature) {
  std::string out = "    PERI_INDEX rest = i;\n";
  for (size_t d = dims.size(); d-- > 0;) {
    const std::string name = "    const PERI_INDEX c" + std::to_string(d) + " = ";
    if (d == 0) {
      out += name + "rest;\n";
    } else {
      const std::string size = signature->size(dims[d]);
      out += name + "rest % " + size + "; rest /= " + size + ";\n";
    }
  }
  return out;
}

Result<std::string> place_text(const std::vector<int64_t>& shape, const std::vector<int64_t>& dims,
                               Signature* signature) {
  auto strides = block::broadcast_strides(shape, dims);
  if (!strides.ok()) return refused("an operand does not broadcast to the result");
  std::string out;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t stride = (*strides)[d];
    if (stride == 0) continue;
    out += (out.empty() ? "c" : " + c") + std::to_string(d) + (stride == 1 ? "" : " * " + signature->size(stride));
  }
  return out.empty() ? "0" : out;
}

std::string each_text(std::string_view entry, const std::string& count, const std::string& body, int width) {
  const std::string n = std::to_string(width), times = width == 1 ? "" : " * " + n;
  return "PERI_KERNEL __launch_bounds__(256) " + std::string(entry) +
         "(PERI_PARAMETERS) {\n  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256" + times + ";\n" +
         "  for (PERI_INDEX i = ((PERI_INDEX)blockIdx.x * 256 + threadIdx.x)" + times + "; i < " + count +
         "; i += step) {\n" + body + "  }\n}\n";
}

std::vector<KernelLaunch> each_launch(const Problem& problem, const Signature& signature, std::string_view entry,
                                      int64_t count, const std::string& text, int width) {
  if (count == 0) return {};
  return {signature.launch(std::string(entry), signature.text(most_elements(problem), text),
                           blocks_for(count / width, 256), 256)};
}

}  // namespace peri::kernels::cuda
