// Every sample of every op as a program on the null device: what its launches leave in the device's memory comes back
// as the reference says, bit for bit, with copies as steps and whatever layouts the CPU's kernels ask for.
#include <gtest/gtest.h>

#include "backends/null/backend.hpp"
#include "base/rng.hpp"
#include "device/null.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "lower/lower.hpp"
#include "ops/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace peri::lower {
namespace {

Tensor random_values(const ir::Value& v, Rng& rng) {
  const std::vector<int64_t> dims = *eval(*v.type.shape, {});
  if (v.type.dtype == DType::kString) {
    std::vector<std::string> words(static_cast<size_t>(*checked_numel(dims)));
    for (std::string& w : words) w = std::string(1, static_cast<char>('a' + rng.below(4)));
    return *Tensor::strings(dims, words);
  }
  Tensor t = *Tensor::zeros(v.type.dtype, dims);
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (is_float(t.dtype()))
      t.set_f64(k, rng.normal());
    else
      t.set_i64(k, rng.below(2));
  }
  return t;
}

struct Made {
  std::shared_ptr<const runtime::Engine> engine;
  int64_t away = 0;
};
Result<Made> build(const ir::Graph& g, uint64_t seed) {
  tune::Options o;
  o.measure = o.verify = false;
  tune::Tuner tuner(o);
  PERI_ASSIGN(const Lowered made, lower_graph(g, backends::null::backend(), tuner, {{}, {}, nullptr, {}}));
  PERI_ASSIGN(plan::AssembledEngine assembled, plan::assemble_engine(made.program, made.weights));
  static const auto kTable = exec::table();
  runtime::EngineOptions options;
  options.executors = kTable;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  device::NullOptions null;
  null.seed = seed;
  PERI_ASSIGN(std::shared_ptr<device::Device> device, device::make_null_device(std::move(null)));
  options.devices = {device};
  Made out;
  for (const plan::Step& s : made.program.steps) out.away += s.executor == "null";
  PERI_ASSIGN(out.engine, runtime::Engine::create(std::move(assembled.program),
                                                  {assembled.weight_bytes, assembled.keep, {}}, options));
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  return a.dtype() == DType::kString ? a.string_values() == b.string_values()
                                     : std::ranges::equal(a.bytes(), b.bytes());
}

TEST(NullSamples, EveryOpGivesItsReference) {
  int64_t ran = 0, away = 0, refused = 0;
  Rng rng(17);
  for (const ops::Entry* entry : ops::entries())
    for (const ops::OpDef& op : entry->ops)
      for (const std::string_view text : op.samples) {
        SCOPED_TRACE(text);
        auto g = ir::parse_graph(text);
        ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
        std::vector<Tensor> inputs;
        std::vector<ops::RefTensor> in;
        for (const ir::Value* v : g->inputs) {
          inputs.push_back(random_values(*v, rng));
          in.push_back(ops::to_ref(inputs.back()));
        }
        const auto wanted = ops::run_reference(*g, in, {.round_each = true});
        const auto made = build(*g, static_cast<uint64_t>(ran));
        ASSERT_TRUE(made.ok()) << made.error().text();
        auto session = runtime::Session::create(made->engine, 1);
        ASSERT_TRUE(session.ok()) << session.error().text();
        const auto got = (*session)->run(inputs);
        ASSERT_EQ(got.ok(), wanted.ok()) << (got.ok() ? wanted.error().text() : got.error().text());
        if (!got.ok()) {
          ++refused;
          continue;
        }
        ++ran;
        away += made->away;
        for (size_t k = 0; k < got->size(); ++k)
          EXPECT_TRUE(same((*got)[k], ops::from_ref((*wanted)[k]))) << "output " << k;
      }
  EXPECT_GT(ran, 400);
  EXPECT_GT(away, 400);
  EXPECT_LT(refused, ran / 4);
}

}  // namespace
}  // namespace peri::lower
