// The body of an inference request, read and checked against a model's ports: afterwards all tensors are valid in type,
// rank, constant dims and bytes, or the request was refused with an error that names the tensor.
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
  size_t tensors = 1000;                    // named in a request
  size_t element_bytes = size_t{64} << 20;  // of an element of BYTES
  size_t sequence_id_bytes = 128;           // of a sequence's name; Triton's bound
};

struct InferRequest {
  std::string id;
  std::vector<Tensor> inputs;  // by port
  struct Wanted {
    size_t port = 0;
    bool binary = false;
    int64_t classes = 0;  // so many of its largest elements, as texts; 0: the output itself
  };
  std::vector<Wanted> outputs;  // in the order asked for; all where none were
  int64_t priority = 0;
  int64_t timeout_us = 0;
  SequenceStep step;  // no id: it belongs to none
};

// How a protocol other than HTTP reads an inference request and writes its answer; it lives as long as its Exchange.
class InferForm {
 public:
  virtual ~InferForm() = default;
  virtual Result<InferRequest> parse(std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                                     const InferLimits& limits) = 0;
  // Takes the tensors.
  virtual Result<HttpReply> reply(const std::string& model, const std::string& version, const InferRequest& request,
                                  std::span<const plan::Port> ports, std::vector<Tensor> outputs) = 0;
};

// Tensors in binary are views of `body`, which `owner` keeps. `json_bytes`: of the JSON at its beginning; none: all; 0:
// it is as parse_raw() has it. Errors: kInvalid, kUnsupported (shared memory).
Result<InferRequest> parse_infer(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                                 std::optional<uint64_t> json_bytes, std::span<const plan::Port> inputs,
                                 std::span<const plan::Port> outputs, const InferLimits& limits);
// A body that is the model's only input, without a header; all outputs are asked for in binary.
Result<InferRequest> parse_raw(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                               std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                               const InferLimits& limits);

// What parse_infer() asks of each part, for other forms of the same request. `at`: the port's place.
const plan::Port* find_port(std::span<const plan::Port> ports, std::string_view name, size_t* at);
Status check_dims(const plan::Port& port, std::span<const int64_t> dims);
// The member `key`; null stands for an absent one.
const Json* given(const Json& holder, std::string_view key);
// "parameters" of the request, of a tensor. `binary`: whether outputs are asked for in binary.
Status read_parameters(const Json& root, const InferLimits& limits, bool* binary, InferRequest* out);
Status check_parameters(const Json& holder);
// 'classification' of an output; 0: it is asked for as it is.
Result<int64_t> read_classes(const Json& holder);
// What a request for a sequence gets from a model that has none.
Error stateless();
// A name of a client as errors show it: not endless.
std::string shown_name(std::string_view name);

// `bytes` as `count` strings, each with its length in four bytes before it, as BYTES has them.
Result<std::vector<std::string>> parse_byte_strings(std::span<const std::byte> bytes, int64_t count,
                                                    const InferLimits& limits);
// Elements of JSON, nested as deep as they may be, in row-major order. REQUIRES: limits of JSON were kept by the
// parser.
Result<Tensor> tensor_of_json(const Json& data, DType dtype, std::vector<int64_t> dims, const InferLimits& limits);
// A request may name no more tensors, an element of BYTES have no more bytes.
Status check_count(size_t tensors, const char* what, const InferLimits& limits);
Status check_element(size_t bytes, const InferLimits& limits);

}  // namespace peri::serve
