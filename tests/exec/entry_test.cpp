// An executor's entry says what the judge must know of it; nobody compares names.
#include "exec/entry.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peri::exec {
namespace {

std::set<std::string> with(bool Entry::* fact) {
  std::set<std::string> out;
  for (const Entry* e : entries())
    if (e->*fact) out.insert(e->executor.name);
  return out;
}

TEST(Entry, SaysWhoseResultsAreTheReferenceAndWhoTakesSizesOfTheData) {
  EXPECT_EQ(with(&Entry::by_definition), (std::set<std::string>{"null", "reference"}));
  EXPECT_EQ(with(&Entry::data_sizes), std::set<std::string>{"sized"});
  for (const Entry* e : entries()) EXPECT_EQ(find(e->executor.name), e);
  EXPECT_EQ(find("no_such"), nullptr);
}

}  // namespace
}  // namespace peri::exec
