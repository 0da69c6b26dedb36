// Inputs of a load's requests from files, and answers that are wanted.
#include "serve/load/data.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.hpp"
#include "serve/load/values.hpp"
#include "serve/load/wanted.hpp"
#include "tests/places.hpp"

namespace peri::serve {
namespace {

TEST(LoadData, ValuesOfAFile) {
  constexpr const char* kTwo =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]},{"name":"t","datatype":"BYTES","shape":[-1,1]}],)"
      R"("outputs":[{"name":"y","datatype":"INT32","shape":[-1]},{"name":"z","datatype":"FP32","shape":[-1]}]})";
  LoadSubject s;
  s.data_path = std::string(tests::kBuildDir) + "/data-test.json";
  const auto made = [&](const std::string& text) {
    EXPECT_TRUE(write_file_atomic(s.data_path, text).ok());
    return requests_of(s, kTwo);
  };
  const std::string three = R"({"data":[{"x":[1,2],"t":["a"]},{"x":{"content":[[3],[4]]},"t":{"b64":"Ymg="}},)"
                            R"({"x":{"b64":"AACgQAAAwEA=","shape":[2]},"t":{"content":["c"],"shape":[1,1]}}]})";
  const auto all = made(three);
  ASSERT_TRUE(all.ok()) << all.error().text();
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[1].inputs[1].bytes, std::string("\2\0\0\0bh", 6));
  const std::vector<float> last = {5, 6};
  EXPECT_EQ((*all)[2].inputs[0].bytes, std::string(reinterpret_cast<const char*>(last.data()), 8));
  EXPECT_EQ((*all)[2].inputs[0].dims, (std::vector<int64_t>{1, 2}));
  const auto odd = made(R"({"data":[{"x":["NaN","-Infinity"],"t":["NaN"]}]})");  // as a server takes them
  ASSERT_TRUE(odd.ok()) << odd.error().text();
  EXPECT_EQ((*odd)[0].inputs[0].bytes, std::string("\0\0\xc0\x7f\0\0\x80\xff", 8));
  ASSERT_TRUE(made(three).ok());
  s.batch = 2;  // each item as often as any other: 1 2, 3 1, 2 3
  const auto pairs = made(three);
  ASSERT_TRUE(pairs.ok()) << pairs.error().text();
  ASSERT_EQ(pairs->size(), 3u);
  EXPECT_EQ((*pairs)[0].inputs[0].dims, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ((*pairs)[1].inputs[0].bytes, (*all)[2].inputs[0].bytes + (*all)[0].inputs[0].bytes);
  s.batch = 1;
  for (const auto& [wrong, words] :
       {std::pair{R"({"data":[]})", "empty"},
        {R"({"data":[{"x":[1,2]}]})", "'t' is not given"},
        {R"({"data":[{"x":[1,2,3],"t":["a"]}]})", "expected 2 for [1,2]"},
        {R"({"data":[{"x":["a",2],"t":["a"]}]})", "item 0 of 'data'"},
        {R"({"data":[{"x":{"b64":"AA"},"t":["a"]}]})", "other bytes"},
        {R"({"data":[{"x":{"b64":"?"},"t":["a"]}]})", "not base64"},
        {R"({"data":[{"x":{"shape":[3],"content":[1,2,3]},"t":["a"]}]})", "another size"},
        {R"({"data":[{"x":[1,2],"t":["a"],"z":[1]}]})", "'z' is not an input"},
        {R"({"data":[[{"x":[1,2],"t":["a"]},{"x":[1],"t":["a"]}]]})", "step 1 of item 0 of 'data'"},
        {R"({"data":[[[]]]})", "step 0 of item 0 of 'data'"},
        {R"({"data":[{"x":[1,2],"t":["a"]}],"validation_data":[]})", "'validation_data' is empty"},
        {R"({"data":[{"x":[1,2],"t":["a"]}],"validation_data":[{},{}]})", "an item for each"},
        {R"({"data":[{"x":[1,2],"t":["a"]}],"validation_data":[{"q":[1]}]})",
         "'q' is not an output of the model: expected y, z"},
        {R"({"data":[{"x":[1,2],"t":["a"]}],"validation_data":[{"y":[0.5]}]})", "item 0 of 'validation_data'"}}) {
    const auto bad = made(wrong);
    ASSERT_FALSE(bad.ok()) << wrong;
    EXPECT_NE(bad.error().text().find(words), std::string::npos) << bad.error().text();
  }
}

