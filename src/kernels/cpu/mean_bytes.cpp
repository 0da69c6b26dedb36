// Kernel mean_bytes: the mean of dequantised bytes over adjacent axes, and their global average pooling, from exact
// sums of the bytes: the dequantised float32 values are never stored.
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "ops/reference/reduce.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kColumns = 256;        // of results that lie side by side, whose sums are in L1
constexpr int64_t kMaxJoined = 1 << 23;  // bytes whose sum is an int32

// The axes in memory: x is [outer, joined, inner], the result [outer, inner].
struct Shape {
  int64_t outer = 1, joined = 1, inner = 1;
  bool is_signed = false;
  int64_t blocks() const { return (inner + kColumns - 1) / kColumns; }
  int64_t units() const { return outer * blocks(); }
  int64_t units_a_task() const {
    return std::max<int64_t>(1, cpu::kTaskElements / (joined * std::min(inner, kColumns)));
  }
  int64_t tasks() const { return (units() + units_a_task() - 1) / units_a_task(); }
};

Result<std::vector<bool>> joined_axes(const ir::Node& n, size_t rank) {
  std::vector<bool> out(rank, false);
  if (n.op == "global_average_pool") {
    for (size_t k = 2; k < rank; ++k) out[k] = true;
    return out;
  }
  if (n.in(1)) {
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_TRY(context.constants(1, "axes"));
  }
  PERI_ASSIGN(const std::vector<int64_t> axes, ops::reduced_axes(n, rank));
  for (const int64_t a : axes) out[static_cast<size_t>(a)] = true;
  return out;
}

const ir::Node& mean_of(const Problem& p) { return *p.graph->nodes.back(); }

Result<Shape> read(const Problem& p, const ir::Layout& layout) {
  const ir::Node &from = p.anchor(), &n = mean_of(p);
  if (from.op != "dequantize_linear" || (n.op != "global_average_pool" && n.op != "reduce_mean"))
    return refused("not the mean of dequantised numbers");
  const auto real = std::count_if(p.graph->nodes.begin(), p.graph->nodes.end(),
                                  [](const ir::Node* node) { return !ops::states_sizes(*node); });
  if (real != 2 || n.in(0) != from.out()) return refused("takes two nodes, one behind the other");
  if (p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out()) return refused("takes one result");
  const DType bytes = from.in(0)->type.dtype;
  if ((bytes != DType::kU8 && bytes != DType::kI8) || from.in(1)->type.dtype != DType::kF32 ||
      n.out()->type.dtype != DType::kF32)
    return refused("takes bytes that are float32");
  for (const size_t port : {1, 2})
    if (const ir::Value* v = from.in(port))
      for (const int64_t extent : dims_of(*v))
        if (extent != 1) return refused("takes one scale");
  if (from.i("block_size") != 0) return refused("takes no blocks");
  Shape s;
  s.is_signed = bytes == DType::kI8;
  const std::vector<int64_t> d = dims_of(*from.in(0));
  PERI_ASSIGN(const std::vector<bool> joined, joined_axes(n, d.size()));
  int phase = 0;
  for (size_t k = 0; k < d.size(); ++k) {
    const size_t axis = layout.order.empty() ? k : layout.order[k];
    if (d[axis] == 1) continue;
    if (joined[axis] && phase == 2) return refused("axes that are not neighbours");
    phase = joined[axis] ? 1 : phase == 1 ? 2 : phase;
    (phase == 0 ? s.outer : phase == 1 ? s.joined : s.inner) *= d[axis];
  }
  if (s.outer * s.joined * s.inner == 0) return refused("an empty tensor");
  if (s.joined > kMaxJoined) return refused("more bytes than an int32 sums up");
  return s;
}

