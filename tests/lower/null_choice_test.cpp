// Which device an engine takes, and whether it fits there: told before anything is allocated, with numbers.
#include "plan/memory.hpp"
#include "tests/lower/null_devices.hpp"

namespace peri::lower {
namespace {

plan::Program weighted() {
  tests::Chain m;
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), w = m.weight("w", DType::kF32, {4});
  m.output("y", m.apply("add", {x, w}, "y"));
  place_steps({"null", "null", 1, false, true}, &m.p);
  m.p.tuned_for = {{"n", 256}};
  return m.p;
}

Result<std::shared_ptr<const runtime::Engine>> engine_for(const std::string& device) {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  runtime::EngineOptions o;
  o.executors = kTable;
  o.device = device;
  runtime::WeightSource weights;
  weights.tensors = {tests::filled({4}, 1)};
  return runtime::Engine::create(weighted(), std::move(weights), o);
}

TEST(NullChoice, AnotherDeviceIsRefusedWithThoseThatAreThere) {
  EXPECT_TRUE(engine_for("").ok());
  EXPECT_TRUE(engine_for("null").ok());
  EXPECT_TRUE(engine_for("null:0").ok());
  const auto text = [](const std::string& device) {
    const auto engine = engine_for(device);
    EXPECT_FALSE(engine.ok()) << device;
    return engine.ok() ? std::string() : engine.error().text();
  };
  EXPECT_NE(text("null:1").find("there is no null:1: expected null:0"), std::string::npos) << text("null:1");
  EXPECT_NE(text("cuda:0").find("expected host, null; build it for that device"), std::string::npos) << text("cuda:0");
  EXPECT_NE(text("null:x").find("names no device"), std::string::npos) << text("null:x");
  for (const char* none : {"null:-1", "null:-0", "null:00", "null:", "null: 0", "null:99999999999", "cuda:2147483648"})
    EXPECT_NE(text(none).find("names no device"), std::string::npos) << none;
  EXPECT_NE(text("host:7").find("there is no host:7: expected host, of which there is one"), std::string::npos);
}

TEST(NullChoice, AnEngineThatDoesNotFitIsRefusedWithItsNumbers) {
  const plan::Program p = weighted();
  const auto memory = plan::device_memory(p, *plan::plan_arena(p, {{"n", 256}}))[1];
  EXPECT_EQ(memory.weights, 16);
  EXPECT_EQ(memory.ports, 4096);
  EXPECT_EQ(memory.arena, 4096);
  ASSERT_EQ(plan::memory_lines(p, {{"n", 256}}).size(), 1u);
  for (const int64_t room : {memory.total() - 1, memory.total()}) {
    device::NullOptions options;
    options.memory_bytes = room;
    const auto device = std::shared_ptr<device::Device>(tests::null_device(options));
    const auto engine = tests::engine_on(p, device);
    EXPECT_EQ(engine.ok(), room == memory.total());
    if (engine.ok()) continue;
    EXPECT_EQ(engine.error().kind, ErrorKind::kMemory);
    EXPECT_NE(engine.error().text().find("weights 16 bytes, arena 4096 bytes"), std::string::npos)
        << engine.error().text();
    EXPECT_EQ(device->counts().allocations, 0) << "before anything is taken";
  }
}

TEST(NullChoice, AShapeThatDoesNotFitIsRefusedBeforeAnythingIsTaken) {
  device::NullOptions options;
  options.memory_bytes = 20000;
  const auto device = std::shared_ptr<device::Device>(tests::null_device(options));
  auto session = runtime::Session::create(tests::engine_on(weighted(), device).value(), 1).value();
  ASSERT_TRUE(session->prepare({{256, 4}}).ok());
  const auto before = device->counts();
  const Status refused = session->prepare({{1000, 4}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
  EXPECT_NE(refused.error().text().find("32000 bytes on device 'null': arena 16000, inputs 16000;"), std::string::npos)
      << refused.error().text();
  EXPECT_EQ(device->counts().allocations, before.allocations);
  EXPECT_TRUE(session->prepare({{256, 4}}).ok());
}

}  // namespace
}  // namespace peri::lower
