// Inputs, outputs and states that lie on the null device: the host's answers bit for bit in every order, on memory of
// the session and of the caller, and what work finds wrong in the data is the run's error, with its node.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/lower/null_devices.hpp"

namespace peri::lower {
namespace {

using plan::Program;
using runtime::PortMemory;
using runtime::PortUse;
using runtime::Session;
using tests::Chain;
using tests::random_program;

Program placed(Program p, uint32_t lanes) {
  place_steps({"null", "null", lanes, false, true}, &p);
  const Status checked = plan::check_program(p, 64);
  EXPECT_TRUE(checked.ok()) << checked.error().text();
  return p;
}

Result<std::vector<Tensor>> run_at(Session* s, int64_t n, uint64_t seed = 9) {
  return s->run(std::vector<Tensor>{tests::filled({n, 4}, seed)});
}
std::vector<Tensor> host_answer(const Program& p, int64_t n, uint64_t seed = 9) {
  auto out = run_at(Session::create(tests::engine_on(p).value(), 1).value().get(), n, seed);
  EXPECT_TRUE(out.ok()) << out.error().text();
  return std::move(out).value();
}
std::span<std::byte> bytes_of(Tensor* t) { return {static_cast<std::byte*>(t->mutable_data()), t->bytes().size()}; }

TEST(NullPorts, LieOnTheDeviceAndGiveTheHostsAnswers) {
  int64_t copies = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program p = random_program(seed), there = placed(p, static_cast<uint32_t>(1 + seed % 4));
    for (const plan::Step& s : there.steps) copies += s.executor == plan::kCopyExecutor;
    auto engine = tests::engine_on(there, tests::null_of_seed(seed));
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 1).value();
    for (const int64_t n : {3, 7, 3, 1, 7}) {
      const auto out = run_at(session.get(), n);
      ASSERT_TRUE(out.ok()) << out.error().text();
      EXPECT_TRUE(tests::same_bits(*out, host_answer(p, n)));
    }
  }
  EXPECT_EQ(copies, 0) << "nothing crosses but what the session brings";
}

// Memory of the caller on a device, with the values of a tensor.
device::Memory brought(device::Device* device, const Tensor& t) {
  auto memory = device->allocate(t.bytes().size());
  EXPECT_TRUE(memory.ok());
  auto stream = device->make_stream().value();
  EXPECT_TRUE(stream->copy_in(memory->address(), t.bytes()).ok() && stream->synchronize().ok());
  return std::move(*memory);
}
bool holds(device::Device* device, device::Address at, const Tensor& t) {
  std::vector<std::byte> bytes(t.bytes().size());
  auto stream = device->make_stream().value();
  EXPECT_TRUE(stream->copy_out(bytes, at).ok() && stream->synchronize().ok());
  return std::ranges::equal(bytes, t.bytes());
}

TEST(NullPorts, MemoryOfTheCallerIsWorkedOnInPlaceOnceItIsKnown) {
  Chain m;
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), a = m.apply("tanh", {x}, "a"), b = m.apply("neg", {a}, "b");
  m.p.buffers[static_cast<size_t>(b)].kind = plan::BufferKind::kOutput;
  m.output("y", b);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(seed));
    auto session = Session::create(tests::engine_on(placed(m.p, 2), device).value(), 1).value();
    ASSERT_EQ(session->resident_device(), device.get());
    EXPECT_FALSE(session->run_resident({}).ok()) << "no shape";
    ASSERT_TRUE(session->prepare({{5, 4}}).ok());
    const int64_t prepared = session->captures();
    for (uint64_t round = 1; round <= 2; ++round) {
      const Tensor in = tests::filled({5, 4}, round);
      const auto wanted = host_answer(m.p, 5, round);
      device::Memory from = brought(device.get(), in), to = device->allocate(in.bytes().size()).value();
      for (int run = 0; run < 4; ++run) {
        const Status ran = session->run_resident({{{from.address(), {}}}, {{to.address(), {}}}});
        ASSERT_TRUE(ran.ok()) << ran.error().text();
        EXPECT_EQ(session->port_use(), run == 0 ? PortUse::kCopied : PortUse::kInPlace) << session->why_copied();
        EXPECT_TRUE(holds(device.get(), to.address(), wanted[0]));
      }
      EXPECT_EQ(session->captures(), prepared + static_cast<int64_t>(round)) << "once for each set of places";
    }
    auto after = run_at(session.get(), 5);  // and the session's own memory is as before
    ASSERT_TRUE(after.ok());
    EXPECT_TRUE(tests::same_bits(*after, host_answer(m.p, 5)));
    EXPECT_EQ(session->captures(), prepared + 2);
  }
}

