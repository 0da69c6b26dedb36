// Attentions by cuDNN on a fake of it that does the operations of the graph: every form gives the attention that was
// described, engines that are compiled serve, a plan is shared while it is in use, and each call fails without a leak.
#include "device/cuda/cudnn.hpp"
#include "tests/device/attention_forms.hpp"
#include "tests/device/devices.hpp"
#include "tests/device/dnn_fakes.hpp"

namespace peri::device::tests {
namespace {
using cuda::Cudnn;
using cuda::DnnAttention;
using cuda::DnnChoice;

constexpr size_t kWorkspace = 1 << 20;

class FakeAttention : public FakeDnn {};

// The fake's device memory is the host's.
struct Memories : AttentionOperands {
  explicit Memories(const DnnAttention& v) : AttentionOperands(v), workspace(*Tensor::zeros(DType::kU8, {4096})) {}
  cuda::DnnAddresses at() const {
    const auto of = [](const Tensor& t) { return Address{reinterpret_cast<uint64_t>(t.data())}; };
    cuda::DnnAddresses out = {};
    out.q = of(q);
    out.k = of(k);
    out.v = of(v);
    out.y = of(y);
    out.mask = of(mask);
    out.workspace = {(of(workspace).value + 255) / 256 * 256};
    return out;
  }
  Tensor workspace;
};

TEST_F(FakeAttention, GivesTheAttentionThatIsDescribed) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (int form = 0; form < kAttentionForms; ++form) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " form " + std::to_string(form));
      const DnnAttention v = attention_form(dtype, form);
      const auto ready = must(library->make(v, nullptr, kWorkspace));
      const Memories o(v);
      must(ready->enqueue(o.at(), nullptr));
      EXPECT_LT(worst_of(v, o), dtype == DType::kF16 ? 2e-3 : 1.6e-2);
    }
}

TEST_F(FakeAttention, EnginesThatAreCompiledServe) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const std::vector<DnnChoice> choices = must(library->choices(attention_form(DType::kF16, 0), 8));
  const std::vector<DnnChoice> wanted = {{42, {}}, {60, {}}, {41, {{2, 1}, {3, 0}}}};
  EXPECT_EQ(choices, wanted) << "the random one is left out";
}

// Twelve layers of one network are one plan, and it goes with the last of them.
TEST_F(FakeAttention, OnePlanServesAllThatAreAlike) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnAttention v = attention_form(DType::kF16, 0);
  DnnAttention other = v;
  other.scale = 0.5f;
  const DnnChoice compiled = {60, {}};
  const long none = count("fake_dnn_live");
  auto first = must(library->make(v, &compiled, kWorkspace));
  const long one = count("fake_dnn_live");
  EXPECT_GT(one, none);
  auto second = must(library->make(v, &compiled, kWorkspace));
  EXPECT_EQ(count("fake_dnn_live"), one);
  auto third = must(library->make(other, &compiled, kWorkspace));
  EXPECT_GT(count("fake_dnn_live"), one) << "another scale is another plan";
  for (const auto& [ready, of] : {std::pair(&first, &v), {&second, &v}, {&third, &other}}) {
    const Memories o(*of);
    must((*ready)->enqueue(o.at(), nullptr));
    EXPECT_LT(worst_of(*of, o), 2e-3);
  }
  first.reset();
  third.reset();
  EXPECT_EQ(count("fake_dnn_live"), one);
  second.reset();
  EXPECT_EQ(count("fake_dnn_live"), none);
}

TEST_F(FakeAttention, WhatItDoesNotTakeIsRefused) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnAttention good = attention_form(DType::kF16, 16);
  must(library->make(good, nullptr, kWorkspace));
  std::vector<DnnAttention> bad(8, good);
  bad[0].dtype = DType::kF32;
  bad[1].depth = 20;
  bad[2].kv_heads = 3;
  bad[3].keys = 0;
  bad[4].mask = DType::kF64;
  bad[5].mask_dims[3] = 1;
  bad[6].mask_dims[1] = 2;
  bad[7].v[3] = 2;
  for (const DnnAttention& v : bad) {
    EXPECT_EQ(library->make(v, nullptr, kWorkspace).error().kind, ErrorKind::kRefused);
    EXPECT_EQ(library->choices(v, 8).error().kind, ErrorKind::kRefused);
  }
}

TEST_F(FakeAttention, AddressesThatAreNotAlignedAreRefused) {
  const auto device = must(cuda::make_cuda_device());
  const auto library = must(Cudnn::of(*device));
  const DnnAttention v = attention_form(DType::kF16, 16);
  const DnnChoice knobbed = {41, {{2, 1}, {3, 0}}};
  const auto ready = must(library->make(v, &knobbed, kWorkspace));
  const Memories o(v);
  for (Address cuda::DnnAddresses::* one :
       {&cuda::DnnAddresses::q, &cuda::DnnAddresses::k, &cuda::DnnAddresses::v, &cuda::DnnAddresses::y,
        &cuda::DnnAddresses::mask, &cuda::DnnAddresses::workspace}) {
    cuda::DnnAddresses at = o.at();
    (at.*one).value += 4;
    EXPECT_EQ(ready->enqueue(at, nullptr).error().kind, ErrorKind::kInvalid);
  }
}

// Everything once; the first error.
Status session() {
  PERI_ASSIGN(const auto device, cuda::make_cuda_device());
  PERI_ASSIGN(const auto library, Cudnn::of(*device));
  const DnnAttention v = attention_form(DType::kF16, 2 + 48);
  PERI_ASSIGN(const std::vector<DnnChoice> choices, library->choices(v, 8));
  PERI_ASSIGN(const auto ready, library->make(v, &choices.at(1), kWorkspace));
  const Memories o(v);
  PERI_TRY(ready->enqueue(o.at(), nullptr));
  EXPECT_LT(worst_of(v, o), 2e-3);
  return Ok{};
}

TEST_F(FakeAttention, EveryCallMayFail) {
  must(session());
  EXPECT_EQ(count("fake_dnn_live"), 0);
  const long all = count("fake_dnn_calls");
  EXPECT_GT(all, 200);
  for (long call = 1; call <= all; ++call) {
    SCOPED_TRACE("call " + std::to_string(call));
    reset();
    fail(call, 4000);
    const Status done = session();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kIo) << done.error().text();
    EXPECT_EQ(count("fake_dnn_live"), 0);
    EXPECT_EQ(Fakes::control<long()>("driver", "fake_live")(), 0);
  }
}

}  // namespace
}  // namespace peri::device::tests
