// Times of runs on a device: batches between events, on the null device; and which port keeps an engine from it.
#include "bench/device_runs.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "bench/steps.hpp"
#include "device/null.hpp"
#include "tests/plan/programs.hpp"

namespace peri::bench {
namespace {

// y = x, by a launch.
class Moves final : public runtime::Instance {
 public:
  Status enqueue(const runtime::EnqueueContext& c) const override {
    device::Launch launch;
    launch.name = "move";
    launch.arguments = {{c.reads[0].address, c.reads[0].bytes}, {c.writes[0].address, c.writes[0].bytes}};
    launch.function = [](std::span<const std::span<std::byte>> a) -> Status {
      std::memcpy(a[1].data(), a[0].data(), a[0].size());
      return Ok{};
    };
    return c.stream->launch(std::move(launch));
  }
};
class Prepared final : public runtime::Prepared {
 public:
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding&) override {
    return std::unique_ptr<runtime::Instance>(std::make_unique<Moves>());
  }
};
Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext&) {
  return std::unique_ptr<runtime::Prepared>(std::make_unique<Prepared>());
}
const runtime::Executor kMoves{"moves", 1, prepare, "null"};

// From the device to the host.
class Leaves final : public runtime::Instance {
 public:
  Status enqueue(const runtime::EnqueueContext& c) const override {
    return c.stream->copy_out({c.writes[0].host, c.writes[0].bytes}, c.reads[0].address);
  }
};
class PreparedCopy final : public runtime::Prepared {
 public:
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding&) override {
    return std::unique_ptr<runtime::Instance>(std::make_unique<Leaves>());
  }
};
Result<std::unique_ptr<runtime::Prepared>> prepare_copy(const runtime::PrepareContext&) {
  return std::unique_ptr<runtime::Prepared>(std::make_unique<PreparedCopy>());
}
const runtime::Executor kCopies{std::string(plan::kCopyExecutor), 1, prepare_copy, ""};

Result<std::unique_ptr<runtime::Session>> session_of(const plan::Program& p, int64_t failing_work = 0) {
  static const std::vector<const runtime::Executor*> kTable = {&kMoves, &kCopies};
  runtime::EngineOptions o;
  o.executors = kTable;
  device::NullOptions options;
  options.failing_work = failing_work;
  PERI_ASSIGN(auto device, device::make_null_device(options));
  o.devices = {std::move(device)};
  PERI_ASSIGN(auto engine, runtime::Engine::create(p, {}, o));
  PERI_ASSIGN(auto session, runtime::Session::create(engine, 1));
  PERI_TRY(session->run(std::vector<Tensor>{Tensor::of_f32({3, 4}, std::vector<float>(12, 1))}));
  return session;
}

plan::Program moving() {
  tests::ProgramMaker m;
  m.p.dims = {"n"};
  m.p.devices = {"host", "null"};
  const int32_t x = m.input("x", DType::kF32, "[n,4]");
  const int32_t y = m.buffer("y", plan::BufferKind::kOutput, DType::kF32, "[n,4]");
  m.p.buffers[0].device = m.p.buffers[1].device = 1;
  m.step("moves", {x}, {y}).device = 1;
  m.output("y", y);
  return m.p;
}

const Schedule kShort{0, 0, 1, 1, {}};

TEST(DeviceRuns, AStallOfAllTheTimeIsNoStepsTime) {
  auto session = session_of(moving());
  ASSERT_TRUE(session.ok()) << session.error().text();
  std::vector<double> ms(1, -1);
  const Tensor x = Tensor::of_f32({3, 4}, std::vector<float>(12, 1));
  const auto runs = time_steps(**session, std::span<const Tensor>(&x, 1), 0, &ms);
  ASSERT_TRUE(runs.ok()) << runs.error().text();
  EXPECT_EQ(*runs, 3) << "a median of fewer is what the first of them took";
  EXPECT_GT(ms[0], 0);
}

TEST(DeviceRuns, AreWholeBatches) {
  auto session = session_of(moving());
  ASSERT_TRUE(session.ok()) << session.error().text();
  const auto samples = resident_samples(session->get(), kShort);
  ASSERT_TRUE(samples.ok()) << samples.error().text();
  EXPECT_EQ(std::ssize(*samples), kResidentBatch);
  for (const double ms : *samples) EXPECT_GE(ms, 0);
  const auto twice = resident_samples(session->get(), {0, 0, kResidentBatch + 1, 1000, {}});
  EXPECT_EQ(std::ssize(*twice), 2 * kResidentBatch);
  int asked = 0;
  const auto stopped = resident_samples(session->get(), {100, 100, 1, 1000000, {}}, [&] { return ++asked > 1; });
  EXPECT_EQ(std::ssize(*stopped), kResidentBatch);
}

