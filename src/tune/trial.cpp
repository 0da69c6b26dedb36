// Seeded arguments, expected answers, verification and timing of one candidate.
#include "tune/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"

namespace peri::tune {

namespace {
// Above this many flops the answer is checked at sampled positions: a float64 reference does about 1 Gflop a second.
constexpr double kWholeFlops = 3e7;
constexpr int64_t kSamples = 4096;

// The exclusive upper end for an integer input: what it indexes, or a small number.
int64_t index_range(const ir::Graph& region, const ir::Value* v) {
  for (const ir::Node* n : region.nodes) {
    if (n->in(1) != v || !n->in(0)) continue;
    const Shape& data = *n->in(0)->type.shape;
    if ((n->op == "gather" || n->op == "gather_elements") && !data.empty()) {
      int64_t axis = n->i("axis");
      if (axis < 0) axis += static_cast<int64_t>(data.size());
      return std::max<int64_t>(1, data[static_cast<size_t>(axis)].value());
    }
    if (n->op == "gather_nd" || n->op == "scatter_nd" || n->op == "scatter_elements") {
      int64_t low = INT64_MAX;
      for (const Dim& d : data) low = std::min(low, d.value());
      return std::max<int64_t>(1, low == INT64_MAX ? 1 : low);
    }
  }
  return 8;
}
}  // namespace

Result<std::vector<Tensor>> make_arguments(const ir::Graph& region, uint64_t seed) {
  std::vector<Tensor> out;
  for (const ir::Value* v : region.inputs) {
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, {}));
    PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
    Rng rng(seed++);
    if (v->type.dtype == DType::kF32) {
      // Cheap seeded values: 4096 normals repeated at a shifting offset, so that large weights are made at memory
      // speed.
      float block[4096];
      for (float& x : block) x = static_cast<float>(rng.normal());
      float* data = t.mutable_as<float>();
      for (int64_t k = 0; k < t.numel(); ++k) data[k] = block[(k + (k >> 12) * 29) & 4095];
    } else if (is_float(v->type.dtype)) {
      for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.normal());
    } else if (v->type.dtype == DType::kBool) {
      for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, rng.below(2));
    } else if (v->type.dtype != DType::kString) {
      const int64_t range = index_range(region, v);
      for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, rng.below(range));
    }
    out.push_back(std::move(t));
  }
  return out;
}

namespace {
// Seeded positions of an output, ascending: the first and last 64, 64 at each end of each axis, and any.
std::vector<int64_t> sample_positions(const std::vector<int64_t>& dims, uint64_t seed) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Rng rng(seed);
  std::vector<int64_t> out;
  for (int64_t k = 0; k < 64; ++k) out.push_back(k), out.push_back(n - 1 - k);
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const int64_t d = dims[axis];
    for (int64_t k = 0; k < 128; ++k) {
      const int64_t p = rng.below(n), at = p / stride % d;
      out.push_back(p + ((k & 1 ? d - 1 : 0) - at) * stride);
    }
    stride *= d;
  }
  auto ascending = [&] {
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  };
  for (ascending(); static_cast<int64_t>(out.size()) < kSamples; ascending())
    for (int64_t k = static_cast<int64_t>(out.size()); k < kSamples; ++k) out.push_back(rng.below(n));
  return out;
}
}  // namespace

Result<Expected> expected_at(const ir::Graph& region, std::span<const Tensor> arguments, int threads,
                             std::vector<int64_t> positions) {
  Expected e;
  e.positions = std::move(positions);
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : arguments) in.push_back(ops::to_ref(t));
  double u = unit_roundoff(DType::kF32);
  for (const ir::Value* v : region.outputs)
    if (is_float(v->type.dtype)) u = std::min(u, std::max(unit_roundoff(v->type.dtype), unit_roundoff(DType::kF64)));
  PERI_ASSIGN(e.out, ops::run_reference(region, in, {u, threads, false, e.positions}));
  return e;
}

Result<Expected> make_expected(const ir::Graph& region, std::span<const Tensor> arguments, int threads, uint64_t seed) {
  double flops = 0;
  for (const ir::Node* n : region.nodes) flops += ops::cost_of(*n).flops;
  const std::vector<int64_t> dims = kernels::dims_of(*region.outputs[0]);
  const int64_t n = product(*region.outputs[0]->type.shape).value();
  const bool some = flops > kWholeFlops && region.outputs.size() == 1 && n > 2 * kSamples;
  return expected_at(region, arguments, threads, some ? sample_positions(dims, seed) : std::vector<int64_t>());
}

