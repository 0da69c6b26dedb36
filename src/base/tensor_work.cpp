// The work is one pass over memory: more threads than saturate its bandwidth gain nothing.
#include "base/tensor_work.hpp"

#include <algorithm>

namespace peri {

namespace {
constexpr int kMaxThreads = 8;
constexpr int64_t kPiece = int64_t{1} << 18;    // elements, a millisecond or less
constexpr size_t kManyBytes = size_t{8} << 20;  // below, starting threads takes longer than the work
int threads_for(int64_t pieces) { return static_cast<int>(std::min<int64_t>({pieces, usable_cpus(), kMaxThreads})); }
}  // namespace

std::vector<uint64_t> content_hashes(std::span<const Tensor* const> tensors) {
  std::vector<uint64_t> out(tensors.size());
  std::vector<size_t> large;  // the largest first, so that none is begun last
  uint64_t bytes = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (tensors[k]->dtype() != DType::kString && tensors[k]->bytes().size() >= kManyBytes / 64) {
      large.push_back(k);
      bytes += tensors[k]->bytes().size();
    } else {
      out[k] = tensors[k]->content_hash();
    }
  }
  std::stable_sort(large.begin(), large.end(),
                   [&](size_t a, size_t b) { return tensors[a]->bytes().size() > tensors[b]->bytes().size(); });
  for_each_of(bytes, large.size(), [&](size_t k) { out[large[k]] = tensors[large[k]]->content_hash(); });
  return out;
}

void for_each_of(uint64_t bytes, size_t count, FunctionRef<void(size_t k)> fn) {
  ThreadPool pool(bytes < kManyBytes ? 1 : std::max(1, threads_for(static_cast<int64_t>(count))));
  pool.run(static_cast<int64_t>(count), [&](int64_t k, int) { fn(static_cast<size_t>(k)); });
}

void in_pieces(int64_t count, FunctionRef<void(int64_t begin, int64_t end)> fn) {
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  if (pieces < 4) return fn(0, count);
  ThreadPool pool(threads_for(pieces));
  pool.run(pieces, [&](int64_t k, int) { fn(k * kPiece, std::min(count, (k + 1) * kPiece)); });
}

}  // namespace peri
