// Any bytes as the message of a gRPC inference, the first of them the number of the model's inputs: refused, or tensors
// that are what the model's ports say, and an answer. Any bytes as the messages of the other calls.
// links: serve
#include <cstdlib>

#include "serve/grpc/infer_message.hpp"
#include "serve/grpc/methods.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using peri::Dim;
  using peri::DType;
  static const auto ports = [] {
    std::vector<peri::plan::Port> out(5);
    const DType types[] = {DType::kF32, DType::kI8, DType::kString, DType::kBool, DType::kU64};
    const char* names[] = {"x", "i", "s", "b", "u"};
    for (size_t k = 0; k < out.size(); ++k) {
      out[k].name = names[k];
      out[k].dtype = types[k];
      out[k].shape = {Dim::symbol("batch"), Dim(2)};
    }
    return out;
  }();
  if (size < 1) return 0;
  const peri::serve::MessageLimits limits = {.depth = 8, .parts = 1000, .values = 65536};
  const peri::serve::Bytes message = std::as_bytes(std::span(data + 1, size - 1));
  for (const char* call : {"ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad"}) {
    const auto ask =
        peri::serve::find_method("/inference.GRPCInferenceService/" + std::string(call))->ask(message, limits);
    if (ask.ok() && (!ask->target.starts_with("/v2/") || (ask->target + "/").find("/../") != std::string::npos))
      std::abort();
  }
  const auto infer = peri::serve::InferMessage::read(message, nullptr, data[0] & 1, limits);
  if (!infer.ok()) return 0;
  const auto target = (*infer)->target();
  if (target.ok() && (!target->ends_with("/infer") || target->find('%') != std::string::npos)) std::abort();
  const size_t given = 1 + data[0] / 2 % ports.size();  // the model's inputs
  const std::span<const peri::plan::Port> inputs(ports.data(), given);
  auto request = (*infer)->parse(inputs, ports, {16, 4096, 65536, 8});
  if (!request.ok()) return 0;
  std::vector<peri::Tensor> outputs;
  for (size_t k = 0; k < given; ++k) {
    const peri::Tensor& t = request->inputs[k];
    if (!t.defined() || t.dtype() != ports[k].dtype || t.rank() != 2 || t.dims()[1] != 2) std::abort();
    outputs.push_back(t);
  }
  while (outputs.size() < ports.size()) outputs.push_back(*peri::Tensor::zeros(DType::kU64, {1}));
  if (!(*infer)->reply("m", "1", *request, ports, outputs).ok()) std::abort();
  return 0;
}
