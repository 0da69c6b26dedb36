// JSON: what is read and written, what is refused and where, and that limits hold.
#include "base/json.hpp"
#include "base/fault.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace peri {
namespace {

std::string error_of(std::string_view text, JsonLimits limits = {}) {
  Result<Json> r = parse_json(text, limits);
  return r.ok() ? "ok" : r.error().text();
}

TEST(Json, ReadsEveryKindInOrder) {
  Result<Json> r = parse_json(R"( {"z":null,"a":[true,-5,18446744073709551615,1.5,"h\u00e9\n"],"m":{}} )");
  ASSERT_TRUE(r.ok()) << r.error().text();
  const Json& v = *r;
  ASSERT_EQ(v.members().size(), 3u);
  EXPECT_EQ(v.members()[0].key, "z");
  EXPECT_EQ(v.members()[1].key, "a");
  const Json::Array& a = v.find("a")->items();
  ASSERT_EQ(a.size(), 5u);
  EXPECT_EQ(a[0].as_bool().value(), true);
  EXPECT_EQ(a[1].as_int().value(), -5);
  EXPECT_EQ(a[2].kind(), Json::Kind::kUint);
  EXPECT_EQ(a[2].as_uint().value(), UINT64_MAX);
  EXPECT_FALSE(a[2].as_int().ok());
  for (const char* beyond : {"-9223372036854775809", "-1e300", "9223372036854775808", "18446744073709551616"}) {
    EXPECT_FALSE(parse_json(beyond)->as_int().ok()) << beyond;
    EXPECT_EQ(parse_json(beyond)->as_double().value(), std::stod(beyond));
  }
  EXPECT_EQ(parse_json("-9223372036854775808")->as_int().value(), INT64_MIN);
  EXPECT_TRUE(std::signbit(parse_json("-0.0")->as_double().value()));
  EXPECT_EQ(a[3].as_double().value(), 1.5);
  EXPECT_FALSE(a[3].as_int().ok());
  EXPECT_EQ(a[4].as_string().value(), "h\xC3\xA9\n");
  EXPECT_TRUE(v.find("m")->is_object());
  EXPECT_EQ(v.find("nope"), nullptr);
}

TEST(Json, GettersNameTheKey) {
  Json v = parse_json(R"({"n":3,"s":"x","b":true,"o":null,"big":1e300})").value();
  EXPECT_EQ(v.get_int("n").value(), 3);
  EXPECT_EQ(v.get_double("n").value(), 3.0);
  EXPECT_EQ(v.get_int("o", 7).value(), 7);
  EXPECT_EQ(v.get_string("absent", "d").value(), "d");
  EXPECT_EQ(v.get_int("s").error().text(), "'s': wrong kind of value: expected integer, found string");
  EXPECT_EQ(v.get_bool("absent").error().text(), "'absent': member is missing");
  EXPECT_FALSE(v.get_bool("n", false).ok());
  EXPECT_FALSE(v.get_int("big").ok());
  EXPECT_FALSE(v.find("n")->get_int("x").ok());
}

TEST(Json, RefusesWithByteOffset) {
  EXPECT_NE(error_of("").find("not valid JSON: it is empty"), std::string::npos) << error_of("");
  const std::string escape = error_of("\x1b{");  // in the form of all other messages
  EXPECT_NE(escape.find("near \"\\x1b\""), std::string::npos) << escape;
  EXPECT_NE(error_of("[1,2] x").find("byte 7"), std::string::npos) << error_of("[1,2] x");
  EXPECT_NE(error_of(R"({"a":1,"b":2,"a":3})").find("'a': duplicate key"), std::string::npos);
  for (const char* bad :
       {"[", "{", "[1,]", "{\"a\"}", "{\"a\":1,}", "nul", "NaN", "[1e999]", "01", "\"\\ud800\"", "\"\xff\"",
        "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"a\nb\"", "\xEF\xBB\xBF{}", "1 2", "{1:2}", "'a'", "[1}"})
    EXPECT_NE(error_of(bad).find("at byte"), std::string::npos) << bad << " -> " << error_of(bad);
  EXPECT_NE(error_of(std::string("{\"a\":1}\0", 8)).find("at byte"), std::string::npos);
}

TEST(Json, LimitsHold) {
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "ok");
  EXPECT_NE(error_of(std::string(65, '[') + std::string(65, ']')).find("deeper than 64 at byte 65"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000000, '[')).find("deeper"), std::string::npos);
  JsonLimits few;
  few.max_nodes = 3;
  EXPECT_EQ(error_of("[1,2]", few), "ok");
  EXPECT_NE(error_of("[1,2,3]", few).find("more than 3 values"), std::string::npos);
  JsonLimits small;
  small.max_bytes = 4;
  EXPECT_NE(error_of("[1,2]", small).find("exceeds the limit of 4"), std::string::npos);
  EXPECT_EQ(parse_json("[1,2]", small).error().kind, ErrorKind::kMemory);
}

