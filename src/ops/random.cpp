// RandomNormal, RandomUniform, their Like forms, Bernoulli and Multinomial: numbers that depend only on the seed, or
// without one on the result's name, and on the element's position: every run of a model draws the same.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kDrawn = kFloats;

// Two nodes without a seed draw different numbers.
Status name_stream(ir::Graph&, ir::Node& node, int) {
  const std::string& name = node.out()->name;
  if (!node.has("seed")) node.attrs["stream"] = static_cast<int64_t>(hash_bytes(name.data(), name.size()) >> 1);
  return Ok{};
}

Result<DType> drawn_type(const InferContext& c, DType otherwise, TypeSet allowed) {
  const int64_t wanted = c.node.i("dtype", static_cast<int64_t>(otherwise));
  if (wanted > 0 && wanted < kDTypeCount && contains(allowed, static_cast<DType>(wanted)))
    return static_cast<DType>(wanted);
  return invalid("%s cannot make its 'dtype'", c.node.op.c_str()).but_found(std::to_string(wanted));
}

Status infer_shaped(InferContext& c) {
  PERI_ASSIGN(const DType type, drawn_type(c, DType::kF32, kDrawn));
  Shape shape;
  for (const int64_t d : c.node.ints("shape")) {
    if (d < 0) return invalid("a size is negative").expecting(">= 0").but_found(std::to_string(d));
    shape.push_back(Dim(d));
  }
  c.set(0, type, std::move(shape));
  return Ok{};
}
Status infer_like(InferContext& c) {
  PERI_ASSIGN(const DType type, drawn_type(c, c.dtype(0), kDrawn));
  c.set(0, type, c.shape(0));
  return Ok{};
}
Status infer_bernoulli(InferContext& c) {
  PERI_ASSIGN(const DType type, drawn_type(c, c.dtype(0), kNumbers | kBools));
  c.set(0, type, c.shape(0));
  return Ok{};
}
Status infer_multinomial(InferContext& c) {
  PERI_ASSIGN(const DType type, drawn_type(c, DType::kI32, kIndex));
  if (c.rank(0) != 2)
    return invalid("multinomial needs a row of logarithms for each result").but_found(shape_text(c.shape(0)));
  if (c.shape(0)[1].is_const(0)) return invalid("multinomial has no class to draw");
  const int64_t count = c.node.i("sample_size", 1);
  if (count < 0) return invalid("sample_size is negative").but_found(std::to_string(count));
  c.set(0, type, {c.shape(0)[0], Dim(count)});
  return Ok{};
}

// Where the numbers of a node begin.
uint64_t start_of(const ir::Node& node) {
  const uint64_t seed =
      node.has("seed") ? std::bit_cast<uint64_t>(node.f("seed", 0)) : static_cast<uint64_t>(node.i("stream", 0));
  return Rng(seed).next();
}
// Each element has a generator of its own.
Rng at_place(uint64_t start, int64_t place) { return Rng(start + static_cast<uint64_t>(place)); }

constexpr int64_t kMinDrawn = 4096;  // numbers read or written for which a thread is started

// `reads`: how many numbers each of the drawn ones takes to make.
template <class F>
Status each_drawn(RefCall& call, F f, int64_t reads = 1) {
  const uint64_t start = start_of(call.node);
  parallel_for(
      call.threads, call.count(),
      [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t p = call.position(n);
          Rng rng = at_place(start, p);
          f(rng, p);
        }
      },
      std::max<int64_t>(kMinDrawn / reads, 1));
  return Ok{};
}

Status normal(RefCall& call) {
  const double mean = call.node.f("mean", 0), scale = call.node.f("scale", 1);
  return each_drawn(call,
                    [&](Rng& rng, int64_t p) { call.out[0].f[static_cast<size_t>(p)] = mean + scale * rng.normal(); });
}
Status uniform(RefCall& call) {
  const double low = call.node.f("low", 0), high = call.node.f("high", 1);
  return each_drawn(
      call, [&](Rng& rng, int64_t p) { call.out[0].f[static_cast<size_t>(p)] = low + (high - low) * rng.uniform(); });
}
Status bernoulli(RefCall& call) {
  RefTensor& y = call.out[0];
  return each_drawn(call, [&](Rng& rng, int64_t p) {
    const size_t at = static_cast<size_t>(p);
    const bool on = rng.uniform() < call.in[0]->f[at];
    if (y.floating())
      y.f[at] = on;
    else
      y.i[at] = on;
  });
}
// The class at which the sum of probabilities passes a number between nothing and all of them.
Status multinomial(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const int64_t classes = x.dims[1], count = call.out[0].dims[1];
  return each_drawn(
      call,
      [&](Rng& rng, int64_t p) {
        const double* const row = x.f.data() + p / count * classes;
        const double most = *std::max_element(row, row + classes);
        double all = 0;
        for (int64_t k = 0; k < classes; ++k) all += std::exp(row[k] - most);
        double left = rng.uniform() * all;
        int64_t taken = 0;
        while (taken + 1 < classes && (left -= std::exp(row[taken] - most)) >= 0) ++taken;
        call.out[0].i[static_cast<size_t>(p)] = taken;
      },
      std::max<int64_t>(classes, 1));
}

