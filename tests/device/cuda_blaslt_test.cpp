// Matrix products by cuBLASLt on a fake of it: every form gives the product that was described, a choice can be kept
// and made again, and each of the library's calls fails in turn without a leak.
#include <algorithm>

#include "device/cuda/blaslt.hpp"

#include "base/rng.hpp"
#include "base/tensor.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/device/devices.hpp"

namespace peri::device::tests {
namespace {
using cuda::BlasLt;
using cuda::LtChoice;
using cuda::LtMatmul;

constexpr size_t kWorkspace = 32 << 20;

class FakeBlasLt : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }
  static void reset() {
    Fakes::control<void()>("driver", "fake_reset")();
    Fakes::control<void()>("cublaslt", "fake_lt_reset")();
  }
  static long count(const char* what) { return Fakes::control<long()>("cublaslt", what)(); }
  static void fail(long call, int status) { Fakes::control<void(long, int)>("cublaslt", "fake_lt_fail")(call, status); }
  const Fakes fakes_{{"libcuda.so.1", "driver"}, {"libcublasLt.so.13", "cublaslt"}};
};

// A tensor in memory as the library wants it: the fake's device memory is the host's.
struct Aligned {
  Aligned(DType dtype, int64_t n) : tensor(*Tensor::zeros(dtype, {n})) {}
  Address address() const { return {reinterpret_cast<uint64_t>(tensor.data())}; }
  Tensor tensor;
};

struct Operands {
  explicit Operands(const LtMatmul& p)
      : a(p.dtype, std::max<int64_t>(1, p.a_stride * p.batch) + p.m * p.k),
        b(p.dtype, std::max<int64_t>(1, p.b_stride * p.batch) + p.k * p.n),
        c(p.dtype, p.m * p.n * p.batch),
        bias(p.dtype, p.n),
        d(p.dtype, p.m * p.n * p.batch),
        workspace(DType::kU8, 8192) {
    Rng rng(3);
    for (Aligned* t : {&a, &b, &c, &bias})
      for (int64_t k = 0; k < t->tensor.numel(); ++k) t->tensor.set_f64(k, rng.uniform() - 0.5);
  }
  cuda::LtAddresses at() const {
    const uint64_t up = (workspace.address().value + 255) / 256 * 256;
    return {a.address(), b.address(), c.address(), d.address(), bias.address(), {up}};
  }
  Aligned a, b, c, bias, d, workspace;
};

double expected(const LtMatmul& p, const Operands& o, int64_t z, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < p.k; ++k)
    sum += o.a.tensor.f64(z * p.a_stride + (p.a_transposed ? k * p.m + i : i * p.k + k)) *
           o.b.tensor.f64(z * p.b_stride + (p.b_transposed ? j * p.k + k : k * p.n + j));
  double v = static_cast<double>(p.alpha) * sum;
  if (p.beta != 0) v += static_cast<double>(p.beta) * o.c.tensor.f64((z * p.m + i) * p.n + j);
  if (p.bias) v += o.bias.tensor.f64(j);
  if (p.act == LtMatmul::Act::kRelu) v = std::max(v, 0.0);
  if (p.act == LtMatmul::Act::kGeluTanh) v = 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
  return v;
}

void expect_right(const LtMatmul& p, const Operands& o) {
  const double bound = p.dtype == DType::kF32 ? 1e-5 : p.dtype == DType::kF16 ? 2e-3 : 1.6e-2;
  for (int64_t z = 0; z < p.batch; ++z)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j)
        ASSERT_NEAR(o.d.tensor.f64((z * p.m + i) * p.n + j), expected(p, o, z, i, j), bound);
}

TEST_F(FakeBlasLt, GivesTheProductThatIsDescribed) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(BlasLt::of(*device));
  EXPECT_EQ(library->version().text(), "13.1");
  EXPECT_EQ(must(BlasLt::of(*device)), library) << "one handle for a device";
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (int form = 0; form < 64; ++form) {
      LtMatmul p;
      p.dtype = dtype;
      p.m = 5;
      p.n = 7;
      p.k = 6;
      p.a_transposed = form & 1;
      p.b_transposed = form & 2;
      p.bias = form & 4;
      p.beta = form & 8 ? 0.5f : 0;
      p.alpha = form & 8 ? 2 : 1;
      p.act = form & 16 ? LtMatmul::Act::kRelu : form & 4 ? LtMatmul::Act::kGeluTanh : LtMatmul::Act::kNone;
      if (form & 32) {
        p.batch = 3;
        p.a_stride = form & 1 ? 0 : 30;
        p.b_stride = 42;
      }
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
      const auto ready = must(library->make(p, nullptr, kWorkspace));
      const Operands o(p);
      must(ready->enqueue(o.at(), nullptr));
      expect_right(p, o);
    }
}

