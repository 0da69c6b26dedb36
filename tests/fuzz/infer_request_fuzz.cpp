// Any bytes as the body of an inference request, its first four the length of its JSON: refused, or tensors that are
// what the model's ports say.
// links: serve
#include <cstdlib>

#include "serve/kserve/infer_reply.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using peri::Dim;
  using peri::DType;
  static const auto ports = [] {
    std::vector<peri::plan::Port> out(4);
    const DType types[] = {DType::kF32, DType::kI8, DType::kString, DType::kBool};
    const char* names[] = {"x", "i", "s", "b"};
    for (size_t k = 0; k < 4; ++k) {
      out[k].name = names[k];
      out[k].dtype = types[k];
      out[k].shape = {Dim::symbol("batch"), Dim(2)};
    }
    return out;
  }();
  if (size < 4) return 0;
  const uint32_t length = data[0] | data[1] << 8 | data[2] << 16;
  const std::span<const std::byte> body = std::as_bytes(std::span(data + 4, size - 4));
  const size_t given = 1 + data[3] % 4;  // the model's inputs
  const std::span<const peri::plan::Port> inputs(ports.data(), given);
  const auto head = data[3] & 0x80 ? std::optional<uint64_t>() : std::optional<uint64_t>(length);
  auto request = peri::serve::parse_infer(body, nullptr, head, inputs, ports, {16, 4096, 65536, 8, 1000, 32});
  if (!request.ok()) return 0;
  std::vector<peri::Tensor> outputs;
  for (size_t k = 0; k < given; ++k) {
    const peri::Tensor& t = request->inputs[k];
    if (!t.defined() || t.dtype() != ports[k].dtype || t.rank() != 2 || t.dims()[1] != 2) std::abort();
    outputs.push_back(t);
  }
  while (outputs.size() < 4) outputs.push_back(*peri::Tensor::zeros(DType::kU64, {1}));
  (void)peri::serve::infer_reply("m", "1", *request, ports, outputs).ok();
  return 0;
}
