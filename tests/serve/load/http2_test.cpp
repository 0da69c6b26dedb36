// A call of gRPC as bytes: what a client says within the windows it is given, and what it makes of frames, whole ones,
// in pieces, with padding, and of none.
#include "serve/load/http2.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

using Heard = Wire::Heard;

std::string frame(int type, int flags, uint32_t stream, const std::string& payload) {
  std::string out;
  for (const int shift : {16, 8, 0}) out.push_back(static_cast<char>(payload.size() >> shift & 255));
  out += {static_cast<char>(type), static_cast<char>(flags)};
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(stream >> shift & 255));
  return out + payload;
}
std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out.push_back(static_cast<char>(b));
  return out;
}
std::string literal(const std::string& name, const std::string& value) {
  return bytes({0, static_cast<int>(name.size())}) + name + static_cast<char>(value.size()) + value;
}
// Frames of a type in what was said, behind the preface if there is one; their payloads together.
std::string of_type(std::string_view said, int type, int* count) {
  if (said.starts_with("PRI")) said.remove_prefix(24);
  std::string out;
  *count = 0;
  while (said.size() >= 9) {
    const size_t size = size_t{static_cast<uint8_t>(said[0])} << 16 | size_t{static_cast<uint8_t>(said[1])} << 8 |
                        static_cast<uint8_t>(said[2]);
    if (said[3] == type) {
      ++*count;
      out += said.substr(9, size);
    }
    said.remove_prefix(9 + size);
  }
  EXPECT_TRUE(said.empty());
  return out;
}

class Http2 : public testing::Test {
 protected:
  void ask(size_t body) {
    Endpoint where;
    request_ = std::make_shared<const GrpcRequest>(grpc_request(where, "/s/m", std::string(body, 'b')));
    wire_ = std::make_unique<Http2Wire>(request_, 1000);
    wire_->keep_answer();
    wire_->begin();
    said_ = wire_->ask();
  }
  std::shared_ptr<const GrpcRequest> request_;
  std::unique_ptr<Http2Wire> wire_;
  std::string said_;
  int count_ = 0;
};

TEST_F(Http2, AnAnswerInAnyPieces) {
  const std::string huffman = bytes({0x88, 0x40, 0x88}) + bytes({0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f}) +
                              bytes({0x81, 0x07});  // grpc-status 0 in Huffman's code
  const std::string answer = frame(4, 0, 0, bytes({0, 4, 0, 1, 0, 0})) + frame(1, 4, 1, bytes({0x20, 0x88})) +
                             frame(0, 8, 1, bytes({2}) + "yes" + bytes({0, 0})) + frame(6, 0, 0, "12345678") +
                             frame(1, 5, 1, huffman);
  for (const size_t piece : {answer.size(), size_t{1}, size_t{7}}) {
    ask(10);
    Heard heard = Heard::kMore;
    for (size_t at = 0; at < answer.size(); at += piece) {
      EXPECT_EQ(heard, Heard::kMore) << at;
      heard = wire_->hear(std::string_view(answer).substr(at, piece));
    }
    EXPECT_EQ(heard, Heard::kAnswer);
    EXPECT_EQ(wire_->failure(), "");
    EXPECT_EQ(wire_->answer(), "yes");
    EXPECT_TRUE(wire_->keep_open());
    const std::string more(wire_->more());
    EXPECT_EQ(of_type(more, 6, &count_), "12345678") << "a ping is answered";
    of_type(more, 4, &count_);
    EXPECT_EQ(count_, 1) << "settings are taken note of";
    EXPECT_EQ(wire_->hear(frame(6, 0, 0, "12345678")), Heard::kMore) << "between calls too";
  }
}

TEST_F(Http2, SaysNoMoreThanItMay) {
  ask(200000);
  EXPECT_EQ(of_type(said_, 0, &count_).size(), 65535u);
  EXPECT_EQ(count_, 4) << "frames of 16 KiB";
  EXPECT_EQ(wire_->hear(frame(8, 0, 0, bytes({0, 1, 0, 0}))), Heard::kMore);
  EXPECT_EQ(wire_->more(), "") << "the stream's own window is full";
  EXPECT_EQ(wire_->hear(frame(8, 0, 1, bytes({0, 0, 0, 9}))), Heard::kMore);
  EXPECT_EQ(of_type(wire_->more(), 0, &count_).size(), 9u);
  EXPECT_EQ(wire_->hear(frame(4, 0, 0, bytes({0, 4, 0, 4, 0, 0}))), Heard::kMore);
  EXPECT_EQ(of_type(wire_->more(), 0, &count_).size(), 65536u - 9) << "the connection's is";
  EXPECT_EQ(wire_->hear(frame(8, 0, 0, bytes({0, 16, 0, 0}))), Heard::kMore);
  EXPECT_EQ(of_type(wire_->more(), 0, &count_).size(), request_->message.size() - 65535 - 65536);
}

TEST_F(Http2, Failures) {
  const auto failure = [&](const std::string& answer) {
    ask(10);
    EXPECT_EQ(wire_->hear(answer), Heard::kAnswer);
    return wire_->failure();
  };
  EXPECT_EQ(failure(frame(1, 5, 1, bytes({0x88}) + literal("grpc-status", "8"))), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(failure(frame(1, 1, 1, bytes({0x88})) + frame(9, 4, 1, literal("grpc-status", "14"))), "UNAVAILABLE");
  EXPECT_EQ(wire_->said(), "");
  EXPECT_EQ(failure(frame(
                1, 5, 1,
                bytes({0x88}) + literal("grpc-status", "3") + literal("grpc-message", "100%25 of %22x%22 %C3%A9 %4"))),
            "INVALID_ARGUMENT");
  EXPECT_EQ(wire_->said(), "100% of \"x\" \xc3\xa9 %4");
  EXPECT_EQ(failure(frame(1, 5, 1, bytes({0x8d}))), "status 404");
  EXPECT_EQ(wire_->said(), "") << "of this answer";
  EXPECT_EQ(failure(frame(1, 5, 1, bytes({0x08, 3}) + "503")), "status 503");
  EXPECT_EQ(failure(frame(1, 5, 1, bytes({0x88}))), "no status of gRPC");
  EXPECT_EQ(failure(frame(3, 0, 1, bytes({0, 0, 0, 7}))), "reset with error 7");
  EXPECT_EQ(failure(frame(7, 0, 0, bytes({0, 0, 0, 0, 0, 0, 0, 0}))), "the server goes");
  EXPECT_FALSE(wire_->keep_open());
}

TEST_F(Http2, WhatIsNoHttp2) {
  for (const std::string& bad :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), frame(5, 4, 1, "push"), frame(6, 0, 0, "short"),
        frame(4, 0, 0, "odd"), frame(1, 5, 1, bytes({0xff, 0xff, 0xff})), frame(1, 5, 1, bytes({0xbf})),
        frame(1, 5, 1, bytes({0, 0x7f})), frame(0, 8, 1, bytes({9, 1})),
        frame(1, 1, 1, bytes({0x88})) + frame(0, 0, 1, "x"), frame(0, 0, 1, std::string(1001, 'x'))}) {
    ask(10);
    EXPECT_EQ(wire_->hear(bad), Heard::kBad) << bad.substr(0, 20);
  }
  ask(10);
  EXPECT_EQ(wire_->hear(frame(77, 1, 9, "passed over") + frame(0, 1, 3, "another call's")), Heard::kMore);
}

}  // namespace
}  // namespace peri::serve
