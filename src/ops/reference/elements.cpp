// Elements of reference tensors: widths, broadcast positions, costs of copies.
#include "ops/reference/elements.hpp"

#include <algorithm>
#include <limits>

namespace peri::ops {

Error too_many_elements(int64_t elements, int64_t most) {
  return Error(ErrorKind::kMemory, format("a value of %lld elements", static_cast<long long>(elements)))
      .expecting(format("at most %lld", static_cast<long long>(most)));
}

Status resize(RefTensor& t, std::vector<int64_t> dims) {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  const int64_t most = t.most_elements;
  if (n > most) return too_many_elements(n, most);
  t = make_ref(t.dtype, std::move(dims));
  t.most_elements = most;
  t.radius.assign(t.f.size(), 0.0);
  return Ok{};
}

int64_t wrap(DType t, int64_t v) {
  if (t == DType::kBool) return v != 0;
  const int bits = dtype_bits(t);
  if (bits >= 64) return v;
  const uint64_t mask = (uint64_t{1} << bits) - 1, low = static_cast<uint64_t>(v) & mask;
  if (is_signed(t) && low >> (bits - 1)) return static_cast<int64_t>(low | ~mask);
  return static_cast<int64_t>(low);
}

int64_t int_from(DType t, double v) {
  if (t == DType::kBool) return v != 0;
  if (std::isnan(v)) return 0;
  if (t == DType::kU64 && v >= 0x1p63) return v >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(v));
  if (v >= 0x1p63) return wrap(t, std::numeric_limits<int64_t>::max());
  if (v < -0x1p63) return wrap(t, std::numeric_limits<int64_t>::min());
  return wrap(t, static_cast<int64_t>(v));
}

int64_t int_lowest(DType t) {
  if (!is_signed(t)) return 0;
  return static_cast<int64_t>(~uint64_t{0} << (dtype_bits(t) - 1));
}
int64_t int_largest(DType t) {
  if (t == DType::kBool) return 1;
  const int bits = dtype_bits(t) - (is_signed(t) ? 1 : 0);
  return static_cast<int64_t>(bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

double smallest_normal(DType t) {
  if (t == DType::kF64) return std::numeric_limits<double>::min();
  return t == DType::kF16 ? 0x1p-14 : 0x1p-126;
}

Under::Under(const std::vector<int64_t>& in, const std::vector<int64_t>& out) : kind_(Kind::kAny) {
  size_t lead = 0;
  while (lead < in.size() && in[lead] == 1) ++lead;
  const size_t rest = in.size() - lead;
  const bool tail = rest <= out.size() && std::equal(in.begin() + static_cast<std::ptrdiff_t>(lead), in.end(),
                                                     out.end() - static_cast<std::ptrdiff_t>(rest));
  if (tail) {
    for (size_t k = lead; k < in.size(); ++k) tail_ *= in[k];
    bool same = true;
    for (size_t k = 0; k + rest < out.size(); ++k) same = same && out[k] == 1;
    kind_ = same ? Kind::kSame : rest == 0 ? Kind::kOne : tail_ == 0 ? Kind::kOne : Kind::kTail;
    return;
  }
  out_ = out;
  strides_ = broadcast_strides(in, out);
}

std::optional<std::vector<int64_t>> known_ints(const ir::Value* v) {
  if (!v) return std::nullopt;
  std::vector<int64_t> out;
  if (v->constant) {
    if (!is_integer(v->constant->dtype()) && v->constant->dtype() != DType::kBool) return std::nullopt;
    for (int64_t k = 0; k < v->constant->numel(); ++k) out.push_back(v->constant->i64(k));
    return out;
  }
  if (!v->content) return std::nullopt;
  for (const Dim& d : *v->content) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

void sort_unique(std::vector<int64_t>* positions) {
  std::sort(positions->begin(), positions->end());
  positions->erase(std::unique(positions->begin(), positions->end()), positions->end());
}

bool pull_same(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

double numel_of(const ir::Value* v) {
  double n = 1;
  for (const Dim& d : *v->type.shape) n *= static_cast<double>(d.is_const() ? d.value() : 1);
  return n;
}

Cost cost_move(const ir::Node& node) {
  Cost c;
  for (const ir::Value* v : node.outputs) c.bytes_written += numel_of(v) * dtype_bits(v->type.dtype) / 8.0;
  c.bytes_read = c.bytes_written;
  return c;
}
Cost cost_view(const ir::Node&) { return {}; }

}  // namespace peri::ops
