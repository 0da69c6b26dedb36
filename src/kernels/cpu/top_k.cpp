// Kernel top_k: the k best of each line and their indices; NaN is larger than any number, of equals the first comes
// first.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/rows/loops.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md, 2026-11-24_constants_choices.md.
constexpr int64_t kTaskElements = 1 << 13;
constexpr int64_t kInserted = 16;   // up to this k, the best so far are a sorted list into which elements are inserted
constexpr int64_t kNarrowed = 256;  // from so many elements a count by intervals comes first: 2026-11-29_selection.md
constexpr int64_t kPasses = 4;      // of a short line, one for each of up to so many: 2026-11-29_selection.md
constexpr int64_t kScan = 64;       // neighbours of which the loop says at once which are better than what is held

struct Shape {
  DType type = DType::kInvalid;
  int64_t outer = 1, axis = 1, inner = 1, k = 1;
  bool largest = true;
  int values = -1, indices = -1;  // graph outputs
  const cpu::rows::Loops* loops = nullptr;
  int64_t lines() const { return outer * inner; }
  int64_t lines_per_task() const { return std::max<int64_t>(1, kTaskElements / axis); }
};

// Bits that grow with the number.
uint32_t ordered(float v) {
  if (v != v) return UINT32_MAX;
  const uint32_t bits = std::bit_cast<uint32_t>(v == 0 ? 0.0F : v);
  return bits >> 31 ? ~bits : bits | 0x80000000U;
}
uint64_t ordered(double v) {
  if (v != v) return UINT64_MAX;
  const uint64_t bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}
uint32_t ordered(int32_t v) { return static_cast<uint32_t>(v) ^ 0x80000000U; }
uint32_t ordered(int8_t v) { return ordered(int32_t{v}); }
uint32_t ordered(uint8_t v) { return v; }
uint32_t ordered(int16_t v) { return ordered(int32_t{v}); }
uint32_t ordered(uint16_t v) { return v; }
uint32_t ordered(uint32_t v) { return v; }
uint64_t ordered(uint64_t v) { return v; }
uint64_t ordered(int64_t v) {
  return static_cast<uint64_t>(v) ^ uint64_t { 1 } << 63;
}

// An element that may be among the best: the larger one comes first.
template <class Bits>
struct Candidate {
  Bits bits;
  uint32_t late;  // its place, counted from the end
  bool operator>(const Candidate& o) const { return bits != o.bits ? bits > o.bits : late > o.late; }
};
template <>
struct Candidate<uint32_t> {
  uint64_t both;
  Candidate() = default;
  Candidate(uint32_t bits, uint32_t late) : both(uint64_t{bits} << 32 | late) {}
  bool operator>(const Candidate& o) const { return both > o.both; }
};
uint32_t late_of(const Candidate<uint32_t>& c) { return static_cast<uint32_t>(c.both); }
uint32_t bits_of(const Candidate<uint32_t>& c) { return static_cast<uint32_t>(c.both >> 32); }
uint64_t bits_of(const Candidate<uint64_t>& c) { return c.bits; }
uint32_t late_of(const Candidate<uint64_t>& c) { return c.late; }

template <class T>
using CandidateOf = Candidate<decltype(ordered(T{}))>;

// The best of those shown to it, in order, at the beginning of `all`.
template <class C>
struct Best {
  C* all;
  int64_t k, held = 0;
  bool full() const { return held == k; }
  void show(const C& c) {
    if (full() && !(c > all[held - 1])) return;
    held += held < k;
    int64_t at = held - 1;
    for (; at > 0 && c > all[at - 1]; --at) all[at] = all[at - 1];
    all[at] = c;
  }
};

