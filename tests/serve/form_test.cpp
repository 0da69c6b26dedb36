// Forms: other dims, ragged rows, tensors that the server makes; what a graph does not allow is refused by name.
#include "serve/queue/form.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "serve/queue/rows.hpp"

namespace peri::serve {
namespace {

plan::Port port(const std::string& name, const std::string& shape, DType dtype = DType::kF32) {
  plan::Port p;
  p.name = name;
  p.dtype = dtype;
  p.shape = *parse_shape(shape);
  return p;
}

using Ports = std::vector<plan::Port>;

std::shared_ptr<const Form> form_of(const std::string& config, const Ports& in, const Ports& out,
                                    const std::string& folder = "") {
  const auto parsed = parse_model_config(config, "config.pbtxt");
  EXPECT_TRUE(parsed.ok()) << parsed.error().text();
  auto form = Form::make(*parsed, in, out, folder);
  EXPECT_TRUE(form.ok()) << form.error().text();
  return form.ok() ? *form : nullptr;
}

std::string refusal(const std::string& config, const Ports& in, const Ports& out) {
  const auto parsed = parse_model_config(config, "config.pbtxt");
  if (!parsed.ok()) return "config: " + parsed.error().text();
  const auto form = Form::make(*parsed, in, out, "");
  EXPECT_FALSE(form.ok()) << config;
  return form.ok() ? "" : form.error().text();
}

Tensor floats(std::vector<int64_t> dims, const std::vector<float>& v) { return Tensor::of_f32(std::move(dims), v); }

TEST(Rows, OfABatchOfNoneAreNone) {
  const std::vector<Tensor> whole = {Tensor::zeros(DType::kF32, {0, 4}).value(),
                                     Tensor::zeros(DType::kI64, {0}).value()};
  const auto part = take_rows(whole, 0, 0, 0);
  ASSERT_TRUE(part.ok()) << part.error().text();
  EXPECT_EQ((*part)[0].dims(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ((*part)[1].dims(), (std::vector<int64_t>{0}));
}

TEST(Form, AModelAsItIsHasNone) {
  EXPECT_EQ(form_of("max_batch_size: 4 input { name: \"x\" dims: 3 }", {port("x", "[n,3]")}, {port("y", "[n,3]")}),
            nullptr);
}

TEST(Form, ReshapeGivesClientsOtherDims) {
  const auto form = form_of(R"(max_batch_size: 4
      input [ { name: "x" data_type: TYPE_FP32 dims: [ ] reshape: { shape: [ 1 ] } } ]
      output [ { name: "y" dims: [ 2, -1, 3 ] reshape { shape: [ 2, -1, 3, 1 ] } } ])",
                            {port("x", "[n,1]")}, {port("y", "[n,2,k,3,1]")});
  ASSERT_TRUE(form);
  EXPECT_EQ(shape_text(form->inputs()[0].shape), "[batch]");
  EXPECT_EQ(form->outputs()[0].shape.size(), 4u);
  const auto rows = form->rows_of({floats({2}, {5, 6})}, nullptr, {});
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ((*rows)[0].dims(), (std::vector<int64_t>{2, 1}));
  const std::vector<Tensor> whole = {*Tensor::zeros(DType::kF32, {2, 2, 7, 3, 1})};
  const std::vector<const std::vector<Tensor>*> requests = {&*rows};
  const std::vector<int64_t> n = {2};
  const auto parts = form->take(whole, requests, n);
  ASSERT_TRUE(parts.ok()) << parts.error().text();
  EXPECT_EQ((*parts)[0].outputs[0].dims(), (std::vector<int64_t>{2, 2, 7, 3}));
  EXPECT_NE(refusal("max_batch_size: 4 input { name: \"x\" dims: 6 reshape { shape: [ 2, 2 ] } }",
                    {port("x", "[n,2,2]")}, {port("y", "[n]")})
                .find("other elements"),
            std::string::npos);
  EXPECT_NE(
      refusal("input { name: \"x\" dims: 6 reshape { shape: [ 2, 3 ] } }", {port("x", "[3,2]")}, {}).find("[3,2]"),
      std::string::npos);
}

constexpr const char* kRagged = R"(max_batch_size: 16
  input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } ]
  output [ { name: "SUM" dims: [ 1 ] } ]
  dynamic_batching { })";

