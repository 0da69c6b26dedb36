// Bodies of inference requests: every type by JSON and in binary, and each way to be wrong refused by a sentence that
// names the tensor.
#include "serve/kserve/infer_request.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "serve/kserve/datatype.hpp"
#include "serve/kserve/infer_reply.hpp"

namespace peri::serve {
namespace {

std::vector<plan::Port> ports_of(DType dtype) {
  plan::Port p;
  p.name = "x";
  p.dtype = dtype;
  p.shape = {Dim::symbol("n"), Dim(2)};
  return {p};
}

Result<InferRequest> parse(const std::string& text, const std::vector<plan::Port>& ports,
                           const std::string& binary = "", bool split = false) {
  const auto body = std::make_shared<std::string>(text + binary);
  return parse_infer(std::as_bytes(std::span(*body)), body, split ? std::optional<uint64_t>(text.size()) : std::nullopt,
                     ports, ports, {});
}

std::string refusal(const std::string& text, DType dtype = DType::kF32, const std::string& binary = "",
                    bool split = false) {
  const auto r = parse(text, ports_of(dtype), binary, split);
  EXPECT_FALSE(r.ok()) << text;
  return r.ok() ? "" : r.error().text();
}

std::string input(const std::string& rest, const std::string& type = "FP32", const std::string& shape = "[1,2]") {
  return R"({"inputs":[{"name":"x","datatype":")" + type + R"(","shape":)" + shape + "," + rest + "}]}";
}

TEST(InferRequest, ANumberBeyondUint64IsToldSo) {
  for (const char* number : {"18446744073709551616", "0.5", "-1.5"}) {
    const std::string said = refusal(input("\"data\":[1," + std::string(number) + "]", "UINT64"), DType::kU64);
    EXPECT_NE(said.find("an integer within uint64"), std::string::npos) << said;
  }
}

TEST(InferRequest, AModelWithoutInputsNeedsNoList) {
  for (const char* text : {"{}", R"({"inputs":[]})", R"({"inputs":null})", R"({"id":"a"})"}) {
    const auto r = parse(text, {});
    EXPECT_TRUE(r.ok()) << text << ": " << r.error().text();
    EXPECT_NE(refusal(text), "");
  }
  EXPECT_FALSE(parse(R"({"inputs":{}})", {}).ok());
  EXPECT_FALSE(parse("", {}).ok());
}

TEST(InferRequest, EveryTypeByJsonAndBack) {
  const std::pair<const char*, const char*> kCases[] = {{"BOOL", "[true,false]"},
                                                        {"UINT8", "[0,255]"},
                                                        {"UINT16", "[0,65535]"},
                                                        {"UINT32", "[0,4294967295]"},
                                                        {"UINT64", "[0,18446744073709551615]"},
                                                        {"INT8", "[-128,127]"},
                                                        {"INT16", "[-32768,32767]"},
                                                        {"INT32", "[-2147483648,2147483647]"},
                                                        {"INT64", "[-9223372036854775808,9223372036854775807]"},
                                                        {"FP16", "[0.5,-2.0]"},
                                                        {"BF16", "[0.5,-2.0]"},
                                                        {"FP32", "[0.25,-1e+30]"},
                                                        {"FP64", "[0.1,-1e+300]"},
                                                        {"FP16", "[\"NaN\",\"-Infinity\"]"},
                                                        {"BF16", "[\"-Infinity\",\"NaN\"]"},
                                                        {"FP32", "[\"NaN\",\"Infinity\"]"},
                                                        {"FP64", "[\"-Infinity\",\"NaN\"]"},
                                                        {"FP16", "[NaN,-Infinity]"},
                                                        {"BF16", "[-Inf,NaN]"},
                                                        {"FP32", "[NaN,Infinity]"},
                                                        {"FP64", "[-Infinity,Inf]"},
                                                        {"BYTES", "[\"a\",\"\"]"}};
  for (const auto& [type, data] : kCases) {
    const DType dtype = *parse_datatype(type);
    const auto ports = ports_of(dtype);
    auto r = parse(input("\"data\":" + std::string(data), type), ports);
    ASSERT_TRUE(r.ok()) << type << r.error().text();
    EXPECT_EQ(r->inputs[0].dtype(), dtype);
    const auto reply = infer_reply("m", "1", *r, ports, r->inputs);
    ASSERT_TRUE(reply.ok());
    const auto again = parse_json(reply->text, {.non_finite = true});
    ASSERT_TRUE(again.ok()) << reply->text;
    const Json& out = (*again->find("outputs")->as_array())->front();
    auto back = tensor_of_json(*out.find("data"), dtype, {1, 2}, {});
    ASSERT_TRUE(back.ok()) << reply->text;
    EXPECT_TRUE(back->same_content(r->inputs[0])) << type << reply->text;
  }
}

TEST(InferRequest, BinaryTensorsAreViews) {
  const float values[2] = {1.5f, -2.5f};
  const std::string raw(reinterpret_cast<const char*>(values), 8);
  const auto r = parse(input(R"("parameters":{"binary_data_size":8})"), ports_of(DType::kF32), raw, true);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_TRUE(std::ranges::equal(r->inputs[0].as<float>(), values));
  const auto s = parse(input(R"("parameters":{"binary_data_size":11})", "BYTES"), ports_of(DType::kString),
                       std::string("\x03\0\0\0abc\0\0\0\0", 11), true);
  ASSERT_TRUE(s.ok()) << s.error().text();
  EXPECT_EQ(s->inputs[0].string_values(), (std::vector<std::string>{"abc", ""}));
}

TEST(InferRequest, WrongSizesAreRefused) {
  EXPECT_NE(refusal(input("\"data\":[1]")).find("holds 1 element, "), std::string::npos);
  EXPECT_NE(refusal(input("\"data\":[1,2,3]")).find("holds 3 elements"), std::string::npos);
  EXPECT_NE(refusal(input("\"data\":[1,2]", "FP32", "[1,3]")).find("unexpected shape for input 'x'"),
            std::string::npos);
  EXPECT_NE(refusal(input("\"data\":[1,2]", "FP32", "[2]")).find("expected [-1,2], got [2]"), std::string::npos);
  EXPECT_NE(refusal(input("\"data\":[]", "FP32", "[-1,2]")).find("input 'x' has a negative size: [-1,2]"),
            std::string::npos);
  refusal(input("\"data\":[]", "FP32", "[9223372036854775807,2]"));
  const std::string eight(8, '\0');
  const auto binary = [](const char* n) {
    return input(std::string(R"("parameters":{"binary_data_size":)") + n + "}");
  };
  EXPECT_NE(refusal(binary("4"), DType::kF32, eight, true).find("takes 8 bytes"), std::string::npos);
  EXPECT_NE(refusal(binary("9"), DType::kF32, eight, true).find("the body has 8"), std::string::npos);
  EXPECT_NE(refusal(binary("8"), DType::kF32, eight + "x", true).find("behind the last"), std::string::npos);
  refusal(binary("-8"), DType::kF32, eight, true);
  refusal(binary("18446744073709551615"), DType::kF32, eight, true);
  for (const char* bytes : {"\xff\xff\xff\xff", "\x01\0\0", "\x05\0\0\0ab"})
    refusal(R"({"inputs":[{"name":"x","datatype":"BYTES","shape":[1,2],"parameters":{"binary_data_size":4}}]})",
            DType::kString, std::string(bytes, 4), true);
}

TEST(InferRequest, NumbersThatTheTypeLacks) {
  for (const auto& [type, dtype, value] :
       {std::tuple{"FP32", DType::kF32, "1e39"}, {"FP16", DType::kF16, "-65520"}, {"BF16", DType::kBF16, "3.4e38"}})
    EXPECT_NE(refusal(input("\"data\":[" + std::string(value) + ",1]", type), dtype)
                  .find("is out of the range of " + std::string(type)),
              std::string::npos)
        << type;
  const auto r = parse(input("\"data\":[3.4028235e38,-3.4028235e38]"), ports_of(DType::kF32));
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->inputs[0].as<float>()[0], std::numeric_limits<float>::max()) << "the shortest text of the largest";
}

TEST(InferRequest, AnIntegerBeyondItsTypeNamesTheRangeOfTheType) {
  for (const char* value : {"128", "-129", "3e9", "1.5", "9223372036854775808", "1e300"}) {
    const std::string said = refusal(input("\"data\":[" + std::string(value) + ",1]", "INT8"), DType::kI8);
    EXPECT_NE(said.find("expected a whole number from -128 to 127"), std::string::npos) << value << ": " << said;
  }
}

TEST(InferRequest, NumbersThatJsonLacks) {
  const auto r = parse(input("\"data\":[NaN,-Infinity]"), ports_of(DType::kF32));
  ASSERT_TRUE(r.ok()) << r.error().text();
  const auto reply = infer_reply("m", "1", *r, ports_of(DType::kF32), r->inputs);
  ASSERT_TRUE(reply.ok());
  EXPECT_NE(reply->text.find("\"data\":[NaN,-Infinity]"), std::string::npos) << reply->text;  // as Triton writes them
  for (const auto& [type, dtype] : {std::pair{"INT32", DType::kI32},
                                    {"UINT64", DType::kU64},
                                    {"BOOL", DType::kBool},
                                    {"BYTES", DType::kString},
                                    {"INT64", DType::kI64}})
    EXPECT_NE(refusal(input("\"data\":[NaN,1]", type), dtype).find("NaN and infinities are no " + std::string(type)),
              std::string::npos)
        << type;
  const std::string good = R"({"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2])";
  EXPECT_NE(
      refusal(R"({"parameters":{"mine":Infinity},"inputs":[)" + good + "}]}").find("'mine' is not a finite number"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"inputs":[)" + good + R"(,"parameters":{"own":NaN}}]})").find("'own'"), std::string::npos);
  refusal(R"({"parameters":{"timeout":Infinity},"inputs":[)" + good + "}]}");
  refusal(R"({"id":NaN,"inputs":[)" + good + "}]}");
  refusal(input("\"data\":[1,2]", "FP32", "[1,NaN]"));
}

