// Compressed streams: back as they were, refused where they are broken, cut, followed by more, or hold too much.
#include "base/compressed.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace peri {
namespace {

std::string compressed(const std::string& text, Compression form) {
  Compressor c(form);
  c.add(std::as_bytes(std::span(text)).first(text.size() / 2));
  c.add(std::as_bytes(std::span(text)).subspan(text.size() / 2));
  return c.finish();
}

TEST(Compressed, BackAsItWas) {
  for (const Compression form : {Compression::kGzip, Compression::kZlib})
    for (const std::string& text : {std::string(), std::string("abc"), std::string(100000, 'x')}) {
      const std::string bytes = compressed(text, form);
      const auto back = decompress(std::as_bytes(std::span(bytes)), form, 100000);
      ASSERT_TRUE(back.ok()) << back.error().text();
      EXPECT_EQ(*back, text);
    }
}

TEST(Compressed, BombsAndBrokenStreamsAreRefused) {
  const std::string bytes = compressed(std::string(10 << 20, '\0'), Compression::kGzip);
  ASSERT_LT(bytes.size(), 100000u);
  const auto bomb = decompress(std::as_bytes(std::span(bytes)), Compression::kGzip, 1 << 20);
  ASSERT_FALSE(bomb.ok());
  EXPECT_EQ(bomb.error().kind, ErrorKind::kMemory);
  const std::string text = compressed("some text that is long enough to be cut", Compression::kGzip);
  for (size_t n = 0; n < text.size(); ++n)
    EXPECT_FALSE(decompress(std::as_bytes(std::span(text)).first(n), Compression::kGzip, 1000).ok()) << n;
  const std::string more = text + "x";
  size_t held = 0, most = 0, calls = 0;  // in few pieces, and no more than there is room for
  const auto room = [&](size_t bytes) {
    ++calls;
    if (bytes > size_t{8} << 20) return false;
    most = std::max(most, held = bytes);
    return true;
  };
  const auto crowded = decompress(std::as_bytes(std::span(bytes)), Compression::kGzip, size_t{1} << 30, room);
  ASSERT_FALSE(crowded.ok());
  EXPECT_EQ(crowded.error().kind, ErrorKind::kRefused);
  EXPECT_LT(calls, 60u);
  EXPECT_TRUE(decompress(std::as_bytes(std::span(text)), Compression::kGzip, 1000, room).ok());
  for (const size_t size : {100, 20000, 300000, 3000000}) {
    held = most = 0;
    const std::string zeros = compressed(std::string(size, '\0'), Compression::kGzip);
    const auto back = decompress(std::as_bytes(std::span(zeros)), Compression::kGzip, size_t{1} << 30, room);
    ASSERT_TRUE(back.ok());
    EXPECT_GE(held + std::string().capacity(), back->capacity()) << "all memory that there is was told";
    EXPECT_LE(held, 2 * size + 16384);
    if (size > 100000) EXPECT_GE(most, held + held / 2) << "and what it was copied from";
  }
  EXPECT_FALSE(decompress(std::as_bytes(std::span(more)), Compression::kGzip, 1000).ok());
  EXPECT_FALSE(decompress(std::as_bytes(std::span(text)), Compression::kZlib, 1000).ok());
}

}  // namespace
}  // namespace peri