TEST(NullPorts, OwnMemoryIsStableAndMayBeFilledFromTheHost) {
  const Program plain = random_program(5);
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(4));
  auto session = Session::create(tests::engine_on(placed(plain, 3), device).value(), 1).value();
  ASSERT_TRUE(session->prepare({{6, 4}}).ok());
  const device::Argument in = session->input_memory(0).value(), out = session->output_memory(0).value();
  EXPECT_EQ(in.bytes, 6u * 4 * sizeof(float));
  const auto before = device->counts();
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Tensor x = tests::filled({6, 4}, seed);
    runtime::ResidentRun run;
    run.inputs = {{{}, bytes_of(&x)}};
    ASSERT_TRUE(session->run_resident(run).ok());
    const auto wanted = host_answer(plain, 6, seed);
    EXPECT_TRUE(holds(device.get(), out.address, wanted[0]));
    ASSERT_TRUE(session->run_resident({}).ok()) << "again, on what is there";
    EXPECT_TRUE(holds(device.get(), out.address, wanted[0]));
    EXPECT_EQ(session->port_use(), PortUse::kOwn);
    EXPECT_EQ(session->input_memory(0)->address, in.address);
  }
  EXPECT_EQ(device->counts().allocations, before.allocations);
}

// As of an image of one channel, which is the same memory in every layout.
TEST(NullPorts, AnOutputThatIsAllOfAnotherValueIsMadeInPlace) {
  Chain m;
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), a = m.apply("tanh", {x}, "a"), b = m.apply("neg", {a}, "b");
  const int32_t y = m.scratch("y", DType::kF32, "[n,2,2]");
  m.p.buffers[static_cast<size_t>(y)].alias_of = b;
  m.output("y", y);
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(2));
  auto session = Session::create(tests::engine_on(placed(m.p, 1), device).value(), 1).value();
  ASSERT_TRUE(session->prepare({{4, 4}}).ok());
  const Tensor in = tests::filled({4, 4}, 3);
  const auto wanted = host_answer(m.p, 4, 3);
  device::Memory from = brought(device.get(), in), to = device->allocate(200).value();
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(session->run_resident({{{from.address(), {}}}, {{to.address(), {}}}}).ok());
    EXPECT_TRUE(holds(device.get(), to.address(), wanted[0]));
    EXPECT_EQ(session->port_use(), k == 0 ? PortUse::kCopied : PortUse::kInPlace) << session->why_copied();
  }
}

TEST(NullPorts, WhatCannotBeWorkedOnInPlaceIsCopied) {
  Chain m;
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), a = m.apply("tanh", {x}, "a");
  m.p.buffers[static_cast<size_t>(a)].kind = plan::BufferKind::kOutput;
  m.output("y", a);
  m.output("z", a);
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(2));
  auto session = Session::create(tests::engine_on(placed(m.p, 1), device).value(), 1).value();
  ASSERT_TRUE(session->prepare({{4, 4}}).ok());
  const Tensor in = tests::filled({4, 4}, 3);
  const auto wanted = host_answer(m.p, 4, 3);
  device::Memory from = brought(device.get(), in), to = device->allocate(200).value();
  const auto run = [&](uint64_t shift) {
    return session->run_resident({{{from.address(), {}}}, {{to.address() + shift, {}}, {}}});
  };
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(run(4).ok());
    EXPECT_EQ(session->port_use(), PortUse::kCopied);
    EXPECT_TRUE(holds(device.get(), to.address() + 4, wanted[0]));
  }
  EXPECT_STREQ(session->why_copied(), "an output shares its memory with another value");
  device::Memory both = brought(device.get(), in);
  for (int k = 0; k < 2; ++k) {
    ASSERT_TRUE(session->run_resident({{{both.address(), {}}}, {{both.address(), {}}, {}}}).ok());
    EXPECT_EQ(session->port_use(), PortUse::kCopied);
  }
  EXPECT_STREQ(session->why_copied(), "an output lies in the memory of another port");
  const Status beyond = run(180);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().node, "y");
}

