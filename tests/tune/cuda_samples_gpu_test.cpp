// Every kernel of a GPU on the samples of all ops in three types, on a GPU: as right as where the host runs the text.
// TEST_SHARE=N takes each configuration once and a part of the rest (share_by_commit), and repeats less, for tools that
// make runs slow.
// label: gpu
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "device/cuda/compiler.hpp"
#include "device/cuda/cuda.hpp"
#include "exec/region/layouts.hpp"
#include "kernels/entry.hpp"
#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {
namespace cuda = device::cuda;
using kernels::cuda::KernelLaunch;
using kernels::cuda::LaunchArgument;

constexpr std::byte kPoison{0xcb};

class CudaSamples : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto device = cuda::make_cuda_device();
    ASSERT_TRUE(device.ok()) << device.error().text();
    device_ = *std::move(device);
    auto stream = device_->make_stream();
    ASSERT_TRUE(stream.ok()) << stream.error().text();
    stream_ = *std::move(stream);
  }

  // Machine code of every text, by all threads.
  void compile(const std::vector<Case>& cases) {
    auto compiler = cuda::Compiler::open(cuda::code_cache_folder());
    ASSERT_TRUE(compiler.ok()) << compiler.error().text();
    std::set<std::string> all;
    for (const Case& c : cases)
      for (const KernelLaunch& l : c.launches()) all.insert(l.text);
    const std::vector<std::string> texts(all.begin(), all.end());
    std::vector<Result<cuda::Code>> code(texts.size(), invalid("not compiled"));
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back([&] {
        for (size_t k; (k = next++) < texts.size();)
          code[k] = (*compiler)->compile({"sample", texts[k], device_->facts().chip()});
      });
    for (std::thread& t : threads) t.join();
    for (size_t k = 0; k < texts.size(); ++k) {
      ASSERT_TRUE(code[k].ok()) << code[k].error().text() << "\n" << texts[k];
      auto module = device_->load(std::as_bytes(std::span(code[k]->cubin)));
      ASSERT_TRUE(module.ok()) << module.error().text();
      modules_[texts[k]] = *std::move(module);
    }
  }

  device::Memory filled(std::span<const std::byte> bytes) {
    auto memory = device_->allocate(std::max<size_t>(bytes.size(), 16));
    EXPECT_TRUE(memory.ok());
    if (!bytes.empty()) EXPECT_TRUE(stream_->copy_in(memory->address(), bytes).ok());
    return std::move(*memory);
  }

  // Right, and the same bits each of so many times.
  void check(const Case& c, int times = 1) {
    SCOPED_TRACE(c.name());
    const ir::Graph& g = c.region;
    std::vector<device::Memory> in, out;
    std::vector<Tensor> results;
    std::vector<Tensor> given;
    for (size_t k = 0; k < g.inputs.size(); ++k)
      given.push_back(*c.problem->given->in_layout(k, g.inputs[k]->type.layout));
    for (const Tensor& t : given) in.push_back(filled(t.bytes()));
    for (const ir::Value* v : g.outputs) {
      results.push_back(*Tensor::zeros(v->type.dtype, exec::physical_dims(kernels::dims_of(*v), v->type.layout)));
      const std::vector<std::byte> poison(results.back().bytes().size(), kPoison);
      out.push_back(filled(poison));
      ASSERT_TRUE(stream_->synchronize().ok());
    }
    const std::vector<std::byte> poison(c.instance->workspace_bytes(), kPoison);
    const device::Memory workspace = filled(poison);
    const std::vector<std::byte> nothing(16, std::byte{0});
    const device::Memory fault = filled(nothing);
    std::vector<device::Memory> packed;
    for (const Tensor& t : c.packed()) packed.push_back(filled(t.bytes()));
    ASSERT_TRUE(stream_->synchronize().ok());
    std::vector<std::vector<std::byte>> first;
    for (int turn = 0; turn < times; ++turn) {
      launch(c, in, out, packed, workspace, fault);
      read(out, &results);
      if (HasFatalFailure()) return;
      if (turn == 0)
        for (const Tensor& t : results) first.emplace_back(t.bytes().begin(), t.bytes().end());
      for (size_t k = 0; k < results.size(); ++k)
        ASSERT_TRUE(std::equal(first[k].begin(), first[k].end(), results[k].bytes().begin())) << "in turn " << turn;
    }
    for (size_t k = 0; k < results.size(); ++k)
      results[k] = *exec::from_layout(results[k], g.outputs[k]->type.layout, kernels::dims_of(*g.outputs[k]));
    const auto error = compare(*c.problem->expected, results);
    EXPECT_TRUE(error.ok()) << error.error().text();
  }

  void launch(const Case& c, const std::vector<device::Memory>& in, const std::vector<device::Memory>& out,
              const std::vector<device::Memory>& packed, const device::Memory& workspace, const device::Memory& fault) {
    for (const KernelLaunch& l : c.launches()) {
      std::vector<device::Argument> arguments;
      for (const LaunchArgument& a : l.arguments) {
        const device::Memory& m = a.from == LaunchArgument::From::kInput    ? in[a.index]
                                  : a.from == LaunchArgument::From::kOutput ? out[a.index]
                                  : a.from == LaunchArgument::From::kPacked ? packed[a.index]
                                  : a.from == LaunchArgument::From::kFault  ? fault
                                                                            : workspace;
        arguments.push_back({m.address(), m.bytes()});
      }
      auto kernel = modules_.at(l.text)->kernel(l.entry, static_cast<int>(l.shared_bytes));
      ASSERT_TRUE(kernel.ok()) << kernel.error().text();
      cuda::Shape shape;
      shape.blocks[0] = static_cast<unsigned>(l.blocks);
      shape.threads[0] = static_cast<unsigned>(l.threads);
      shape.cluster[0] = static_cast<unsigned>(l.cluster);
      shape.shared_bytes = static_cast<unsigned>(l.shared_bytes);
      std::vector<cuda::Scalar> sizes;
      for (const int64_t size : l.sizes) sizes.push_back(cuda::scalar(static_cast<long long>(size)));
      ASSERT_TRUE(stream_->launch(device_->launch_of(*kernel, shape, std::move(arguments), sizes)).ok());
    }
  }

  void read(const std::vector<device::Memory>& out, std::vector<Tensor>* results) {
    for (size_t k = 0; k < results->size(); ++k) {
      const std::span<const std::byte> bytes = (*results)[k].bytes();
      if (!bytes.empty())
        ASSERT_TRUE(stream_->copy_out({const_cast<std::byte*>(bytes.data()), bytes.size()}, out[k].address()).ok());
    }
    const Status done = stream_->synchronize();
    ASSERT_TRUE(done.ok()) << done.error().text();
  }

  std::unique_ptr<cuda::CudaDevice> device_;
  std::map<std::string, std::unique_ptr<cuda::Module>> modules_;
  std::unique_ptr<device::Stream> stream_;
};