TEST(Json, NumbersThatJsonLacksWhereTheyAreAllowed) {
  JsonLimits limits;
  limits.non_finite = true;
  const std::string text =
      R"([NaN,-NaN,Infinity,-Infinity,Inf,-Inf,-1.5,null, NaN ,{"NaN":"a \"NaN\\", "b":[-Infinity],"-Inf":"\\"},NaN])";
  const auto read = parse_json(text, limits);
  ASSERT_TRUE(read.ok()) << read.error().text();
  const Json::Array& a = read->items();
  ASSERT_EQ(a.size(), 11u);
  const double inf = std::numeric_limits<double>::infinity();
  for (const size_t k : {0, 1, 8, 10}) EXPECT_TRUE(std::isnan(a[k].as_double().value())) << k;
  for (const size_t k : {2, 4}) EXPECT_EQ(a[k].as_double().value(), inf) << k;
  for (const size_t k : {3, 5}) EXPECT_EQ(a[k].as_double().value(), -inf) << k;
  EXPECT_EQ(a[6].as_double().value(), -1.5);
  EXPECT_TRUE(a[7].is_null());
  EXPECT_FALSE(a[0].as_int().ok());
  EXPECT_FALSE(a[2].as_int().ok());
  EXPECT_FALSE(a[2].as_uint().ok());
  EXPECT_EQ(a[9].get_string("NaN").value(), "a \"NaN\\");
  EXPECT_EQ(a[9].get_array("b").value()->front().as_double().value(), -inf);
  EXPECT_EQ(a[9].get_string("-Inf").value(), "\\");
  EXPECT_EQ(error_of("NaN", limits), "ok");
  EXPECT_NE(error_of(text).find("at byte"), std::string::npos);  // they are no JSON
  for (const char* bad : {"nan", "+Infinity", "--Inf", "-", "Infinit", "NaNNaN", "[NaN NaN]", "1NaN", "NaN1", "-NaNx",
                          "{NaN:1}", "[null NaN]", "nullNaN", "\"NaN", "[Na", "infinity", "Inf.0", "[NaN"})
    EXPECT_NE(error_of(bad, limits).find("at byte"), std::string::npos) << bad << " -> " << error_of(bad, limits);
  EXPECT_NE(error_of("[NaN,Infinity,!]", limits).find("at byte 15"), std::string::npos)
      << error_of("[NaN,Infinity,!]", limits);
}

TEST(JsonWriter, NumbersThatJsonLacks) {
  JsonWriter w;
  const double inf = std::numeric_limits<double>::infinity();
  w.begin_object().key("a").number(-inf).key("b").begin_array().number(std::nan("")).number(inf).number(0.5).number(-3);
  w.number(1e30).number(0).end_array().end_object();
  EXPECT_EQ(w.text(), R"({"a":-Infinity,"b":[NaN,Infinity,0.5,-3.0,1e+30,0.0]})");
}

TEST(Json, FindsAmongManyAndRefusesDuplicates) {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) text += format("%s\"key%d\":%d", i ? "," : "", i * 7919 % 5000, i);
  Json v = parse_json(text + "}").value();
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(v.get_int(format("key%d", i * 7919 % 5000)).value(), i);
  EXPECT_NE(error_of(text + ",\"key42\":1}").find("'key42': duplicate"), std::string::npos);
}

TEST(JsonWriter, WritesCompactAndIndented) {
  JsonWriter w;
  w.begin_object().field("a", 1).key("b").begin_array().value(true).null().value("q\"\\\x01\n\xff").end_array();
  w.key("c").begin_object().end_object().end_object();
  EXPECT_EQ(w.text(), "{\"a\":1,\"b\":[true,null,\"q\\\"\\\\\\u0001\\n\xEF\xBF\xBD\"],\"c\":{}}");
  JsonWriter p(2);
  p.begin_object().field("a", 1.0).key("b").begin_array().value(2).end_array().end_object();
  EXPECT_EQ(p.take(), "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}");
}

TEST(JsonWriter, DoublesReadBackEqual) {
  std::mt19937_64 rng(20240711);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = rng();
    double v;
    static_assert(sizeof v == sizeof bits);
    memcpy(&v, &bits, sizeof v);
    if (!std::isfinite(v)) continue;
    JsonWriter w;
    w.value(v);
    EXPECT_EQ(parse_json(w.text()).value().as_double().value(), v) << w.text();
  }
  JsonWriter w;
  w.begin_array().value(std::nan("")).value(std::numeric_limits<double>::infinity()).value(-HUGE_VAL).end_array();
  EXPECT_EQ(w.text(), R"(["NaN","Infinity","-Infinity"])");
}

TEST(JsonWriter, RoundTripsATree) {
  const std::string text = R"({"a":[1,2.5,"x",null,true,18446744073709551615],"b":{"c":{}}})";
  JsonWriter w;
  w.value(parse_json(text).value());
  EXPECT_EQ(w.text(), text);
}

TEST(JsonWriter, MisuseIsChecked) {
  const auto fault = [](auto&& misuse) {
    const Status done = contained([&] { misuse(); });
    return done.ok() ? std::string() : done.error().message;
  };
  EXPECT_NE(fault([] { JsonWriter().begin_object().value(1); }).find("key before each value"), std::string::npos);
  EXPECT_NE(fault([] { JsonWriter().begin_array().key("a"); }).find("belongs in an object"), std::string::npos);
  EXPECT_NE(fault([] { (void)JsonWriter().begin_array().text(); }).find("complete"), std::string::npos);
}

}  // namespace
}  // namespace peri