TEST(NullPorts, AnyFailureIsATypedErrorAndTheNextRunIsRight) {
  const Program plain = random_program(11), p = placed(plain, 3);
  const auto wanted = host_answer(plain, 3);
  for (const bool work : {false, true}) {
    int64_t failures = 0;
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE((work ? "work " : "call ") + std::to_string(n));
      device::NullOptions options;
      (work ? options.failing_work : options.failing_call) = n;
      const auto device = std::shared_ptr<device::Device>(tests::null_device(options));
      bool failed = false;
      const auto good = [&](const auto& result) {
        if (result.ok()) return true;
        EXPECT_FALSE(std::exchange(failed, true)) << "a second failure: " << result.error().text();
        EXPECT_TRUE(result.error().kind == ErrorKind::kIo || result.error().kind == ErrorKind::kMemory);
        EXPECT_FALSE(result.error().node.empty()) << result.error().text();
        ++failures;
        return false;
      };
      auto engine = tests::engine_on(p, device);
      if (!good(engine)) engine = tests::engine_on(p, device);
      auto session = Session::create(*engine, 1);
      if (!good(session)) session = Session::create(*engine, 1);
      ASSERT_TRUE(session.ok());
      for (int run = 0; run < 3; ++run) {
        auto out = run_at(session->get(), 3);
        if (!good(out)) out = run_at(session->get(), 3);
        ASSERT_TRUE(out.ok()) << out.error().text();
        EXPECT_TRUE(tests::same_bits(*out, wanted));
        runtime::ResidentRun again;
        again.wait = false;
        for (int k = 0; k < 2; ++k)
          if (Status s = (*session)->run_resident(again); !good(s)) ASSERT_TRUE(run_at(session->get(), 3).ok());
        if (Status s = (*session)->finish(); !good(s)) ASSERT_TRUE(run_at(session->get(), 3).ok());
      }
      if (!failed) break;
    }
    EXPECT_GT(failures, 10);
  }
}

TEST(NullPorts, AStateLivesThere) {
  peri::tests::ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n,4]");
  const int32_t s = m.buffer("s", plan::BufferKind::kState, DType::kF32, "[n,4]");
  const int32_t y = m.scratch("y", DType::kF32, "[n,4]");
  m.reference({x, s}, {y}, "graph { input x: f32[n,4]; input s: f32[n,4]; y = add(x, s); output y }");
  m.step("copy", {y}, {s});
  m.output("y", y);
  const Program p = placed(m.p, 2);
  EXPECT_EQ(p.buffers[static_cast<size_t>(s)].device, 1u);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    auto here = Session::create(tests::engine_on(m.p).value(), 1).value();
    auto there = Session::create(tests::engine_on(p, tests::null_of_seed(seed)).value(), 1).value();
    for (const int64_t n : {3, 3, 5, 5, 8, 2, 2}) {  // it grows with what it holds, and begins anew where it shrinks
      const auto wanted = run_at(here.get(), n, 20 + static_cast<uint64_t>(n)),
                 out = run_at(there.get(), n, 20 + static_cast<uint64_t>(n));
      ASSERT_TRUE(wanted.ok() && out.ok()) << out.error().text();
      EXPECT_TRUE(tests::same_bits(*out, *wanted)) << n;
    }
  }
}

// ---- faults: work that finds a negative element leaves 2 in its word ---------------------------------------------

class Faulty final : public runtime::Instance {
 public:
  bool may_fault() const override { return true; }
  Error fault(int32_t word) const override { return invalid("an element is negative (word %d)", word); }
  Status enqueue(const runtime::EnqueueContext& c) const override {
    device::Launch launch;
    launch.name = "look";
    launch.arguments = {{c.reads[0].address, c.reads[0].bytes}, {c.writes[0].address, c.writes[0].bytes}, c.fault};
    launch.function = [](std::span<const std::span<std::byte>> a) -> Status {
      const std::span<const float> x(reinterpret_cast<const float*>(a[0].data()), a[0].size() / sizeof(float));
      const int32_t word = 2;
      if (std::any_of(x.begin(), x.end(), [](float v) { return v < 0; })) std::memcpy(a[2].data(), &word, sizeof(word));
      std::memcpy(a[1].data(), a[0].data(), a[0].size());
      return Ok{};
    };
    return c.stream->launch(std::move(launch));
  }
};
class FaultyPrepared final : public runtime::Prepared {
 public:
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding&) override {
    return std::unique_ptr<runtime::Instance>(std::make_unique<Faulty>());
  }
};
const runtime::Executor kFaulty{"faulty", 1,
                                [](const runtime::PrepareContext&) -> Result<std::unique_ptr<runtime::Prepared>> {
                                  return std::unique_ptr<runtime::Prepared>(std::make_unique<FaultyPrepared>());
                                },
                                "null"};

