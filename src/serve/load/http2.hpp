// Http2Wire: a gRPC client with one call at a time on an HTTP/2 connection: frames, flow control and the necessary
// headers. The server is told to use no dynamic table, so that each header block can be decoded independently.
#pragma once

#include "serve/load/wire.hpp"

namespace peri::serve {

// The content of a call.
struct GrpcRequest {
  std::string headers;  // encoded with HPACK
  std::string message;  // with its gRPC prefix
  std::vector<LoadTensor> wanted = {};
};
// A call of a method, such as "/inference.GRPCInferenceService/ModelInfer", with a protobuf message.
GrpcRequest grpc_request(const Endpoint& where, std::string_view method, std::string_view message);

class Http2Wire final : public Wire {
 public:
  // An answer of more than `most` bytes is an error.
  Http2Wire(std::shared_ptr<const GrpcRequest> request, uint64_t most)
      : Http2Wire([request] { return request; }, most) {}
  // `next`: the content of each call.
  Http2Wire(std::function<std::shared_ptr<const GrpcRequest>()> next, uint64_t most)
      : next_(std::move(next)), most_(most) {}
  void begin() override;
  std::string_view ask() override;
  Heard hear(std::string_view bytes) override;
  std::string_view more() override;
  std::string failure() const override { return failure_; }
  std::string said() const override { return said_; }
  // REQUIRES: keep_answer().
  std::string wrong() const override;
  bool keep_open() const override { return !going_ && stream_ < (1u << 30); }
  // The answer's messages, each with its prefix; kept only after keep_answer().
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

  const std::function<std::shared_ptr<const GrpcRequest>()> next_;
  std::shared_ptr<const GrpcRequest> request_;  // of the last call
  const uint64_t most_;
  bool keeps_ = false;
  std::string out_, sent_, in_, block_, answer_, failure_, said_;
  uint32_t stream_ = 0;
  bool open_ = false, whole_ = false, going_ = false, ends_ = false;
  int64_t window_ = 0, stream_window_ = 0, first_window_ = 0;
  uint64_t seen_ = 0, unsaid_ = 0;  // bytes of the answer; bytes received since the last window update
  uint32_t most_frame_ = 0;
  size_t at_ = 0;  // number of message bytes sent
  int status_ = 0, code_ = -1;
};

}  // namespace peri::serve
