// Sessions on the null device: answers of the host bit for bit in every order that the waits allow, each shape captured
// once, any failing call a typed error that names its node, and a wait or lifetime that is too short seen.
#include "tests/lower/null_devices.hpp"

#include <atomic>
#include <thread>

#include "plan/sizes.hpp"

namespace peri::lower {
namespace {

using plan::Program;
using runtime::Session;
using tests::Chain;
using tests::random_program;

Program placed(Program p, uint32_t lanes) {
  place_steps({"null", "null", lanes}, &p);
  return p;
}

// Only some steps go there; values cross both ways.
Program partly_placed(Program p, uint32_t lanes, uint64_t seed) {
  Rng rng(seed);
  for (plan::Step& s : p.steps)
    if (s.executor != plan::kCopyExecutor && rng.below(2)) s.executor = "null";
  place_steps({"null", "null", lanes, true}, &p);
  return p;
}

Result<std::vector<Tensor>> run_at(Session* s, int64_t n) {
  return s->run(std::vector<Tensor>{tests::filled({n, 4}, 9)});
}

std::vector<Tensor> host_answer(const Program& p, int64_t n) {
  auto engine = tests::engine_on(p);
  EXPECT_TRUE(engine.ok()) << engine.error().text();
  auto out = run_at(Session::create(*engine, 1).value().get(), n);
  EXPECT_TRUE(out.ok()) << out.error().text();
  return std::move(out).value();
}

TEST(NullSession, GivesTheHostsAnswersWhereOnlySomeStepsAreThere) {
  int64_t here = 0, there = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program p = random_program(seed), mixed = partly_placed(p, static_cast<uint32_t>(1 + seed % 3), seed);
    for (const plan::Step& s : mixed.steps) {
      if (s.executor == plan::kCopyExecutor) continue;
      EXPECT_EQ(s.device != plan::kHost, s.executor == "null") << s.name;
      (s.device == plan::kHost ? here : there) += 1;
    }
    auto engine = tests::engine_on(mixed, tests::null_of_seed(seed));
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 1).value();
    for (const int64_t n : {5, 2, 5}) {
      auto out = run_at(session.get(), n);
      ASSERT_TRUE(out.ok()) << out.error().text();
      EXPECT_TRUE(tests::same_bits(*out, host_answer(p, n)));
    }
  }
  EXPECT_GT(here, 60);
  EXPECT_GT(there, 60);
}

TEST(NullSession, GivesTheHostsAnswersInEveryOrder) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program p = random_program(seed), there = placed(p, static_cast<uint32_t>(1 + seed % 4));
    auto engine = tests::engine_on(there, tests::null_of_seed(seed));
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 1).value();
    for (const int64_t n : {3, 7, 3, 1, 7}) {
      const auto out = run_at(session.get(), n);
      ASSERT_TRUE(out.ok()) << out.error().text();
      EXPECT_TRUE(tests::same_bits(*out, host_answer(p, n)));
    }
  }
}

TEST(NullSession, CapturesAShapeOnceAndGoesBackToIt) {
  const Program p = placed(random_program(7), 2);
  const auto count = static_cast<int64_t>(plan::segments(p).size());
  auto device = std::shared_ptr<device::Device>(tests::null_of_seed(1));
  auto session = Session::create(tests::engine_on(p, device).value(), 1).value();
  for (const int64_t n : {8, 3, 5}) ASSERT_TRUE(run_at(session.get(), n).ok());
  EXPECT_EQ(session->captures(), 3 * count) << "the largest came first: nothing moved";
  const auto before = device->counts();
  for (const int64_t n : {3, 8, 5, 5, 8}) ASSERT_TRUE(run_at(session.get(), n).ok());
  EXPECT_EQ(session->captures(), 3 * count);
  EXPECT_EQ(session->shapes_bound(), 3);
  EXPECT_EQ(device->counts().allocations, before.allocations);
  EXPECT_EQ(device->counts().replays, before.replays + 5 * count);
  ASSERT_TRUE(run_at(session.get(), 64).ok());  // memory moves: what was captured is void
  const auto out = run_at(session.get(), 3);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(session->captures(), 5 * count);
  EXPECT_TRUE(tests::same_bits(*out, host_answer(random_program(7), 3)));
}

