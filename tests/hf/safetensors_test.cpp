// safetensors: a good file reads, every hostile class gets a typed error that names the tensor, and no prefix, bit flip
// or mutation of a good file crashes.
#include "hf/safetensors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.hpp"

namespace peri::hf {
namespace {

namespace fs = std::filesystem;

std::string file_of(std::string_view header, size_t data_bytes, std::optional<uint64_t> length = {}) {
  std::string out;
  const uint64_t n = length.value_or(header.size());
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i) & 0xFF);
  out += header;
  for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i);
  return out;
}

std::span<const std::byte> bytes_of(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

std::string error_of(const std::string& file) {
  Result<std::vector<TensorInfo>> r = parse_safetensors(bytes_of(file));
  return r.ok() ? "ok" : r.error().text();
}

constexpr std::string_view kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[1],"data_offsets":[24,32]},)"
    R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"e":{"dtype":"F16","shape":[0,5],"data_offsets":[32,32]}}  )";

// An untrusted folder may link its weights to any file of the user's.
TEST(Safetensors, WhatIsNoSafetensorsFileIsNotQuoted) {
  const std::string secret = "hunter2 is my password, and it is nobody's business";
  for (const std::string& file : {secret, file_of(secret, 0), file_of("{" + secret, 0), file_of("{\"" + secret, 0),
                                  file_of("{}" + secret, 0), file_of("{}", 0, 1000) + secret}) {
    const std::string said = error_of(file);
    EXPECT_NE(said, "ok");
    EXPECT_EQ(said.find("hunter2"), std::string::npos) << said;
  }
  uint64_t first = 0;
  std::memcpy(&first, secret.data(), 8);
  EXPECT_EQ(error_of(secret).find(std::to_string(first)), std::string::npos) << error_of(secret);
}

TEST(Safetensors, ReadsAGoodFile) {
  const std::string file = file_of(kGood, 32);
  Result<std::vector<TensorInfo>> r = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->size(), 3u);
  EXPECT_EQ((*r)[0].name, "a");
  EXPECT_EQ((*r)[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*r)[0].offset, 8 + kGood.size());
  EXPECT_EQ((*r)[1].dtype, DType::kI64);
  EXPECT_EQ((*r)[2].size, 0u);
  EXPECT_EQ(error_of(file_of("{}", 0)), "ok");
  EXPECT_EQ(error_of(file_of(R"({"t":{"dtype":"F6_E3M2","shape":[8],"data_offsets":[0,6]}})", 6)), "ok");
}

std::string one(std::string_view shape, std::string_view offsets, std::string_view dtype = "F32") {
  return format("{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":%s}}", std::string(dtype).c_str(),
                std::string(shape).c_str(), std::string(offsets).c_str());
}

