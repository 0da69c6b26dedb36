// A model's response in the KServe protocol: JSON, followed by the bytes of outputs requested in binary, which are the
// model's own memory.
#pragma once

#include "serve/kserve/infer_request.hpp"

namespace peri::serve {

// A tensor's bytes in the form of both protocols; the piece keeps them alive.
HttpReply::Piece output_bytes(const Tensor& t);

// Consumes the tensors. Errors: an output of a type without a name in the protocol.
Result<HttpReply> infer_reply(const std::string& model, const std::string& version, const InferRequest& request,
                              std::span<const plan::Port> ports, std::vector<Tensor> outputs);

}  // namespace peri::serve
