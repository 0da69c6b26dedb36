// Compressed streams: back as they were, refused where they are broken, cut, followed by more, or hold too much.
#include "base/compressed.hpp"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(decompress(std::as_bytes(std::span(more)), Compression::kGzip, 1000).ok());
  EXPECT_FALSE(decompress(std::as_bytes(std::span(text)), Compression::kZlib, 1000).ok());
}

}  // namespace
}  // namespace peri