TEST(Form, RaggedRowsLieEndToEnd) {
  const auto batch_input = [](const char* kind, const char* target, const char* type) {
    return std::string("batch_input [ { kind: ") + kind + " target_name: \"" + target + "\" data_type: " + type +
           " source_input: \"INPUT\" } ]\n";
  };
  const auto form = form_of(
      std::string(kRagged) + batch_input("BATCH_ELEMENT_COUNT", "COUNT", "TYPE_INT32") +
          batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT", "ACC", "TYPE_FP32") +
          batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "ZERO", "TYPE_INT64") +
          batch_input("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "MAX", "TYPE_FP32") +
          batch_input("BATCH_ITEM_SHAPE", "ITEM", "TYPE_INT32") +
          batch_input("BATCH_ITEM_SHAPE_FLATTEN", "FLAT", "TYPE_INT32") +
          "batch_output [ { target_name: \"SAME\" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: \"INPUT\" } ]",
      {port("INPUT", "[total]"), port("COUNT", "[n]", DType::kI32), port("ACC", "[n]"),
       port("ZERO", "[m]", DType::kI64), port("MAX", "[most]"), port("ITEM", "[n,1]", DType::kI32),
       port("FLAT", "[k]", DType::kI32)},
      {port("SUM", "[n,1]"), port("SAME", "[total]")});
  ASSERT_TRUE(form);
  ASSERT_EQ(form->inputs().size(), 1u);
  EXPECT_EQ(form->inputs()[0].shape.size(), 2u);
  const auto a = form->rows_of({floats({1, 3}, {1, 2, 3})}, nullptr, {});
  const auto b = form->rows_of({floats({1, 2}, {4, 5})}, nullptr, {});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(form->key(*a), form->key(*b)) << "lengths do not part them";
  const std::vector<const std::vector<Tensor>*> requests = {&*a, &*b};
  const auto joined = form->join(requests);
  ASSERT_TRUE(joined.ok()) << joined.error().text();
  const auto values = [&](size_t k) {
    std::vector<double> out;
    for (int64_t i = 0; i < (*joined)[k].numel(); ++i) out.push_back((*joined)[k].f64(i));
    return out;
  };
  EXPECT_EQ(values(0), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(values(1), (std::vector<double>{3, 2}));
  EXPECT_EQ(values(2), (std::vector<double>{3, 5}));
  EXPECT_EQ(values(3), (std::vector<double>{0, 3, 5}));
  EXPECT_EQ((*joined)[4].dims(), std::vector<int64_t>{3});
  EXPECT_EQ((*joined)[5].dims(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(values(5), (std::vector<double>{3, 2}));
  EXPECT_EQ(values(6), (std::vector<double>{3, 2}));
  const std::vector<Tensor> whole = {floats({2, 1}, {6, 9}), floats({5}, {1, 2, 3, 4, 5})};
  const std::vector<int64_t> rows = {1, 1};
  const auto parts = form->take(whole, requests, rows);
  ASSERT_TRUE(parts.ok()) << parts.error().text();
  EXPECT_EQ((*parts)[1].outputs[0].f64(0), 9);
  EXPECT_EQ((*parts)[1].outputs[1].dims(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*parts)[1].outputs[1].f64(0), 4);
  EXPECT_FALSE(form->rows_of({floats({2, 1}, {1, 2})}, nullptr, {}).ok()) << "one count for two rows";
  const std::vector<Tensor> short_one = {floats({2, 1}, {6, 9}), floats({4}, {1, 2, 3, 4})};
  EXPECT_FALSE(form->take(short_one, requests, rows).ok());
}

TEST(Form, AGraphThatHasNoRaggedRowsIsRefused) {
  const std::string why = refusal(kRagged, {port("INPUT", "[n,k]")}, {port("SUM", "[n,1]")});
  EXPECT_NE(why.find("'INPUT' of the model is [n,k]"), std::string::npos) << why;
  EXPECT_NE(why.find("take allow_ragged_batch out"), std::string::npos) << why;
  EXPECT_NE(refusal(kRagged, {port("INPUT", "[n]")}, {port("SUM", "[1]")}).find("'SUM'"), std::string::npos);
  const std::string more =
      std::string(kRagged) +
      "batch_input { kind: BATCH_ITEM_SHAPE target_name: \"T\" data_type: TYPE_INT32 source_input: \"INPUT\" }";
  EXPECT_NE(refusal(more, {port("INPUT", "[n]")}, {port("SUM", "[n]")}).find("'T'"), std::string::npos);
  EXPECT_NE(refusal(more, {port("INPUT", "[n]"), port("T", "[n]", DType::kI32)}, {port("SUM", "[n]")}).find("rank"),
            std::string::npos);
  EXPECT_NE(refusal(more, {port("INPUT", "[n]"), port("T", "[n,1]")}, {port("SUM", "[n]")}).find("TYPE_FP32"),
            std::string::npos);
}

constexpr const char* kSequence = R"(max_batch_size: 4
  sequence_batching {
    control_input [
      { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
      { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 5, 7 ] } ] },
      { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } ] },
      { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT32 } ] }
    ]
    state [ { input_name: "IN" output_name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
  })";

