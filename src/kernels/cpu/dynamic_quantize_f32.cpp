// Kernel dynamic_quantize_f32: DynamicQuantizeLinear in two phases: the range of each part of x, then scale, zero point
// and bytes from the total range.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/quantize/loops.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
using cpu::kTaskElements;
using cpu::quantize::Loops;

int64_t elements(const Problem& p) {
  int64_t n = 1;
  for (const int64_t d : dims_of(*p.anchor().in(0))) n *= d;
  return n;
}

Status check(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "dynamic_quantize_linear") return refused("does not quantise by the range of what it reads");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  return elements(p) > 0 ? Status(Ok{}) : refused("an empty tensor");
}

class DynamicQuantize final : public Instance {
 public:
  DynamicQuantize(int64_t elements, const Loops& loops, Source x, std::vector<int> outputs)
      : Instance({static_cast<size_t>(tasks_of(elements)) * 2 * sizeof(float),
                  0,
                  {tasks_of(elements), tasks_of(elements)},
                  {}}),
        elements_(elements),
        loops_(loops),
        x_(std::move(x)),
        outputs_(std::move(outputs)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    const int64_t first = task * kTaskElements, n = std::min(kTaskElements, elements_ - first);
    const float* const x = x_.f32(args);
    float* const ranges = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) return loops_.range(x + first, n, ranges + 2 * task, ranges + 2 * task + 1);
    float low = 0, high = 0;
    for (int64_t t = 0; t < tasks(0); ++t) {
      low = std::min(low, ranges[2 * t]);
      high = std::max(high, ranges[2 * t + 1]);
    }
    float scale = (high - low) / 255.0F;
    if (scale == 0) scale = 1;
    const float at = std::nearbyint((0.0F - low) / scale);
    const uint8_t zero = at >= 255 ? 255 : at > 0 ? static_cast<uint8_t>(at) : 0;
    if (uint8_t* const y = out<uint8_t>(args, 0)) loops_.to_u8(x + first, &scale, &zero, 0, y + first, n);
    if (task != 0) return;
    if (float* const y = out<float>(args, 1)) *y = scale;
    if (uint8_t* const y = out<uint8_t>(args, 2)) *y = zero;
  }

 private:
  static int64_t tasks_of(int64_t elements) { return (elements + kTaskElements - 1) / kTaskElements; }
  // Where result `port` goes; null: nobody reads it.
  template <class T>
  T* out(const Args& args, size_t port) const {
    const int k = port < outputs_.size() ? outputs_[port] : -1;
    return k < 0 ? nullptr : static_cast<T*>(args.out[static_cast<size_t>(k)]);
  }
  int64_t elements_;
  const Loops& loops_;
  Source x_;
  std::vector<int> outputs_;  // of each port, the result of the region
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(check(p));
  PERI_TRY(cpu::best_isa(target));
  return any_order_offers(p, target);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_same_layout(p));
  PERI_TRY(check(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  std::vector<int> outputs;
  for (const ir::Value* v : p.anchor().outputs) {
    const auto& all = p.graph->outputs;
    const auto it = std::find(all.begin(), all.end(), v);
    outputs.push_back(it == all.end() ? -1 : static_cast<int>(it - all.begin()));
  }
  return std::unique_ptr<Instance>(std::make_unique<DynamicQuantize>(
      elements(p), isa == cpu::Isa::kAvx512 ? cpu::quantize::avx512::kLoops : cpu::quantize::avx2::kLoops,
      Source::of(p, p.anchor().in(0), c.constants), std::move(outputs)));
}
}  // namespace

extern const Entry dynamic_quantize_f32_entry;
const Entry dynamic_quantize_f32_entry{{
    .name = "dynamic_quantize_f32",
    .version = 1,
    .provider = "peri",
    .takes = "f32 into u8 by the range of all of it (dynamic_quantize_linear)",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[5,30,700]; y, s, z = dynamic_quantize_linear(x); output y; output s; output z }",
                "graph { input x: f32[2,30,7,9]; y, s, z = dynamic_quantize_linear(x); output y; output s; output z }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