std::vector<int64_t> disputed_positions(const Expected& expected, const Tensor& a, const Tensor& b) {
  constexpr size_t kMost = 64;
  std::vector<int64_t> out;
  const ops::RefTensor& want = expected.out[0];
  double radius = 0;
  for (int64_t at : expected.positions) radius = std::max(radius, want.floating() ? want.r(at) : 0.0);
  const double u = unit_roundoff(want.dtype);
  const std::span<const float> fa = a.dtype() == DType::kF32 ? a.as<float>() : std::span<const float>(),
                               fb = a.dtype() == DType::kF32 ? b.as<float>() : fa;
  for (int64_t k = 0; k < a.numel() && out.size() < kMost; ++k) {
    if (!want.floating()) {
      if (a.i64(k) != b.i64(k)) out.push_back(k);
      continue;
    }
    const double x = fa.empty() ? a.f64(k) : fa[static_cast<size_t>(k)],
                 y = fb.empty() ? b.f64(k) : fb[static_cast<size_t>(k)];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::fabs(x - y) <= 2 * (radius + u * std::fabs(x)))) out.push_back(k);
  }
  return out;
}

namespace {
Status differs(size_t output, int64_t at, const std::string& want, const std::string& got) {
  return Error(ErrorKind::kAccuracy, format("output %zu differs at %lld", output, static_cast<long long>(at)))
      .expecting(want)
      .but_found(got);
}
}  // namespace

Result<double> compare(const Expected& expected, std::span<const Tensor> got) {
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    const ops::RefTensor& want = expected.out[k];
    const bool some = !expected.positions.empty();
    const int64_t count = some ? static_cast<int64_t>(expected.positions.size()) : want.numel();
    const double u = unit_roundoff(want.dtype);
    for (int64_t n = 0; n < count; ++n) {
      const int64_t at = some ? expected.positions[static_cast<size_t>(n)] : n;
      const size_t i = static_cast<size_t>(at);
      if (want.dtype == DType::kString) {
        if (want.s[i] != got[k].string_values()[i]) return differs(k, at, want.s[i], got[k].string_values()[i]).error();
        continue;
      }
      if (!want.floating()) {
        if (want.i[i] != got[k].i64(at))
          return differs(k, at, std::to_string(want.i[i]), std::to_string(got[k].i64(at))).error();
        continue;
      }
      const double w = want.f[i], g = got[k].f64(at);
      if (std::isnan(w) && std::isnan(g)) continue;
      if (w == g) continue;
      // Rounding of the result to its type, and its smallest step near zero (subnormal results).
      const double radius = want.r(at) + u * std::fabs(w) + (want.dtype == DType::kF16 ? 0x1p-24 : 0x1p-126);
      const double error = std::fabs(w - g);
      if (!(error <= radius)) {
        const bool both_huge = std::isinf(g) &&
                               std::fabs(w) + radius > (want.dtype == DType::kF16 ? 65504.0 : 3.4028234e38) &&
                               std::signbit(g) == std::signbit(w);
        if (!both_huge) return differs(k, at, format("%.9g +- %.3g", w, radius), format("%.9g", g)).error();
        continue;  // the exact answer is so near the largest number that overflow lies within its radius
      }
      worst = std::max(worst, error / radius);
    }
  }
  return worst;
}

std::vector<int64_t> physical_dims(const std::vector<int64_t>& dims, const ir::Layout& layout) {
  std::vector<int64_t> p;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t axis = layout.order.empty() ? k : layout.order[k];
    p.push_back(static_cast<int>(axis) == layout.block_axis ? (dims[axis] + layout.block - 1) / layout.block
                                                            : dims[axis]);
  }
  if (layout.block_axis >= 0) p.push_back(layout.block);
  return p;
}

