// The public interface as a caller sees it: engines built and loaded, ports, runs on the caller's memory and on the
// session's, and every misuse an error that names what is wrong.
// label: cpu
#include "peri/peri.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/places.hpp"

namespace {

std::string model() { return std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx"; }
std::string engine_path() { return std::string(peri::tests::kBuildDir) + "/peri_api_test.engine"; }

// One engine of the digits model for all tests, through its file.
const peri::Engine& digits() {
  static const peri::Result<peri::Engine> engine = [] {
    peri::BuildOptions options;
    options.tune = false;
    options.threads = 2;
    options.engine_path = engine_path();
    auto built = peri::Engine::build(model(), options);
    EXPECT_TRUE(built.ok()) << built.error().text;
    return peri::Engine::load(engine_path(), 2);
  }();
  EXPECT_TRUE(engine.ok()) << engine.error().text;
  return *engine;
}

// A batch of images and its place in memory.
struct Images {
  std::vector<int64_t> dims;
  std::vector<float> values;
  explicit Images(int64_t batch) : dims(digits().inputs()[0].dims) {
    dims[0] = batch;
    size_t n = 1;
    for (const int64_t d : dims) n *= static_cast<size_t>(d);
    for (size_t k = 0; k < n; ++k) values.push_back(static_cast<float>(k * 37 % 101) / 101.0f);
  }
  peri::View view() { return peri::View::of(std::span(values), dims); }
};

TEST(PublicApi, EnginesSayWhatTheyTake) {
  const std::vector<peri::Port> in = digits().inputs(), out = digits().outputs();
  ASSERT_EQ(in.size(), 1u);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(in[0].dtype, PERI_F32);
  EXPECT_FALSE(in[0].name.empty());
  EXPECT_EQ(in[0].dims[0], -1);
  EXPECT_EQ(in[0].dim_texts[0], "batch");
  EXPECT_EQ(out[0].dims.back(), 10);
  EXPECT_STREQ(peri_dtype_name(PERI_I64), "i64");
  EXPECT_STREQ(peri_dtype_name(static_cast<peri_dtype>(1000)), "");
  EXPECT_STREQ(peri_engine_input_name(digits().handle(), 7), "");
  EXPECT_EQ(peri_engine_input_dim(digits().handle(), 0, 9), 0);
}

TEST(PublicApi, OutputsInTheSessionsAndInTheCallersMemoryAreTheSame) {
  auto session = peri::Session::create(digits());
  ASSERT_TRUE(session.ok());
  for (const int64_t batch : {1, 3}) {
    Images images(batch);
    auto own = session->run({images.view()});
    ASSERT_TRUE(own.ok()) << own.error().text;
    EXPECT_EQ(own->at(0).dims, (std::vector<int64_t>{batch, 10}));
    const std::vector<float> first(own->at(0).as<float>().begin(), own->at(0).as<float>().end());
    ASSERT_EQ(first.size(), static_cast<size_t>(batch) * 10);
    std::vector<float> mine(first.size(), -1);
    const peri::View to = peri::View::of(std::span(mine)), from = images.view();
    auto again = session->run(std::span(&from, 1), std::span(&to, 1));
    ASSERT_TRUE(again.ok()) << again.error().text;
    EXPECT_EQ(again->at(0).data, mine.data());
    EXPECT_EQ(again->at(0).dims, (std::vector<int64_t>{batch, 10}));
    EXPECT_EQ(mine, first);
  }
}

TEST(PublicApi, UnalignedInputsRun) {
  auto session = peri::Session::create(digits());
  ASSERT_TRUE(session.ok());
  Images images(1);
  const auto want = session->run({images.view()});
  ASSERT_TRUE(want.ok());
  const std::vector<float> first(want->at(0).as<float>().begin(), want->at(0).as<float>().end());
  std::vector<char> bytes(images.values.size() * sizeof(float) + 1);
  std::memcpy(bytes.data() + 1, images.values.data(), bytes.size() - 1);
  auto got = session->run({peri::View{PERI_F32, images.dims, bytes.data() + 1, bytes.size() - 1}});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_TRUE(std::ranges::equal(got->at(0).as<float>(), first));
}

TEST(PublicApi, SessionsOutliveTheirEngine) {
  auto engine = peri::Engine::load(engine_path());
  ASSERT_TRUE(engine.ok());
  auto session = peri::Session::create(*engine, 1);
  engine = peri::Error{};
  Images images(2);
  EXPECT_TRUE(session->run({images.view()}).ok());
}

// Its pages are read while it runs: what is missing of them would be zeros, silently.
TEST(PublicApi, AnEngineFileThatIsCutIsAnError) {
  const std::string path = engine_path() + ".cut";
  (void)digits();
  std::filesystem::copy_file(engine_path(), path, std::filesystem::copy_options::overwrite_existing);
  const auto whole = std::filesystem::file_size(path);
  for (const uintmax_t left : {whole / 2, whole - 1}) {
    std::filesystem::copy_file(engine_path(), path, std::filesystem::copy_options::overwrite_existing);
    auto engine = peri::Engine::load(path);
    ASSERT_TRUE(engine.ok()) << engine.error().text;
    auto session = peri::Session::create(*engine);
    Images images(1);
    ASSERT_TRUE(session->run({images.view()}).ok());
    std::filesystem::resize_file(path, left);
    Images others(2);
    const auto cut = session->run({others.view()});
    ASSERT_FALSE(cut.ok()) << left;
    EXPECT_EQ(cut.error().kind, PERI_ERROR_IO);
    EXPECT_EQ(cut.error().file, path);
    EXPECT_FALSE(peri::Session::create(*engine)->run({images.view()}).ok());
  }
  std::filesystem::remove(path);
}

// Another time alone is none, another byte is, whatever the size.
TEST(PublicApi, AnEngineFileThatIsOverwrittenIsAnError) {
  const std::string path = engine_path() + ".overwritten";
  (void)digits();
  std::filesystem::copy_file(engine_path(), path, std::filesystem::copy_options::overwrite_existing);
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(path, before);
  auto engine = peri::Engine::load(path);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  auto session = peri::Session::create(*engine);
  Images images(1);
  ASSERT_TRUE(session->run({images.view()}).ok());
  std::filesystem::last_write_time(path, before + std::chrono::minutes(1));
  const auto touched = session->run({images.view()});
  ASSERT_TRUE(touched.ok()) << touched.error().text;
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-64, std::ios::end);
    const char other = static_cast<char>(file.peek() ^ 1);
    file.seekp(-64, std::ios::end);
    file.put(other);
  }
  const auto written = session->run({images.view()});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, PERI_ERROR_IO);
  EXPECT_EQ(written.error().file, path);
  EXPECT_NE(written.error().text.find("overwritten"), std::string::npos) << written.error().text;
  std::filesystem::remove(path);
}

