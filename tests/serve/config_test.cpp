// config.pbtxt: Triton's own documented forms are read, what means nothing here is refused with its line.
#include "serve/config/model_config.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

ModelConfig read(const std::string& text) {
  auto config = parse_model_config(text, "config.pbtxt");
  EXPECT_TRUE(config.ok()) << config.error().text();
  return config.ok() ? std::move(*config) : ModelConfig();
}
std::string refusal(const std::string& text) {
  const auto config = parse_model_config(text, "m/config.pbtxt");
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? "" : config.error().text();
}

TEST(Config, TheExampleOfTritonsDocumentation) {
  const ModelConfig c = read(R"(
    platform: "tensorrt_plan"   # a comment
    max_batch_size: 8
    input [
      { name: "input0" data_type: TYPE_FP32 dims: [ 16 ] },
      { name: "input1" data_type: TYPE_FP32 dims: [ 16 ] }
    ]
    output [ { name: "output0" data_type: TYPE_FP32 dims: [ 16 ] } ]
    instance_group [ { count: 2 kind: KIND_CPU } ]
    dynamic_batching {
      preferred_batch_size: [ 4, 8 ]
      max_queue_delay_microseconds: 100
      default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 50 allow_timeout_override: true max_queue_size: 9 }
      priority_levels: 2 default_priority_level: 2
      priority_queue_policy { key: 1 value { max_queue_size: 3 } }
    }
    version_policy: { specific: { versions: [1, 3] } }
    model_warmup [ { name: "w" batch_size: 4 inputs { key: "input0" value: { data_type: TYPE_FP32 dims: 16 zero_data: true } } } ]
    parameters: { key: "threads" value: { string_value: "1" } }
  )");
  EXPECT_EQ(c.max_batch_size, 8);
  ASSERT_EQ(c.inputs.size(), 2u);
  EXPECT_EQ(c.inputs[1].name, "input1");
  EXPECT_EQ(c.inputs[1].dims, std::vector<int64_t>{16});
  EXPECT_EQ(c.instances, 2);
  ASSERT_TRUE(c.batching);
  EXPECT_EQ(c.batching->preferred, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(c.batching->max_queue_delay_us, 100);
  EXPECT_TRUE(c.batching->queue.delay);
  EXPECT_EQ(c.batching->priority_queues.at(1).max_queue_size, 3);
  EXPECT_EQ(c.versions.choose({1, 2, 3}), (std::vector<int64_t>{1, 3}));
  ASSERT_EQ(c.warmups.size(), 1u);
  EXPECT_EQ(c.warmups[0].inputs[0].port.name, "input0");
  EXPECT_EQ(c.parameters.at("threads"), "1");
}

TEST(Config, Versions) {
  EXPECT_EQ(read("").versions.choose({1, 3, 2}), std::vector<int64_t>{3});
  EXPECT_EQ(read("version_policy { latest { num_versions: 2 } }").versions.choose({1, 3, 2}),
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read("version_policy: { all { }}").versions.choose({1, 3}), (std::vector<int64_t>{1, 3}));
}

