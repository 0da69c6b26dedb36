// What is told of a configuration that cannot be served: whole lines whatever bytes it holds, and which versions are
// there.
#include <gtest/gtest.h>

#include <string>

#include "serve/config/model_config.hpp"

namespace peri::serve {
namespace {
using std::string_literals::operator""s;

std::string refusal(const std::string& text, const std::string& file = "m/config.pbtxt") {
  const auto config = parse_model_config(text, file);
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? "" : config.error().text();
}

TEST(ConfigTold, ANulCutsNoMessage) {
  EXPECT_EQ(refusal("name: \"a\"\n\0max"s), "m/config.pbtxt: line 2: expected the name of a field, found '\\x00'");
  EXPECT_EQ(refusal("name: \"a\\000b\""), "m/config.pbtxt: line 1: the text of 'name' holds a NUL");
  EXPECT_EQ(refusal("name: \"a\0b\""s), "m/config.pbtxt: line 1: the text of 'name' holds a NUL");
  EXPECT_EQ(refusal("name: a\n\0b: 1"s, "m/config.yaml"), "m/config.yaml: line 2: a NUL");
  EXPECT_EQ(refusal("name: \"a\\0b\"", "m/config.yaml"), "m/config.yaml: line 1: a text that holds a NUL");
  EXPECT_EQ(refusal("é: 1"), "m/config.pbtxt: line 1: expected the name of a field, found 'é'");
}

TEST(ConfigTold, AWarmupTakesItsDataInOneWay) {
  for (const char* data :
       {"", "zero_data: false", "zero_data: true random_data: true", "random_data: true input_data_file: 'a'"})
    EXPECT_NE(refusal(format("model_warmup { name: 'w' inputs { key: 'x' value { dims: 4 %s } } }", data))
                  .find("one of zero_data: true, random_data: true and input_data_file"),
              std::string::npos)
        << data;
}

TEST(ConfigTold, WhatChangesNothingOrContradictsItself) {
  const auto notes = [](const std::string& text) {
    const auto config = parse_model_config(text, "config.pbtxt");
    EXPECT_TRUE(config.ok()) << config.error().text();
    return config.ok() ? config->notes : std::vector<std::string>();
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes("input { name: 'a' format: FORMAT_NONE } optimization { cuda { graphs: true } }"), Notes());
  EXPECT_EQ(notes("input { format: FORMAT_NHWC name: 'a' }"),
            Notes{"the format of input 'a' changes nothing: the model's axes are as they are"});
  EXPECT_EQ(notes("optimization { cuda { graphs: false } input_pinned_memory { enable: false } }"),
            (Notes{"optimization's cuda { graphs } that is false changes nothing",
                   "optimization's input_pinned_memory that is false changes nothing"}));
  EXPECT_EQ(notes("max_batch_size: 2 dynamic_batching { default_priority_level: 1 }"),
            Notes{"default_priority_level changes nothing without priority_levels"});
  EXPECT_NE(refusal("version_policy { latest { num_versions: 1 } all { } }").find("several policies"),
            std::string::npos);
  EXPECT_NE(refusal("input { name: 'a' } input { name: 'a' }").find("the input 'a' stands twice"), std::string::npos);
  EXPECT_NE(refusal("output { name: 'a' } output { name: 'a' }").find("the output 'a' stands twice"),
            std::string::npos);
  EXPECT_NE(refusal("parameters { key: 'batch_answers' value { string_value: 'x' } }").find("identical or bounded"),
            std::string::npos);
}

TEST(ConfigTold, VersionsThatAreNotThere) {
  const auto why = [](const std::string& text, std::vector<int64_t> present) {
    const auto config = parse_model_config(text, "config.pbtxt");
    EXPECT_TRUE(config.ok()) << config.error().text();
    return config.ok() ? config->versions.why_none(std::move(present)) : "";
  };
  EXPECT_EQ(why("version_policy { specific { versions: [7, 9] } }", {3, 1}),
            "no version of the model is there to be served: version_policy wants 7, 9, and there are 1, 3; correct "
            "version_policy, or add the folder of the version");
  EXPECT_EQ(why("version_policy { specific { } }", {3}),
            "no version of the model is there to be served: version_policy wants none, and there are 3; correct "
            "version_policy, or add the folder of the version");
  EXPECT_EQ(why("version_policy { specific { versions: [7] } }", {}),
            "no version of the model is there to be served: put it into a numbered folder, as NAME/1/model.onnx");
}
}  // namespace
}  // namespace peri::serve
