// .npy files: every element type and shape comes back, bytes as NumPy writes them are read, broken ones are refused.
#include "base/npy.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"

namespace peri {
namespace {

Result<Tensor> parse(const std::string& bytes, DType wanted = DType::kInvalid) {
  return parse_npy(bytes, nullptr, wanted);
}

// A file as numpy.save lays it out (version 1, data at a multiple of 64).
std::string file(const std::string& dict, const std::string& data, int version = 1) {
  std::string head = dict;
  const size_t start = version == 1 ? 10 : 12;
  head.resize((start + dict.size() + 1 + 63) / 64 * 64 - start - 1, ' ');
  head += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (size_t k = 8, n = head.size(); k < start; ++k, n >>= 8) out += static_cast<char>(n & 255);
  return out + head + data;
}

std::string error(const std::string& bytes) {
  auto t = parse(bytes);
  return t.ok() ? "accepted" : t.error().text();
}

TEST(Npy, EveryTypeComesBack) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    if (t == DType::kString) continue;
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {5}, {2, 3}, {0, 4}, {1, 2, 1, 3}}) {
      Tensor a = Tensor::zeros(t, dims).value();
      if (t == DType::kC64 || t == DType::kC128) {
        for (size_t k = 0; k < a.bytes().size(); ++k) a.mutable_data()[k] = static_cast<std::byte>(k * 7);
      } else {
        for (int64_t k = 0; k < a.numel(); ++k) a.set_f64(k, static_cast<double>((k + 1) % 2));
      }
      const std::string bytes = npy_bytes(a);
      auto b = parse(bytes, t);
      ASSERT_TRUE(b.ok()) << dtype_name(t) << ": " << b.error().text();
      EXPECT_TRUE(b->same_content(a)) << dtype_name(t) << " " << tensor_type_text(*b);
    }
  }
}

TEST(Npy, SmallNegativeNumbersComeBack) {
  for (const DType t : {DType::kI4, DType::kI2, DType::kF4E2M1}) {
    Tensor a = Tensor::zeros(t, {3}).value();
    a.set_f64(0, -2);
    a.set_f64(1, 1);
    a.set_f64(2, -1);
    auto b = parse(npy_bytes(a), t);
    ASSERT_TRUE(b.ok()) << b.error().text();
    EXPECT_TRUE(b->same_content(a)) << dtype_name(t);
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // numpy.save of array([[1, 2, 3], [4, 5, 6]], dtype='int16', order='F')
  const std::string data("\1\0\4\0\2\0\5\0\3\0\6\0", 12);
  auto t = parse(file("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", data));
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(t->dims(), (std::vector<int64_t>{2, 3}));
  for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(t->i64(k), k + 1);
  for (int version : {2, 3})
    EXPECT_TRUE(parse(file("{'descr': '<i2', 'fortran_order': False, 'shape': (6,), }", data, version)).ok());
  auto b = parse(file("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\5"));
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(static_cast<int>(b->bytes()[0]), 1);
  auto v = parse(file("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", "\x80\x3f"));
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(v->dtype(), DType::kBF16);
  EXPECT_EQ(v->f64(0), 1.0);
}

TEST(Npy, Strings) {
  Tensor a = Tensor::strings({2, 2}, {"", "äß€", "plain", "\xF0\x9F\x98\x80"}).value();
  auto b = parse(npy_bytes(a));
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_EQ(b->string_values(), a.string_values());
  Tensor raw = Tensor::strings({2}, {"\xff\xfe", "x"}).value();
  const std::string bytes = npy_bytes(raw);
  EXPECT_NE(bytes.find("|S2"), std::string::npos);
  EXPECT_EQ(parse(bytes)->string_values(), raw.string_values());
  auto f = parse(file("{'descr': '|S1', 'fortran_order': True, 'shape': (2, 2), }", "abcd"));
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->string_values(), (std::vector<std::string>{"a", "c", "b", "d"}));
  EXPECT_NE(error(file("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", std::string("\0\xd8\0\0", 4)))
                .find("Unicode"),
            std::string::npos);
}

TEST(Npy, RefusesBrokenFiles) {
  const std::string good = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", std::string(8, '\0'));
  ASSERT_EQ(error(good), "accepted");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_NE(error(good.substr(0, n)), "accepted") << n;
  EXPECT_NE(error(good + "x").find("wrong size"), std::string::npos);
  const std::string eight(8, '\0');
  const char* const kBad[] = {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
                              "{'descr': '<O8', 'fortran_order': False, 'shape': (1,), }",
                              "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                              "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
                              "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }",
                              "{'descr': '<f4', 'fortran_order': False}",
                              "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } + 1",
                              "{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }",
                              "{'descr': '<U0', 'fortran_order': False, 'shape': (1073741824,), }",
                              "{'descr': '<f5', 'fortran_order': False, 'shape': (2,), }"};
  for (const char* dict : kBad) EXPECT_NE(error(file(dict, eight)), "accepted") << dict;
}

TEST(Npy, DamagedHeadersNeverCrash) {
  const std::string good = file("{'descr': '<U2', 'fortran_order': True, 'shape': (2, 1), }", std::string(16, 'a'));
  Rng rng(11);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (uint64_t flips = 1 + rng.below(4); flips > 0; --flips)
      bad[rng.below(bad.size())] = static_cast<char>(rng.below(256));
    (void)parse(bad).ok();
  }
}

TEST(Npy, FilesAreWrittenAndRead) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("peri_npy_" + std::to_string(::getpid()) + ".npy")).string();
  const float values[] = {1, 2, 3};
  const Tensor t = Tensor::of_f32({3}, values);
  ASSERT_TRUE(write_npy(path, t).ok());
  EXPECT_TRUE(read_npy(path)->same_content(t));
  std::filesystem::remove(path);
  auto missing = read_npy(path);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kIo);
  EXPECT_EQ(missing.error().file, path);
}

}  // namespace
}  // namespace peri
