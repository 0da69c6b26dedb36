// A weight that is stored in 16 bits gives the bits of the same weight in float32, whatever kernel reads it and
// however: every kernel, on the samples it takes, with each of its float32 arguments for a weight.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "runtime/engine.hpp"
#include "tune/layouts.hpp"
#include "tune/one_step.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {
namespace {

constexpr double kMaxFlops = 1e6;

const device::Target& target() {
  static const device::Target here = device::cpu_target(1, exec::libraries());
  return here;
}

bool takes_narrow(const ir::Value& v) { return v.type.dtype == DType::kF32; }

// The step alone, its weights stored in `type`, on arguments that are numbers of that type; errors where it refuses.
Result<std::vector<Tensor>> answer(const ir::Graph& region, const std::vector<bool>& weights, const Candidate& c,
                                   DType type, DType stored) {
  PERI_ASSIGN(OneStep one, one_step(region, weights, c, std::vector<int>(region.outputs.size(), -1)));
  PERI_ASSIGN(const std::vector<Tensor> arguments, make_arguments(region, 7));
  runtime::WeightSource source;
  size_t from = 0;  // of the program's weights: one for each input
  for (size_t k = 0; k < region.inputs.size(); ++k, ++from) {
    const bool narrow = weights[k] && takes_narrow(*region.inputs[k]);
    PERI_ASSIGN(Tensor t, to_layout(arguments[k], c.offer.inputs[k]));
    Tensor held = narrow ? *Tensor::zeros(stored, t.dims()) : t;
    for (int64_t n = 0; narrow && n < t.numel(); ++n) held.set_f64(n, round_to(type, t.f64(n)));
    if (narrow) {
      plan::Weight& w = one.program.weights[from];
      plan::Buffer& b = one.program.buffers[static_cast<size_t>(one.arguments[k])];
      w.dtype = b.dtype = stored;
      w.bytes = held.bytes().size();
      b.bytes = Dim(static_cast<int64_t>(w.bytes));
    }
    source.tensors.push_back(std::move(held));
  }
  static const std::vector<const runtime::Executor*> kExecutors = exec::table();
  runtime::EngineOptions options;
  options.executors = kExecutors;
  options.machine = {target().isas, target().libraries};
  options.threads = 1;
  PERI_ASSIGN(const auto engine, runtime::Engine::create(std::move(one.program), std::move(source), options));
  PERI_ASSIGN(const auto session, runtime::Session::create_body(engine));
  static ThreadPool pool(1);
  session->use_pool(&pool);
  session->place(runtime::Session::Placement::kSeparate);
  PERI_TRY(session->run({}));
  std::vector<Tensor> out;
  for (const int32_t b : one.results) {
    PERI_ASSIGN(Tensor t, session->buffer_contents(b));
    out.push_back(std::move(t));
  }
  return out;
}

// What differs, of the first offer; "" nothing. Counts runs.
std::string difference(const kernels::Kernel& kernel, const ir::Graph& region, const std::vector<bool>& weights,
                       int64_t* runs) {
  const auto offers = kernel.offer({&region, weights}, target());
  if (!offers.ok() || offers->empty()) return "";
  Candidate c{&kernel, offers->front()};
  if (!target().has(c.offer.requires_isa)) return "";
  c.offer.inputs.resize(region.inputs.size());
  c.offer.outputs.resize(region.outputs.size());
  for (const ir::Layout& l : c.offer.outputs)
    if (exec::layout_code(l).find('x') != std::string::npos) return "";  // padded: what lies there is anything
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const auto wide = answer(region, weights, c, type, DType::kF32), narrow = answer(region, weights, c, type, type);
    if (wide.ok() != narrow.ok()) return (wide.ok() ? narrow : wide).error().text();
    if (!wide.ok()) return wide.error().kind == ErrorKind::kRefused ? "" : wide.error().text();
    ++*runs;
    for (size_t k = 0; k < wide->size(); ++k)
      if (!(*wide)[k].same_content((*narrow)[k])) return format("output %zu has other bits", k);
  }
  return "";
}

double flops_of(const ir::Graph& g) {
  double flops = 0;
  for (const ir::Node* n : g.nodes) flops += ops::cost_of(*n).flops;
  return flops;
}

// The problem's own weights, and each of its float32 arguments alone beside what has to be constant.
std::vector<std::vector<bool>> choices(const SampleProblem& p) {
  std::vector<std::vector<bool>> out;
  if (std::find(p.constant.begin(), p.constant.end(), true) != p.constant.end()) out.push_back(p.constant);
  for (size_t k = 0; k < p.constant.size() && p.region.nodes.size() <= 2; ++k) {
    if (p.constant[k] || !takes_narrow(*p.region.inputs[k])) continue;
    out.push_back(p.constant);
    out.back()[k] = true;
  }
  return out;
}

TEST(NarrowWeights, GiveTheBitsOfTheSameInFloat32ToEveryKernel) {
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cpu") continue;
    int64_t runs = 0;
    std::vector<SampleProblem> own = own_problems(e->kernel);
    // One of bytes alone: nothing it reads is narrower when it is stored.
    if (!own.empty() && std::all_of(own.begin(), own.end(), [](const auto& p) { return choices(p).empty(); })) continue;
    for (const auto* list : {&own, &common_problems()})
      for (const SampleProblem& p : *list) {
        if (flops_of(p.region) > kMaxFlops || runs > 60) continue;
        for (const std::vector<bool>& weights : choices(p)) {
          const std::string why = difference(e->kernel, p.region, weights, &runs);
          ASSERT_EQ(why, "") << e->kernel.name << " in " << ir::print(p.region);
        }
      }
    EXPECT_GT(runs, 0) << e->kernel.name;
  }
}

// y = -x, read through Args, which it does not state, and as it is stored, which it states wrongly.
Result<std::vector<kernels::Offer>> offer_negation(const kernels::Problem& p, const device::Target& target) {
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
Result<std::unique_ptr<kernels::Instance>> make_negation(const kernels::Problem& p, std::string_view,
                                                         const kernels::InstantiateContext&) {
  return kernels::TaskInstance::make(
      1, 0, [n = kernels::dims_of(*p.graph->outputs[0])[0]](int64_t, const kernels::Args& args) {
        const auto* x = static_cast<const float*>(args.in[0]);
        for (int64_t k = 0; k < n; ++k) static_cast<float*>(args.out[0])[k] = x ? -x[k] : 1e30f;
      });
}

TEST(NarrowWeights, AreWidenedForAKernelThatReadsThemThroughItsArguments) {
  kernels::Kernel raw{"raw", 1, "one", "cpu", "negations", offer_negation, make_negation}, wrong = raw;
  wrong.name = "raw_and_says_otherwise";
  wrong.takes_constants = true;
  auto g = ir::parse_graph("graph { input x: f32[40]; y = neg(x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const kernels::AddedKernel add_raw(raw), add_wrong(wrong);
  int64_t runs = 0;
  EXPECT_EQ(difference(raw, *g, {true}, &runs), "");
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(difference(wrong, *g, {true}, &runs), "output 0 has other bits") << "there is no pointer to it";
}

}  // namespace
}  // namespace peri::tune