namespace {
// Calls f(logical, physical) for every element, in logical order; rows of the last axis are one inner loop.
template <class F>
void for_each_element(const std::vector<int64_t>& dims, const ir::Layout& layout, F f) {
  const std::vector<int64_t> p = physical_dims(dims, layout);
  const size_t rank = dims.size();
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  if (n == 0) return;
  // Physical distance of a step along each logical axis; a blocked axis has two.
  std::vector<int64_t> step(rank, 0);
  int64_t at = layout.block_axis >= 0 ? layout.block : 1;
  for (size_t k = rank; k-- > 0;) {
    step[layout.order.empty() ? k : layout.order[k]] = at;
    at *= p[k];
  }
  auto offset = [&](size_t axis, int64_t c) {
    return static_cast<int>(axis) == layout.block_axis ? c / layout.block * step[axis] + c % layout.block
                                                       : c * step[axis];
  };
  if (rank == 0) return f(0, 0);
  const int64_t inner = dims[rank - 1];
  std::vector<int64_t> c(rank, 0);
  for (int64_t row = 0; row < n / inner; ++row) {
    int64_t base = 0;
    for (size_t axis = 0; axis + 1 < rank; ++axis) base += offset(axis, c[axis]);
    for (int64_t k = 0; k < inner; ++k) f(row * inner + k, base + offset(rank - 1, k));
    for (size_t axis = rank - 1; axis-- > 0;) {
      if (++c[axis] < dims[axis]) break;
      c[axis] = 0;
    }
  }
}

template <size_t kBytes>
void move_elements(const std::vector<int64_t>& dims, const ir::Layout& layout, bool to_physical, const std::byte* from,
                   std::byte* to) {
  for_each_element(dims, layout, [&](int64_t logical, int64_t physical) {
    const int64_t a = to_physical ? logical : physical, b = to_physical ? physical : logical;
    std::memcpy(to + static_cast<size_t>(b) * kBytes, from + static_cast<size_t>(a) * kBytes, kBytes);
  });
}

Status move_by_size(int size, const std::vector<int64_t>& dims, const ir::Layout& layout, bool to_physical,
                    const std::byte* from, std::byte* to) {
  switch (size) {
    case 1: return move_elements<1>(dims, layout, to_physical, from, to), Ok{};
    case 2: return move_elements<2>(dims, layout, to_physical, from, to), Ok{};
    case 4: return move_elements<4>(dims, layout, to_physical, from, to), Ok{};
    case 8: return move_elements<8>(dims, layout, to_physical, from, to), Ok{};
    default: return internal_error("no layouts for elements of %d bytes", size);
  }
}
}  // namespace

Result<Tensor> to_layout(const Tensor& t, const ir::Layout& layout) {
  if (layout.row_major()) return t;
  PERI_ASSIGN(Tensor out, Tensor::zeros(t.dtype(), physical_dims(t.dims(), layout)));
  PERI_TRY(move_by_size(dtype_size(t.dtype()), t.dims(), layout, true, t.bytes().data(), out.mutable_data()));
  return out;
}

Result<Tensor> from_layout(const Tensor& t, const ir::Layout& layout, const std::vector<int64_t>& dims) {
  if (layout.row_major()) return t.reshaped(dims);
  PERI_ASSIGN(Tensor out, Tensor::zeros(t.dtype(), dims));
  PERI_TRY(move_by_size(dtype_size(t.dtype()), dims, layout, false, t.bytes().data(), out.mutable_data()));
  return out;
}

struct Trial::State {
  std::vector<std::vector<int64_t>> out_dims;
  std::vector<ir::Layout> out_layouts;
  ir::Graph region;
  kernels::Packed packed;
  std::unique_ptr<kernels::Instance> instance;
  std::vector<Tensor> in, out;
  std::vector<bool> constant;
  Tensor workspace, scratch;
  size_t scratch_stride = 0;
  std::vector<const void*> in_p;
  std::vector<void*> out_p;
  ThreadPool* pool = nullptr;
};
Trial::Trial() : state_(std::make_unique<State>()) {}
Trial::~Trial() = default;

Result<std::unique_ptr<Trial>> Trial::create(const ir::Graph& region, const std::vector<bool>& constant,
                                             const Candidate& c, std::span<const Tensor> arguments,
                                             const kernels::Machine& machine, ThreadPool* pool) {
  std::unique_ptr<Trial> trial(new Trial());
  State& s = *trial->state_;
  s.pool = pool;
  s.constant = constant;
  s.region = region.clone();
  std::vector<Tensor> constants(arguments.size());
  for (size_t k = 0; k < arguments.size(); ++k) {
    s.region.inputs[k]->type.layout = c.offer.inputs[k];
    PERI_ASSIGN(Tensor t, to_layout(arguments[k], c.offer.inputs[k]));
    if (constant[k]) constants[k] = t;
    s.in.push_back(std::move(t));
    s.in_p.push_back(constant[k] ? nullptr : s.in.back().data());
  }
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    s.region.outputs[k]->type.layout = c.offer.outputs[k];
    s.out_dims.push_back(kernels::dims_of(*region.outputs[k]));
    s.out_layouts.push_back(c.offer.outputs[k]);
    PERI_ASSIGN(Tensor t,
                Tensor::zeros(region.outputs[k]->type.dtype, physical_dims(s.out_dims[k], c.offer.outputs[k])));
    s.out.push_back(std::move(t));
    s.out_p.push_back(s.out.back().mutable_data());
  }
  const kernels::Problem problem{&s.region, constant};
  PERI_ASSIGN(s.instance,
              c.kernel->instantiate(problem, c.offer.config, {constants, &s.packed, &machine, nullptr, true}));
  s.scratch_stride = (s.instance->scratch_bytes() + 63) / 64 * 64;
  PERI_ASSIGN(s.workspace, Tensor::zeros(DType::kU8, {static_cast<int64_t>(s.instance->workspace_bytes())}));
  PERI_ASSIGN(s.scratch, Tensor::zeros(DType::kU8, {static_cast<int64_t>(s.scratch_stride) * pool->threads()}));
  return trial;
}

