// Programs that compute on the null device, and a null device whose calls a test can intercept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.hpp"
#include "device/null.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "lower/place.hpp"
#include "runtime/engine.hpp"
#include "tests/plan/programs.hpp"

namespace peri::lower::tests {

// What a test changes in the calls of a device's streams.
struct Meddling {
  int64_t dropped_wait = 0, waits = 0;  // the wait to omit, counted from 1; 0: none
  std::function<device::Address(device::Address)> moved;
};

class MeddledStream final : public device::Stream {
 public:
  MeddledStream(std::unique_ptr<device::Stream> inner, Meddling* meddling) : inner_(std::move(inner)), m_(*meddling) {}
  Status copy_in(device::Address to, std::span<const std::byte> from) override { return inner_->copy_in(at(to), from); }
  Status copy_out(std::span<std::byte> to, device::Address from) override { return inner_->copy_out(to, at(from)); }
  Status copy(device::Address to, device::Address from, size_t n) override { return inner_->copy(at(to), at(from), n); }
  Status launch(device::Launch launch) override {
    for (device::Argument& a : launch.arguments) a.address = at(a.address);
    return inner_->launch(std::move(launch));
  }
  Status record(device::Event& event) override { return inner_->record(event); }
  Status wait(const device::Event& event) override {
    return ++m_.waits == m_.dropped_wait ? Status(Ok{}) : inner_->wait(event);
  }
  Status begin_capture() override { return inner_->begin_capture(); }
  Result<std::unique_ptr<device::Captured>> end_capture() override { return inner_->end_capture(); }
  Status replay(const device::Captured& captured) override { return inner_->replay(captured); }
  Status synchronize() override { return inner_->synchronize(); }

 private:
  device::Address at(device::Address a) const { return m_.moved ? m_.moved(a) : a; }
  std::unique_ptr<device::Stream> inner_;
  Meddling& m_;
};

// Memory and events are the inner device's own.
class MeddledDevice final : public device::Device {
 public:
  MeddledDevice(std::unique_ptr<device::Device> inner, Meddling* meddling)
      : inner_(std::move(inner)), meddling_(meddling) {}
  std::string name() const override { return inner_->name(); }
  const device::Target& target() const override { return inner_->target(); }
  device::MemoryInfo memory() const override { return inner_->memory(); }
  device::Counts counts() const override { return inner_->counts(); }
  Result<device::Memory> allocate(size_t bytes) override {
    auto made = inner_->allocate(bytes);
    if (made.ok()) allocated.emplace_back(made->address(), bytes);
    return made;
  }
  Result<std::unique_ptr<device::Stream>> make_stream() override {
    PERI_ASSIGN(auto stream, inner_->make_stream());
    return std::unique_ptr<device::Stream>(std::make_unique<MeddledStream>(std::move(stream), meddling_));
  }
  Result<std::unique_ptr<device::Event>> make_event() override { return inner_->make_event(); }
  Status synchronize() override { return inner_->synchronize(); }
  std::byte* host_pointer(device::Address a) const override { return inner_->host_pointer(a); }

  std::vector<std::pair<device::Address, size_t>> allocated;

 private:
  void release(device::Address) override {}
  std::unique_ptr<device::Device> inner_;
  Meddling* meddling_;
};

inline std::unique_ptr<device::Device> null_device(device::NullOptions options) {
  auto made = device::make_null_device(std::move(options));
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}
inline std::unique_ptr<device::Device> null_of_seed(uint64_t seed) {
  device::NullOptions options;
  options.seed = seed;
  return null_device(std::move(options));
}

inline Result<std::shared_ptr<const runtime::Engine>> engine_on(const plan::Program& p,
                                                                std::shared_ptr<device::Device> device = nullptr) {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  runtime::EngineOptions o;
  o.executors = kTable;
  o.machine = {device::this_cpu().isas, exec::libraries()};
  if (device) o.devices = {std::move(device)};
  runtime::WeightSource weights;
  Rng rng(3);
  for (const plan::Weight& w : p.weights) {
    Tensor t = Tensor::zeros(w.dtype, w.dims).value();
    for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.normal());
    weights.tensors.push_back(std::move(t));
  }
  return runtime::Engine::create(p, std::move(weights), o);
}

inline Tensor filled(std::vector<int64_t> dims, uint64_t seed) {
  Tensor t = Tensor::zeros(DType::kF32, std::move(dims)).value();
  Rng rng(seed);
  for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.normal());
  return t;
}

inline bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].dims() != b[k].dims() || !std::ranges::equal(a[k].bytes(), b[k].bytes())) return false;
  return true;
}

// A program of reference steps over f32[n,4], for the host.
struct Chain : peri::tests::ProgramMaker {
  Chain() { p.dims = {"n"}; }
  int32_t apply(const char* op, std::vector<int32_t> reads, const std::string& name) {
    const int32_t y = scratch(name, DType::kF32, "[n,4]");
    std::string region = "graph { ", arguments;
    for (size_t k = 0; k < reads.size(); ++k) {
      const std::string in = "a" + std::to_string(k);
      const plan::Buffer& b = p.buffers[static_cast<size_t>(reads[k])];
      region += "input " + in + ": f32" + shape_text(b.shape) + "; ";
      arguments += (k ? ", " : "") + in;
    }
    reference(std::move(reads), {y}, region + " y = " + op + "(" + arguments + "); output y }").name = name;
    return y;
  }
};

// Steps that read up to two of the last results, some of them outputs, over an input and a weight.
inline plan::Program random_program(uint64_t seed) {
  Rng rng(seed);
  Chain m;
  std::vector<int32_t> made = {m.input("x", DType::kF32, "[n,4]"), m.weight("w", DType::kF32, {4})};
  for (int64_t k = 0; k < 3 + rng.below(14); ++k) {
    const auto one = [&] {
      return made[made.size() - 1 - static_cast<size_t>(rng.below(std::min<int64_t>(std::ssize(made), 5)))];
    };
    const std::string name = "t" + std::to_string(k);
    const int32_t first = k == 0 ? made[0] : one();
    if (first == made[1])  // its result has the weight's shape unless another argument has more
      made.push_back(m.apply("add", {first, made[0]}, name));
    else if (rng.below(3) == 0)
      made.push_back(m.apply(rng.below(2) ? "tanh" : "neg", {first}, name));
    else
      made.push_back(m.apply(rng.below(2) ? "add" : "sub", {first, one()}, name));
    if (rng.below(4) == 0) m.output("o" + std::to_string(k), made.back());
  }
  m.output("last", made.back());
  m.output("input", made[0]);
  return m.p;
}

}  // namespace peri::lower::tests
