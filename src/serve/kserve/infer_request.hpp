// Parses the body of an inference request and checks it against a model's ports: the result's tensors are valid in
// type, rank, constant dims and size. Errors name the tensor.
#pragma once

#include <span>

#include "base/json.hpp"
#include "base/tensor.hpp"
#include "plan/program.hpp"
#include "serve/http/message.hpp"
#include "serve/queue/sequences.hpp"

namespace peri::serve {

struct InferLimits {
  int json_depth = 32;
  size_t json_values = 4000000;
  size_t json_bytes = size_t{64} << 20;
  size_t tensors = 1000;                    // in a request
  size_t element_bytes = size_t{64} << 20;  // of an element of BYTES
  size_t sequence_id_bytes = 128;           // of a sequence's name; Triton's limit
};

struct InferRequest {
  std::string id;
  std::vector<Tensor> inputs;  // by port
  struct Wanted {
    size_t port = 0;
    bool binary = false;
    int64_t classes = 0;  // number of largest elements to return as texts; 0: the output itself
  };
  std::vector<Wanted> outputs;  // in the requested order; all outputs if none were named
  int64_t priority = 0;
  int64_t timeout_us = 0;
  SequenceStep step;  // no id: not part of a sequence
};

// How a protocol other than HTTP parses a request and writes its response; lives as long as its Exchange.
class InferForm {
 public:
  virtual ~InferForm() = default;
  virtual Result<InferRequest> parse(std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                                     const InferLimits& limits) = 0;
  // Consumes the tensors.
  virtual Result<HttpReply> reply(const std::string& model, const std::string& version, const InferRequest& request,
                                  std::span<const plan::Port> ports, std::vector<Tensor> outputs) = 0;
};

// Binary tensors are views of `body`, which `owner` keeps alive. `json_bytes`: length of the JSON at the beginning;
// none: all of it; 0: as for parse_raw(). Errors: kInvalid, kUnsupported (shared memory).
Result<InferRequest> parse_infer(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                                 std::optional<uint64_t> json_bytes, std::span<const plan::Port> inputs,
                                 std::span<const plan::Port> outputs, const InferLimits& limits);
// The body is the model's only input, without a header; all outputs are returned in binary.
Result<InferRequest> parse_raw(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                               std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                               const InferLimits& limits);

// Checks of parse_infer(), for other encodings of the same request. `at`: receives the port's index.
const plan::Port* find_port(std::span<const plan::Port> ports, std::string_view name, size_t* at);
Status check_dims(const plan::Port& port, std::span<const int64_t> dims);
// The member `key`; null if it is absent or JSON's null.
const Json* given(const Json& holder, std::string_view key);
// "parameters" of the request or of a tensor. `binary`: whether outputs are requested in binary.
Status read_parameters(const Json& root, const InferLimits& limits, bool* binary, InferRequest* out);
Status check_parameters(const Json& holder);
// 'classification' of an output; 0: not requested.
Result<int64_t> read_classes(const Json& holder);
// The error of a request with a sequence for a model without sequences.
Error stateless();
// A client's name, truncated for messages.
std::string shown_name(std::string_view name);

// `bytes` as `count` strings, each preceded by its length in four bytes, the encoding of BYTES.
Result<std::vector<std::string>> parse_byte_strings(std::span<const std::byte> bytes, int64_t count,
                                                    const InferLimits& limits);
// Elements of nested JSON lists in row-major order. REQUIRES: the parser has enforced the limits of JSON.
Result<Tensor> tensor_of_json(const Json& data, DType dtype, std::vector<int64_t> dims, const InferLimits& limits);
// Limits the number of tensors of a request.
Status check_count(size_t tensors, const char* what, const InferLimits& limits);
// The result for an input, whose name its error tells.
template <class T>
Result<T> of_input(const plan::Port& port, Result<T> result) {
  return result.ok() ? std::move(result) : Result<T>(std::move(result).error().at_node(port.name));
}
Status check_element(size_t bytes, const InferLimits& limits);

}  // namespace peri::serve
