// The limits of `peri serve` on what clients send: their flags, and their settings in each part of the server.
#pragma once

#include "cli/entry.hpp"
#include "serve/grpc/server.hpp"
#include "serve/text/text_api.hpp"

namespace peri::cli {

std::vector<Flag> limit_flags();
// Errors: kUsage, with the name of the flag.
Result<serve::HttpLimits> http_limits(const Arguments& arguments);
// Limits of the metrics and management servers: `limits` with their own number of connections.
Result<serve::HttpLimits> own_limits(const Arguments& arguments, serve::HttpLimits limits);
Result<serve::InferLimits> infer_limits(const Arguments& arguments, const serve::HttpLimits& http);
Result<serve::TextLimits> text_limits(const Arguments& arguments, const serve::InferLimits& infer);
Status read_grpc_limits(const Arguments& arguments, const serve::InferLimits& infer, serve::GrpcOptions* grpc);

}  // namespace peri::cli