// Bytes as they lie, signed ones moved by 128: four sums of eight neighbours each at once.
template <class Byte>
[[gnu::target("avx2")]] int32_t total(const Byte* x, int64_t n) {
  constexpr bool kSigned = Byte(-1) < Byte(0);
  const __m256i flip = _mm256_set1_epi8(kSigned ? static_cast<char>(0x80) : 0);
  __m256i sums = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_xor_si256(v, flip), _mm256_setzero_si256()));
  }
  alignas(32) int64_t parts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sums);
  int64_t sum = parts[0] + parts[1] + parts[2] + parts[3] - (kSigned ? 128 * i : 0);
  for (; i < n; ++i) sum += x[i];
  return static_cast<int32_t>(sum);
}
template <class Byte>
[[gnu::target("avx2")]] void add(const Byte* __restrict x, int64_t n, int32_t* __restrict sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

// What a sum becomes: float64 holds every step, the result is rounded once.
struct Scaling {
  double zero = 0, factor = 1;  // of all bytes of a sum
  float of(int32_t sum) const { return static_cast<float>((sum - zero) * factor); }
};

template <class Byte>
void run(const Shape& s, const Byte* x, const Scaling& by, float* y, int64_t task) {
  const int64_t end = std::min(s.units(), (task + 1) * s.units_a_task());
  for (int64_t unit = task * s.units_a_task(); unit < end; ++unit) {
    const int64_t o = unit / s.blocks(), first = unit % s.blocks() * kColumns, n = std::min(kColumns, s.inner - first);
    const Byte* from = x + o * s.joined * s.inner + first;
    float* const to = y + o * s.inner + first;
    if (s.inner == 1) {
      *to = by.of(total(from, s.joined));
      continue;
    }
    std::array<int32_t, kColumns> sums{};
    for (int64_t j = 0; j < s.joined; ++j) add(from + j * s.inner, n, sums.data());
    for (int64_t i = 0; i < n; ++i) to[i] = by.of(sums[static_cast<size_t>(i)]);
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cpu::best_isa(target));
  const auto plain = read(p, {});
  const auto x = data_argument(p);
  std::vector<Offer> out;
  if (plain.ok()) out.push_back(row_major_offer(p, target));
  if (x && p.anchor().in(0)->type.rank() == 4 && read(p, ir::nhwc()).ok()) {
    Offer o = row_major_offer(p, target);
    o.inputs[*x] = ir::nhwc();
    const std::vector<int64_t> y = dims_of(*p.graph->outputs[0]);
    const bool flat = y.size() == 4 && y[2] == 1 && y[3] == 1;  // then NHWC and row-major are the same memory
    if (y.size() == 4 && !flat) o.outputs[0] = ir::nhwc();
    if (y.size() == 4 || y.size() == 2) out.push_back(o);
    if (flat) {
      o.outputs[0] = ir::nhwc();
      out.push_back(std::move(o));
    }
  }
  if (out.empty()) return plain.error();
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const Shape s, read(p, p.anchor().in(0)->type.layout));
  PERI_TRY(cpu::best_isa(*c.target));
  const ir::Node& n = p.anchor();
  return TaskInstance::make(s.tasks(), 0,
                            [s, x = Source::of(p, n.in(0), c.constants), scale = Source::of(p, n.in(1), c.constants),
                             zero = Source::of(p, n.in(2), c.constants)](int64_t task, const Args& args) {
                              const void* const z = zero.data(args);
                              Scaling by;
                              by.factor = static_cast<double>(*scale.f32(args)) / static_cast<double>(s.joined);
                              if (z && s.is_signed)
                                by.zero = *static_cast<const int8_t*>(z);
                              else if (z)
                                by.zero = *static_cast<const uint8_t*>(z);
                              by.zero *= static_cast<double>(s.joined);
                              auto* const y = static_cast<float*>(args.out[0]);
                              if (s.is_signed)
                                run(s, static_cast<const int8_t*>(x.data(args)), by, y, task);
                              else
                                run(s, static_cast<const uint8_t*>(x.data(args)), by, y, task);
                            });
}
}  // namespace

extern const Entry mean_bytes_entry;
const Entry mean_bytes_entry{{
    .name = "mean_bytes",
    .version = 1,
    .provider = "peri",
    .takes = "means and global average pooling of dequantised bytes with one scale, row-major or NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: u8[2,35,7,9]; const s: f32[] = [0.03]; const z: u8[] = [100]; d = dequantize_linear(x, s, "
         "z); y = global_average_pool(d); output y }",
         "graph { input x: i8[2,300,5,7]; const s: f32[] = [0.03]; const z: i8[] = [-7]; const a: i64[2] = [2, 3]; d = "
         "dequantize_linear(x, s, z); y = reduce_mean(d, a) {keepdims=0}; output y }",
         "graph { input x: u8[3,50,700]; const s: f32[] = [0.03]; const a: i64[1] = [1]; d = dequantize_linear(x, s); "
         "y = reduce_mean(d, a); output y }",
         "graph { input x: i8[3,50,7]; input s: f32[]; input z: i8[]; d = dequantize_linear(x, s, z); y = "
         "reduce_mean(d); output y }",
         "graph { input x: u8[1,1,700,300]; const s: f32[] = [0.03]; d = dequantize_linear(x, s); y = "
         "global_average_pool(d); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
