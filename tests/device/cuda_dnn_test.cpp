// Convolutions by cuDNN on a fake of it: every form gives the convolution that was described, a choice can be kept and
// made again, engines that round or differ are left out, and each of the library's calls fails in turn without a leak.
#include "device/cuda/cudnn.hpp"

#include <thread>

#include "tests/device/conv_forms.hpp"
#include "tests/device/devices.hpp"
#include "tests/device/dnn_fakes.hpp"

namespace peri::device::tests {
namespace {
using cuda::Cudnn;
using cuda::DnnChoice;
using cuda::DnnConv;

constexpr size_t kWorkspace = 1 << 20;

class FakeCudnn : public FakeDnn {};

// The fake's device memory is the host's.
struct Memories : Operands {
  explicit Memories(const DnnConv& v) : Operands(v), workspace(*Tensor::zeros(DType::kU8, {4096})) {}
  cuda::DnnAddresses at() const {
    const auto of = [](const Tensor& t) { return Address{reinterpret_cast<uint64_t>(t.data())}; };
    return {of(x), of(w), of(y), of(bias), of(residual), {(of(workspace).value + 255) / 256 * 256}};
  }
  Tensor workspace;
};

void expect_right(const DnnConv& v, const Operands& o) {
  const double bound = v.dtype == DType::kF32 ? 1e-5 : v.dtype == DType::kF16 ? 2e-3 : 1.6e-2;
  for (int64_t n = 0; n < v.n; ++n)
    for (int64_t k = 0; k < v.k; ++k)
      for (int64_t i = 0; i < v.oh; ++i)
        for (int64_t j = 0; j < v.ow; ++j)
          ASSERT_NEAR(o.y.f64(((n * v.oh + i) * v.ow + j) * v.k + k), expected(v, o, n, k, i, j), bound);
}

TEST_F(FakeCudnn, GivesTheConvolutionThatIsDescribed) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  EXPECT_EQ(library->version().text(), "9.19");
  EXPECT_EQ(must(library->properties()), "{\"deviceName\":\"FAKE\"}");
  EXPECT_EQ(must(Cudnn::of(*device)), library) << "one handle for a device";
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (int form = 0; form < 32; ++form) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
      const DnnConv v = conv_form(dtype, form);
      const auto ready = must(library->make(v, nullptr, kWorkspace));
      EXPECT_EQ(ready->workspace_bytes(), 1024u) << "the first does not compile, the second is left out";
      const Memories o(v);
      must(ready->enqueue(o.at(), nullptr));
      expect_right(v, o);
    }
}

TEST_F(FakeCudnn, AChoiceIsKeptAndMadeAgain) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnConv v = conv_form(DType::kF16, 15);
  const std::vector<DnnChoice> choices = must(library->choices(v, 8));
  const std::vector<DnnChoice> wanted = {{42, {}}, {41, {{2, 1}, {3, 0}}}};
  EXPECT_EQ(choices, wanted);
  EXPECT_EQ(must(library->choices(v, 1)).size(), 1u);
  EXPECT_FALSE(library->make(v, &choices[0], kWorkspace).ok()) << "it does not compile";
  const DnnChoice fallback = {50, {}};
  for (const DnnChoice* one : {&choices[1], &fallback}) {
    const auto ready = must(library->make(v, one, kWorkspace));
    const Memories o(v);
    must(ready->enqueue(o.at(), nullptr));
    expect_right(v, o);
  }
  EXPECT_EQ(library->make(v, &choices[1], 512).error().kind, ErrorKind::kRefused) << "too little workspace";
  EXPECT_EQ(must(library->make(v, nullptr, 512))->workspace_bytes(), 0u) << "the next that needs less";
  const DnnChoice strange = {99, {}};
  EXPECT_EQ(library->make(v, &strange, kWorkspace).error().kind, ErrorKind::kRefused);
  const DnnChoice other_knobs = {41, {{2, 5}, {3, 0}}};
  EXPECT_EQ(library->make(v, &other_knobs, kWorkspace).error().kind, ErrorKind::kRefused);
  DnnConv empty = v;
  empty.n = 0;
  EXPECT_EQ(library->choices(empty, 8).error().kind, ErrorKind::kRefused);
}

// Sessions of several threads ask, plan and enqueue by one handle, which the library leaves to one thread at a time.
TEST_F(FakeCudnn, OneThreadAtATimeUsesTheHandle) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnConv v = conv_form(DType::kF16, 15);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const Memories o(v);
      for (int round = 0; round < 5; ++round) {
        EXPECT_TRUE(library->choices(v, 8).ok());
        const auto ready = library->make(v, nullptr, kWorkspace);
        ASSERT_TRUE(ready.ok());
        EXPECT_TRUE((*ready)->enqueue(o.at(), nullptr).ok());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(count("fake_dnn_shared"), 0);
  EXPECT_EQ(count("fake_dnn_runs"), 20);
}

TEST_F(FakeCudnn, AddressesThatAreNotAlignedAreRefused) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnConv v = conv_form(DType::kF32, 15);
  const auto ready = must(library->make(v, nullptr, kWorkspace));
  const Memories o(v);
  for (Address cuda::DnnAddresses::* one :
       {&cuda::DnnAddresses::x, &cuda::DnnAddresses::w, &cuda::DnnAddresses::y, &cuda::DnnAddresses::bias,
        &cuda::DnnAddresses::residual, &cuda::DnnAddresses::workspace}) {
    cuda::DnnAddresses at = o.at();
    (at.*one).value += 4;
    EXPECT_EQ(ready->enqueue(at, nullptr).error().kind, ErrorKind::kInvalid);
  }
}

// Everything once; the first error.
Status session() {
  PERI_ASSIGN(const auto device, cuda::make_cuda_device());
  PERI_ASSIGN(const auto library, Cudnn::of(*device));
  const DnnConv v = conv_form(DType::kF32, 15);
  PERI_ASSIGN(const std::vector<DnnChoice> choices, library->choices(v, 8));
  PERI_ASSIGN(const auto ready, library->make(v, &choices.at(1), kWorkspace));
  const Memories o(v);
  PERI_TRY(ready->enqueue(o.at(), nullptr));
  expect_right(v, o);
  return Ok{};
}

TEST_F(FakeCudnn, EveryCallMayFail) {
  must(session());
  EXPECT_EQ(count("fake_dnn_live"), 0);
  const long all = count("fake_dnn_calls");
  EXPECT_GT(all, 100);
  for (const auto& [status, kind] :
       {std::pair(1001, ErrorKind::kUnsupported), {4003, ErrorKind::kMemory}, {4000, ErrorKind::kIo}})
    for (long call = 1; call <= all; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + " gives " + std::to_string(status));
      reset();
      fail(call, status);
      const Status done = session();
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().kind, kind) << done.error().text();
      EXPECT_NE(done.error().text().find("(" + std::to_string(status) + ")"), std::string::npos);
      EXPECT_TRUE(done.error().node.starts_with("cudnn")) << done.error().text();
      EXPECT_EQ(count("fake_dnn_live"), 0);
      EXPECT_EQ(Fakes::control<long()>("driver", "fake_live")(), 0);
    }
}

TEST_F(FakeCudnn, WhereThereIsNoneItSaysWhy) {
  const auto device = must(cuda::make_cuda_device());
  const Fakes none{{"libcuda.so.1", "driver"}};
  const auto missing = Cudnn::of(*device);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(missing.error().text().find("cuDNN (libcudnn.so.9) is not found"), std::string::npos);
}

}  // namespace
}  // namespace peri::device::tests
