// The result of a verification as JSON: shares that no number is are null.
// label: cpu
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "judge/verify.hpp"

namespace peri::judge {
namespace {

TEST(Verification, AShareOfNoChangeIsNull) {
  Verification v;
  for (const std::optional<double> share :
       {std::optional(0.25), std::optional<double>(INFINITY), std::optional<double>()}) {
    OutputVerdict o;
    o.of_change = share;
    v.outputs.push_back(o);
  }
  const Json json = parse_json(verification_json(v)).value();
  const auto& outputs = json.find("outputs")->items();
  EXPECT_EQ(outputs[0].get_double("of_change").value(), 0.25);
  ASSERT_NE(outputs[1].find("of_change"), nullptr);
  EXPECT_TRUE(outputs[1].find("of_change")->is_null());
  EXPECT_EQ(outputs[2].find("of_change"), nullptr);
}

}  // namespace
}  // namespace peri::judge
