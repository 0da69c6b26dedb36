// A body that is a single tensor, as Inference-Header-Content-Length: 0 states: Triton's raw binary request.
#include <algorithm>

#include "serve/kserve/infer_request.hpp"

namespace peri::serve {

// Dims are those of the model; the first free one is 1, and the last is computed from the size. `row`: receives the
// bytes of one unit of that axis, 0 if all dims are constant.
static Result<std::vector<int64_t>> raw_dims(const plan::Port& port, size_t bytes, int64_t* row) {
  std::vector<int64_t> dims;
  size_t open = 0, last = 0;
  int64_t rest = 1;
  for (size_t k = 0; k < port.shape.size(); ++k) {
    const bool known = port.shape[k].is_const();
    dims.push_back(known ? port.shape[k].value() : 1);
    if (known) rest *= std::max<int64_t>(dims.back(), 1);
    open += known ? 0 : 1;
    if (!known) last = k;
  }
  if (open > 2 || (open == 2 && port.shape[0].is_const()))
    return invalid("input '%s' has %zu open dims: a raw request leaves one open, beside the batch", port.name.c_str(),
                   open);
  if (port.dtype == DType::kString) return dims;
  if (open == 0) return dims;
  PERI_ASSIGN(*row, dtype_bytes(port.dtype, rest));
  if (*row > 0) dims[last] = static_cast<int64_t>(bytes) / *row;
  return dims;
}

Result<InferRequest> parse_raw(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                               std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                               const InferLimits& limits) {
  if (inputs.size() != 1) return invalid("a raw request has one input, the model %zu", inputs.size());
  const plan::Port& port = inputs[0];
  int64_t row = 0;
  PERI_ASSIGN(std::vector<int64_t> dims, raw_dims(port, body.size(), &row));
  PERI_ASSIGN(const int64_t numel, of_input(port, checked_numel(dims)));
  InferRequest out;
  if (port.dtype == DType::kString) {
    PERI_TRY(check_element(body.size(), limits));
    if (numel != 1) return invalid("a raw request has one element of BYTES, input '%s' has more", port.name.c_str());
    PERI_ASSIGN(Tensor text, Tensor::strings(std::move(dims),
                                             {std::string(reinterpret_cast<const char*>(body.data()), body.size())}));
    out.inputs.push_back(std::move(text));
  } else {
    PERI_ASSIGN(const int64_t want, dtype_bytes(port.dtype, numel));
    if (static_cast<uint64_t>(want) != body.size())
      return invalid("input byte size mismatch for input '%s': expected %s%lld, got %zu", port.name.c_str(),
                     row > 0 ? "a multiple of " : "", static_cast<long long>(row > 0 ? row : want), body.size());
    PERI_ASSIGN(Tensor tensor, Tensor::view(port.dtype, std::move(dims), body, std::move(owner)));
    out.inputs.push_back(std::move(tensor));
  }
  for (size_t k = 0; k < outputs.size(); ++k) out.outputs.push_back({k, true});
  return out;
}

}  // namespace peri::serve
