// Names of classes are read as they were written; a section that is not as expected is refused.
#include "plan/class_names.hpp"

#include <gtest/gtest.h>

namespace peri::plan {
namespace {

TEST(ClassNames, AreKept) {
  Program p;
  p.outputs.push_back({.name = "probabilities"});
  EXPECT_TRUE(class_names_of(p).value().empty());
  const ClassNames names = {{"probabilities", {"a \"b\"", "", "c\n"}}, {"none", {"x"}}};
  p.sections.push_back({std::string(kClassNamesSection), class_names_text(names)});
  const auto found = class_names_of(p);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(*found, (ClassNames{{"probabilities", {"a \"b\"", "", "c\n"}}})) << "of outputs that are there";
  EXPECT_EQ(class_names_text({}), "");
  EXPECT_EQ(class_names_text({{"y", {std::string(5 << 20, 'x')}}}), "") << "more than an engine should carry";
}

TEST(ClassNames, OthersAreRefused) {
  for (const char* wrong :
       {"", "[]", "{", R"({"y":3})", R"({"y":[1]})", R"({"y":[["a"]]})", R"({"y":["a"],"y":["b"]})"}) {
    const auto found = read_class_names(wrong);
    ASSERT_FALSE(found.ok()) << wrong;
    EXPECT_EQ(found.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace peri::plan