TEST(InferRequest, ABodyThatIsOneTensor) {
  const auto raw = [](std::vector<plan::Port> ports, const std::string& bytes) {
    const auto body = std::make_shared<std::string>(bytes);
    return parse_infer(std::as_bytes(std::span(*body)), body, 0, ports, ports, {});
  };
  const std::vector<float> values = {1, 2, 3, 4};
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 16);
  auto ports = ports_of(DType::kF32);  // [n,2]
  auto r = raw(ports, bytes);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->inputs[0].dims()[0], 2);
  EXPECT_TRUE(r->inputs[0].same_content(Tensor::of_f32({2, 2}, values)));
  ASSERT_EQ(r->outputs.size(), 1u);
  EXPECT_TRUE(r->outputs[0].binary);
  EXPECT_FALSE(raw(ports, bytes + "x").ok());
  EXPECT_FALSE(raw(ports, bytes.substr(4)).ok());
  ports[0].shape = {Dim::symbol("n"), Dim::symbol("k"), Dim(2)};
  r = raw(ports, bytes);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->inputs[0].dims()[0], 1) << "the batch";
  EXPECT_EQ(r->inputs[0].dims()[1], 2);
  ports[0].shape = {Dim(2), Dim::symbol("n"), Dim::symbol("k")};
  EXPECT_FALSE(raw(ports, bytes).ok()) << "two dims are open";
  ports[0].shape = {Dim(4)};
  EXPECT_TRUE(raw(ports, bytes).ok());
  EXPECT_FALSE(raw(ports, bytes + bytes).ok());
  ports[0].shape = {Dim::symbol("n"), Dim(0)};
  EXPECT_FALSE(raw(ports, bytes).ok());
  auto text = ports_of(DType::kString);
  EXPECT_FALSE(raw(text, "abc").ok()) << "[1,2] has two elements";
  text[0].shape = {Dim::symbol("n"), Dim(1)};
  r = raw(text, "abc");
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->inputs[0].string_values(), (std::vector<std::string>{"abc"}));
  EXPECT_FALSE(raw({ports[0], ports[0]}, bytes).ok()) << "two inputs";
}

