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
  EXPECT_EQ(c.instances(), 2);
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

TEST(Config, AQueueWithoutBatches) {
  const auto c = read("dynamic_batching { default_queue_policy { allow_timeout_override: true } }");
  ASSERT_TRUE(c.batching);
  EXPECT_EQ(c.max_batch_size, 0);
  EXPECT_TRUE(c.batching->queue.allow_timeout_override);
  EXPECT_FALSE(c.wants_batches());
}

TEST(Config, RefusalsNameKeyAndLine) {
  const std::string unknown = refusal("name: \"m\"\nmax_batch_sise: 4\n");
  EXPECT_NE(unknown.find("line 2: 'max_batch_sise'"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("did you mean 'max_batch_size'"), std::string::npos) << unknown;
  EXPECT_NE(refusal("\n\nsequence_batchin { }").find("line 3: 'sequence_batchin'"), std::string::npos);
  EXPECT_NE(refusal("instance_group { kind: KIND_NONE }").find("KIND_NONE"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: 99999999999").find("max_batch_size"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: \"4\"").find("number"), std::string::npos);
  EXPECT_NE(refusal("dynamic_batching { preferred_batch_size: 2 }").find("above max_batch_size 0"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }").find("preferred_batch_size 4"),
            std::string::npos);
  EXPECT_NE(refusal("input { dims: -2 }").find("dims"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: 4 model_warmup { name: \"w\" batch_size: 9 }")
                .find("batch_size of model_warmup 'w': expected at most max_batch_size, 4, found 9"),
            std::string::npos);
  EXPECT_NE(refusal("parameters { key: \"thread\" value { string_value: \"2\" } }").find("did you mean 'threads'"),
            std::string::npos);
}

TEST(Config, KeysThatMeanNothingHereNameTheirRemedy) {
  for (const auto& [text, remedy] : {std::pair{"optimization { execution_accelerators { } }", "peri build --dtype"},
                                     {"optimization { graph { level: 1 } }", "'peri build' optimizes"},
                                     {"optimization { priority: PRIORITY_ODD }", "PRIORITY_DEFAULT"},
                                     {"optimization { eager_batching: true }", "take it out"},
                                     {"instance_group { rate_limiter { resources { count: 1 } } }", "needs a name"},
                                     {"instance_group [ { rate_limiter { priority: 2 } }, { } ]", "two folders"},
                                     {"instance_group { kind: KIND_CPU gpus: [ 0 ] }", "take 'gpus' out"},
                                     {"instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]", "two folders"},
                                     {"model_transaction_policy { decoupled: true }", "one answer"},
                                     {"metric_tags { }", "metrics carry"},
                                     {"cc_model_filenames { }", "model.engine"},
                                     {"sequence_batching { oldest { } iterative_sequence: true }", "clients send"}}) {
    const std::string why = refusal(text);
    EXPECT_NE(why.find(remedy), std::string::npos) << why;
  }
  read("optimization { priority: PRIORITY_DEFAULT cuda { graphs: true } input_pinned_memory { enable: true } }");
  using Device = ModelConfig::Device;
  EXPECT_EQ(read("instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]").device, Device::kGpu);
  EXPECT_EQ(read("instance_group [ { count: 2 } ]").device, Device::kAny);
  EXPECT_EQ(read("instance_group [ { kind: KIND_CPU }, { count: 3 kind: KIND_CPU } ]").instances(), 4);
}

// In the forms that Triton's documentation has for instances on GPUs and for its rate limiter.
TEST(Config, Placement) {
  const ModelConfig gpus = read(R"(
    instance_group [
      { count: 2 kind: KIND_GPU gpus: [ 1 ] },
      { count: 3 kind: KIND_GPU gpus: [ 0, 2 ] },
      { kind: KIND_GPU }
    ]
  )");
  EXPECT_EQ(gpus.device, ModelConfig::Device::kGpu);
  EXPECT_EQ(gpus.gpus(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(gpus.instances_on(0), 4);
  EXPECT_EQ(gpus.instances_on(1), 3);
  EXPECT_EQ(gpus.instances_on(7), 1);
  const ModelConfig limited = read(R"(
    optimization { priority: PRIORITY_MIN }
    instance_group [ {
      count: 2
      kind: KIND_CPU
      host_policy: "near"
      rate_limiter {
        resources [ { name: "memory" count: 6 }, { name: "bus" global: True count: 1 } ]
        priority: 3
      }
    } ]
  )");
  ASSERT_EQ(limited.rate_limit.claims.size(), 2u);
  EXPECT_EQ(limited.rate_limit.claims[0], (ResourceClaim{"memory", false, 6}));
  EXPECT_EQ(limited.rate_limit.claims[1], (ResourceClaim{"bus", true, 1}));
  EXPECT_EQ(limited.weight(), 6) << "a third of the turns, and half of that";
  EXPECT_EQ(read("optimization { priority: PRIORITY_MAX }").weight(), 0.5);
  EXPECT_EQ(read("instance_group { rate_limiter { } }").weight(), 1);
  ASSERT_EQ(limited.notes.size(), 1u);
  EXPECT_NE(limited.notes[0].find("'near' changes nothing"), std::string::npos);
  EXPECT_EQ(read("instance_group { kind: KIND_MODEL }").device, ModelConfig::Device::kAny);
  for (const char* text :
       {"instance_group { rate_limiter { resources [ { name: \"a\" count: 1 }, { name: \"a\" count: 1 } ] } }",
        "instance_group { rate_limiter { prio: 1 } }", "instance_group { kind: KIND_MODEL gpus: [ 0 ] }",
        "instance_group { rate_limiter { resources { name: \"a\" count: -1 } } }"})
    refusal(text);
}

TEST(Config, ParametersOfOthersAreKept) {
  const ModelConfig c = read("parameters [ { key: \"delay_of_another\" value: { string_value: \"3\" } } ]");
  EXPECT_EQ(c.parameters.at("delay_of_another"), "3");
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_NE(c.notes[0].find("'delay_of_another' changes nothing"), std::string::npos);
  refusal("parameters [ { key: \"a\" value { string_value: \"1\" } }, { key: \"a\" value { string_value: \"2\" } } ]");
}

// In the forms that Triton's documentation has for stateful models.
TEST(Config, SequenceBatching) {
  const ModelConfig direct = read(R"(
    name: "direct_stateful_model"
    platform: "tensorrt_plan"
    max_batch_size: 2
    sequence_batching {
      max_sequence_idle_microseconds: 5000000
      direct { }
      control_input [
        { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
        { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } ] }
      ]
    }
    input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ 100, 100 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 10 ] } ]
    instance_group [ { count: 2 } ]
  )");
  ASSERT_TRUE(direct.sequences);
  EXPECT_EQ(direct.sequences->idle_us, 5000000);
  EXPECT_FALSE(direct.sequences->oldest);
  ASSERT_EQ(direct.sequences->controls.size(), 2u);
  EXPECT_EQ(direct.sequences->controls[1].kind, ControlConfig::Kind::kReady);
  EXPECT_EQ(direct.sequences->controls[1].yes, 1);
  const ModelConfig oldest = read(R"(
    max_batch_size: 8
    sequence_batching {
      oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 }
      control_input [
        { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
        { name: "S" control [ { kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ] } ] },
        { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
      ]
      state [
        { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_INT32 dims: [ -1 ]
          initial_state: { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true name: "initial state" } }
      ]
    }
  )");
  EXPECT_TRUE(oldest.sequences->oldest);
  EXPECT_EQ(oldest.sequences->candidates, 4);
  EXPECT_EQ(oldest.sequences->preferred, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(oldest.sequences->controls[2].data_type, "TYPE_UINT64");
  ASSERT_EQ(oldest.sequences->states.size(), 1u);
  EXPECT_EQ(oldest.sequences->states[0].initial_dims, std::vector<int64_t>{1});
  EXPECT_EQ(read("sequence_batching { direct { minimum_slot_utilization: 0.5 max_queue_delay_microseconds: 9 } }")
                .sequences->minimum_utilization,
            0.5);
  for (const char* text :
       {"max_batch_size: 2 dynamic_batching { } sequence_batching { }", "sequence_batching { direct { } oldest { } }",
        "sequence_batching { control_input { name: \"a\" } }",
        "sequence_batching { control_input { name: \"a\" control { kind: CONTROL_SEQUENCE_START } } }",
        "sequence_batching { control_input { name: \"a\" control { kind: CONTROL_SEQUENCE_CORRID } } }",
        "sequence_batching { control_input { name: \"a\" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 "
        "} } }",
        "sequence_batching { control_input { name: \"a\" control { fp32_false_true: [ 0, 1 ] int32_false_true: 1 } } }",
        "sequence_batching { state { input_name: \"a\" } }", "response_cache { enable: true } sequence_batching { }",
        "sequence_batching { state { input_name: \"a\" output_name: \"b\" initial_state { } } }",
        "sequence_batching { direct { minimum_slot_utilization: 1.5 } }",
        "sequence_batching { state [ { input_name: \"a\" output_name: \"b\" }, { input_name: \"a\" output_name: \"c\" "
        "} ] }"})
    refusal(text);
}

TEST(Config, RaggedBatching) {
  const ModelConfig c = read(R"(
    max_batch_size: 16
    input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } ]
    output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } } ]
    batch_input [
      { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "INDEX" data_type: TYPE_FP32 source_input: "INPUT" }
    ]
    batch_output [ { target_name: [ "OUTPUT" ] kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: [ "INPUT" ] } ]
    dynamic_batching { }
  )");
  EXPECT_TRUE(c.inputs[0].ragged);
  ASSERT_EQ(c.batch_inputs.size(), 1u);
  EXPECT_EQ(c.batch_inputs[0].kind, BatchInputConfig::Kind::kSum);
  EXPECT_EQ(c.batch_outputs[0].source, "INPUT");
  ASSERT_TRUE(c.outputs[0].reshape);
  EXPECT_TRUE(c.outputs[0].reshape->empty());
  EXPECT_NE(refusal("input { name: \"x\" allow_ragged_batch: true }").find("max_batch_size"), std::string::npos);
  refusal("max_batch_size: 2 batch_input { kind: BATCH_ITEM_SHAPE target_name: \"a\" }");
  refusal("max_batch_size: 2 batch_output { target_name: \"a\" }");
  refusal("max_batch_size: 2 batch_input { kind: BATCH_NOTHING }");
}

