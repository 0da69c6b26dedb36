// Joining copies each row once; splitting copies nothing except strings.
#include "serve/queue/rows.hpp"

#include <cstring>

namespace peri::serve {

uint64_t shape_key(std::span<const Tensor> tensors) {
  uint64_t key = 0x2545f4914f6cdd1dull;
  const auto mix = [&](uint64_t v) { key = (key ^ v) * 0x9e3779b97f4a7c15ull + (key >> 29); };
  for (const Tensor& t : tensors) {
    mix(static_cast<uint64_t>(t.dtype()) << 8 | static_cast<uint64_t>(t.rank()));
    for (size_t k = 1; k < t.dims().size(); ++k) mix(static_cast<uint64_t>(t.dims()[k]));
  }
  return key;
}

Result<std::vector<Tensor>> join_rows(std::span<const std::vector<Tensor>* const> requests) {
  std::vector<Tensor> out;
  for (size_t port = 0; port < requests.front()->size(); ++port) {
    const Tensor& first = (*requests.front())[port];
    std::vector<int64_t> dims = first.dims();
    dims[0] = 0;
    for (const std::vector<Tensor>* r : requests) dims[0] += (*r)[port].dims()[0];
    PERI_ASSIGN(Tensor whole, Tensor::uninitialized(first.dtype(), std::move(dims)));
    size_t at = 0;
    for (const std::vector<Tensor>* r : requests) {
      const Tensor& t = (*r)[port];
      if (t.dtype() == DType::kString) {
        for (const std::string& s : t.string_values()) whole.mutable_strings()[at++] = s;
      } else if (!t.bytes().empty()) {
        std::memcpy(whole.mutable_data() + at, t.bytes().data(), t.bytes().size());
        at += t.bytes().size();
      }
    }
    out.push_back(std::move(whole));
  }
  return out;
}

Result<std::vector<Tensor>> take_rows(std::span<const Tensor> whole, int64_t total, int64_t first, int64_t rows) {
  std::vector<Tensor> out;
  for (const Tensor& t : whole) {
    if (t.rank() == 0 || t.dims()[0] != total)
      return internal_error("an output of a batch of %lld rows has other rows: %s", static_cast<long long>(total),
                            tensor_type_text(t).c_str());
    std::vector<int64_t> dims = t.dims();
    dims[0] = rows;
    if (t.dtype() == DType::kString) {
      const int64_t each = total > 0 ? t.numel() / total : 0;
      const auto& all = t.string_values();
      PERI_ASSIGN(Tensor part,
                  Tensor::strings(std::move(dims), {all.begin() + first * each, all.begin() + (first + rows) * each}));
      out.push_back(std::move(part));
      continue;
    }
    const size_t each = total > 0 ? t.bytes().size() / static_cast<size_t>(total) : 0;
    PERI_ASSIGN(Tensor part,
                Tensor::view(t.dtype(), std::move(dims),
                             t.bytes().subspan(static_cast<size_t>(first) * each, static_cast<size_t>(rows) * each),
                             std::make_shared<Tensor>(t)));
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace peri::serve