// The error of a run with these inputs and outputs.
peri::Error error_of(std::vector<peri::View> in, std::vector<peri::View> out = {}) {
  auto session = peri::Session::create(digits());
  auto made = session->run(in, out);
  EXPECT_FALSE(made.ok());
  return made.ok() ? peri::Error{} : made.error();
}

TEST(PublicApi, MisuseIsNamed) {
  Images images(1);
  const std::string name = digits().inputs()[0].name;
  EXPECT_EQ(error_of({}).kind, PERI_ERROR_USAGE);
  peri::View v = images.view();
  v.dtype = PERI_I64;
  EXPECT_EQ(error_of({v}).kind, PERI_ERROR_INVALID);
  v.dtype = PERI_F64;
  v.bytes *= 2;
  const peri::Error other = error_of({v});
  EXPECT_EQ(other.node, name);
  EXPECT_EQ(other.expected, "f32");
  v = images.view();
  v.bytes -= 4;
  EXPECT_EQ(error_of({v}).node, name);
  v = images.view();
  v.dims.pop_back();
  EXPECT_EQ(error_of({v}).kind, PERI_ERROR_INVALID);
  v = images.view();
  v.dims[0] = -1;
  EXPECT_EQ(error_of({v}).node, name);
  v = images.view();
  v.data = nullptr;
  EXPECT_EQ(error_of({v}).kind, PERI_ERROR_USAGE);
  std::vector<float> small(9);
  const peri::Error size = error_of({images.view()}, {peri::View::of(std::span(small))});
  EXPECT_EQ(size.kind, PERI_ERROR_USAGE);
  EXPECT_EQ(size.expected, "40 bytes");
}

