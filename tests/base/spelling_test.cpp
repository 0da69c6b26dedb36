// What a misspelt word was meant to be.
#include "base/spelling.hpp"

#include <gtest/gtest.h>

namespace peri {
namespace {

TEST(Spelling, NearOrCut) {
  const std::vector<std::string_view> known = {"--model-repository-poll", "--model-repository", "--dtype", "--dims"};
  EXPECT_EQ(nearest("--dtyp", known), "--dtype");
  EXPECT_EQ(nearest("--dmis", known), "--dims");
  EXPECT_EQ(nearest("--model-repo", known), "--model-repository") << "the shortest that begins so";
  EXPECT_EQ(nearest("nope", {"top", "run"}), "") << "half of it differs";
  EXPECT_EQ(nearest("tpo", {"top", "run"}), "top") << "a swap is one edit";
  EXPECT_EQ(nearest("bnehc", {"bench", "run"}), "bench");
  EXPECT_EQ(nearest("--threads", known), "");
  EXPECT_EQ(nearest("x", known), "");
}

}  // namespace
}  // namespace peri