TEST(DeviceRuns, TheReportTellsBytesAndWhatBecomesOfGivenMemory) {
  auto session = session_of(moving());
  const auto report = device_report(session->get(), kShort);
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->device, "null");
  EXPECT_EQ(report->given, "in place");
  EXPECT_GE(report->device_bytes, 96) << "an input and an output of 48 bytes";
  ASSERT_TRUE(report->resident.has_value());
  JsonWriter w;
  w.begin_object();
  write_report(*report, &w);
  const auto json = parse_json(w.end_object().take());
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->get_string("given_memory").value(), "in place");
  EXPECT_EQ(json->get_object("resident_ms").value()->size(), 7u);
  EXPECT_EQ(json->find("resident_ms")->get_array("samples").value()->size(), static_cast<size_t>(kResidentBatch));
  EXPECT_NE(report_text(*report).find("given memory in place"), std::string::npos);

  plan::Program shared = moving();  // two outputs of one memory
  shared.outputs.push_back(shared.outputs[0]);
  shared.outputs[1].name = "z";
  auto copied = device_report(session_of(shared).value().get(), kShort);
  ASSERT_TRUE(copied.ok()) << copied.error().text();
  EXPECT_TRUE(copied->given.starts_with("copied: ")) << copied->given;
}

TEST(DeviceRuns, APortOnTheHostIsNamed) {
  plan::Program p = moving();
  p.buffers[0].device = p.buffers[1].device = p.steps[0].device = 0;
  p.devices.pop_back();
  p.steps.clear();
  p.outputs[0].buffer = 0;  // the input itself: nothing to compute
  auto session = session_of(p);
  ASSERT_TRUE(session.ok()) << session.error().text();
  const auto refused = resident_samples(session->get(), kShort);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(refused.error().node, "x");
  EXPECT_TRUE(device_report(session->get(), kShort)->device.empty());
}

TEST(DeviceRuns, AFailureEndsThem) {
  auto session = session_of(moving(), 50);
  ASSERT_TRUE(session.ok());
  EXPECT_FALSE(resident_samples(session->get(), kShort).ok());
  EXPECT_TRUE(resident_samples(session->get(), kShort).ok());
}

TEST(DeviceRuns, RoundsAreOneLineEach) {
  auto session = session_of(moving());
  int left = 3;
  std::vector<std::string> lines;
  ASSERT_TRUE(resident_rounds(
                  session->get(), {}, kShort, [&] { return left-- > 0; },
                  [&](const std::string& line) { lines.push_back(line); })
                  .ok());
  ASSERT_EQ(lines.size(), 3u);
  const auto json = parse_json(lines[2]);
  ASSERT_TRUE(json.ok()) << lines[2];
  EXPECT_EQ(json->get_int("round").value(), 2);
  EXPECT_EQ(json->get_array("resident_ms").value()->size(), static_cast<size_t>(kResidentBatch));
  EXPECT_GT(json->get_int("device_bytes").value(), 0);
}

// x lies on the device, where y is made of it; z is a copy of y on the host.
plan::Program half_on_the_host() {
  plan::Program p = moving();
  tests::ProgramMaker m;
  m.p = std::move(p);
  const int32_t z = m.buffer("z", plan::BufferKind::kOutput, DType::kF32, "[n,4]");
  plan::Step& copy = m.step("copy", {1}, {z});
  copy.executor = plan::kCopyExecutor;
  copy.device = 1;
  copy.waits_for = {0};
  m.p.buffers[1].kind = plan::BufferKind::kScratch;
  m.p.outputs.clear();
  m.output("z", z);
  return m.p;
}

TEST(DeviceRuns, WhatLiesOnTheHostIsPartOfTheRunsOfARound) {
  auto session = session_of(half_on_the_host());
  ASSERT_TRUE(session.ok()) << session.error().text();
  const std::vector<Tensor> inputs = {Tensor::of_f32({3, 4}, std::vector<float>(12, 2))};
  int left = 2;
  std::vector<std::string> lines;
  const Status done = resident_rounds(
      session->get(), inputs, kShort, [&] { return left-- > 0; }, [&](const std::string& l) { lines.push_back(l); });
  ASSERT_TRUE(done.ok()) << done.error().text();
  ASSERT_EQ(lines.size(), 2u);
  const auto json = parse_json(lines[1]);
  ASSERT_TRUE(json.ok()) << lines[1];
  EXPECT_TRUE(json->find("resident_ms")->is_null());
  EXPECT_EQ(json->get_array("with_copies_ms").value()->size(), static_cast<size_t>(kResidentBatch));
  EXPECT_NE(json->get_string("why_not_resident").value().find("'z'"), std::string::npos) << lines[1];
  EXPECT_GT(json->get_int("device_bytes").value(), 0);

  auto failing = session_of(half_on_the_host(), 50);
  ASSERT_TRUE(failing.ok()) << failing.error().text();
  left = 3;
  EXPECT_FALSE(
      resident_rounds(failing->get(), inputs, kShort, [&] { return left-- > 0; }, [](const std::string&) {}).ok());
}

}  // namespace
}  // namespace peri::bench
