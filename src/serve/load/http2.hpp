// Http2Wire: one call of gRPC at a time on a connection of HTTP/2, as a client: frames, flow control, and of headers
// what a call needs. The server's encoder is told to keep no table, so that a header stands by itself.
#pragma once

#include "serve/load/wire.hpp"

namespace peri::serve {

// What every call of a run sends.
struct GrpcRequest {
  std::string headers;  // as HPACK has them
  std::string message;  // with its prefix
};
// A call of a method, "/inference.GRPCInferenceService/ModelInfer", with a message of protobuf.
GrpcRequest grpc_request(const Endpoint& where, std::string_view method, std::string_view message);

class Http2Wire final : public Wire {
 public:
  // Answers of more than `most` bytes are bad.
  Http2Wire(std::shared_ptr<const GrpcRequest> request, uint64_t most) : request_(std::move(request)), most_(most) {}
  void begin() override;
  std::string_view ask() override;
  Heard hear(std::string_view bytes) override;
  std::string_view more() override;
  std::string failure() const override { return failure_; }
  bool keep_open() const override { return !going_ && stream_ < (1u << 30); }
  // The answer's messages, each with its prefix; kept where it was asked for.
  void keep_answer() { keeps_ = true; }
  const std::string& answer() const { return answer_; }

 private:
  void frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);
  void send_body();
  bool take(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);
  bool take_data(uint8_t flags, uint32_t stream, std::string_view payload);
  bool take_headers(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);
  bool take_settings(std::string_view payload);
  bool read_block();
  void end_of_call();

  const std::shared_ptr<const GrpcRequest> request_;
  const uint64_t most_;
  bool keeps_ = false;
  std::string out_, sent_, in_, block_, answer_, failure_;
  uint32_t stream_ = 0;
  bool open_ = false, whole_ = false, going_ = false, ends_ = false;
  int64_t window_ = 0, stream_window_ = 0, first_window_ = 0;
  uint64_t seen_ = 0, unsaid_ = 0;  // bytes of the answer, and of all since the window was opened again
  uint32_t most_frame_ = 0;
  size_t at_ = 0;  // of the message that has been sent
  int status_ = 0, code_ = -1;
};

}  // namespace peri::serve