TEST_P(CudaSamples, AreRight) {
  std::vector<SampleProblem> narrow;
  if (GetParam() != DType::kF32)
    for (const SampleProblem& p : common_problems())
      if (std::optional<SampleProblem> q = in_type(p, GetParam())) narrow.push_back(std::move(*q));
  Share share;
  if (const char* const part = std::getenv("TEST_SHARE")) {
    const auto of = std::strtoull(part, nullptr, 10);
    ASSERT_GT(of, 0u) << "TEST_SHARE=" << part;
    share = share_by_commit(of, of);
  }
  const std::vector<Case> cases =
      cuda_cases(GetParam() == DType::kF32 ? common_problems() : narrow, GetParam() == DType::kF32, share);
  compile(cases);
  if (HasFatalFailure()) return;
  for (const Case& c : cases) {
    check(c);
    if (HasFatalFailure()) return;
  }
  printf("%zu cases of %zu texts in %s\n", cases.size(), modules_.size(), std::string(dtype_name(GetParam())).c_str());
}

// What blocks of a cluster read of each other is there when they read it.
TEST_P(CudaSamples, ClustersGiveTheSameBitsAThousandTimes) {
  if (GetParam() != DType::kF32) GTEST_SKIP() << "the kernels' own samples are of all types";
  if (device_->facts().major < 9) GTEST_SKIP() << "clusters are there from 9.0 on";
  std::vector<Case> cases = cuda_cases(common_problems(), true, {});
  std::erase_if(cases, [](const Case& c) {
    const auto& list = c.launches();
    return std::none_of(list.begin(), list.end(), [](const KernelLaunch& l) { return l.cluster > 1; });
  });
  EXPECT_GT(cases.size(), 10u);
  compile(cases);
  const int times = std::getenv("TEST_SHARE") ? 5 : 1000;
  for (size_t k = 0; k < cases.size() && !HasFatalFailure(); ++k) check(cases[k], times);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaSamples, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& each) { return std::string(dtype_name(each.param)); });

}  // namespace
}  // namespace peri::tune
