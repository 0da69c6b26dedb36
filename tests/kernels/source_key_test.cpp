// Every kernel that the build gathered has a key of its sources, and one that it did not has none.
#include "kernels/source_key.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peri::kernels {
namespace {

TEST(SourceKey, EachEntryHasItsOwn) {
  ASSERT_EQ(source_keys().size(), entries().size());
  std::set<std::string_view> keys;
  for (const Entry* e : entries()) {
    EXPECT_EQ(source_key(e->kernel).size(), 16u) << e->kernel.name;
    keys.insert(source_key(e->kernel));
  }
  EXPECT_EQ(keys.size(), entries().size());
  EXPECT_EQ(source_key(Kernel{}), "");
}

}  // namespace
}  // namespace peri::kernels
