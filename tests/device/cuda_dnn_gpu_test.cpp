// Convolutions and attentions by cuDNN on a GPU: the first ways that it offers for every form give what is described,
// convolutions within float32's sums and with the same bits each time, also in a capture. What it found is printed.
// label: gpu
#include <algorithm>
#include <cstdio>

#include "base/json.hpp"
#include "tests/device/attention_forms.hpp"
#include "tests/device/conv_forms.hpp"
#include "tests/device/devices.hpp"
#include "tests/device/h200_properties.hpp"

namespace peri::device::tests {
namespace {
using cuda::Cudnn;
using cuda::DnnChoice;
using cuda::DnnConv;

constexpr size_t kWorkspace = 64 << 20;

class GpuCudnn : public testing::Test {
 protected:
  void SetUp() override {
    device_ = must(cuda::make_cuda_device());
    stream_ = must(device_->make_stream());
    library_ = must(Cudnn::of(*device_));
  }
  Memory up(const Tensor& t) {
    Memory out = must(device_->allocate(t.bytes().size()));
    must(stream_->copy_in(out.address(), t.bytes()));
    return out;
  }
  static Launch launch(const cuda::DnnReady& ready, const cuda::DnnAddresses& at) {
    Launch out{"convolution", nullptr, {}};
    out.enqueue = [&ready, at](const NativeQueue& q) {
      return ready.enqueue(at, static_cast<cuda::CuStream>(q.queue));
    };
    return out;
  }
  std::pair<int, int> check(const DnnConv& v, int most, const char* name = nullptr);
  std::unique_ptr<cuda::CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<const Cudnn> library_;
};

// Of the first ways, how many could be made, and how many there are; each that could is right.
std::pair<int, int> GpuCudnn::check(const DnnConv& v, int most, const char* name) {
  const Operands o(v);
  const Memory x = up(o.x), w = up(o.w), bias = up(o.bias), residual = up(o.residual), y = up(o.y);
  std::vector<double> wanted;
  for (int64_t at = 0; at < o.y.numel() && !name; ++at)
    wanted.push_back(expected(v, o, at / v.k / v.ow / v.oh, at % v.k, at / v.k / v.ow % v.oh, at / v.k % v.ow));
  const auto choices = library_->choices(v, most);
  if (!choices.ok()) {
    EXPECT_EQ(choices.error().kind, ErrorKind::kRefused) << choices.error().text();
    EXPECT_FALSE(v.bias && v.groups == 1 && v.dtype == DType::kF16) << "of these it has engines that are compiled";
    return {0, 0};
  }
  int made = 0;
  for (const DnnChoice& choice : *choices) {
    SCOPED_TRACE("engine " + std::to_string(choice.engine));
    const auto ready = library_->make(v, &choice, kWorkspace);
    if (!ready.ok()) {
      printf("engine %lld: %s\n", static_cast<long long>(choice.engine), ready.error().text().c_str());
      continue;
    }
    ++made;
    const Memory workspace = must(device_->allocate((*ready)->workspace_bytes()));
    const cuda::DnnAddresses at = {x.address(),    w.address(),        y.address(),
                                   bias.address(), residual.address(), workspace.address()};
    Tensor out = *Tensor::zeros(v.dtype, {o.y.numel()}), again = *Tensor::zeros(v.dtype, {o.y.numel()});
    must(stream_->launch(launch(**ready, at)));
    must(stream_->copy_out({out.mutable_data(), out.bytes().size()}, y.address()));
    must(stream_->begin_capture());
    const int launches = name ? 50 : 1;
    for (int k = 0; k < launches; ++k) must(stream_->launch(launch(**ready, at)));
    const auto captured = must(stream_->end_capture());
    const auto from = must(device_->make_timed_event()), to = must(device_->make_timed_event());
    for (int round = 0; round < (name ? 5 : 1); ++round) {
      must(stream_->record(*from));
      must(stream_->replay(*captured));
      must(stream_->record(*to));
      must(stream_->synchronize());
    }
    must(stream_->copy_out({again.mutable_data(), again.bytes().size()}, y.address()));
    must(stream_->synchronize());
    EXPECT_TRUE(std::ranges::equal(out.bytes(), again.bytes()));
    if (name)
      printf("time %s engine %lld knobs %zu workspace %zu: %.2f us\n", name, static_cast<long long>(choice.engine),
             choice.knobs.size(), (*ready)->workspace_bytes(),
             must(device_->milliseconds(*from, *to)) * 1000 / launches);
    const double store = v.dtype == DType::kF16 ? 0x1p-11 : v.dtype == DType::kBF16 ? 0x1p-8 : 0;
    double worst = 0;
    for (size_t k = 0; k < wanted.size(); ++k)
      worst = std::max(
          worst, std::abs(out.f64(static_cast<int64_t>(k)) - wanted[k]) / (4e-6 + std::abs(wanted[k]) * store * 1.01));
    EXPECT_LE(worst, 1);
  }
  return {made, static_cast<int>(choices->size())};
}

TEST_F(GpuCudnn, EveryFormIsRight) {
  printf("cuDNN %s\n", library_->version().text().c_str());
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (int form = 0; form < 32; ++form) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
      DnnConv v = conv_form(dtype, form);
      v.c = 16;
      v.k = 32;
      const auto [made, there] = check(v, 3);
      printf("%s form %d: %d of %d\n", std::string(dtype_name(dtype)).c_str(), form, made, there);
      fflush(stdout);
      EXPECT_EQ(library_->make(v, nullptr, kWorkspace).ok(), there > 0) << "the heuristic holds where there is one";
    }
}

// The properties with which plans are made where there is no GPU; what depends on the machine is left out.
TEST_F(GpuCudnn, TheRecordedPropertiesAreThoseOfAnH200) {
  const std::string text = must(library_->properties());
  printf("%s\n", text.c_str());
  const Json here = must(parse_json(text)), recorded = must(parse_json(kH200Properties));
  if (must(here.find("deviceName")->as_string()) != must(recorded.find("deviceName")->as_string()))
    GTEST_SKIP() << "no H200";
  for (const char* name : {"deviceVer", "regsPerBlock", "multiProcessorCount", "l2CacheSize", "warpSize",
                           "maxSharedMemoryPerBlock", "maxSharedMemoryPerBlockOptin", "reservedSharedMemoryPerBlock",
                           "maxRegistersPerSM", "maxCtasPerSM", "maxThreadsPerBlock", "maxThreadsPerSM"}) {
    ASSERT_TRUE(here.find(name)) << name;
    EXPECT_EQ(must(here.find(name)->as_int()), must(recorded.find(name)->as_int())) << name;
  }
}

// Each choice of every form of attention, within what 16 bits round.
TEST_F(GpuCudnn, GivesTheAttentionThatIsDescribed) {
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (int form = 0; form < kAttentionForms; ++form) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
      const cuda::DnnAttention v = attention_form(dtype, form);
      AttentionOperands o(v);
      const auto choices = library_->choices(v, 2);
      if (!choices.ok()) {
        printf("form %d: %s\n", form, choices.error().text().c_str());
        continue;
      }
      for (const DnnChoice& c : *choices) {
        const auto ready = must(library_->make(v, &c, kWorkspace));
        const Memory q = up(o.q), k = up(o.k), values = up(o.v), mask = up(o.mask), y = up(o.y),
                     workspace = must(device_->allocate(ready->workspace_bytes() + 256));
        cuda::DnnAddresses at = {};
        at.q = q.address();
        at.k = k.address();
        at.v = values.address();
        at.mask = mask.address();
        at.y = y.address();
        at.workspace = workspace.address();
        must(stream_->launch(launch(*ready, at)));
        must(stream_->copy_out({o.y.mutable_data(), o.y.bytes().size()}, y.address()));
        must(stream_->synchronize());
        EXPECT_LT(worst_of(v, o), dtype == DType::kF16 ? 4e-3 : 3e-2) << "engine " << c.engine;
      }
    }
}

TEST_F(GpuCudnn, TellsTimes) {
  for (const auto& [channels, size, window] : {std::array<int64_t, 3>{64, 56, 3}, {512, 7, 3}, {256, 14, 1}}) {
    DnnConv v;
    v.dtype = DType::kF16;
    v.n = 1;
    v.c = v.k = channels;
    v.h = v.w = v.oh = v.ow = size;
    v.r = v.s = window;
    v.before = v.after = {window / 2, window / 2};
    v.bias = v.relu = v.residual = true;
    const std::string name =
        format("f16 c%lld %lldx%lld window %lld", static_cast<long long>(channels), static_cast<long long>(size),
               static_cast<long long>(size), static_cast<long long>(window));
    EXPECT_GT(check(v, 4, name.c_str()).first, 0);
  }
}

}  // namespace
}  // namespace peri::device::tests
