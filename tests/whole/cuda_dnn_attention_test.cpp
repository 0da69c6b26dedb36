// Attentions by cuDNN on a (fake) GPU in a whole engine: right at every size; without the library its provider is
// refused.
#include <gtest/gtest.h>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"
#include "tests/device/dnn_fakes.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;

class CudaDnnAttention : public device::tests::FakeDnn {
 protected:
  void SetUp() override {
    FakeDnn::SetUp();
    using Enqueue = void(void*, void (*)(void*), void*);
    Fakes::control<void(Enqueue*)>("cudnn", "fake_dnn_queue")(Fakes::control<Enqueue>("driver", "fake_enqueue"));
  }
  static long runs() { return count("fake_dnn_runs"); }

  static Result<Built> build(std::optional<plan::Lock> lock = {}) {
    compile::Imported model;
    auto g = ir::parse_graph(
        "graph { input q: f16[batch,2,9,16]; input k: f16[batch,2,9,16]; input v: f16[batch,2,9,16]; y = attention(q, "
        "k, v) {causal=1}; output y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "attention";
    o.compile.backend = "cuda";
    o.compile.dims["batch"] = 2;
    o.compile.tune.threads = 2;
    o.compile.tune.provider = "cudnn";
    o.compile.lock = std::move(lock);
    o.judge = true;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
  static std::vector<std::string> configs(const plan::Program& p) {
    std::vector<std::string> out;
    for (const plan::Step& s : p.steps)
      for (const plan::Variant& v : s.variants)
        if (auto payload = exec::read_payload(v.payload); s.executor == "cuda" && payload.ok())
          out.push_back(payload->kernel + " " + payload->config);
    return out;
  }
};

TEST_F(CudaDnnAttention, AnEngineRunsItAtEverySize) {
  const auto built = build();
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_TRUE(built->verdict.right());
  EXPECT_GE(built->verdict.sizes.size(), 2U);
  EXPECT_EQ(configs(built->compiled.program), std::vector<std::string>{"cuda_dnn_attention heuristic"});
  EXPECT_GT(runs(), 2);
}

TEST_F(CudaDnnAttention, WithoutItItsProviderIsRefused) {
  const Fakes none{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
  const auto built = build();
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::kRefused);
  EXPECT_NE(built.error().text().find("provider 'cudnn' needs cudnn, which was not found"), std::string::npos)
      << built.error().text();
}

}  // namespace
}  // namespace peri::build
