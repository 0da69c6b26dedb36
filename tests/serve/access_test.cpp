// Keys and rates: who is let in, what a file of keys may hold, and that no error tells a key.
#include "serve/access/access.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"

namespace peri::serve {
namespace {

TEST(Access, OnlyKnownKeys) {
  auto keys = parse_keys(
      "# of people\nfirst-key-1 tenant=ann\nsecond-key tenant=bob rate=2 burst=3 # slow\n\nthird-key-3 tenant=ann\n",
      "keys");
  ASSERT_TRUE(keys.ok()) << keys.error().text();
  Access access(*keys);
  const uint32_t ann = access.admit("Bearer first-key-1", true, 0).tenant;
  EXPECT_EQ(access.admit("bearer third-key-3", true, 0).tenant, ann) << "two keys of one tenant";
  EXPECT_NE(access.admit("Bearer second-key", false, 0).tenant, ann);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer first-key-", "Bearer first-key-11", "Basic first-key-1",
                            "first-key-1", "Bearer  first-key-1", "Bearer first-key-1 "})
    EXPECT_EQ(access.admit(wrong, false, 0).status, 401) << wrong;
  EXPECT_EQ(Access({}).admit("", true, 0).status, 200) << "no keys: no lock";
}

TEST(Access, RatesHold) {
  Access access(*parse_keys("only-one-key rate=2 burst=3", "keys"));
  const auto ask = [&](int64_t ms) { return access.admit("Bearer only-one-key", true, ms * 1'000'000); };
  for (int k = 0; k < 3; ++k) EXPECT_EQ(ask(0).status, 200);
  const Pass over = ask(0);
  EXPECT_EQ(over.status, 429);
  EXPECT_NEAR(static_cast<double>(over.retry_after_ns), 5e8, 2);
  EXPECT_EQ(access.admit("Bearer only-one-key", false, 0).status, 200) << "what is not an inference costs nothing";
  EXPECT_EQ(ask(499).status, 429);
  EXPECT_EQ(ask(501).status, 200);
  EXPECT_EQ(ask(501).status, 429);
  int let = 0;
  for (int64_t ms = 1000; ms < 11000; ms += 10) let += ask(ms).status == 200 ? 1 : 0;
  EXPECT_NEAR(let, 20, 3);
}

TEST(Access, WhatIsGivenBackIsNotCounted) {
  Access access(*parse_keys("only-one-key rate=2 burst=2\nother-key-2", "keys"));
  const auto ask = [&](int64_t ms) { return access.admit("Bearer only-one-key", true, ms * 1'000'000); };
  for (int k = 0; k < 5; ++k) {
    const Pass pass = ask(0);
    ASSERT_EQ(pass.status, 200) << k;
    access.give_back(pass.charged);
  }
  access.give_back(access.admit("Bearer only-one-key", false, 0).charged);
  access.give_back(access.admit("Bearer other-key-2", true, 0).charged);
  for (const int status : {200, 200, 429}) EXPECT_EQ(ask(0).status, status) << "no more than the burst";
  access.give_back(ask(0).charged);
  EXPECT_EQ(ask(0).status, 429) << "a request that the rate refused took nothing";
}

TEST(Access, WrongFilesAreRefusedWithoutTellingAKey) {
  for (const char* text : {"", "# nothing\n", "short\n", "long-enough rate=x\n", "long-enough rate=-1\n",
                           "long-enough rate=nan\n", "long-enough role=admin\n", "long-enough\nlong-enough\n"}) {
    const auto keys = parse_keys(text, "keys");
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_EQ(keys.error().text().find("long-enough"), std::string::npos) << keys.error().text();
  }
}

TEST(Access, AFileThatOthersReadIsRefused) {
  const std::string path = ::testing::TempDir() + "peri_access_test_keys_" + std::to_string(getpid());
  ASSERT_TRUE(write_file_atomic(path, "long-enough\n").ok());
  namespace fs = std::filesystem;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(read_keys(path).ok());
  fs::permissions(path, fs::perms::others_read, fs::perm_options::add);
  EXPECT_EQ(read_keys(path).error().kind, ErrorKind::kRefused);
  fs::remove(path);
}

}  // namespace
}  // namespace peri::serve