TEST(Config, RefusalsNameKeyAndLine) {
  const std::string unknown = refusal("name: \"m\"\nmax_batch_sise: 4\n");
  EXPECT_NE(unknown.find("line 2: 'max_batch_sise'"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("did you mean 'max_batch_size'"), std::string::npos) << unknown;
  EXPECT_NE(refusal("\n\nsequence_batching { }").find("line 3: 'sequence_batching'"), std::string::npos);
  EXPECT_NE(refusal("instance_group { kind: KIND_MODEL }").find("KIND_MODEL"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: 99999999999").find("max_batch_size"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: \"4\"").find("number"), std::string::npos);
  EXPECT_NE(refusal("dynamic_batching { }").find("max_batch_size"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }").find("preferred_batch_size 4"),
            std::string::npos);
  EXPECT_NE(refusal("input { dims: -2 }").find("dims"), std::string::npos);
  EXPECT_NE(refusal("parameters { key: \"x\" value { string_value: \"y\" } }").find("'x'"), std::string::npos);
}

TEST(Config, BrokenTextIsRefused) {
  for (const char* text : {"name", "name:", "name: \"a", "input [", "input [ {", "input [ { name: \"a\" ", "input { ",
                           "}", "]", "name: \"\\q\"", "name \"x\"", ": 3", "input [ 1 2 ]", "\x01", "name: \"a\nb\""})
    refusal(text);
  std::string deep;
  for (int k = 0; k < 1000; ++k) deep += "input {";
  EXPECT_NE(refusal(deep).find("deep"), std::string::npos);
  EXPECT_FALSE(parse_model_config(std::string(2 << 20, ' '), "f").ok());
}

TEST(Config, Strings) {
  const auto tree = parse_text_proto(R"(a: "x\n\x41\101" 'y' b: <c: 1>)");
  ASSERT_TRUE(tree.ok()) << tree.error().text();
  EXPECT_EQ(tree->fields[0].value, "x\nAAy");
  EXPECT_EQ(tree->fields[1].message.fields[0].name, "c");
}

ModelConfig read_yaml(const std::string& text) {
  auto config = parse_model_config(text, "config.yaml");
  EXPECT_TRUE(config.ok()) << config.error().text();
  return config.ok() ? std::move(*config) : ModelConfig();
}
std::string yaml_refusal(const std::string& text) {
  const auto config = parse_model_config(text, "m/config.yaml");
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? "" : config.error().text();
}

TEST(Config, YamlHasTheSameKeys) {
  const ModelConfig c = read_yaml(R"(# a comment
platform: onnxruntime_onnx
max_batch_size: 8
input:
  - {name: input0, data_type: TYPE_FP32, dims: [16]}
  - name: "1"
    data_type: TYPE_INT64
    dims: [-1, 2]
    optional: false
instance_group: [{count: 2, kind: KIND_CPU}]
dynamic_batching:
  preferred_batch_size: [4, 8]
  max_queue_delay_microseconds: 100
  default_queue_policy: {timeout_action: DELAY, max_queue_size: 9}
  priority_levels: 2
  default_priority_level: 2
  priority_queue_policy: {1: {max_queue_size: 3}}
version_policy: {all: }
model_warmup:
  - name: w
    batch_size: 4
    inputs:
      input0: {data_type: TYPE_FP32, dims: [16], zero_data: true}
      "1": {data_type: TYPE_INT64, dims: [3, 2], input_data_file: sample}
parameters: {threads: 1, batch_answers: {string_value: bounded}}
)");
  EXPECT_EQ(c.platform, "onnxruntime_onnx");
  EXPECT_EQ(c.max_batch_size, 8);
  ASSERT_EQ(c.inputs.size(), 2u);
  EXPECT_EQ(c.inputs[1].name, "1");
  EXPECT_EQ(c.inputs[1].dims, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(c.instances, 2);
  ASSERT_TRUE(c.batching);
  EXPECT_EQ(c.batching->preferred, (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(c.batching->queue.delay);
  EXPECT_EQ(c.batching->priority_queues.at(1).max_queue_size, 3);
  EXPECT_EQ(c.versions.kind, VersionPolicy::Kind::kAll);
  ASSERT_EQ(c.warmups.size(), 1u);
  ASSERT_EQ(c.warmups[0].inputs.size(), 2u);
  EXPECT_EQ(c.warmups[0].inputs[1].file, "sample");
  EXPECT_EQ(c.parameters.at("threads"), "1");
  EXPECT_EQ(c.parameters.at("batch_answers"), "bounded");
  EXPECT_EQ(read_yaml("").max_batch_size, 0);
  EXPECT_TRUE(read_yaml("max_batch_size: 2\ndynamic_batching: {}\n").batching);
}

TEST(Config, YamlThatIsNone) {
  const std::pair<const char*, const char*> wrong[] = {
      {"max_batch_size: 4\nmax_batch: 3\n", "line 2: 'max_batch'"},
      {"max_batch_size: four", "line 1: 'max_batch_size' must be a number"},
      {"max_batch_size: 4\nmax_batch_size: 5\n", "stands twice"},
      {"a: &x 1\nb: *x\n", "anchor"},
      {"input: [[{name: x}]]", "list of lists"},
      {"- a\n", "no mapping"},
      {"name: a\n---\nname: b\n", "more than one"},
      {"name: !!python/object a\n", "tag"},
      {"a: b: c\n", "line 1"},
      {"{[a, b]: c}", "no word"},
      {"input: [{name: x, optional: true}]", "'optional' asks for"},
      {"instance_group: {kind: KIND_MODEL}", "KIND_MODEL"},
  };
  for (const auto& [text, words] : wrong)
    EXPECT_NE(yaml_refusal(text).find(words), std::string::npos) << text << yaml_refusal(text);
  std::string deep, many = "input:\n";
  for (int k = 0; k < 5000; ++k) deep += "[";
  for (int k = 0; k < 30000; ++k) many += "- {}\n";
  EXPECT_NE(yaml_refusal("name: " + deep), "");
  EXPECT_NE(yaml_refusal(many).find("20,000"), std::string::npos);
}

}  // namespace
}  // namespace peri::serve