void Trial::run() {
  State& s = *state_;
  for (int phase = 0; phase < s.instance->phases(); ++phase)
    s.pool->run(s.instance->tasks(phase), [&](int64_t task, int worker) {
      s.instance->run_task(phase, task,
                           {s.in_p, s.out_p, s.workspace.mutable_data(),
                            s.scratch.mutable_data() + static_cast<size_t>(worker) * s.scratch_stride});
    });
}

Result<double> Trial::verify(const Expected& expected, std::vector<Tensor>* outputs) {
  State& s = *state_;
  std::vector<uint64_t> before;
  for (const Tensor& t : s.in) before.push_back(hash_bytes(t.data(), t.bytes().size()));
  for (Tensor& t : s.out) std::memset(t.mutable_data(), 0xff, t.bytes().size());  // NaN in every float type
  std::memset(s.workspace.mutable_data(), 0xff, s.workspace.bytes().size());
  std::memset(s.scratch.mutable_data(), 0xff, s.scratch.bytes().size());
  run();
  for (size_t k = 0; k < s.in.size(); ++k)
    if (hash_bytes(s.in[k].data(), s.in[k].bytes().size()) != before[k])
      return Error(ErrorKind::kAccuracy, format("it changed its input %zu", k));
  std::vector<Tensor> got;
  for (size_t k = 0; k < s.out.size(); ++k) {
    PERI_ASSIGN(Tensor t, from_layout(s.out[k], s.out_layouts[k], s.out_dims[k]));
    got.push_back(std::move(t));
  }
  const Result<double> error = compare(expected, got);
  if (outputs) *outputs = std::move(got);
  return error;
}

namespace {
constexpr size_t kLeastSamples = 5, kMostSamples = 64, kMostCoolSamples = 15;
constexpr double kQuantile = 0.2;  // threads that lost their CPU make samples slower, nothing makes them faster

int64_t read_lines(std::span<const std::byte> bytes) {
  int64_t sum = 0;
  for (size_t k = 0; k + 64 <= bytes.size(); k += 64) sum += static_cast<int64_t>(bytes[k]);
  return sum;
}
}  // namespace

void Trial::cool(std::span<const std::byte> rest) {
  State& s = *state_;
  const size_t parts = static_cast<size_t>(s.pool->threads());
  auto read_part = [&](std::span<const std::byte> bytes, int64_t part) {
    const size_t each = bytes.size() / parts / 64 * 64;
    volatile int64_t keep = read_lines(bytes.subspan(static_cast<size_t>(part) * each, each));
    (void)keep;
  };
  s.pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) { read_part(rest, part); });
  s.pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) {
    for (size_t k = 0; k < s.in.size(); ++k)
      if (!s.constant[k]) read_part(s.in[k].bytes(), part);
  });
}

double Trial::time_ms(double budget_ms, std::span<const std::byte> rest) {
  const bool cools =
      !rest.empty() && std::find(state_->constant.begin(), state_->constant.end(), true) != state_->constant.end();
  const size_t most = cools ? kMostCoolSamples : kMostSamples;
  std::vector<double> samples;
  run();
  const int64_t start = now_ns();
  while (samples.size() < kLeastSamples || (samples.size() < most && seconds_since(start) * 1e3 < budget_ms)) {
    if (cools) cool(rest);
    const int64_t t = now_ns();
    run();
    samples.push_back(seconds_since(t) * 1e3);
  }
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(samples.size()) * kQuantile);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

}  // namespace peri::tune