Ports sequence_inputs() {
  return {port("x", "[n,2]"),
          port("START", "[n,1]"),
          port("END", "[n,1]", DType::kI32),
          port("READY", "[n]", DType::kBool),
          port("ID", "[n,1]", DType::kU32),
          port("IN", "[n,k]")};
}

TEST(Form, ControlsAndStatesAreTheServers) {
  const auto form = form_of(kSequence, sequence_inputs(), {port("OUT", "[n,k]"), port("y", "[n,2]")});
  ASSERT_TRUE(form);
  ASSERT_EQ(form->inputs().size(), 1u);
  ASSERT_EQ(form->outputs().size(), 1u);
  EXPECT_EQ(form->outputs()[0].name, "y");
  const SequenceStep first{{"", 70000}, true, false}, last{{"", 9}, false, true};
  const auto a = form->rows_of({floats({1, 2}, {1, 2})}, &first, {});
  ASSERT_TRUE(a.ok()) << a.error().text();
  EXPECT_EQ((*a)[1].f64(0), 1);
  EXPECT_EQ((*a)[2].i64(0), 5);
  EXPECT_EQ((*a)[3].i64(0), 1);
  EXPECT_EQ((*a)[3].rank(), 1);
  EXPECT_EQ((*a)[4].i64(0), 70000);
  EXPECT_EQ((*a)[5].dims(), (std::vector<int64_t>{1, 1})) << "zeros, a free dim as 1";
  const std::vector<Tensor> kept = {floats({1, 1}, {3})};
  const auto b = form->rows_of({floats({1, 2}, {3, 4})}, &last, kept);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ((*b)[2].i64(0), 7);
  EXPECT_EQ((*b)[5].f64(0), 3);
  const std::vector<const std::vector<Tensor>*> requests = {&*a, &*b};
  const auto joined = form->join(requests);
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ((*joined)[5].dims(), (std::vector<int64_t>{2, 1}));
  const std::vector<Tensor> whole = {floats({2, 1}, {10, 11}), floats({2, 2}, {1, 2, 3, 4})};
  const std::vector<int64_t> rows = {1, 1};
  const auto parts = form->take(whole, requests, rows);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ((*parts)[1].states[0].f64(0), 11);
  EXPECT_EQ((*parts)[1].outputs.size(), 1u);
  const SequenceStep text{{"a", 0}, true, false}, large{{"", uint64_t{1} << 32}, true, false};
  EXPECT_FALSE(form->rows_of({floats({1, 2}, {1, 2})}, &text, {}).ok());
  EXPECT_FALSE(form->rows_of({floats({1, 2}, {1, 2})}, &large, {}).ok());
}

TEST(Form, SequencesThatTheModelLacksAreRefused) {
  Ports in = sequence_inputs();
  const Ports out = {port("OUT", "[n,k]")};
  in[1] = port("START", "[n,3]");
  EXPECT_NE(refusal(kSequence, in, out).find("'START' must be one element"), std::string::npos);
  in[1] = port("START", "[n,1]", DType::kI32);
  EXPECT_NE(refusal(kSequence, in, out).find("TYPE_INT32"), std::string::npos);
  in = sequence_inputs();
  EXPECT_NE(refusal(kSequence, in, {port("y", "[n]")}).find("'OUT' is none"), std::string::npos);
  in[5] = port("IN", "[n,2,2]");
  EXPECT_NE(refusal(kSequence, in, out).find("'IN' has other dims"), std::string::npos);
  in.pop_back();
  EXPECT_NE(refusal(kSequence, in, out).find("'IN' is none"), std::string::npos);
}

TEST(Form, AStateMayBeginWithAFile) {
  const std::string folder = testing::TempDir() + "form_state_" + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/initial_state");
  const float values[] = {1.5f, -2};
  ASSERT_TRUE(write_file_atomic(folder + "/initial_state/zero",
                                std::string(reinterpret_cast<const char*>(values), sizeof values))
                  .ok());
  const auto config = [](const std::string& file) {
    return "sequence_batching { state { input_name: \"h\" output_name: \"g\" dims: [ 2 ] initial_state { data_file: "
           "\"" +
           file + "\" dims: 2 } } } output { name: \"g\" }";
  };
  const auto form = form_of(config("zero"), {port("h", "[2]")}, {port("g", "[2]")}, folder);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->outputs().size(), 1u) << "a state that is named as an output is answered too";
  const SequenceStep first{{"", 1}, true, false};
  EXPECT_EQ((*form->rows_of({}, &first, {}))[0].f64(0), 1.5);
  EXPECT_NE(refusal(config("../zero"), {port("h", "[2]")}, {port("g", "[2]")}).find("plain file name"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}
}  // namespace
}  // namespace peri::serve
