// Each default is defined once, in the module that uses it; the help text states it in words.
#include "cli/console/limits.hpp"

#include <algorithm>

namespace peri::cli {

std::vector<Flag> limit_flags() {
  return {
      {"--max-body-bytes", "", "N", "largest body, before and after decompression (default 64 MiB)", false, nullptr,
       "--http-max-input-size"},
      {"--max-total-body-bytes", "", "N",
       "total size of requests in progress and of responses waiting to be read (default 1 GiB)"},
      {"--max-header-bytes", "", "N", "largest header (default 16384)"},
      {"--max-header-fields", "", "N", "number of header fields (default 100)"},
      {"--max-chunks", "", "N", "number of chunks of a chunked body (default 65536)"},
      {"--max-json-values", "", "N",
       "values in the JSON of a request, numbers in a gRPC message outside raw contents (default 4000000)"},
      {"--max-json-depth", "", "N", "nesting depth of JSON (default 32)"},
      {"--max-message-parts", "", "N", "messages, names and raw contents within a gRPC message (default 20000)"},
      {"--max-message-depth", "", "N", "nesting depth of a gRPC message (default 16)"},
      {"--max-tensors", "", "N", "number of inputs, and of outputs, in a request (default 1000)"},
      {"--max-element-bytes", "", "N", "largest element of a BYTES tensor (default: --max-body-bytes)"},
      {"--max-texts", "", "N", "number of texts in a request to a text model (default 2048)"},
      {"--max-text-bytes", "", "N", "largest text (default 262144)"},
      {"--max-sequence-id-bytes", "", "N", "longest sequence id (default 128)"},
      {"--max-connections", "", "N", "concurrent connections (default 10000)"},
      {"--max-own-connections", "", "N",
       "concurrent connections to the metrics port, and to the management socket (default 100)"},
      {"--max-grpc-streams", "", "N", "concurrent calls on a gRPC connection (default 1000)"},
      {"--max-stream-requests", "", "N", "concurrent requests of a gRPC stream (default 64)"},
      {"--min-ping-secs", "", "S",
       "a gRPC client that pings more often is disconnected at the third ping (default 300)"},
      {"--request-timeout", "", "S", "seconds to receive a header, and a body apart from its size (default 10)"},
      {"--write-timeout", "", "S", "seconds for the client to read a response, apart from its size (default 30)"},
      {"--min-bytes-per-s", "", "N",
       "allow one more second for each so many bytes of a body or response (default 100000)"},
      {"--idle-timeout", "", "S", "seconds a connection may wait for its next request (default 120)"},
  };
}

// Stores the flag's number in place of its default.
template <class T>
static Status read(const Arguments& a, const char* flag, int64_t low, int64_t high, T* value) {
  PERI_ASSIGN(const int64_t n, a.number(flag, low, high, static_cast<int64_t>(*value)));
  *value = static_cast<T>(n);
  return Ok{};
}

Result<serve::HttpLimits> http_limits(const Arguments& a) {
  serve::HttpLimits out;
  PERI_TRY(read(a, "--max-header-bytes", 1024, 1 << 20, &out.header_bytes));
  PERI_TRY(read(a, "--max-header-fields", 1, 10000, &out.header_fields));
  PERI_TRY(read(a, "--max-body-bytes", 1, int64_t{1} << 40, &out.body_bytes));
  out.all_body_bytes = std::max(out.body_bytes, out.all_body_bytes);
  PERI_TRY(read(a, "--max-total-body-bytes", 1, int64_t{1} << 42, &out.all_body_bytes));
  if (a.has("--max-body-bytes") && out.all_body_bytes < out.body_bytes)
    return usage("--max-total-body-bytes is less than --max-body-bytes: no body of that size would be taken")
        .expecting("at least " + std::to_string(out.body_bytes))
        .but_found(std::to_string(out.all_body_bytes));
  PERI_TRY(read(a, "--max-chunks", 1, 1 << 30, &out.chunks));
  PERI_TRY(read(a, "--max-connections", 1, 1000000, &out.connections));
  PERI_TRY(read(a, "--min-bytes-per-s", 1, int64_t{1} << 40, &out.body_bytes_per_s));
  PERI_ASSIGN(const int64_t request, a.number("--request-timeout", 1, 86400, out.header_ms / 1000));
  PERI_ASSIGN(const int64_t idle, a.number("--idle-timeout", 1, 86400, out.idle_ms / 1000));
  PERI_ASSIGN(const int64_t write, a.number("--write-timeout", 1, 86400, out.write_ms / 1000));
  out.header_ms = out.body_ms = request * 1000;
  out.idle_ms = idle * 1000;
  out.write_ms = write * 1000;
  return out;
}

Result<serve::HttpLimits> own_limits(const Arguments& a, serve::HttpLimits limits) {
  limits.connections = 100;
  PERI_TRY(read(a, "--max-own-connections", 1, 1000000, &limits.connections));
  return limits;
}

Result<serve::InferLimits> infer_limits(const Arguments& a, const serve::HttpLimits& http) {
  serve::InferLimits out;
  out.json_bytes = out.element_bytes = http.body_bytes;
  PERI_TRY(read(a, "--max-json-values", 1, int64_t{1} << 32, &out.json_values));
  PERI_TRY(read(a, "--max-json-depth", 4, 200, &out.json_depth));
  PERI_TRY(read(a, "--max-tensors", 1, 1000000, &out.tensors));
  PERI_TRY(read(a, "--max-element-bytes", 1, int64_t{1} << 40, &out.element_bytes));
  PERI_TRY(read(a, "--max-sequence-id-bytes", 1, 1 << 20, &out.sequence_id_bytes));
  return out;
}

Result<serve::TextLimits> text_limits(const Arguments& a, const serve::InferLimits& infer) {
  serve::TextLimits out;
  PERI_TRY(read(a, "--max-texts", 1, 1000000, &out.texts));
  PERI_TRY(read(a, "--max-text-bytes", 1, int64_t{1} << 40, &out.text_bytes));
  out.json = {infer.json_depth, infer.json_bytes, infer.json_values};
  return out;
}

Status read_grpc_limits(const Arguments& a, const serve::InferLimits& infer, serve::GrpcOptions* grpc) {
  grpc->message.values = infer.json_values;
  PERI_TRY(read(a, "--max-message-parts", 16, 100000000, &grpc->message.parts));
  PERI_TRY(read(a, "--max-message-depth", 2, 100, &grpc->message.depth));
  PERI_TRY(read(a, "--max-grpc-streams", 1, 1000000, &grpc->streams));
  PERI_TRY(read(a, "--max-stream-requests", 1, 1000000, &grpc->ahead));
  PERI_ASSIGN(const double ping, a.real("--min-ping-secs", 0, 86400, static_cast<double>(grpc->ping_ms) / 1000));
  grpc->ping_ms = static_cast<int64_t>(ping * 1000);
  return Ok{};
}

}  // namespace peri::cli
