// Workspaces of steps of a device lie in its arena, whole for their step and poisoned by whoever judges it; a weight
// that no step reads where the device has it is not brought there.
#include "plan/sizes.hpp"
#include "tests/lower/null_devices.hpp"

namespace peri::lower {
namespace {

constexpr size_t kWorkspace = 3 * 4096 + 16;

constexpr int64_t kReadsFrom = 50;  // rows

// y = x + 7, by way of the workspace; "past": it writes behind its workspace; "keeps": it does not read w; "large": it
// adds w's first element, from kReadsFrom rows, and below that it does not read w.
class Adder final : public runtime::Instance {
 public:
  Adder(std::string payload, int64_t rows) : payload_(std::move(payload)), rows_(rows) {}
  size_t workspace_bytes() const override { return kWorkspace; }
  bool adds() const { return payload_ == "large" && rows_ >= kReadsFrom; }
  bool reads_argument(size_t k) const override { return k == 0 || adds() || payload_ == "" || payload_ == "past"; }
  Status enqueue(const runtime::EnqueueContext& c) const override {
    device::Launch launch;
    launch.name = "add";
    const size_t more = payload_ == "past" ? 64 : 0;
    launch.arguments = {{c.reads[0].address, c.reads[0].bytes},
                        {c.writes[0].address, c.writes[0].bytes},
                        {c.workspace.address, c.workspace.bytes + more}};
    if (adds()) launch.arguments.push_back({c.reads[1].address, c.reads[1].bytes});
    EXPECT_EQ(c.workspace.bytes, kWorkspace);
    EXPECT_EQ(c.workspace.address.value % plan::kWorkspaceAlignment, 0u);
    launch.function = [](std::span<const std::span<std::byte>> a) -> Status {
      std::ranges::fill(a[2], std::byte{7});
      const size_t count = a[0].size() / sizeof(float);
      const auto* x = reinterpret_cast<const float*>(a[0].data());
      auto* y = reinterpret_cast<float*>(a[1].data());
      const float w = a.size() > 3 ? *reinterpret_cast<const float*>(a[3].data()) : 0.0f;
      for (size_t k = 0; k < count; ++k) y[k] = x[k] + static_cast<float>(a[2][k % kWorkspace]) + w;
      return Ok{};
    };
    return c.stream->launch(std::move(launch));
  }

 private:
  std::string payload_;
  int64_t rows_;
};

class Prepared final : public runtime::Prepared {
 public:
  explicit Prepared(std::string payload) : payload_(std::move(payload)) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& dims) override {
    return std::unique_ptr<runtime::Instance>(std::make_unique<Adder>(payload_, dims.at("n")));
  }

 private:
  std::string payload_;
};

const runtime::Executor kAdder{
    "adder", 1,
    [](const runtime::PrepareContext& c) -> Result<std::unique_ptr<runtime::Prepared>> {
      return std::unique_ptr<runtime::Prepared>(std::make_unique<Prepared>(c.variant->payload));
    },
    "null"};

// Three steps in a row, each beside a weight.
std::shared_ptr<const runtime::Engine> engine_of(const std::string& payload, std::shared_ptr<device::Device> device) {
  peri::tests::ProgramMaker m;
  m.p.dims = {"n"};
  m.p.devices = {"host", "null"};
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), w = m.weight("w", DType::kF32, {1000});
  const int32_t a = m.scratch("a", DType::kF32, "[n,4]"), b = m.scratch("b", DType::kF32, "[n,4]");
  const int32_t y = m.buffer("y", plan::BufferKind::kOutput, DType::kF32, "[n,4]");
  for (plan::Buffer& buffer : m.p.buffers) buffer.device = 1;
  for (const auto& [from, to] : {std::pair{x, a}, {a, b}, {b, y}}) m.step("adder", {from, w}, {to}, payload).device = 1;
  m.output("y", y);
  static const runtime::Executor* const kTable[] = {&kAdder};
  runtime::EngineOptions o;
  o.executors = kTable;
  o.devices = {std::move(device)};
  runtime::WeightSource weights;
  weights.tensors.push_back(tests::filled({1000}, 1));
  auto engine = runtime::Engine::create(m.p, std::move(weights), o);
  EXPECT_TRUE(engine.ok()) << engine.error().text();
  return *engine;
}
std::unique_ptr<runtime::Session> session_of(const std::string& payload, std::shared_ptr<device::Device> device) {
  return runtime::Session::create(engine_of(payload, std::move(device)), 1).value();
}

