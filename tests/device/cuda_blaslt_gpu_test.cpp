// Matrix products by cuBLASLt on a GPU: every way that it offers for every form gives the product within float32's
// sums, the same bits each time, also in a capture. What it found is printed.
// label: gpu
#include <algorithm>
#include <cstdio>

#include "base/rng.hpp"
#include "base/tensor.hpp"
#include "device/cuda/blaslt.hpp"
#include "tests/device/devices.hpp"

namespace peri::device::tests {
namespace {
using cuda::BlasLt;
using cuda::LtChoice;
using cuda::LtMatmul;

constexpr size_t kWorkspace = 32 << 20;

struct OnDevice {
  OnDevice(cuda::CudaDevice& device, Stream& stream, const Tensor& values)
      : host(values), memory(must(device.allocate(values.bytes().size()))) {
    must(stream.copy_in(memory.address(), host.bytes()));
  }
  Tensor host;
  Memory memory;
};

Tensor seeded(DType dtype, int64_t n, uint64_t seed) {
  Rng rng(seed);
  Tensor t = *Tensor::zeros(dtype, {n});
  for (int64_t k = 0; k < n; ++k) t.set_f64(k, rng.uniform() - 0.5);
  return t;
}

class GpuBlasLt : public testing::Test {
 protected:
  void SetUp() override {
    device_ = must(cuda::make_cuda_device());
    stream_ = must(device_->make_stream());
    library_ = must(BlasLt::of(*device_));
  }
  int64_t check_form(DType dtype, int form, int most);
  Launch launch(const cuda::LtReady& ready, const cuda::LtAddresses& at) {
    Launch out{"product", nullptr, {}};
    out.enqueue = [&ready, at](const NativeQueue& q) {
      return ready.enqueue(at, static_cast<cuda::CuStream>(q.queue));
    };
    return out;
  }
  std::unique_ptr<cuda::CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<const BlasLt> library_;
};

LtMatmul form_of(DType dtype, int form) {
  LtMatmul p;
  p.dtype = dtype;
  p.m = 66;
  p.n = 72;
  p.k = 136;
  if ((form & 5) == 5) p.m = 72;  // see rounds_once()
  p.a_transposed = form & 1;
  p.b_transposed = form & 2;
  p.bias = form & 4;
  p.beta = form & 8 ? 0.5f : 0;
  p.alpha = form & 8 ? 2 : 1;
  if (form & 16) p.act = LtMatmul::Act::kRelu;
  if ((form & 20) == 4 && dtype != DType::kF32) p.act = LtMatmul::Act::kGeluTanh;
  if (form & 32) {
    p.batch = 3;
    p.a_stride = form & 1 ? 0 : p.m * p.k;
    p.b_stride = p.k * p.n;
  }
  return p;
}

double bound_of(const LtMatmul& p, double value) {
  const double store = p.dtype == DType::kF16 ? 0x1p-11 : p.dtype == DType::kBF16 ? 0x1p-8 : 0;
  const double sum = 4e-6 * static_cast<double>(p.alpha);  // of 136 products of values below a half, times alpha
  return sum + std::abs(value) * store * 1.01;
}

struct Operands {
  Operands(cuda::CudaDevice& device, Stream& stream, const LtMatmul& p)
      : a(device, stream, seeded(p.dtype, p.m * p.k * p.batch, 1)),
        b(device, stream, seeded(p.dtype, p.k * p.n * p.batch, 2)),
        c(device, stream, seeded(p.dtype, p.m * p.n * p.batch, 3)),
        bias(device, stream, seeded(p.dtype, p.n, 4)),
        d(must(device.allocate(c.host.bytes().size()))) {}
  cuda::LtAddresses at(const Memory& workspace) const {
    return {a.memory.address(), b.memory.address(),    c.memory.address(),
            d.address(),        bias.memory.address(), workspace.address()};
  }
  double expected(const LtMatmul& p, int64_t at) const {
    const int64_t j = at % p.n, i = at / p.n % p.m, z = at / p.n / p.m;
    double sum = 0;
    for (int64_t k = 0; k < p.k; ++k)
      sum += a.host.f64(z * p.a_stride + (p.a_transposed ? k * p.m + i : i * p.k + k)) *
             b.host.f64(z * p.b_stride + (p.b_transposed ? j * p.k + k : k * p.n + j));
    double v = static_cast<double>(p.alpha) * sum + static_cast<double>(p.beta) * c.host.f64(at);
    if (p.bias) v += bias.host.f64(j);
    if (p.act == LtMatmul::Act::kRelu) v = std::max(v, 0.0);
    if (p.act == LtMatmul::Act::kGeluTanh)
      v = 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    return v;
  }
  OnDevice a, b, c, bias;
  Memory d;
};

// Whether each of the first ways of a form is right, and the same in a capture; how many there are.
int64_t GpuBlasLt::check_form(DType dtype, int form, int most) {
  const LtMatmul p = form_of(dtype, form);
  SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
  EXPECT_TRUE(cuda::rounds_once(p));
  const int64_t results = p.m * p.n * p.batch;
  const Operands o(*device_, *stream_, p);
  std::vector<double> expected;
  for (int64_t at = 0; at < results; ++at) expected.push_back(o.expected(p, at));
  const auto choices = library_->choices(p, kWorkspace, most);
  EXPECT_TRUE(choices.ok()) << choices.error().text();
  if (!choices.ok()) return 0;
  for (const LtChoice& choice : *choices) {
    SCOPED_TRACE(format("algo %lld split %lld", static_cast<long long>(choice.numbers[0]),
                        static_cast<long long>(choice.numbers[2])));
    const auto ready = must(library_->make(p, &choice, kWorkspace));
    const Memory workspace = must(device_->allocate(ready->workspace_bytes()));
    Tensor out = *Tensor::zeros(dtype, {results}), again = *Tensor::zeros(dtype, {results});
    must(stream_->launch(launch(*ready, o.at(workspace))));
    must(stream_->copy_out({out.mutable_data(), out.bytes().size()}, o.d.address()));
    must(stream_->begin_capture());
    must(stream_->launch(launch(*ready, o.at(workspace))));
    must(stream_->copy_out({again.mutable_data(), again.bytes().size()}, o.d.address()));
    const auto captured = must(stream_->end_capture());
    must(stream_->replay(*captured));
    must(stream_->synchronize());
    EXPECT_TRUE(std::ranges::equal(out.bytes(), again.bytes()));
    double worst = 0;
    for (int64_t k = 0; k < results; ++k) {
      const double want = expected[static_cast<size_t>(k)];
      worst = std::max(worst, std::abs(out.f64(k) - want) / bound_of(p, want));
    }
    EXPECT_LE(worst, 1);
  }
  return static_cast<int64_t>(choices->size());
}

TEST_F(GpuBlasLt, EveryWayOfEveryFormIsRight) {
  printf("cuBLASLt %s\n", library_->version().text().c_str());
  int64_t ways = 0;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (int form = 0; form < 64; ++form) ways += check_form(dtype, form, 8);
  printf("%lld ways\n", static_cast<long long>(ways));
}

// For the sanitizers, under which the others take too long.
TEST_F(GpuBlasLt, AFewFormsAreRight) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const int form : {0, 7, 28, 46}) EXPECT_GT(check_form(dtype, form, 2), 0);
}