// Moves those of n candidates that may be among the k best to the beginning of `all`; how many they are. They are
// counted by equal intervals of their bits, and those below the interval of the k-th best are left out. No branch
// depends on an element: which ones are kept cannot be foretold.
template <class C>
int64_t narrowed(C* all, int64_t n, int64_t k) {
  using Bits = decltype(bits_of(*all));
  if (n < kNarrowed) return n;
  Bits least = bits_of(all[0]), most = least;
  for (int64_t i = 1; i < n; ++i) {
    least = std::min(least, bits_of(all[i]));
    most = std::max(most, bits_of(all[i]));
  }
  constexpr int kIntervalBits = 9;
  const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kIntervalBits);
  std::array<int64_t, size_t{1} << kIntervalBits> counts = {};
  const auto interval = [&](const C& c) { return static_cast<size_t>((bits_of(c) - least) >> shift); };
  for (int64_t i = 0; i < n; ++i) ++counts[interval(all[i])];
  size_t lowest = counts.size();
  for (int64_t found = 0; found < k;) found += counts[--lowest];
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    const C c = all[i];
    all[kept] = c;
    kept += interval(c) >= lowest;
  }
  return kept;
}

// The k best of a line, in order, at the beginning of `all`, which has room for every element.
template <class T>
void select(const Shape& s, const T* x, CandidateOf<T>* all) {
  using C = CandidateOf<T>;
  const auto candidate = [&](int64_t i) {
    const auto bits = ordered(x[i * s.inner]);
    return C{static_cast<decltype(bits)>(s.largest ? bits : ~bits), UINT32_MAX - static_cast<uint32_t>(i)};
  };
  if (s.k <= kInserted) {
    Best<C> best{all, s.k};
    int64_t i = 0;
    for (; i < s.axis && !best.full(); ++i) best.show(candidate(i));
    if constexpr (std::is_same_v<T, float>) {
      for (; s.inner == 1 && i + kScan <= s.axis; i += kScan) {
        const float worst = x[UINT32_MAX - late_of(all[s.k - 1])];
        for (uint64_t left = s.loops->beyond(x + i, worst, s.largest); left != 0; left &= left - 1)
          best.show(candidate(i + std::countr_zero(left)));
      }
    }
    for (; i < s.axis; ++i) best.show(candidate(i));
    return;
  }
  for (int64_t i = 0; i < s.axis; ++i) all[i] = candidate(i);
  const auto better = [](const C& a, const C& b) { return a > b; };
  const int64_t kept = s.k < s.axis ? narrowed(all, s.axis, s.k) : s.k;
  if (s.k < kept) std::nth_element(all, all + s.k, all + kept, better);
  std::sort(all, all + s.k, better);
}

template <class T>
void run_lines(const Shape& s, const void* from, const Args& args, int64_t task) {
  auto* const all = reinterpret_cast<CandidateOf<T>*>(args.scratch);
  const int64_t each = s.lines_per_task(), end = std::min(s.lines(), (task + 1) * each);
  for (int64_t line = task * each; line < end; ++line) {
    const int64_t outer = line / s.inner, inner = line % s.inner;
    const T* x = static_cast<const T*>(from) + outer * s.axis * s.inner + inner;
    select(s, x, all);
    for (int64_t e = 0; e < s.k; ++e) {
      const int64_t place = UINT32_MAX - late_of(all[e]), at = (outer * s.k + e) * s.inner + inner;
      if (s.values >= 0) static_cast<T*>(args.out[static_cast<size_t>(s.values)])[at] = x[place * s.inner];
      if (s.indices >= 0) static_cast<int64_t*>(args.out[static_cast<size_t>(s.indices)])[at] = place;
    }
  }
}

// Short lines of adjacent floats.
void run_short_lines(const Shape& s, const void* from, const Args& args, int64_t task) {
  const int64_t each = s.lines_per_task(), end = std::min(s.lines(), (task + 1) * each);
  for (int64_t line = task * each; line < end; ++line) {
    const float* x = static_cast<const float*>(from) + line * s.axis;
    std::array<int32_t, kPasses> places;
    s.loops->best_of_short(x, s.axis, s.k, s.largest, places.data());
    for (int64_t e = 0; e < s.k; ++e) {
      const int64_t place = places[static_cast<size_t>(e)], at = line * s.k + e;
      if (s.values >= 0) static_cast<float*>(args.out[static_cast<size_t>(s.values)])[at] = x[place];
      if (s.indices >= 0) static_cast<int64_t*>(args.out[static_cast<size_t>(s.indices)])[at] = place;
    }
  }
}