Result<std::unique_ptr<Session>> faulty_session(device::NullOptions options, int64_t steps) {
  static const std::vector<const runtime::Executor*> kTable = {&kFaulty};
  peri::tests::ProgramMaker m;
  m.p.dims = {"n"};
  int32_t at = m.input("x", DType::kF32, "[n,4]");
  for (int64_t k = 0; k < steps; ++k) {
    const int32_t y = m.scratch("y" + std::to_string(k), DType::kF32, "[n,4]");
    m.step("faulty", {at}, {y});
    at = y;
  }
  m.output("y", at);
  runtime::EngineOptions o;
  o.executors = kTable;
  o.devices = {std::shared_ptr<device::Device>(tests::null_device(std::move(options)))};
  place_steps({"null", "faulty", 1, false, true}, &m.p);
  PERI_ASSIGN(auto engine, runtime::Engine::create(m.p, {}, o));
  return Session::create(engine, 1);
}

Tensor all_of(float value) { return Tensor::of_f32({2, 4}, std::vector<float>(8, value)); }

TEST(NullFaults, AreTheRunsErrorWithTheirNodeAndTheNextRunIsRight) {
  for (uint64_t seed = 0; seed < 9; ++seed) {
    device::NullOptions options;
    options.seed = seed;
    auto session = faulty_session(options, 3).value();
    for (const float value : {1.0F, -1.0F, 2.0F, -2.0F, -3.0F, 4.0F}) {
      const auto out = session->run(std::vector<Tensor>{all_of(value)});
      ASSERT_EQ(out.ok(), value > 0) << value;
      if (out.ok()) {
        EXPECT_EQ((*out)[0].f64(7), value);
        continue;
      }
      EXPECT_EQ(out.error().kind, ErrorKind::kInvalid);
      EXPECT_EQ(out.error().node, "faulty0") << "the first of the steps";
      EXPECT_NE(out.error().text().find("(word 2)"), std::string::npos) << out.error().text();
    }
  }
}

TEST(NullFaults, OfRunsThatAreNotWaitedForAreToldAtTheEnd) {
  auto session = faulty_session({}, 1).value();
  ASSERT_TRUE(session->prepare({{2, 4}}).ok());
  Tensor bad = all_of(-1), good = all_of(1);
  runtime::ResidentRun fill, run;
  run.wait = false;
  for (int k = 0; k < 2; ++k) {
    fill.inputs = {{{}, bytes_of(&good)}};
    ASSERT_TRUE(session->run_resident(fill).ok());
    ASSERT_TRUE(session->run_resident(run).ok());
    EXPECT_TRUE(session->finish().ok());
    fill.inputs = {{{}, bytes_of(&bad)}};
    EXPECT_FALSE(session->run_resident(fill).ok());
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(session->run_resident(run).ok());
    const Status told = session->finish();
    ASSERT_FALSE(told.ok());
    EXPECT_EQ(told.error().node, "faulty0");
  }
}

TEST(NullFaults, AnyFailureOfTheDeviceLeavesTheWordsClean) {
  for (const bool work : {false, true})
    for (int64_t n = 1; n < 80; ++n) {
      SCOPED_TRACE(n);
      device::NullOptions options;
      (work ? options.failing_work : options.failing_call) = n;
      auto session = faulty_session(options, 2);
      if (!session.ok()) continue;
      for (const float value : {-1.0F, 1.0F}) {
        auto out = (*session)->run(std::vector<Tensor>{all_of(value)});
        if (!out.ok() && out.error().kind == ErrorKind::kIo) out = (*session)->run(std::vector<Tensor>{all_of(value)});
        EXPECT_EQ(out.ok(), value > 0) << out.error().text();
      }
    }
}

TEST(NullPorts, SessionsOfAnEngineRunSideBySide) {
  const Program plain = random_program(11);
  auto engine = tests::engine_on(placed(plain, 3), tests::null_of_seed(2)).value();
  const auto wanted = host_answer(plain, 5);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      auto session = Session::create(engine, 1).value();
      for (int k = 0; k < 20; ++k) {
        const auto out = run_at(session.get(), 5);
        right += out.ok() && tests::same_bits(*out, wanted);
        runtime::ResidentRun again;
        again.wait = false;
        right += session->run_resident(again).ok();
        (void)run_at(session.get(), 1 + k % 3);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 120);
}

}  // namespace
}  // namespace peri::lower