TEST(InferRequest, BoundsAreTheServers) {
  InferLimits limits;
  limits.element_bytes = 3;
  limits.sequence_id_bytes = 2;
  limits.json_values = 20;
  const auto said = [&](const std::string& text, DType dtype, const std::string& binary = "") {
    const auto body = std::make_shared<std::string>(text + binary);
    const auto split = binary.empty() ? std::nullopt : std::optional<uint64_t>(text.size());
    const auto ports = ports_of(dtype);
    const auto r = parse_infer(std::as_bytes(std::span(*body)), body, split, ports, ports, limits);
    return r.ok() ? "" : r.error().text();
  };
  EXPECT_EQ(said(input(R"("data":["abc",""])", "BYTES"), DType::kString), "");
  const std::string too_long = "'x': an element of BYTES has 4 bytes: this server takes 3 (--max-element-bytes)";
  EXPECT_EQ(said(input(R"("data":["abcd",""])", "BYTES"), DType::kString), too_long);
  const std::string binary("\x04\0\0\0abcd\0\0\0\0", 12);
  EXPECT_EQ(said(input(R"("parameters":{"binary_data_size":12})", "BYTES"), DType::kString, binary), too_long);
  const std::string good = R"(,"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]})";
  EXPECT_EQ(said(R"({"parameters":{"sequence_id":"ab"})" + good, DType::kF32), "");
  EXPECT_NE(said(R"({"parameters":{"sequence_id":"abc"})" + good, DType::kF32).find("--max-sequence-id-bytes"),
            std::string::npos);
  EXPECT_NE(said(input("\"data\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14]"), DType::kF32).find("(--max-json-values)"),
            std::string::npos);
  limits.json_depth = 6;
  EXPECT_NE(said(input("\"data\":[[[[1,2]]]]"), DType::kF32).find("(--max-json-depth)"), std::string::npos);
}

