// The answer of a model as KServe's protocol has it: JSON, and behind it the bytes of outputs asked for in binary,
// which are the model's own memory.
#pragma once

#include "serve/kserve/infer_request.hpp"

namespace peri::serve {

// A tensor's bytes as both protocols carry them; the piece keeps them.
HttpReply::Piece output_bytes(const Tensor& t);

// Takes the tensors. Errors: an output of a type that the protocol has no name for.
Result<HttpReply> infer_reply(const std::string& model, const std::string& version, const InferRequest& request,
                              std::span<const plan::Port> ports, std::vector<Tensor> outputs);

}  // namespace peri::serve
