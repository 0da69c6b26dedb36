// Engine files: the same bytes every time, back as they were, and every kind of damage refused or harmless.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "plan/engine_file.hpp"
#include "tests/places.hpp"
#include "tests/plan/programs.hpp"

namespace peri::plan {
namespace {

namespace fs = std::filesystem;

class EngineFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("peri_engine_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "small.peri").string();
    tests::ProgramMaker m = tests::small_program();
    m.weight("twin", DType::kF32, {4});
    m.weight("other", DType::kF32, {40});
    const std::vector<float> a = {1, 2, 3, 4}, b(40, 7);
    weights_ = {Tensor::of_f32({4}, a), Tensor::of_f32({4}, a), Tensor::of_f32({40}, b)};
    program_ = m.p;
    const Status written = write_engine(path_, program_, weights_);
    ASSERT_TRUE(written.ok()) << written.error().text();
    bytes_ = read_file(path_, 1 << 20).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Result<Program> parse(std::string_view bytes) {
    const std::vector<char> exact(bytes.begin(), bytes.end());
    std::span<const std::byte> weights;
    return parse_engine(std::as_bytes(std::span(exact)), &weights);
  }

  fs::path folder_;
  std::string path_, bytes_;
  Program program_;
  std::vector<Tensor> weights_;
};

TEST_F(EngineFile, ComesBackAndIsTheSameEachTime) {
  auto loaded = load_engine(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  ASSERT_TRUE(check_weights(*loaded).ok());
  EXPECT_TRUE(looks_like_engine(path_));
  const Program& p = loaded->program;
  EXPECT_EQ(p.weights[0].offset, p.weights[1].offset) << "equal content stands once";
  EXPECT_EQ(std::memcmp(loaded->weight_bytes.data() + p.weights[2].offset, weights_[2].data(), 160), 0);
  ASSERT_TRUE(write_engine(path_ + "2", program_, weights_).ok());
  EXPECT_EQ(read_file(path_ + "2", 1 << 20).value(), bytes_);
  ASSERT_TRUE(write_engine(path_ + "3", p, weights_).ok());
  EXPECT_EQ(read_file(path_ + "3", 1 << 20).value(), bytes_);
}

TEST_F(EngineFile, AnUnchangedOneIsNotWrittenAgain) {
  const auto status = [&] {
    struct stat st = {};
    EXPECT_EQ(::stat(path_.c_str(), &st), 0);
    return st;
  };
  const auto first = status();
  const fs::file_time_type long_ago = fs::last_write_time(path_) - std::chrono::hours(1);
  fs::last_write_time(path_, long_ago);
  ASSERT_TRUE(write_engine(path_, program_, weights_).ok());
  EXPECT_EQ(status().st_ino, first.st_ino);
  EXPECT_GT(fs::last_write_time(path_), long_ago) << "who compares times sees a build";
  for (const size_t damaged : {bytes_.size() / 8, bytes_.size() - 70, bytes_.size()}) {  // metadata, weights, length
    std::string bytes = bytes_;
    if (damaged < bytes.size())
      bytes[damaged] = static_cast<char>(bytes[damaged] ^ 1);
    else
      bytes += '\0';
    ASSERT_TRUE(write_file_atomic(path_, bytes).ok());
    const auto before = status();
    ASSERT_TRUE(write_engine(path_, program_, weights_).ok());
    EXPECT_NE(status().st_ino, before.st_ino) << damaged;
    EXPECT_EQ(read_file(path_, 1 << 20).value(), bytes_) << damaged;
  }
}

TEST_F(EngineFile, KeepsThePrecision) {
  EXPECT_EQ(load_engine(path_)->program.precision, DType::kF32) << "none is stated";
  program_.precision = DType::kBF16;
  ASSERT_TRUE(write_engine(path_, program_, weights_).ok());
  EXPECT_EQ(load_engine(path_)->program.precision, DType::kBF16);
  program_.precision = DType::kI8;
  ASSERT_TRUE(write_engine(path_, program_, weights_).ok());
  EXPECT_FALSE(load_engine(path_).ok());
}

TEST_F(EngineFile, EveryPrefixIsRefused) {
  for (size_t n = 0; n < bytes_.size(); n += n < 4096 ? 1 : 7)
    ASSERT_FALSE(parse(std::string_view(bytes_).substr(0, n)).ok()) << n;
  EXPECT_FALSE(parse(bytes_ + "x").ok()) << "trailing";
  EXPECT_FALSE(parse(std::string_view(bytes_).substr(0, bytes_.size() - 1)).ok()) << "weights cut";
}

TEST_F(EngineFile, WithoutWeightsEveryPrefixIsRefusedToo) {
  tests::ProgramMaker m;
  const int32_t x = m.input("x", DType::kF32, "[4]"), y = m.scratch("y", DType::kF32, "[4]");
  m.step("a", {x}, {y}, "first");
  m.output("y", y);
  ASSERT_TRUE(write_engine(path_, m.p, {}).ok());
  const std::string whole = read_file(path_, 1 << 20).value();
  ASSERT_TRUE(parse(whole).ok());
  for (size_t n = 0; n < whole.size(); n += 7) ASSERT_FALSE(parse(std::string_view(whole).substr(0, n)).ok()) << n;
  for (const std::string& more : {whole + "x", whole + whole}) EXPECT_FALSE(parse(more).ok());
}

TEST_F(EngineFile, EveryBitFlipOfHeaderAndMetadataIsRefused) {
  uint64_t metadata = 0;
  std::memcpy(&metadata, bytes_.data() + 24, 8);
  for (size_t bit = 0; bit < 8 * (64 + metadata); bit += bit < 512 ? 1 : 5) {
    std::string damaged = bytes_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(parse(damaged).ok()) << "bit " << bit;
  }
}

TEST_F(EngineFile, RepairedMetadataIsRefusedOrHarmless) {
  uint64_t metadata = 0;
  std::memcpy(&metadata, bytes_.data() + 24, 8);
  for (size_t at = 64; at < 64 + metadata; ++at) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const uint64_t sum = engine_checksum(std::as_bytes(std::span(damaged)), 64, metadata);
    std::memcpy(damaged.data() + 48, &sum, 8);
    auto p = parse(damaged);
    if (p.ok()) ASSERT_TRUE(check_program(*p, 1 << 20).ok());
  }
}

TEST_F(EngineFile, DamagedWeightsAreFoundByTheirHash) {
  std::string damaged = bytes_;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  uint64_t at = 0;
  std::memcpy(&at, bytes_.data() + 32, 8);
  damaged[at] = static_cast<char>(damaged[at] ^ 1);
  ASSERT_TRUE(write_file_atomic(path_, damaged).ok());
  auto loaded = load_engine(path_);
  ASSERT_TRUE(loaded.ok()) << "weights are not read at load";
  const Status checked = check_weights(*loaded);
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().text().find("'w'"), std::string::npos) << checked.error().text();
}

TEST_F(EngineFile, AFileCutWhileMappedIsCaught) {
  auto loaded = load_engine(path_);
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(truncate(path_.c_str(), 100), 0);
  const Status checked = check_weights(*loaded);
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().text().find("small.peri"), std::string::npos) << checked.error().text();
  const Status seen = loaded->file->check();
  ASSERT_FALSE(seen.ok());
  EXPECT_EQ(seen.error().kind, ErrorKind::kIo);
}

TEST_F(EngineFile, NothingStandsWhereAWriteFailed) {
  EXPECT_FALSE(write_engine((folder_ / "missing/x.peri").string(), program_, weights_).ok());
  EXPECT_FALSE(looks_like_engine((folder_ / "missing/x.peri").string()));
  EXPECT_FALSE(load_engine(folder_.string()).ok());
  Program lying = program_;
  lying.steps[0].reads = {99};
  EXPECT_FALSE(write_engine((folder_ / "lying.peri").string(), lying, weights_).ok());
  EXPECT_FALSE(fs::exists(folder_ / "lying.peri"));
}

}  // namespace
}  // namespace peri::plan