TEST(InferRequest, WrongRequestsAreRefused) {
  EXPECT_NE(refusal("{}").find("inputs"), std::string::npos);
  refusal("[]");
  refusal("");
  refusal("nonsense");
  refusal(R"({"inputs":[]})");
  EXPECT_NE(refusal(R"({"inputs":[{"name":"z"}]})").find("'z'"), std::string::npos);
  EXPECT_NE(refusal(input("\"data\":[1,2]", "INT32")).find("FP32"), std::string::npos);
  refusal(input("\"data\":[1,2]", "FP31"));
  refusal(input("\"data\":[1,\"2\"]"));
  refusal(input("\"data\":3"));
  refusal(input("\"unknown\":3"));
  refusal(input("\"data\":[1,2],\"parameters\":{\"binary_data_size\":8}"));
  refusal(input("\"data\":[128,0]", "INT8"), DType::kI8);
  refusal(input("\"data\":[-1,0]", "UINT8"), DType::kU8);
  refusal(input("\"data\":[-1,0]", "UINT64"), DType::kU64);
  refusal(input("\"data\":[2,0]", "BOOL"), DType::kBool);
  refusal(input("\"data\":[1.5,0]", "INT32"), DType::kI32);
  const std::string good = R"({"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]})";
  EXPECT_NE(refusal(R"({"inputs":[)" + good + "," + good + "]}").find("twice"), std::string::npos);
  EXPECT_NE(refusal(R"({"inputs":[)" + good + R"(],"outputs":[{"name":"q"}]})").find("'q'"), std::string::npos);
  EXPECT_NE(refusal(R"({"inputs":[)" + good + R"(],"outputs":[{"name":"x"},{"name":"x"}]})").find("twice"),
            std::string::npos);
  const auto of_id = [&](const std::string& id) {
    return refusal(R"({"inputs":[)" + good + R"(],"parameters":{"sequence_id":)" + id + "}}");
  };
  for (const char* id : {"[1]", "{}"}) EXPECT_NE(of_id(id).find("sequence_id"), std::string::npos);
  for (const auto& [id, found] :
       {std::pair{"true", "boolean"}, {"1.5", "1.5"}, {"-1", "-1"}, {"18446744073709551616", "1.8446744073709552e+19"}})
    EXPECT_NE(of_id(id).find(std::string("'sequence_id' is of another kind, or out of range: expected a whole number "
                                         "from 0 to 18446744073709551615, or a text, found ") +
                             found),
              std::string::npos)
        << of_id(id);
  EXPECT_NE(refusal(R"({"inputs":[)" + good + R"(],"parameters":{"sequence_id":")" + std::string(129, 'a') + "\"}}")
                .find("has 129 bytes: this server takes 128 (--max-sequence-id-bytes)"),
            std::string::npos);
  refusal(R"({"inputs":[)" + good + R"(],"parameters":{"sequence_id":3,"sequence_start":1}})");
  EXPECT_NE(refusal(input("\"parameters\":{\"shared_memory_region\":\"a\"}")).find("shared memory"), std::string::npos);
  refusal(R"({"inputs":[)" + good + R"(],"parameters":{"timeout":-1}})");
  std::string deep;
  for (int k = 0; k < 100000; ++k) deep += "[";
  refusal(input("\"data\":" + deep));
  EXPECT_FALSE(
      parse_infer(std::as_bytes(std::span("abc", 3)), nullptr, 4, ports_of(DType::kF32), ports_of(DType::kF32), {})
          .ok());
}

}  // namespace
}  // namespace peri::serve