TEST(NullSession, PrepareCaptures) {
  const Program p = placed(random_program(7), 2);
  auto session = Session::create(tests::engine_on(p).value(), 1).value();
  ASSERT_TRUE(session->prepare({{4, 4}}).ok());
  const int64_t captures = session->captures();
  EXPECT_GT(captures, 0);
  ASSERT_TRUE(run_at(session.get(), 4).ok());
  EXPECT_EQ(session->captures(), captures);
}

// Each call and each piece of work fails once, wherever it stands.
TEST(NullSession, AnyFailureIsATypedErrorAndTheNextRunIsRight) {
  const Program plain = random_program(11), p = placed(plain, 3);
  const auto wanted = host_answer(plain, 3);
  for (const bool work : {false, true}) {
    int64_t failures = 0, in_runs = 0;
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE((work ? "work " : "call ") + std::to_string(n));
      device::NullOptions options;
      (work ? options.failing_work : options.failing_call) = n;
      auto device = std::shared_ptr<device::Device>(tests::null_device(options));
      bool failed = false;
      const auto good = [&](const auto& result) {
        if (result.ok()) return true;
        EXPECT_FALSE(failed) << "a second failure: " << result.error().text();
        EXPECT_TRUE(result.error().kind == ErrorKind::kIo || result.error().kind == ErrorKind::kMemory);
        EXPECT_FALSE(result.error().node.empty()) << result.error().text();
        failed = true;
        ++failures;
        return false;
      };
      auto engine = tests::engine_on(p, device);
      if (!good(engine)) engine = tests::engine_on(p, device);
      ASSERT_TRUE(engine.ok());
      auto session = Session::create(*engine, 1);
      if (!good(session)) session = Session::create(*engine, 1);
      ASSERT_TRUE(session.ok());
      for (int run = 0; run < 3; ++run) {
        auto out = run_at(session->get(), 3);
        if (!good(out)) {
          ++in_runs;
          out = run_at(session->get(), 3);
        }
        ASSERT_TRUE(out.ok()) << out.error().text();
        EXPECT_TRUE(tests::same_bits(*out, wanted));
      }
      if (!failed) break;
    }
    EXPECT_GT(failures, 10);
    EXPECT_GT(in_runs, 10);
  }
}

TEST(NullSession, AFailureNamesTheStep) {
  const Program p = placed(random_program(11), 1);
  std::set<std::string> named, steps;
  for (const plan::Step& s : p.steps) steps.insert(s.name);
  for (int64_t n = 1; n <= std::ssize(p.steps) + 1; ++n) {
    device::NullOptions options;
    options.failing_work = n + 1;  // the first is a weight that is brought there
    auto session = Session::create(tests::engine_on(p, tests::null_device(options)).value(), 1).value();
    const auto out = run_at(session.get(), 3);
    if (out.ok()) continue;
    for (const std::string& step : steps)
      if (out.error().node == "launch '" + step + "'") named.insert(step);
  }
  int64_t launches = 0;
  for (const plan::Step& s : p.steps) launches += s.executor == "null";
  EXPECT_EQ(std::ssize(named), launches);
}

// Forks and joins: a in one lane, b and c of it in two, d of both, and again. Every wait is needed.
Program diamonds(int count) {
  Chain m;
  int32_t at = m.input("x", DType::kF32, "[n,4]");
  for (int k = 0; k < count; ++k) {
    const std::string i = std::to_string(k);
    const int32_t a = m.apply("tanh", {at}, "a" + i), b = m.apply("neg", {a}, "b" + i),
                  c = m.apply("exp", {a}, "c" + i);
    at = m.apply("add", {b, c}, "d" + i);
  }
  m.output("y", at);
  return placed(m.p, 2);
}