TEST(Safetensors, RefusesEveryHostileClass) {
  const struct {
    std::string file;
    const char* part;
  } cases[] = {
      {"", "too short"},
      {"1234567", "too short"},
      {file_of("", 0), "does not begin with '{'"},
      {file_of("[]", 0), "does not begin with '{'"},
      {file_of(" {}", 0), "does not begin with '{'"},
      {file_of("{}", 0, 100000001), "header is too long"},
      {file_of("{}", 0, UINT64_MAX), "header is too long"},
      {file_of("{}", 0, 3), "beyond the end"},
      {file_of("{", 0), "not valid JSON"},
      {file_of("{}x", 0), "not valid JSON"},
      {file_of("{}", 1), "bytes after the last tensor"},
      {file_of(one("[2]", "[0,8]"), 7), "'t': tensor lies beyond the end"},
      {file_of(one("[2]", "[0,8]"), 9), "bytes after the last tensor"},
      {file_of(one("[2]", "[4,12]"), 12), "'t': hole before the tensor"},
      {file_of(one("[2]", "[8,0]"), 8), "'t': tensor ends before it begins"},
      {file_of(one("[3]", "[0,8]"), 8), "'t': size differs from shape and dtype: expected 12 bytes, found 8"},
      {file_of(one("[-1]", "[0,8]"), 8), "not a size"},
      {file_of(one("[1.5]", "[0,8]"), 8), "not a size"},
      {file_of(one("[2.0]", "[0,8]"), 8), "not a size"},
      {file_of(one("[1e30]", "[0,8]"), 8), "not a size"},
      {file_of(one("[18446744073709551615]", "[0,8]"), 8), "not a size"},
      {file_of(one("[4294967296,4294967296]", "[0,0]"), 0), "more than 2^63-1"},
      {file_of(one("[4611686018427387904]", "[0,0]"), 0), "'t'"},
      {file_of(one("[2305843009213693952,8]", "[0,0]"), 0), "'t'"},
      {file_of(one("[0,9223372036854775807,9223372036854775807]", "[0,8]"), 8), "expected 0 bytes"},
      {file_of(one("[2]", "[0,9223372036854775807]"), 8), "beyond the end"},
      {file_of(one("[2]", "[0]"), 8), "has 1 numbers"},
      {file_of(one("[2]", "[0,8,8]"), 8), "has 3 numbers"},
      {file_of(one("[\"2\"]", "[0,8]"), 8), "not a size"},
      {file_of(one("[[2]]", "[0,8]"), 8), "deeper than 3"},
      {file_of(one("2", "[0,8]"), 8), "another kind"},
      {file_of(one("{}", "[0,8]"), 8), "another kind"},
      {file_of(one("[2]", "[0,8]", "F33"), 8), "unknown dtype"},
      {file_of(one("[2]", "[0,8]", "F6_E2M3"), 8), "do not end with a byte"},
      {file_of(one("[4]", "[0,4]", "F6_E3M2"), 4), "expected 3 bytes"},
      {file_of(one("[3]", "[0,2]", "F4"), 2), "do not end with a byte"},
      {file_of(R"({"t":{"dtype":"F32","shape":[2]}})", 8), "'t': field is missing"},
      {file_of(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "unknown field"},
      {file_of(R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "stands twice"},
      {file_of(R"({"t":1})", 0), "another kind"},
      {file_of(R"({"t":[1]})", 0), "another kind"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__"},
      {file_of(R"({"__metadata__":[]})", 0), "__metadata__"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "duplicate key"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "duplicate key"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       "'t': tensor name stands twice"},
      {file_of(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"t":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       "'t': tensors overlap"},
      {file_of(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
           2),
       "tensors overlap"},
      {file_of("{\"\xff\":1}", 0), "not valid JSON"},
  };
  for (const auto& c : cases)
    EXPECT_NE(error_of(c.file).find(c.part), std::string::npos)
        << c.file.substr(std::min<size_t>(8, c.file.size()), 100) << "\n  wanted: " << c.part
        << "\n  got: " << error_of(c.file);
}

TEST(Safetensors, NoPrefixOrBitFlipCrashes) {
  const std::string good = file_of(kGood, 32);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_NE(error_of(good.substr(0, n)), "ok") << n;
  const size_t header = 8 + kGood.size();
  size_t accepted = 0;
  for (size_t i = 0; i < header * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    accepted += error_of(bad) == "ok";
  }
  EXPECT_LT(accepted, header);  // a flip inside a name or the metadata stays a good file
  std::mt19937 rng(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (unsigned k = 0; k < 1 + rng() % 4; ++k) bad[rng() % header] = static_cast<char>(rng());
    (void)error_of(bad);
  }
}

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_hf_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }
  void put(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(write_file_atomic(dir_ + "/" + name, bytes).ok());
  }
  std::string shard(const char* tensor) const {
    return file_of(format("{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", tensor), 4);
  }
  std::string open() const {
    Result<Weights> w = Weights::open_folder(dir_);
    return w.ok() ? "ok" : w.error().text();
  }
  std::string dir_;
};

TEST_F(WeightsTest, OneFileAsViews) {
  put("model.safetensors", file_of(kGood, 32));
  Weights w = Weights::open_folder(dir_).value();
  EXPECT_EQ(w.count(), 3u);
  EXPECT_EQ(w.names(), (std::vector<std::string_view>{"a", "b", "e"}));
  EXPECT_EQ(w.total_bytes(), 32u);
  Tensor b = w.tensor("b").value();
  int64_t v;
  std::memcpy(&v, b.data(), sizeof v);
  EXPECT_EQ(v, 0x1F1E1D1C1B1A1918);
  EXPECT_NE(w.tensor("absent").error().text().find(
                "model.safetensors: 'absent': tensor is missing; the files belong to different models"),
            std::string::npos);
  for (const std::string& cut : {file_of(kGood, 32).substr(0, 20), file_of(kGood, 31)}) {
    put("model.safetensors", cut);
    EXPECT_NE(open().find("beyond the end of the file"), std::string::npos) << open();
    EXPECT_NE(open().find("download it again"), std::string::npos) << open();
  }
  put("model.safetensors", file_of(kGood, 32));
  w = Weights::open_folder(dir_).value();
  b = w.tensor("b").value();
  EXPECT_TRUE(w.check().ok());
  ASSERT_EQ(::truncate((dir_ + "/model.safetensors").c_str(), 0), 0);
  volatile std::byte touch = b.bytes()[0];
  (void)touch;
  EXPECT_FALSE(w.check().ok());
}

TEST_F(WeightsTest, AFileIsKnownByItsBytesWhereItIsRemembered) {
  const std::string path = dir_ + "/model.safetensors";
  put("model.safetensors", file_of(kGood, 32));
  const Weights known = Weights::open_folder(dir_, true).value(), unknown = Weights::open_folder(dir_).value();
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_TRUE(known.check().ok());
  EXPECT_FALSE(unknown.check().ok());
  const Fd fd(::open(path.c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), "z", 1, static_cast<off_t>(file_of(kGood, 31).size())), 1);
  EXPECT_FALSE(known.check().ok());
}

TEST_F(WeightsTest, ShardsAreOneNameSpace) {
  put("s1.safetensors", shard("x"));
  put("s2.safetensors", shard("y"));
  const auto index = [&](const char* map) {
    put("model.safetensors.index.json", format("{\"metadata\":{},\"weight_map\":%s}", map));
  };
  index(R"({"x":"s1.safetensors","y":"s2.safetensors"})");
  EXPECT_EQ(open(), "ok");
  const struct {
    const char* map;
    const char* part;
  } cases[] = {
      {R"({"x":"s1.safetensors","y":"s1.safetensors"})", "'y': tensor is missing from its shard"},
      {R"({"x":"s1.safetensors","y":"s3.safetensors"})", "s3.safetensors: cannot open"},
      {R"({"x":"../s1.safetensors"})", "outside the folder"},
      {R"({"x":"/etc/s1.safetensors"})", "outside the folder"},
      {R"({"x":"..","y":"s2.safetensors"})", "not a safetensors file"},
      {R"({"x":"pytorch_model.bin"})", "not a safetensors file"},
      {R"({"x":1})", "'x': wrong kind"},
      {R"({})", "no tensor is listed"},
      {R"([])", "weight_map"},
      {R"({"x":"s1.safetensors","x":"s2.safetensors"})", "duplicate key"},
  };
  for (const auto& c : cases) {
    index(c.map);
    EXPECT_NE(open().find(c.part), std::string::npos) << c.map << " -> " << open();
    EXPECT_NE(Weights::open_folder(dir_).error().remedy, "") << c.map;
  }
  put("s2.safetensors", shard("x"));
  index(R"({"x":"s1.safetensors","z":"s2.safetensors"})");
  EXPECT_NE(open().find("'x': tensor is in two shards"), std::string::npos) << open();
  put("model.safetensors.index.json", "{}");
  EXPECT_NE(open().find("model.safetensors.index.json: 'weight_map': member is missing"), std::string::npos) << open();
}

}  // namespace
}  // namespace peri::hf
