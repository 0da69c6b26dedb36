// The block: a count, then for each tensor its type, rank, bytes and dims, all as 64-bit numbers; then the data.
#include "serve/worker/tensor_block.hpp"

#include <cstring>

namespace peri::serve {

namespace {
constexpr uint64_t kGrain = 64;
constexpr uint64_t kMaxTensors = 4096, kMaxRank = 64;

uint64_t aligned(uint64_t v) { return (v + kGrain - 1) / kGrain * kGrain; }

uint64_t data_bytes(const Tensor& t) {
  if (t.dtype() != DType::kString) return t.bytes().size();
  uint64_t out = 0;
  for (const std::string& s : t.string_values()) out += sizeof(uint64_t) + s.size();
  return out;
}

// Consecutive numbers, each read exactly once.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool next(uint64_t* out) {
    if (bytes_.size() - at_ < sizeof *out) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof *out);
    at_ += sizeof *out;
    return true;
  }
  uint64_t at() const { return at_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

Result<Tensor> read_strings(std::span<const std::byte> bytes, std::vector<int64_t> dims) {
  std::vector<std::string> values;
  for (uint64_t at = 0; at < bytes.size();) {
    uint64_t size = 0;
    if (bytes.size() - at < sizeof size) return invalid("a string of a block has no length");
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (size > bytes.size() - at) return invalid("a string reaches beyond its block");
    values.emplace_back(reinterpret_cast<const char*>(bytes.data() + at), size);
    at += size;
  }
  return Tensor::strings(std::move(dims), std::move(values));
}
}  // namespace

uint64_t block_bytes(std::span<const Tensor> tensors) {
  uint64_t head = sizeof(uint64_t), data = 0;
  for (const Tensor& t : tensors) {
    head += sizeof(uint64_t) * (3 + t.dims().size());
    data += aligned(data_bytes(t));
  }
  return aligned(head) + data;
}

void write_block(std::span<const Tensor> tensors, std::span<std::byte> to) {
  std::byte* at = to.data();
  const auto put = [&](uint64_t v) {
    std::memcpy(at, &v, sizeof v);
    at += sizeof v;
  };
  put(tensors.size());
  for (const Tensor& t : tensors) {
    put(static_cast<uint64_t>(t.dtype()));
    put(t.dims().size());
    put(data_bytes(t));
    for (const int64_t d : t.dims()) put(static_cast<uint64_t>(d));
  }
  at = to.data() + aligned(static_cast<uint64_t>(at - to.data()));
  for (const Tensor& t : tensors) {
    std::byte* const begin = at;
    if (t.dtype() == DType::kString) {
      for (const std::string& s : t.string_values()) {
        put(s.size());
        if (!s.empty()) std::memcpy(at, s.data(), s.size());
        at += s.size();
      }
    } else if (!t.bytes().empty()) {
      std::memcpy(at, t.bytes().data(), t.bytes().size());
      at += t.bytes().size();
    }
    at = begin + aligned(static_cast<uint64_t>(at - begin));
  }
}

Result<std::vector<Tensor>> read_block(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep) {
  struct Head {
    DType dtype;
    std::vector<int64_t> dims;
    uint64_t bytes;
  };
  std::vector<Head> heads;
  Reader in(bytes);
  uint64_t count = 0;
  if (!in.next(&count) || count > kMaxTensors) return invalid("a block of tensors has no proper count");
  for (uint64_t k = 0; k < count; ++k) {
    uint64_t dtype = 0, rank = 0, size = 0;
    if (!in.next(&dtype) || !in.next(&rank) || !in.next(&size) || rank > kMaxRank || dtype == 0 ||
        dtype > static_cast<uint64_t>(DType::kF6E3M2))
      return invalid("a tensor of a block has no proper type");
    Head h{static_cast<DType>(dtype), {}, size};
    for (uint64_t d = 0; d < rank; ++d) {
      uint64_t v = 0;
      if (!in.next(&v)) return invalid("a block of tensors ends within its dims");
      h.dims.push_back(static_cast<int64_t>(v));
    }
    heads.push_back(std::move(h));
  }
  uint64_t at = aligned(in.at());
  std::vector<Tensor> out;
  for (Head& h : heads) {
    if (at > bytes.size() || h.bytes > bytes.size() - at) return invalid("a tensor reaches beyond its block");
    const auto data = bytes.subspan(at, h.bytes);
    at += aligned(h.bytes);
    if (h.dtype == DType::kString) {
      PERI_ASSIGN(Tensor t, read_strings(data, std::move(h.dims)));
      out.push_back(std::move(t));
    } else {
      PERI_ASSIGN(Tensor t, Tensor::view(h.dtype, std::move(h.dims), data, keep));
      out.push_back(std::move(t));
    }
  }
  return out;
}

}  // namespace peri::serve
