// What a client says of compressions, as lists and weights; names that were escaped to stand in a path.
#include "serve/http/head.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

TEST(Head, PreferredType) {
  const auto open = [](std::string_view list) {
    return prefers_type(list, "application/openmetrics-text", "text/plain");
  };
  for (const char* yes :
       {"application/openmetrics-text", "Application/OpenMetrics-Text; version=1.0.0",
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "text/*;q=0.2, application/openmetrics-text;q=0.3", "text/plain;q=0, application/openmetrics-text;q=0.1"})
    EXPECT_TRUE(open(yes)) << yes;
  for (const char* no : {"", "*/*", "text/plain", "application/*", "application/openmetrics-text;q=0",
                         "application/openmetrics-text;q=0.3, text/plain;q=0.4",
                         "application/openmetrics-text;q=0.3, */*", ";;,,;q=", "application/openmetrics-text;q=x"})
    EXPECT_FALSE(open(no)) << no;
}

TEST(Head, PreferredEncoding) {
  for (const auto& [list, want] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", ""},
           {"gzip", "gzip"},
           {"deflate", "deflate"},
           {"gzip, deflate, br, zstd", "gzip"},  // as clients in Python and curl have it
           {"deflate, gzip", "deflate"},
           {"br;q=1.0, GZIP ; q=0.8, *;q=0.1", "gzip"},
           {"gzip;q=0.2,deflate;q=0.3", "deflate"},
           {"gzip;q=0", ""},
           {"gzip;q=0.000, deflate;q=0.001", "deflate"},
           {"gzip;q=1.000", "gzip"},
           {"gzip;q=1.5, deflate;q=2", ""},
           {"gzip;q=x", ""},
           {"gzip;q=", ""},
           {"gzip;q=0..5", ""},
           {"gzip;q=0.12345678", ""},
           {"gzip;level=9", ""},
           {"identity, br", ""},
           {"xgzip, gzipx", ""},
           {",,;,=", ""}})
    EXPECT_EQ(preferred_encoding(list), want) << list;
}

TEST(Head, PercentDecoded) {
  for (const auto& [text, want] : std::initializer_list<std::pair<const char*, const char*>>{{"", ""},
                                                                                             {"a+b", "a+b"},
                                                                                             {"a%2Bb", "a+b"},
                                                                                             {"a%2bb", "a+b"},
                                                                                             {"%61dd", "add"},
                                                                                             {"a%20b", "a b"},
                                                                                             {"%2e%2e%2f", "../"},
                                                                                             {"%", "%"},
                                                                                             {"a%2", "a%2"},
                                                                                             {"a%2g", "a%2g"},
                                                                                             {"%-1x", "%-1x"},
                                                                                             {"%%41", "%A"},
                                                                                             {"%25%32%42", "%2B"},
                                                                                             {"%+1", "%+1"},
                                                                                             {"%c3%a9", "\xc3\xa9"}})
    EXPECT_EQ(percent_decoded(text), want) << text;
  EXPECT_EQ(percent_decoded("a%00b"), std::string("a\0b", 3));
}

}  // namespace
}  // namespace peri::serve
