// Inputs and outputs on a device through the public interface, on the null device: memory of the session and of the
// caller's, each misuse named, and tensors of a caller that was compiled before there were devices.
// label: cpu
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "peri/dlpack.h"
#include "peri/peri.hpp"
#include "tests/places.hpp"

namespace {

const peri::Engine& digits() {
  static const peri::Result<peri::Engine> engine = [] {
    peri::BuildOptions options;
    options.tune = options.verify = false;
    options.threads = 2;
    options.backend = "null";
    return peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", options);
  }();
  EXPECT_TRUE(engine.ok()) << engine.error().text;
  return *engine;
}
peri::Session session() {
  auto made = peri::Session::create(digits());
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

struct Images {
  std::vector<int64_t> dims = {2, 1, 8, 8};
  std::vector<float> values;
  explicit Images(int seed) {
    for (int k = 0; k < 128; ++k) values.push_back(static_cast<float>((k + seed) * 37 % 101) / 101.0f);
  }
  peri::View view() { return peri::View::of(std::span(values), dims); }
};
std::vector<float> floats_of(const peri::View& v) { return {v.as<float>().begin(), v.as<float>().end()}; }

TEST(DeviceApi, MemoryOfTheSessionIsHandedOutAndStable) {
  peri::Session s = session();
  EXPECT_EQ(s.device(), std::pair(PERI_DEVICE_NULL, int32_t{0}));
  Images images(1);
  EXPECT_FALSE(s.input_memory(0).ok()) << "no shape yet";
  const peri::View in = images.view();
  ASSERT_FALSE(s.prepare(std::span(&in, 1)).has_value());
  const auto there = s.input_memory(0), answer = s.output_memory(0);
  ASSERT_TRUE(there.ok() && answer.ok());
  EXPECT_EQ(there->device, PERI_DEVICE_NULL);
  EXPECT_EQ(there->dims, images.dims);
  EXPECT_EQ(there->bytes, images.values.size() * sizeof(float));
  EXPECT_TRUE(there->as<float>().empty()) << "no pointer that the host may follow";
  const auto wanted = s.run({in});
  ASSERT_TRUE(wanted.ok()) << wanted.error().text;
  const std::vector<float> first = floats_of(wanted->at(0));
  EXPECT_EQ(first.size(), 20u);

  // What lies there is run again; the answer is left there, or brought back.
  peri::View left;
  left.device = PERI_DEVICE_NULL;
  const auto stays = s.run(std::span(&*there, 1), std::span(&left, 1));
  ASSERT_TRUE(stays.ok()) << stays.error().text;
  EXPECT_EQ(stays->at(0).data, answer->data);
  EXPECT_EQ(stays->at(0).dims, (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(stays->at(0).device, PERI_DEVICE_NULL);
  const auto back = s.run({*there});
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(floats_of(back->at(0)), first);
  EXPECT_EQ(s.input_memory(0)->data, there->data);
  std::vector<float> mine(20);
  const peri::View to = peri::View::of(std::span(mine));
  ASSERT_TRUE(s.run(std::span(&*there, 1), std::span(&to, 1)).ok());
  EXPECT_EQ(mine, first);
}

TEST(DeviceApi, MemoryThatIsNoneOfTheDevicesIsNamed) {
  peri::Session s = session();
  Images images(1);
  ASSERT_TRUE(s.run({images.view()}).ok());
  peri::View in = *s.input_memory(0);
  const auto error = [&](const peri::View& v, const peri::View& out = {}, void* stream = nullptr) {
    const auto made = s.run(std::span(&v, 1), std::span(&out, 1), stream);
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.error().text;
  };
  peri::View other = in;
  other.device = PERI_DEVICE_CUDA;
  EXPECT_NE(error(other).find("another device: expected null, found cuda:0"), std::string::npos) << error(other);
  other = in;
  other.device_index = 2;
  EXPECT_NE(error(other).find("found null:2"), std::string::npos) << error(other);
  other = in;
  other.bytes -= 4;
  EXPECT_NE(error(other).find("memory of another size"), std::string::npos) << error(other);
  other = in;
  other.data = &other;
  EXPECT_NE(error(other).find("no memory of the device"), std::string::npos) << error(other);
  EXPECT_NE(error(images.view(), {}, &s).find("a stream on the host"), std::string::npos);
  peri::View out;
  out.device = PERI_DEVICE_NULL;
  EXPECT_NE(error(in, out, &s).find("no streams that others could have made"), std::string::npos) << error(in, out, &s);
  EXPECT_TRUE(s.run({in}).ok());
  EXPECT_FALSE(s.wait().has_value());
}

TEST(DeviceApi, AnEngineOfTheHostTakesHostMemory) {
  peri::BuildOptions options;
  options.tune = options.verify = false;
  auto host = peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", options);
  ASSERT_TRUE(host.ok());
  auto s = peri::Session::create(*host);
  EXPECT_EQ(s->device().first, PERI_DEVICE_HOST);
  Images images(1);
  peri::View in = images.view();
  in.device = PERI_DEVICE_CUDA;
  const auto made = s->run({in});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, PERI_ERROR_USAGE);
  EXPECT_NE(made.error().text.find("memory of the host"), std::string::npos) << made.error().text;
  ASSERT_TRUE(s->run({images.view()}).ok());
  EXPECT_EQ(s->input_memory(0).error().kind, PERI_ERROR_UNSUPPORTED);
}

// Arrays of the struct as it was without device_index.
TEST(DeviceApi, OlderTensorsAreRead) {
  constexpr size_t kOld = offsetof(peri_tensor, device_index);
  peri::Session s = session();
  Images images(3);
  const auto wanted = s.run({images.view()});
  const std::vector<float> first = floats_of(wanted->at(0));
  peri_tensor in = {kOld, PERI_F32, PERI_DEVICE_HOST, images.dims.data(), 4, images.values.data(), 512, 7};
  alignas(peri_tensor) unsigned char old_in[kOld], old_out[kOld + 8];
  std::memset(old_out, 0, sizeof old_out);
  std::memset(old_out + kOld, 0x5a, 8);
  const size_t size = kOld;
  std::memcpy(old_in, &in, kOld);
  std::memcpy(old_out, &size, sizeof size);
  peri_session* raw = nullptr;
  ASSERT_EQ(peri_session_create(digits().handle(), 1, &raw), nullptr);
  peri_error* error = peri_session_run(raw, reinterpret_cast<peri_tensor*>(old_in), 1,
                                       reinterpret_cast<peri_tensor*>(old_out), 1, nullptr);
  ASSERT_EQ(error, nullptr) << peri_error_get(error, PERI_ERROR_TEXT);
  peri_tensor out = {};
  std::memcpy(static_cast<void*>(&out), old_out, kOld);
  ASSERT_EQ(out.bytes, first.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(out.data, first.data(), out.bytes), 0);
  EXPECT_EQ(old_out[kOld], 0x5a) << "nothing is written behind what the caller knows";
  peri_session_free(raw);
}

TEST(DeviceApi, DlpackTensorsSayWhereTheyLie) {
  int64_t shape[] = {2, 3};
  DLManagedTensor array = {};
  array.dl_tensor.data = shape;  // never followed
  array.dl_tensor.device.device_id = 3;
  array.dl_tensor.ndim = 2;
  array.dl_tensor.dtype = {kDLFloat, 32, 1};
  array.dl_tensor.shape = shape;
  using Type = decltype(array.dl_tensor.device.device_type);
  array.dl_tensor.device.device_type = static_cast<Type>(kDLCUDA);
  const auto on_gpu = peri::View::from_dlpack(array);
  ASSERT_TRUE(on_gpu.ok());
  EXPECT_EQ(on_gpu->device, PERI_DEVICE_CUDA);
  EXPECT_EQ(on_gpu->device_index, 3);
  EXPECT_EQ(on_gpu->bytes, 24u);
  array.dl_tensor.device.device_type = static_cast<Type>(kDLCUDAHost);
  EXPECT_EQ(peri::View::from_dlpack(array)->device, PERI_DEVICE_HOST);
  array.dl_tensor.device.device_type = static_cast<Type>(8);
  const auto metal = peri::View::from_dlpack(array);
  ASSERT_FALSE(metal.ok());
  EXPECT_NE(metal.error().text.find("Metal"), std::string::npos) << metal.error().text;
}

// The older struct, without `measured`, asks for the times of the proof, whatever lies behind it.
TEST(DeviceApi, StepsAreMeasuredWithinTheRun) {
  const auto said = digits().measure_steps({{"batch", 3}});
  ASSERT_TRUE(said.ok()) << said.error().text;
  for (const char* part : {"\"model\":", "\"run_ms\":", "\"rounds\":", "\"steps\":[{", "\"launches\":"})
    EXPECT_NE(said->find(part), std::string::npos) << part << " in " << *said;
  EXPECT_EQ(said->find("\"alone_ms\":"), std::string::npos) << "nothing was timed in this build: " << *said;
  EXPECT_EQ(digits().measure_steps({{"bach", 3}}).error().kind, PERI_ERROR_USAGE);
  const auto refused = [](const peri_explain_options& o) {
    peri_report* report = nullptr;
    peri_error* error = peri_engine_explain(digits().handle(), &o, &report);
    const std::string text = error ? peri_error_get(error, PERI_ERROR_TEXT) : "";
    peri_error_free(error);
    peri_report_free(report);
    return text;
  };
  const peri_dim three = {"batch", 3};
  peri_explain_options o = {};
  o.struct_size = sizeof(o);
  o.dims = &three;
  o.dim_count = 1;
  EXPECT_NE(refused(o).find("set measured"), std::string::npos) << refused(o);
  o.measured = o.compare = 1;
  EXPECT_NE(refused(o).find("measured takes its own"), std::string::npos) << refused(o);
  o.struct_size = offsetof(peri_explain_options, measured);
  EXPECT_NE(refused(o).find("proof"), std::string::npos) << refused(o);
}

TEST(DeviceApi, StepsOfTheHostAreNotMeasuredSo) {
  peri::BuildOptions options;
  options.tune = options.verify = options.cache = false;
  options.threads = 1;
  auto engine = peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", options);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  const auto said = engine->measure_steps();
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().kind, PERI_ERROR_REFUSED);
  EXPECT_NE(said.error().text.find("no step of the engine runs on a device"), std::string::npos) << said.error().text;
}

}  // namespace