TEST_F(GpuBlasLt, TellsTimes) {
  struct Size {
    const char* name;
    int64_t m, n, k;
  };
  for (const Size& size : {Size{"bert qkv b8", 1024, 2304, 768}, {"bert ffn2 b1", 128, 768, 3072}})
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      LtMatmul p;
      p.dtype = dtype;
      p.m = size.m;
      p.n = size.n;
      p.k = size.k;
      p.bias = true;
      const Operands o(*device_, *stream_, p);
      const Memory workspace = must(device_->allocate(kWorkspace));
      const auto from = must(device_->make_timed_event()), to = must(device_->make_timed_event());
      for (const LtChoice& choice : must(library_->choices(p, kWorkspace, 6))) {
        const auto ready = must(library_->make(p, &choice, kWorkspace));
        constexpr int kLaunches = 50;
        must(stream_->begin_capture());
        for (int k = 0; k < kLaunches; ++k) must(stream_->launch(launch(*ready, o.at(workspace))));
        const auto captured = must(stream_->end_capture());
        for (int round = 0; round < 5; ++round) {
          must(stream_->record(*from));
          must(stream_->replay(*captured));
          must(stream_->record(*to));
          must(stream_->synchronize());
        }
        printf("time %s %s algo %lld tile %lld stages %lld split %lld cluster %lld workspace %zu: %.2f us\n", size.name,
               std::string(dtype_name(dtype)).c_str(), static_cast<long long>(choice.numbers[0]),
               static_cast<long long>(choice.numbers[1]), static_cast<long long>(choice.numbers[6]),
               static_cast<long long>(choice.numbers[2]), static_cast<long long>(choice.numbers[8]),
               ready->workspace_bytes(), must(device_->milliseconds(*from, *to)) * 1000 / kLaunches);
      }
    }
}

}  // namespace
}  // namespace peri::device::tests