TEST(Config, BrokenTextIsRefused) {
  for (const char* text : {"name",
                           "name:",
                           "name: \"a",
                           "input [",
                           "input [ {",
                           "input [ { name: \"a\" ",
                           "input { ",
                           "}",
                           "]",
                           "name: \"\\q\"",
                           "name \"x\"",
                           ": 3",
                           "input [ 1 2 ]",
                           "\x01",
                           "name: \"a\nb\"",
                           "max_batch_size: 4 max_batch_size: 4",
                           "max_batch_size: 010",
                           "max_batch_size: 0x8",
                           "dynamic_batching { } dynamic_batching { }",
                           "name: \"a\" name: \"a\"",
                           "input { name: \"a\" name: \"b\" dims: 1 }",
                           "parameters { key: \"a\" key: \"b\" value { string_value: \"c\" } }"})
    refusal(text);
  std::string deep;
  for (int k = 0; k < 1000; ++k) deep += "input {";
  EXPECT_NE(refusal(deep).find("deep"), std::string::npos);
  EXPECT_EQ(parse_model_config("\xef\xbb\xbfmax_batch_size: 0", "f")->max_batch_size, 0) << "a byte order mark";
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

// Each key that names a file, alone in a configuration that is sound in the model's folder.
TEST(Config, AClientNamesNoFiles) {
  const std::pair<const char*, const char*> kTexts[] = {
      {"default_model_filename", R"({"default_model_filename": "%s"})"},
      {"label_filename",
       R"({"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [4], "label_filename": "%s"}]})"},
      {"input_data_file", R"({"max_batch_size": 4, "model_warmup": [{"name": "w", "batch_size": 1, "inputs":
         {"x": {"data_type": "TYPE_FP32", "dims": [4], "input_data_file": "%s"}}}]})"},
      {"data_file", R"({"max_batch_size": 4, "sequence_batching": {"state": [{"input_name": "a", "output_name": "b",
         "data_type": "TYPE_FP32", "dims": [4], "initial_state": [{"name": "s", "data_type": "TYPE_FP32", "dims": [4],
         "data_file": "%s"}]}]}})"}};
  for (const auto& [key, text] : kTexts) {
    std::string named = text;
    named.replace(named.find("%s"), 2, "secret");
    EXPECT_TRUE(parse_model_config(named, "config.yaml").ok()) << key;
    const auto refused = parse_model_config(named, "config.yaml", ConfigFrom::kClient);
    ASSERT_FALSE(refused.ok()) << key;
    EXPECT_NE(refused.error().text().find("'" + std::string(key) + "' names a file"), std::string::npos)
        << refused.error().text();
  }
  // What a client got from the server it may send back.
  EXPECT_TRUE(parse_model_config(R"({"default_model_filename": ""})", "config.yaml", ConfigFrom::kClient).ok());
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
  EXPECT_EQ(c.instances(), 2);
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
      {"- a\n", "not a mapping"},
      {"name: a\n---\nname: b\n", "more than one"},
      {"name: !!python/object a\n", "tag"},
      {"a: b: c\n", "line 1"},
      {"{[a, b]: c}", "not a word"},
      {"input: [{name: x, optional: true}]", "'optional' asks for"},
      {"instance_group: {kind: KIND_NONE}", "KIND_NONE"},
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