TEST(NullWorkspace, IsOneForStepsThatFollowEachOtherAndLiesInTheArena) {
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(1));
  const auto session = session_of("keeps", device);
  const Tensor x = tests::filled({5, 4}, 2);
  const auto out = session->run(std::vector<Tensor>{x});
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (int64_t k = 0; k < 20; ++k)
    EXPECT_EQ((*out)[0].as<float>()[static_cast<size_t>(k)], x.as<float>()[static_cast<size_t>(k)] + 7 + 7 + 7);
  // Input, two values at once, one workspace, and what rounds them up: not three workspaces, and no weight.
  EXPECT_LT(device->counts().most_bytes, static_cast<int64_t>(kWorkspace + 3 * 80 + 3 * 256));
}

TEST(NullWorkspace, AWeightThatAStepReadsIsBrought) {
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(1));
  const auto session = session_of("", device);
  ASSERT_TRUE(session->run(std::vector<Tensor>{tests::filled({5, 4}, 2)}).ok());
  EXPECT_GE(device->counts().most_bytes, static_cast<int64_t>(kWorkspace + 4000));
}

// A run of so many rows, and whether `added` stands on each element.
void expect_adds(runtime::Session* session, int64_t rows, float added) {
  const Tensor x = tests::filled({rows, 4}, 2);
  const auto out = session->run(std::vector<Tensor>{x});
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (size_t k = 0; k < static_cast<size_t>(rows) * 4; ++k)
    EXPECT_NEAR((*out)[0].as<float>()[k], x.as<float>()[k] + added, 1e-4) << k;
}

TEST(NullWorkspace, AWeightThatOnlyALaterSizeOrSessionReadsIsBroughtThen) {
  const auto device = std::shared_ptr<device::Device>(tests::null_of_seed(1));
  const auto engine = engine_of("large", device);
  const float more = 21 + 3 * tests::filled({1000}, 1).as<float>()[0];
  ASSERT_GT(std::abs(more - 21), 1e-2) << "the weight has to show";
  const auto first = runtime::Session::create(engine, 1).value();
  expect_adds(first.get(), 5, 21);
  const int64_t without = device->counts().most_bytes;
  EXPECT_LT(without, static_cast<int64_t>(kWorkspace) + 4000);
  const auto second = runtime::Session::create(engine, 1).value();
  expect_adds(second.get(), 60, more);
  expect_adds(first.get(), 60, more);
  expect_adds(first.get(), 5, 21);
  expect_adds(second.get(), 61, more);
}

TEST(NullWorkspace, WhatAShapeBringsAndItsWorkspacesAreHeldAgainstWhatIsFreeBeforeTheyAreTaken) {
  device::NullOptions options;
  options.memory_bytes = 18000;  // for 60 rows: workspace 12304, values 2 * 960, input 960, and the weight 4000
  const auto device = std::shared_ptr<device::Device>(tests::null_device(options));
  const auto session = session_of("large", device);
  const Status refused = session->prepare({{60, 4}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
  EXPECT_NE(refused.error().text().find("weights 4000"), std::string::npos) << refused.error().text();
  EXPECT_EQ(device->counts().allocations, 0);
  expect_adds(session.get(), 40, 21);
}

TEST(NullWorkspace, OneThatIsWrittenPastItsEndIsSeenWhereMemoryIsSeparate) {
  for (const char* payload : {"", "past"}) {
    const auto session = session_of(payload, std::shared_ptr<device::Device>(tests::null_of_seed(1)));
    session->place(runtime::Session::Placement::kSeparate);
    const auto out = session->run(std::vector<Tensor>{tests::filled({5, 4}, 2)});
    EXPECT_EQ(out.ok(), *payload == 0) << payload;
    if (!out.ok())
      EXPECT_NE(out.error().text().find("past the end of its workspace"), std::string::npos) << out.error().text();
  }
}

}  // namespace
}  // namespace peri::lower