TEST(PublicApi, TheCallItselfIsChecked) {
  peri_engine* engine = nullptr;
  const auto kind = [](peri_error* e) {
    if (!e) return 0;
    const int k = peri_error_get_kind(e);
    EXPECT_STRNE(peri_error_get(e, PERI_ERROR_TEXT), "");
    peri_error_free(e);
    return k;
  };
  EXPECT_EQ(kind(peri_engine_load(nullptr, nullptr, &engine)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_engine_load("/nonexistent.engine", nullptr, &engine)), PERI_ERROR_IO);
  EXPECT_EQ(kind(peri_engine_load(model().c_str(), nullptr, &engine)), PERI_ERROR_INVALID);
  EXPECT_EQ(kind(peri_engine_build("/nonexistent.onnx", nullptr, &engine)), PERI_ERROR_IO);
  peri_engine_options options = {};
  EXPECT_EQ(kind(peri_engine_load(engine_path().c_str(), &options, &engine)), PERI_ERROR_USAGE);
  options.struct_size = sizeof(options) + 8;
  EXPECT_EQ(kind(peri_engine_load(engine_path().c_str(), &options, &engine)), PERI_ERROR_USAGE);
  EXPECT_EQ(engine, nullptr);
  peri_session* session = nullptr;
  ASSERT_EQ(kind(peri_session_create(digits().handle(), 1, &session)), 0);
  Images images(1);
  peri_tensor in = {sizeof(in),
                    PERI_F32,
                    PERI_DEVICE_HOST,
                    images.dims.data(),
                    images.dims.size(),
                    images.values.data(),
                    images.values.size() * 4};
  peri_tensor out = {};
  EXPECT_EQ(kind(peri_session_run(session, &in, 1, &out, 1, nullptr)), PERI_ERROR_USAGE) << "struct_size is not set";
  out.struct_size = sizeof(out);
  EXPECT_EQ(kind(peri_session_run(session, &in, 1, &out, 1, &in)), PERI_ERROR_USAGE) << "a stream on the host";
  in.device = static_cast<peri_device>(2);
  EXPECT_EQ(kind(peri_session_run(session, &in, 1, &out, 1, nullptr)), PERI_ERROR_USAGE);
  in.device = PERI_DEVICE_HOST;
  EXPECT_EQ(kind(peri_session_run(session, &in, 1, &out, 1, nullptr)), 0) << "the session runs again after errors";
  EXPECT_EQ(out.bytes, 40u);
  peri_session_free(session);
}

TEST(PublicApi, ProgressAndLocks) {
  const std::string lock = engine_path() + ".lock";
  size_t calls = 0;
  peri_build_options options = {};
  options.struct_size = sizeof(options);
  options.no_tune = 1;
  options.lock_path = lock.c_str();
  options.user = &calls;
  options.progress = [](void* user, size_t, size_t, const char*) { ++*static_cast<size_t*>(user); };
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model().c_str(), &options, &engine), nullptr);
  peri_engine_free(engine);
  EXPECT_GT(calls, 0u);
  peri::BuildOptions locked;
  locked.locked_path = lock;
  EXPECT_TRUE(peri::Engine::build(model(), locked).ok());
  locked.locked_path = model();
  EXPECT_FALSE(peri::Engine::build(model(), locked).ok());
}

}  // namespace