TEST_F(FakeBlasLt, AChoiceIsKeptAndMadeAgain) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(BlasLt::of(*device));
  LtMatmul p;
  p.m = 4;
  p.n = 3;
  p.k = 8;
  const std::vector<LtChoice> choices = must(library->choices(p, kWorkspace, 8));
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1].numbers, (std::array<int64_t, 9>{61, 21, 4, 0, 0, 0, 0, 0, 2}));
  for (size_t k = 0; k < choices.size(); ++k) {
    const auto ready = must(library->make(p, &choices[k], kWorkspace));
    EXPECT_EQ(ready->workspace_bytes(), k * 1024);
    const Operands o(p);
    must(ready->enqueue(o.at(), nullptr));
    expect_right(p, o);
  }
  EXPECT_EQ(must(library->choices(p, 1024, 8)).size(), 2u) << "what needs more workspace is none";
  EXPECT_EQ(must(library->choices(p, kWorkspace, 1)).size(), 1u);
  EXPECT_EQ(library->make(p, &choices[2], 1024).error().kind, ErrorKind::kRefused);
  p.bias = true;
  EXPECT_EQ(library->make(p, &choices[2], kWorkspace).error().kind, ErrorKind::kRefused) << "it has no epilogue";
  LtChoice strange = choices[0];
  strange.numbers[0] = 999;
  EXPECT_EQ(library->make(p, &strange, kWorkspace).error().kind, ErrorKind::kRefused);
  p.k = 0;
  EXPECT_EQ(library->choices(p, kWorkspace, 8).error().kind, ErrorKind::kRefused);
}

TEST(BlasLt, RoundsTwiceWhereRowsAreNotAligned) {
  LtMatmul p;
  p.dtype = DType::kF16;
  p.m = 5;
  p.n = 16;
  p.k = 24;
  p.bias = true;
  EXPECT_TRUE(cuda::rounds_once(p));
  p.a_transposed = true;
  EXPECT_FALSE(cuda::rounds_once(p)) << "rows of 5";
  p.m = 8;
  EXPECT_TRUE(cuda::rounds_once(p));
  p.k = 25;
  EXPECT_TRUE(cuda::rounds_once(p)) << "rows of 8 and 16";
  p.b_transposed = true;
  EXPECT_FALSE(cuda::rounds_once(p)) << "rows of 25";
  p.b_transposed = false;
  p.n = 18;
  EXPECT_FALSE(cuda::rounds_once(p));
  p.bias = false;
  p.act = LtMatmul::Act::kRelu;
  p.beta = 1;
  EXPECT_TRUE(cuda::rounds_once(p)) << "a residual and relu alone are exact";
  p.act = LtMatmul::Act::kGeluTanh;
  EXPECT_FALSE(cuda::rounds_once(p));
  p.dtype = DType::kF32;
  EXPECT_TRUE(cuda::rounds_once(p)) << "float32 has nothing to round to";
}

TEST_F(FakeBlasLt, AddressesThatAreNotAlignedAreRefused) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(BlasLt::of(*device));
  LtMatmul p;
  p.m = 4;
  p.n = 3;
  p.k = 8;
  const std::vector<LtChoice> choices = must(library->choices(p, kWorkspace, 8));
  const auto ready = must(library->make(p, &choices[1], kWorkspace));
  const Operands o(p);
  for (Address cuda::LtAddresses::* one :
       {&cuda::LtAddresses::a, &cuda::LtAddresses::b, &cuda::LtAddresses::d, &cuda::LtAddresses::workspace}) {
    cuda::LtAddresses at = o.at();
    (at.*one).value += 4;
    EXPECT_EQ(ready->enqueue(at, nullptr).error().kind, ErrorKind::kInvalid);
  }
}

TEST_F(FakeBlasLt, WhereThereIsNoneItSaysWhy) {
  const auto device = must(cuda::make_cuda_device());
  const Fakes none{{"libcuda.so.1", "driver"}};
  const auto missing = BlasLt::of(*device);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(missing.error().text().find("cuBLASLt (libcublasLt.so.13) is not found"), std::string::npos);
  const Fakes other{{"libcuda.so.1", "driver"}, {"libcublasLt.so.13", "nvrtc"}};
  EXPECT_EQ(BlasLt::of(*device).error().kind, ErrorKind::kUnsupported) << "a library of other functions";
}

// Everything once; the first error.
Status session() {
  PERI_ASSIGN(const auto device, cuda::make_cuda_device());
  PERI_ASSIGN(const auto library, BlasLt::of(*device));
  LtMatmul p;
  p.m = 4;
  p.n = 3;
  p.k = 8;
  p.batch = 2;
  p.a_stride = 32;
  p.b_stride = 24;
  p.bias = true;
  p.beta = 1;
  PERI_ASSIGN(const std::vector<LtChoice> choices, library->choices(p, kWorkspace, 8));
  for (const LtChoice* choice : {static_cast<const LtChoice*>(nullptr), &choices[1]}) {
    PERI_ASSIGN(const auto ready, library->make(p, choice, kWorkspace));
    const Operands o(p);
    PERI_TRY(ready->enqueue(o.at(), nullptr));
    expect_right(p, o);
  }
  return Ok{};
}

TEST_F(FakeBlasLt, EveryCallMayFail) {
  must(session());
  EXPECT_EQ(count("fake_lt_live"), 0);
  const long all = count("fake_lt_calls");
  EXPECT_GT(all, 100);
  for (const auto& [status, kind] : {std::pair(1, ErrorKind::kUnsupported),
                                     {3, ErrorKind::kMemory},
                                     {7, ErrorKind::kRefused},
                                     {14, ErrorKind::kIo},
                                     {15, ErrorKind::kRefused}})
    for (long call = 1; call <= all; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + " gives " + std::to_string(status));
      reset();
      fail(call, status);
      const Status done = session();
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().kind, kind) << done.error().text();
      EXPECT_NE(done.error().text().find("(" + std::to_string(status) + ")"), std::string::npos);
      EXPECT_TRUE(done.error().node.starts_with("cublasLt")) << done.error().text();
      EXPECT_EQ(count("fake_lt_live"), 0);
      EXPECT_EQ(Fakes::control<long()>("driver", "fake_live")(), 0);
    }
}

}  // namespace
}  // namespace peri::device::tests