TEST(LoadData, StepsOfSequencesAreRequestsInTheirOrder) {
  LoadSubject s;
  s.data_path = std::string(tests::kBuildDir) + "/sequences-test.json";
  ASSERT_TRUE(write_file_atomic(s.data_path, R"({"data":[[{"x":[1]},{"x":[2]}],[{"x":[3]}],{"x":[4]}],)"
                                             R"("validation_data":[[{"y":[1]},{}],[{"y":[3]}],{"y":[4]}]})")
                  .ok());
  const auto all = requests_of(s, R"({"inputs":[{"name":"x","datatype":"UINT8","shape":[1]}],)"
                                  R"("outputs":[{"name":"y","datatype":"UINT8","shape":[1]}]})");
  ASSERT_TRUE(all.ok()) << all.error().text();
  std::string given, wanted;
  for (const LoadRequest& r : *all) {
    given += r.inputs[0].bytes;
    wanted += r.wanted.empty() ? "-" : r.wanted[0].bytes;
  }
  const auto first = [](const std::vector<LoadRequest>& list) {
    std::string out;
    for (const LoadRequest& r : list) out += r.first ? "<" : "-";
    return out;
  };
  EXPECT_EQ(first(*all), "<-<<");
  EXPECT_EQ(given, "\1\2\3\4");
  EXPECT_EQ(wanted, "\1-\3\4");
  EXPECT_TRUE(facts_of(*all).checked);
  EXPECT_TRUE(facts_of(*all).steps);
  ASSERT_TRUE(write_file_atomic(s.data_path, R"({"data":[{"x":[1]},{"x":[2]},{"x":[3]}]})").ok());
  s.batch = 2;  // each row of a request in a sequence is of its step
  for (const bool in_sequences : {false, true}) {
    s.in_sequences = in_sequences;
    const auto flat = requests_of(s, R"({"inputs":[{"name":"x","datatype":"UINT8","shape":[-1]}]})");
    ASSERT_TRUE(flat.ok()) << flat.error().text();
    given.clear();
    for (const LoadRequest& r : *flat) given += r.inputs[0].bytes;
    EXPECT_EQ(given, in_sequences ? "\1\1\2\2\3\3" : "\1\2\3\1\2\3");
    if (in_sequences) EXPECT_EQ(first(*flat), "<--");
  }
}

TEST(LoadData, AFolderHasAFileForEachInput) {
  constexpr const char* kTwo =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]},{"name":"t","datatype":"BYTES","shape":[-1,3]}]})";
  LoadSubject s;
  s.data_path = std::string(tests::kBuildDir) + "/data-folder";
  std::filesystem::create_directories(s.data_path);
  const std::string values("\0\0\x80?\0\0\0@", 8);
  ASSERT_TRUE(write_file_atomic(s.data_path + "/x", values).ok());
  ASSERT_TRUE(write_file_atomic(s.data_path + "/t", "a b\n\nc\n").ok());
  const auto one = requests_of(s, kTwo);
  ASSERT_TRUE(one.ok()) << one.error().text();
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ((*one)[0].inputs[0].bytes, values);
  EXPECT_EQ((*one)[0].inputs[1].bytes, std::string("\3\0\0\0a b\0\0\0\0\1\0\0\0c", 16));
  s.batch = 3;
  const auto three = requests_of(s, kTwo);
  ASSERT_TRUE(three.ok()) << three.error().text();
  EXPECT_EQ((*three)[0].inputs[0].bytes, values + values + values);
  s.batch = 1;
  for (const auto& [json, words] :
       {std::pair{R"({"inputs":[{"name":"x","datatype":"FP64","shape":[2]}]})", "expected 16 for FP64[2], found 8"},
        {R"({"inputs":[{"name":"t","datatype":"BYTES","shape":[2]}]})", "other lines"},
        {R"({"inputs":[{"name":"none","datatype":"FP32","shape":[2]}]})", "none"},
        {R"({"inputs":[{"name":"../data-folder/x","datatype":"FP32","shape":[2]}]})", "no file has the name"},
        {R"({"inputs":[{"name":"..","datatype":"FP32","shape":[2]}]})", "no file has the name"}}) {
    const auto bad = requests_of(s, json);
    ASSERT_FALSE(bad.ok()) << json;
    EXPECT_NE(bad.error().text().find(words), std::string::npos) << bad.error().text();
  }
}