using RunLines = void (*)(const Shape& s, const void* from, const Args& args, int64_t task);
Result<RunLines> run_of(DType type) {
  switch (type) {
    case DType::kF32: return run_lines<float>;
    case DType::kF64: return run_lines<double>;
    case DType::kI32: return run_lines<int32_t>;
    case DType::kI64: return run_lines<int64_t>;
    case DType::kI8: return run_lines<int8_t>;
    case DType::kU8: return run_lines<uint8_t>;
    case DType::kI16: return run_lines<int16_t>;
    case DType::kU16: return run_lines<uint16_t>;
    case DType::kU32: return run_lines<uint32_t>;
    case DType::kU64: return run_lines<uint64_t>;
    default: return refused("elements of %s", dtype_name(type).data());
  }
}

int output_index(const ir::Graph& g, const ir::Value* v) {
  const auto it = std::find(g.outputs.begin(), g.outputs.end(), v);
  return it == g.outputs.end() ? -1 : static_cast<int>(it - g.outputs.begin());
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "top_k") return refused("not a top_k");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  Shape s;
  s.type = n.in(0)->type.dtype;
  PERI_TRY(run_of(s.type));
  const std::vector<int64_t> d = dims_of(*n.in(0)), y = dims_of(*n.out());
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  if (axis < 0 || axis >= static_cast<int64_t>(d.size())) return refused("a bad axis");
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  s.k = y[static_cast<size_t>(axis)];
  if (s.outer * s.axis * s.inner * s.k == 0) return refused("an empty tensor");
  if (s.k > s.axis || s.axis >= UINT32_MAX) return refused("more than there are");
  s.largest = n.i("largest", 1) != 0;
  s.values = output_index(*p.graph, n.outputs[0]);
  if (n.outputs.size() > 1 && n.outputs[1]) s.indices = output_index(*p.graph, n.outputs[1]);
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  s.loops = isa == cpu::Isa::kAvx512 ? &cpu::rows::avx512::kLoops : &cpu::rows::avx2::kLoops;
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  PERI_ASSIGN(RunLines run, run_of(s.type));
  if (s.type == DType::kF32 && s.inner == 1 && s.axis <= cpu::rows::kMaxShort && s.k <= kPasses) run = run_short_lines;
  const size_t scratch = static_cast<size_t>(s.k <= kInserted ? kInserted : s.axis) * sizeof(Candidate<uint64_t>);
  return TaskInstance::make((s.lines() + s.lines_per_task() - 1) / s.lines_per_task(), scratch,
                            [=](int64_t task, const Args& args) { run(s, x.data(args), args, task); });
}
}  // namespace

extern const Entry top_k_entry;
const Entry top_k_entry{{
    .name = "top_k",
    .version = 2,
    .provider = "peri",
    .takes = "top_k of f32, f64 and integers of 8 to 64 bits along any axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[3,500]; const k: i64[1] = [40]; y, i = top_k(x, k); output y; output i }",
         "graph { input x: f32[37,300]; const k: i64[1] = [5]; y, i = top_k(x, k) {largest=0}; output y; output i }",
         "graph { input x: f32[30,70,5]; const k: i64[1] = [3]; y, i = top_k(x, k) {axis=1, largest=0}; output y; "
         "output i }",
         "graph { input x: f32[40,61]; const k: i64[1] = [3]; y, i = top_k(x, k); output y; output i }",
         "graph { input x: f32[40,128]; const k: i64[1] = [4]; y, i = top_k(x, k) {largest=0}; output y; output i }",
         "graph { input x: u8[3,500]; const k: i64[1] = [40]; y, i = top_k(x, k); output y; output i }",
         "graph { input x: i16[37,300]; const k: i64[1] = [5]; y, i = top_k(x, k) {largest=0}; output y; output i }",
         "graph { input x: u32[3,500]; const k: i64[1] = [40]; y, i = top_k(x, k); output y; output i }",
         "graph { input x: u64[37,300]; const k: i64[1] = [5]; y, i = top_k(x, k) {largest=0}; output y; output i }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
