// Requests of HTTP/1.1 in any pieces; what is larger than its limit or ambiguous is refused.
#include <algorithm>

#include "serve/http/parser.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

using Found = RequestParser::Found;

struct Read {
  Found end = Found::kMore;
  std::string method, target, type, body;
  std::optional<uint64_t> json_bytes, length;
  bool keep_alive = false, bad_json_bytes = false;
};

Read read(const std::string& text, size_t step = 1 << 20, HttpLimits limits = {}) {
  Read out;
  RequestParser parser(limits);
  parser.chunk = [&](std::string_view piece) {
    out.body += piece;
    return true;
  };
  size_t at = 0;
  for (size_t have = 0; have < text.size() || at < have;) {
    have = std::min(text.size(), have + step);
    const size_t before = at;
    out.end = parser.put(text.data() + at, have - at, &at);
    if (out.end == Found::kBad || out.end == Found::kTooLarge) return out;
    if (out.end == Found::kWhole || (out.end == Found::kHeader && !parser.chunked())) break;
    if (at == before && have == text.size()) break;
  }
  const HttpRequest& r = parser.head().request;
  out.method = r.method;
  out.target = r.target;
  out.type = r.content_type;
  out.json_bytes = r.json_bytes;
  out.bad_json_bytes = r.bad_json_bytes;
  out.length = parser.content_length();
  out.keep_alive = parser.keep_alive();
  return out;
}

TEST(Parser, AnyPiecesGiveTheSameRequest) {
  const std::string post =
      "POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nCONTENT-type:  text/x \r\nContent-Length: 9\r\n"
      "Inference-Header-Content-Length: 7\r\n\r\n";
  for (const size_t step : {1, 2, 3, 7, 1000}) {
    const Read r = read(post, step);
    EXPECT_EQ(r.end, Found::kHeader);
    EXPECT_EQ(r.method, "POST");
    EXPECT_EQ(r.target, "/v2/models/x/infer");
    EXPECT_EQ(r.type, "text/x");
    EXPECT_EQ(r.json_bytes, 7u);
    EXPECT_EQ(r.length, 9u);
    EXPECT_TRUE(r.keep_alive);
    const Read c = read(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nContent-Type: z\r\n\r\n",
        step);
    EXPECT_EQ(c.end, Found::kWhole);
    EXPECT_EQ(c.body, "hello!");
    EXPECT_EQ(c.type, "") << "a trailer changes no header";
    EXPECT_EQ(read("GET / HTTP/1.0\r\n\r\n", step).keep_alive, false);
  }
}

TEST(Parser, WhatIsAmbiguousIsRefused) {
  for (const char* text :
       {"GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Type: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"})
    EXPECT_EQ(read(text).end, Found::kBad) << text;
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nInference-Header-Content-Length: 7x\r\n\r\n").bad_json_bytes);
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nInference-Header-Content-Length: -1\r\n\r\n").bad_json_bytes);
}

TEST(Parser, LimitsHold) {
  HttpLimits limits;
  limits.header_bytes = 1000;
  limits.header_fields = 10;
  limits.chunks = 4;
  EXPECT_EQ(read("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\n\r\n", 100, limits).end, Found::kTooLarge);
  EXPECT_EQ(read("GET / HTTP/1.1\r\nA: " + std::string(2000, 'a') + "\r\n\r\n", 100, limits).end, Found::kTooLarge);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int k = 0; k < 11; ++k) many += "A: b\r\n";
  EXPECT_EQ(read(many + "\r\n", 100, limits).end, Found::kTooLarge);
  std::string chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int k = 0; k < 5; ++k) chunks += "1\r\na\r\n";
  EXPECT_EQ(read(chunks, 1000, limits).end, Found::kTooLarge);
}

}  // namespace
}  // namespace peri::serve