template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T v : values) put(v, &out);
  return out;
}

TEST(Wanted, DiffersByMoreThanRounding) {
  const auto differ = [](const char* type, const std::string& want, const std::string& got) {
    const LoadTensor wanted{"y", type, {}, want};
    const AnswerTensor found{"y", type, got};
    return differs({&wanted, 1}, {&found, 1});
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(differ("FP32", bytes_of_values({1.f, 0.f, nan, inf}), bytes_of_values({1.0009f, 9e-6f, nan, inf})), "");
  for (const auto& [want, got] :
       {std::pair{1.f, 1.0011f}, {0.f, 2e-5f}, {nan, 0.f}, {0.f, nan}, {inf, -inf}, {1.f, inf}})
    EXPECT_NE(differ("FP32", bytes_of_values({want}), bytes_of_values({got})), "") << want << " " << got;
  EXPECT_EQ(differ("FP16", bytes_of_values<uint16_t>({0x3c00}), bytes_of_values<uint16_t>({0x3c01})), "");
  EXPECT_NE(differ("FP16", bytes_of_values<uint16_t>({0x3c00}), bytes_of_values<uint16_t>({0x3c03})), "");
  EXPECT_EQ(differ("INT64", bytes_of_values<int64_t>({7, -8}), bytes_of_values<int64_t>({7, -9})),
            "output 'y': element 1: expected -8, found -9");
  EXPECT_EQ(differ("INT64", bytes_of_values<int64_t>({7, -8}), bytes_of_values<int64_t>({7})),
            "output 'y': expected 2 elements, found 1");
  EXPECT_EQ(differ("BOOL", "\1", "\1"), "");
  EXPECT_EQ(differ("BYTES", std::string("\1\0\0\0a", 5), std::string("\1\0\0\0b", 5)),
            "output 'y': element 0: expected 'a', found 'b'");
  EXPECT_NE(differ("BYTES", std::string("\1\0\0\0a", 5), std::string("\x09\0\0\0a", 5)), "");
  const LoadTensor y{"y", "FP32", {}, "1234"};
  const AnswerTensor other_type{"y", "INT32", "1234"}, other{"z", "FP32", "1234"};
  EXPECT_EQ(differs({&y, 1}, {&other_type, 1}), "output 'y': expected FP32, found INT32");
  EXPECT_EQ(differs({&y, 1}, {&other, 1}), "output 'y': it is not in the answer");
}

TEST(Wanted, AnswersOfHttpInJsonAndBinary) {
  const std::vector<LoadTensor> wanted = {{"y", "INT32", {}, bytes_of_values<int32_t>({5, 6})},
                                          {"z", "FP32", {}, bytes_of_values({0.5f})}};
  EXPECT_EQ(http_differs(wanted,
                         R"({"outputs":[{"name":"z","datatype":"FP32","shape":[1],"data":[0.5]},)"
                         R"({"name":"y","datatype":"INT32","shape":[2],"data":[5,6]}]})",
                         0),
            "");
  const std::string head = R"({"outputs":[{"name":"z","datatype":"FP32","parameters":{"binary_data_size":4}},)"
                           R"({"name":"y","datatype":"INT32","parameters":{"binary_data_size":8}}]})";
  const std::string right = head + bytes_of_values({0.5f}) + bytes_of_values<int32_t>({5, 6});
  EXPECT_EQ(http_differs(wanted, right, head.size()), "");
  EXPECT_NE(http_differs(wanted, right.substr(0, right.size() - 1), head.size()).find("fewer bytes"),
            std::string::npos);
  EXPECT_NE(http_differs(wanted, right, right.size() + 1), "");
  EXPECT_NE(http_differs(wanted, "{}", 0).find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace peri::serve
