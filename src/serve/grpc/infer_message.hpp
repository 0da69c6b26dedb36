// Inference over gRPC: converts a ModelInferRequest to the common request of all protocols, and the response to a
// ModelInferResponse. Raw contents are views of the received message; large outputs are the model's own memory.
#pragma once

#include <memory>

#include "serve/grpc/wire.hpp"
#include "serve/kserve/infer_request.hpp"

namespace inference {
class ModelInferRequest;
}

namespace peri::serve {

class InferMessage final : public InferForm {
 public:
  // `owner` keeps the bytes alive. `stream`: each response is marked as the last of its request. Errors: kInvalid,
  // kMemory.
  static Result<std::unique_ptr<InferMessage>> read(Bytes bytes, std::shared_ptr<const void> owner, bool stream,
                                                    const MessageLimits& limits);
  ~InferMessage() override;
  InferMessage(const InferMessage&) = delete;
  InferMessage& operator=(const InferMessage&) = delete;

  // "/v2/models/NAME/versions/V/infer". Errors: kUsage: not valid names.
  Result<std::string> target() const;
  // The client's name of the request; "": none.
  const std::string& id() const;
  // How long the client waits for the response; 0: unlimited.
  void set_timeout_us(int64_t us) { timeout_us_ = us; }

  Result<InferRequest> parse(std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                             const InferLimits& limits) override;
  Result<HttpReply> reply(const std::string& model, const std::string& version, const InferRequest& request,
                          std::span<const plan::Port> ports, std::vector<Tensor> outputs) override;

 private:
  struct Parsed;
  explicit InferMessage(std::unique_ptr<Parsed> parsed);
  Status read_inputs(std::span<const plan::Port> ports, const InferLimits& limits, InferRequest* out) const;
  Status read_outputs(std::span<const plan::Port> ports, const InferLimits& limits, InferRequest* out) const;

  const std::unique_ptr<Parsed> parsed_;
  int64_t timeout_us_ = 0;
};

// The path of a model, and of one of its versions: "/v2/models/NAME/versions/V". Errors: kUsage.
Result<std::string> model_target(const std::string& name, const std::string& version);

}  // namespace peri::serve
