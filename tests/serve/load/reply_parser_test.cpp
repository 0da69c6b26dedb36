// Answers of servers, cut anywhere: the same status, body and end, and nothing taken of what follows.
#include "serve/load/reply_parser.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

struct Heard {
  ReplyParser::Found found = ReplyParser::Found::kMore;
  int status = 0;
  std::string body;
  bool keep = false;
  size_t taken = 0;
};

Heard hear(const std::string& text, size_t cut, bool end = false) {
  ReplyParser p;
  Heard out;
  p.begin();
  p.body = [&](std::string_view piece) {
    out.body += piece;
    return true;
  };
  for (const std::string_view piece : {std::string_view(text).substr(0, cut), std::string_view(text).substr(cut)}) {
    if (out.found != ReplyParser::Found::kMore) break;
    size_t taken = 0;
    out.found = p.put(piece, &taken);
    out.taken += taken;
  }
  if (end && out.found == ReplyParser::Found::kMore) out.found = p.end();
  out.status = p.status();
  out.keep = p.keep_alive();
  return out;
}

TEST(ReplyParser, WhereverItIsCut) {
  const std::string plain = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\nX: y\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nT: u\r\n\r\n";
  for (const std::string& text : {plain, chunked})
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const Heard h = hear(text + (cut == text.size() ? "HTTP/1.1" : ""), cut);
      EXPECT_EQ(h.found, ReplyParser::Found::kWhole) << cut;
      EXPECT_EQ(h.status, 503);
      EXPECT_EQ(h.body, "hello");
      EXPECT_TRUE(h.keep);
      EXPECT_EQ(h.taken, text.size()) << cut;
    }
}

TEST(ReplyParser, EndsWithoutALength) {
  const Heard open = hear("HTTP/1.0 200 OK\r\n\r\nabc", 7, true);
  EXPECT_EQ(open.found, ReplyParser::Found::kWhole);
  EXPECT_EQ(open.body, "abc");
  EXPECT_FALSE(open.keep);
  EXPECT_EQ(hear("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 7, true).found, ReplyParser::Found::kBad);
  EXPECT_FALSE(hear("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 9).keep);
  EXPECT_EQ(hear("HTTP/1.1 204 No\r\n\r\n", 3).found, ReplyParser::Found::kWhole);
}

TEST(ReplyParser, WhatIsNoAnswer) {
  for (const std::string& text :
       {std::string("SSH-2.0-OpenSSH\r\n\r\n"), std::string("HTTP/1.1 2x0 OK\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), std::string("HTTP/1.1 200 OK\r\nnothing\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), std::string(200000, 'a')})
    EXPECT_EQ(hear(text, 5).found, ReplyParser::Found::kBad) << text.substr(0, 60);
}

}  // namespace
}  // namespace peri::serve