TEST(NullSession, AMissingWaitIsSeen) {
  const Program p = diamonds(3);
  tests::Meddling count;
  auto whole = Session::create(
      tests::engine_on(p, std::make_shared<tests::MeddledDevice>(tests::null_of_seed(1), &count)).value(), 1);
  const auto wanted = run_at(whole->get(), 3);
  ASSERT_TRUE(wanted.ok());
  const int64_t waits = count.waits;
  ASSERT_GE(waits, 6);
  for (int64_t dropped = 1; dropped <= waits; ++dropped) {
    int64_t seen = 0;
    for (uint64_t seed = 0; seed < 40 && !seen; ++seed) {
      tests::Meddling m;
      m.dropped_wait = dropped;
      auto engine = tests::engine_on(p, std::make_shared<tests::MeddledDevice>(tests::null_of_seed(seed), &m));
      ASSERT_TRUE(engine.ok());
      auto session = Session::create(*engine, 1);
      const auto out = run_at(session->get(), 3);
      seen += !out.ok() || !tests::same_bits(*out, *wanted);
    }
    EXPECT_GT(seen, 0) << "wait " << dropped << " of " << waits << " may be missing unseen";
  }
}

// Lifetimes by the order in which steps stand would let e take the memory of a, which b of the other lane still reads.
TEST(NullSession, ALifetimeThatIsTooShortIsSeen) {
  Chain m;
  const int32_t x = m.input("x", DType::kF32, "[n,4]");
  const int32_t a = m.apply("tanh", {x}, "a"), c = m.apply("exp", {a}, "c"), b = m.apply("neg", {a}, "b");
  const int32_t e = m.apply("sin", {c}, "e");
  m.output("y", m.apply("add", {b, e}, "y"));
  const Program p = placed(m.p, 2);
  ASSERT_NE(p.steps[2].lane, p.steps[3].lane);
  const auto plan = plan::plan_arena(p, {{"n", 3}});
  ASSERT_TRUE(plan.ok());
  const auto offset = [&](int32_t buffer) { return static_cast<uint64_t>(plan->offset[static_cast<size_t>(buffer)]); };
  ASSERT_NE(offset(a), offset(e));
  int64_t wrong = 0;
  for (const bool planted : {false, true}) {
    wrong = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      tests::Meddling meddling;
      auto device = std::make_shared<tests::MeddledDevice>(tests::null_of_seed(seed), &meddling);
      if (planted)
        meddling.moved = [&, d = device.get()](device::Address at) {
          for (const auto& [base, bytes] : d->allocated)
            if (bytes == static_cast<size_t>(plan->device_bytes[1]) && at == base + offset(e)) return base + offset(a);
          return at;
        };
      auto session = Session::create(tests::engine_on(p, device).value(), 1);
      const auto out = run_at(session->get(), 3);
      ASSERT_TRUE(out.ok()) << out.error().text();
      wrong += !tests::same_bits(*out, host_answer(m.p, 3));
    }
    if (!planted) EXPECT_EQ(wrong, 0);
  }
  EXPECT_GT(wrong, 0);
}

TEST(NullSession, SeparateMemoryAndHooksSeeTheSameValues) {
  const Program plain = random_program(5), p = placed(plain, 3);
  auto engine = tests::engine_on(p, tests::null_of_seed(4)).value();
  auto session = Session::create(engine, 1).value();
  session->place(Session::Placement::kSeparate);
  ASSERT_TRUE(session->prepare({{3, 4}}).ok());
  session->poison();
  int64_t seen = 0;
  session->set_step_hook([&](size_t k, bool before) {
    if (before) return session->poison_results(k);
    const auto t = session->buffer_contents(p.steps[k].writes[0]);
    ASSERT_TRUE(t.ok()) << t.error().text();
    EXPECT_EQ(t->dims(), (std::vector<int64_t>{3, 4}));
    EXPECT_TRUE(std::isfinite(t->f64(0)));
    ++seen;
  });
  const auto out = run_at(session.get(), 3);
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ(seen, static_cast<int64_t>(p.steps.size()));
  EXPECT_TRUE(tests::same_bits(*out, host_answer(plain, 3)));
}

