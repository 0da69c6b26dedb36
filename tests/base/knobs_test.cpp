// A knob is read by its row, and a variable that is spelt nearly like one is refused with the right name.
#include "base/knobs.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace peri {
namespace {

struct Set {
  const char* name;
  Set(const char* n, const char* v) : name(n) { setenv(n, v, 1); }
  ~Set() { unsetenv(name); }
};

TEST(Knobs, ValueOfARow) {
  Set set("PERI_CACHE", "/a/folder");
  EXPECT_EQ(knob(Knob::kCache), "/a/folder");
  EXPECT_EQ(cache_folder(), "/a/folder");
}

TEST(Knobs, SetToNothingIsAValue) {
  Set set("PERI_CACHE", "");
  EXPECT_EQ(knob(Knob::kCache), "");
  EXPECT_EQ(cache_folder(), "");
}

TEST(Knobs, NotSetIsNone) {
  unsetenv("PERI_CACHE");
  Set xdg("XDG_CACHE_HOME", "/x");
  EXPECT_FALSE(knob(Knob::kCache).has_value());
  EXPECT_EQ(cache_folder(), "/x/peri");
}

TEST(Knobs, MisspeltIsRefusedWithTheRightName) {
  EXPECT_TRUE(check_knobs().ok());
  Set set("PERI_CAHCE", "/a");
  const Status s = check_knobs();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(s.error().message, "unknown environment variable PERI_CAHCE");
  EXPECT_EQ(s.error().remedy, "did you mean PERI_CACHE?");
}

TEST(Knobs, AValueThatItCannotHaveIsRefused) {
  Set good("PERI_PACKED_CACHE_MIB", "64");
  EXPECT_TRUE(check_knobs().ok());
  Set bad("PERI_PACKED_CACHE_MIB", "64 MiB");
  const Status s = check_knobs();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().kind, ErrorKind::kUsage);
  EXPECT_NE(s.error().message.find("PERI_PACKED_CACHE_MIB"), std::string::npos);
  EXPECT_EQ(s.error().found, "'64 MiB'");
}

TEST(Knobs, EveryRowSaysWhatItIsFor) {
  for (const KnobRow& row : knob_rows()) {
    EXPECT_TRUE(row.variable.starts_with("PERI_"));
    EXPECT_FALSE(row.summary.empty());
    EXPECT_FALSE(row.takes.empty());
  }
}

}  // namespace
}  // namespace peri