bool pull_nothing(const ir::Node&, size_t, std::span<const int64_t>, std::vector<int64_t>* needed) {
  needed->clear();
  return true;
}

const AttrSpec kType{"dtype", AttrKind::kType, false, "the type of x"},
    kTypeF32{"dtype", AttrKind::kType, false, "float"}, kSeed{"seed", AttrKind::kFloat, false, "by the result's name"},
    kStream{"stream", AttrKind::kInt, false, "0"}, kMean{"mean", AttrKind::kFloat, false, "0"},
    kScale{"scale", AttrKind::kFloat, false, "1"}, kLow{"low", AttrKind::kFloat, false, "0"},
    kHigh{"high", AttrKind::kFloat, false, "1"}, kShape{"shape", AttrKind::kInts, true};

OpDef shaped(std::string_view name, std::string_view onnx, AttrSpec a, AttrSpec b, Status (*reference)(RefCall&),
             std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {1, 22},
          .outputs = {{"y"}},
          .attrs = {kTypeF32, a, b, kSeed, kShape, kStream},
          .upgrade = name_stream,
          .infer = infer_shaped,
          .reference = reference,
          .samples = std::move(samples)};
}
OpDef like(std::string_view name, std::string_view onnx, AttrSpec a, AttrSpec b, Status (*reference)(RefCall&),
           std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {1, 22},
          .inputs = {{"x", kNumbers | kBools}},
          .outputs = {{"y"}},
          .attrs = {kType, a, b, kSeed, kStream},
          .upgrade = name_stream,
          .infer = infer_like,
          .reference = reference,
          .pull = pull_nothing,
          .samples = std::move(samples)};
}

std::vector<OpDef> definitions() {
  return {shaped("random_normal", "RandomNormal", kMean, kScale, normal,
                 {"graph { input x: f32[3,4]; r = random_normal() {shape=[3,4], mean=2.0, seed=5.0}; y = add(x, r); "
                  "output y }",
                  "graph { input x: f64[0]; r = random_normal() {shape=[0], dtype=2}; y = add(x, r); output y }"}),
          shaped("random_uniform", "RandomUniform", kLow, kHigh, uniform,
                 {"graph { input x: f32[3,4]; r = random_uniform() {shape=[4], low=-1.0, stream=3}; y = add(x, r); "
                  "output y }"}),
          like("random_normal_like", "RandomNormalLike", kMean, kScale, normal,
               {"graph { input x: f32[2,3,50]; y = random_normal_like(x) {seed=1.0, scale=0.5}; output y }",
                "graph { input x: i64[7]; y = random_normal_like(x) {dtype=1}; output y }"}),
          like("random_uniform_like", "RandomUniformLike", kLow, kHigh, uniform,
               {"graph { input x: f32[2,3,50]; y = random_uniform_like(x) {seed=1.0, high=4.0}; output y }",
                "graph { input x: f64[0,2]; y = random_uniform_like(x); output y }"}),
          {.name = "bernoulli",
           .onnx = "Bernoulli",
           .versions = {15, 22},
           .inputs = {{"x", kFloats}},
           .outputs = {{"y"}},
           .attrs = {kType, kSeed, kStream},
           .upgrade = name_stream,
           .infer = infer_bernoulli,
           .reference = bernoulli,
           .pull = pull_same,
           .jumps = true,
           .samples = {"graph { input x: f32[40,3]; y = bernoulli(x); output y }",
                       "graph { input x: f32[5]; y = bernoulli(x) {dtype=23, seed=2.0}; output y }"}},
          {.name = "multinomial",
           .onnx = "Multinomial",
           .versions = {7, 22},
           .inputs = {{"x", kFloats}},
           .outputs = {{"y"}},
           .attrs = {{"dtype", AttrKind::kType, false, "int32"},
                     {"sample_size", AttrKind::kInt, false, "1"},
                     kSeed,
                     kStream},
           .upgrade = name_stream,
           .infer = infer_multinomial,
           .reference = multinomial,
           .jumps = true,
           .samples = {"graph { input x: f32[3,10]; y = multinomial(x) {sample_size=7, seed=2.0}; output y }",
                       "graph { input x: f32[2,1]; y = multinomial(x) {dtype=14}; output y }"}}};
}
}  // namespace

extern const Entry random_entry;
const Entry random_entry{definitions()};
}  // namespace peri::ops