// The host binds a size from the data, the device computes with it.
TEST(NullSession, SizesThatHangOnTheDataReachTheDevice) {
  peri::tests::ProgramMaker m;
  m.p.dims = {"k", "n"};
  const int32_t x = m.input("x", DType::kF32, "[k]");
  const int32_t at = m.scratch("at", DType::kI64, "[1,n]"), y = m.scratch("y", DType::kF32, "[1,n]");
  const int32_t flat = m.scratch("flat", DType::kF32, "[n]"), z = m.scratch("z", DType::kF32, "[n]");
  m.p.buffers[static_cast<size_t>(flat)].alias_of = y;
  m.reference({x}, {at}, "graph { input x: f32[k]; y = non_zero(x); output y }").binds = {"n"};
  m.reference({x, at}, {y}, "graph { input x: f32[k]; input at: i64[1,n]; y = gather(x, at); output y }");
  m.reference({flat}, {z}, "graph { input x: f32[n]; y = neg(x); output y }");
  m.output("z", z);
  const Program p = placed(m.p, 2);
  ASSERT_EQ(plan::segments(p).size(), 1u);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    auto session = Session::create(tests::engine_on(p, tests::null_of_seed(seed)).value(), 1).value();
    for (const auto& values : {std::vector<float>{0, 2, 0, 5}, {1, 2, 3, 4}, {0, 0, 0, 0}, {7, 0, 0, 0}}) {
      const auto out = session->run(std::vector<Tensor>{Tensor::of_f32({4}, values)});
      ASSERT_TRUE(out.ok()) << out.error().text();
      std::vector<float> wanted;
      for (const float v : values)
        if (v != 0) wanted.push_back(-v);
      ASSERT_EQ((*out)[0].numel(), std::ssize(wanted));
      for (size_t k = 0; k < wanted.size(); ++k) EXPECT_EQ((*out)[0].f64(static_cast<int64_t>(k)), wanted[k]);
    }
    EXPECT_EQ(session->captures(), 0);
  }
}

TEST(NullSession, TwoSessionsOfAnEngineShareADevice) {
  const Program plain = random_program(11);
  auto engine = tests::engine_on(placed(plain, 3), tests::null_of_seed(2)).value();
  const auto wanted = host_answer(plain, 5);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      auto session = Session::create(engine, 1).value();
      for (int k = 0; k < 40; ++k) {
        const auto out = run_at(session.get(), 5);
        right += out.ok() && tests::same_bits(*out, wanted);
        (void)run_at(session.get(), 1 + k % 3);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 120);
}

TEST(NullSession, EmptyTensorsHaveAPlace) {
  peri::tests::ProgramMaker m;
  const int32_t x = m.input("x", DType::kF32, "[0,4]"), y = m.scratch("y", DType::kF32, "[0,4]");
  m.reference({x}, {y}, "graph { input x: f32[0,4]; y = neg(x); output y }");
  m.output("y", y);
  auto session = Session::create(tests::engine_on(placed(m.p, 1)).value(), 1).value();
  const auto out = session->run(std::vector<Tensor>{tests::filled({0, 4}, 1)});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ((*out)[0].numel(), 0);
}

TEST(NullSession, WhatIsNotHereIsRefusedByName) {
  Program p = diamonds(1);
  p.devices[1] = "cuda";
  auto engine = tests::engine_on(p);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::kRefused);
  EXPECT_NE(engine.error().text().find("cuda"), std::string::npos) << engine.error().text();
  p = diamonds(1);
  for (plan::Step& s : p.steps)
    if (s.executor == "null") s.executor = "reference";
  engine = tests::engine_on(p);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().text().find("'reference' does not run on device 'null'"), std::string::npos)
      << engine.error().text();
}

TEST(NullSession, MemoryThatIsNotThereIsToldBeforeItIsTaken) {
  device::NullOptions options;
  options.memory_bytes = 4096;
  auto session = Session::create(tests::engine_on(diamonds(2), tests::null_device(options)).value(), 1).value();
  const auto out = run_at(session.get(), 1000);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory);
  EXPECT_NE(out.error().text().find("on device 'null': arena "), std::string::npos) << out.error().text();
  EXPECT_TRUE(run_at(session.get(), 3).ok());
}

}  // namespace
}  // namespace peri::lower
