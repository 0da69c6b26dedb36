// A failed check is thrown with its place, and becomes an error at a boundary, as does a lack of memory.
#include "base/fault.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace peri {
namespace {

Result<int> checked(int v) {
  PERI_CHECK(v % 2 == 0, "v is " + std::to_string(v));
  return v / 2;
}

TEST(Fault, AFailedCheckIsThrownWithItsPlaceAndNote) {
  try {
    (void)checked(3).ok();
    FAIL() << "nothing was thrown";
  } catch (const InternalFault& fault) {
    const std::string text = fault.what();
    EXPECT_NE(text.find("fault_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("v % 2 == 0: v is 3"), std::string::npos) << text;
  }
}

TEST(Fault, ABoundaryMakesAnErrorOfIt) {
  EXPECT_EQ(contained([] { return checked(8); }).value(), 4);
  const Result<int> failed = contained([] { return checked(5); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::kInternal);
  EXPECT_TRUE(failed.error().message.starts_with("internal check failed at ")) << failed.error().message;
  EXPECT_NE(failed.error().remedy.find("report"), std::string::npos);
}

TEST(Fault, TheInnermostNodeIsKept) {
  const Result<int> failed = contained([] {
    return named([] { return std::string("outer"); },
                 [] { return named([] { return std::string("inner"); }, [] { return checked(5); }); });
  });
  EXPECT_EQ(failed.error().node, "inner");
  EXPECT_EQ(named([] { return std::string("unused"); }, [] { return checked(6); }).value(), 3);
}

TEST(Fault, OtherExceptionsHaveTheirKinds) {
  const auto kind = [](auto&& thrown) {
    return contained([&]() -> Status { throw std::forward<decltype(thrown)>(thrown); }).error().kind;
  };
  EXPECT_EQ(kind(std::bad_alloc()), ErrorKind::kMemory);
  EXPECT_EQ(kind(std::out_of_range("map::at")), ErrorKind::kInternal);
  EXPECT_EQ(kind(7), ErrorKind::kInternal);
}

}  // namespace
}  // namespace peri
