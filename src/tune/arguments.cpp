// The roles of a region's inputs, and suitable numbers for them.
#include "tune/arguments.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/thread_pool.hpp"
#include "kernels/entry.hpp"
#include "tune/categories.hpp"

namespace peri::tune {

namespace {
// Every bit of the result depends on every bit of the position. Source of the constants: Appleby, MurmurHash3, 2011
// (finalizer).
inline uint32_t mixed(uint64_t seed, int64_t at) {
  const uint64_t wide = static_cast<uint64_t>(at);
  uint32_t z = static_cast<uint32_t>(wide) + static_cast<uint32_t>(wide >> 32) * 0x9e3779b9u;
  z += static_cast<uint32_t>(seed * 0x9e3779b97f4a7c15ull >> 32);
  z = (z ^ (z >> 16)) * 0x85ebca6bu;
  z = (z ^ (z >> 13)) * 0xc2b2ae35u;
  return z ^ (z >> 16);
}

// The sum of four even bytes has mean 510 and variance 4 (256^2 - 1) / 12.
inline float normal_of(uint32_t z) {
  const int32_t sum = static_cast<int32_t>((z & 255) + (z >> 8 & 255) + (z >> 16 & 255) + (z >> 24)) - 510;
  return static_cast<float>(sum) * 0.0067659f;
}

struct Spread {
  float mean = 0, deviation = 1;
  bool operator==(const Spread&) const = default;
};

Spread spread_of_use(const ir::Node& n, size_t port, const std::vector<int64_t>& dims) {
  switch (ops::role_of(n, port)) {
    case ops::Role::kWeight: {
      const double products = ops::find(n.op)->fan_in(n, dims);
      return products > 0 ? Spread{0, static_cast<float>(1 / std::sqrt(products))} : Spread();
    }
    case ops::Role::kBias: return {0, 0.5f};
    case ops::Role::kScale:
    case ops::Role::kVariance: return {1, 0.2f};
    default: return {};
  }
}

// What all uses of an input agree on.
Spread spread_of(const ir::Value& v) {
  std::optional<Spread> all;
  const std::vector<int64_t> dims = kernels::dims_of(v);
  for (const ir::Node* n : v.users)
    for (size_t port = 0; port < n->inputs.size(); ++port) {
      if (n->inputs[port] != &v) continue;
      const Spread s = spread_of_use(*n, port, dims);
      if (all && !(*all == s)) return {};
      all = s;
    }
  return all.value_or(Spread());
}

// The exclusive upper end for an input that names elements; 0: it does not, or of an unknown number.
int64_t index_end(const ir::Graph& region, const ir::Value* v) {
  int64_t least = INT64_MAX;
  for (const ir::Node* n : region.nodes)
    for (size_t port = 0; port < n->inputs.size(); ++port) {
      if (n->inputs[port] != v) continue;
      for (const Dim& end : ops::index_ends_of(*n, port))
        if (end.is_const()) least = std::min(least, end.value());
    }
  return least == INT64_MAX ? 0 : std::max<int64_t>(1, least);
}
// The same for any integer input: else a small number.
int64_t index_range(const ir::Graph& region, const ir::Value* v) {
  const int64_t end = index_end(region, v);
  return end == 0 ? 8 : end;
}

// Quantised numbers have all values of their type: of 0 to 7 alone signed and unsigned bytes are the same.
bool is_quantised(const ir::Graph& region, const ir::Value* v) {
  constexpr std::string_view kOps[] = {"qlinear_matmul", "qlinear_conv", "matmul_integer",   "conv_integer",
                                       "from_bytes",     "byte_table",   "dequantize_linear"};
  if ((v->type.dtype != DType::kU8 && v->type.dtype != DType::kI8) || index_end(region, v) != 0) return false;
  return std::any_of(region.nodes.begin(), region.nodes.end(), [&](const ir::Node* n) {
    return std::find(std::begin(kOps), std::end(kOps), n->op) != std::end(kOps);
  });
}

// Where an input holds regions: the ends of their index and places.
std::vector<int64_t> region_ends(const ir::Value& v, const DimBinding& sizes) {
  for (const ir::Node* n : v.users)
    for (size_t port = 0; is_float(v.type.dtype) && port < n->inputs.size(); ++port) {
      if (n->inputs[port] != &v) continue;
      std::vector<int64_t> out;
      for (const Dim& end : ops::index_ends_of(*n, port))
        if (const auto size = end.eval(sizes); size.ok()) out.push_back(std::max<int64_t>(1, *size));
      if (out.size() == 3) return out;
    }
  return {};
}

// Calls `make(begin, end)` for stretches of [0, count), of many elements on all cores: each is made of its position
// alone.
template <class F>
void each_stretch(int64_t count, F make) {
  constexpr int64_t kStretch = int64_t{1} << 18;  // milliseconds of work, beside which waking a thread is nothing
  const int64_t stretches = (count + kStretch - 1) / kStretch;
  if (stretches < 4) return make(int64_t{0}, count);
  ThreadPool pool(usable_cpus());
  pool.run(stretches, [&](int64_t k, int) { make(k * kStretch, std::min(count, (k + 1) * kStretch)); });
}

void fill(const ir::Graph& region, const ir::Value* v, uint64_t seed, Tensor* t) {
  const DType type = v->type.dtype;
  if (fill_regions(*v, {}, seed, t)) return;
  if (is_float(type)) {
    const Spread s = spread_of(*v);
    if (type == DType::kF32) {
      float* data = t->mutable_as<float>();
      each_stretch(t->numel(), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) data[k] = s.mean + s.deviation * normal_of(mixed(seed, k));
      });
    } else if (type == DType::kF16 || type == DType::kBF16) {
      uint16_t* data = t->mutable_as<uint16_t>();
      const auto narrow = type == DType::kF16 ? f32_to_f16 : f32_to_bf16;
      each_stretch(t->numel(), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) data[k] = narrow(s.mean + s.deviation * normal_of(mixed(seed, k)));
      });
    } else {
      for (int64_t k = 0; k < t->numel(); ++k)
        t->set_f64(k, double{s.mean} + double{s.deviation} * double{normal_of(mixed(seed, k))});
    }
  } else if (type == DType::kBool) {
    for (int64_t k = 0; k < t->numel(); ++k) t->set_i64(k, mixed(seed, k) & 1);
  } else if (type != DType::kString) {
    const bool whole = is_quantised(region, v);
    const auto range = static_cast<uint64_t>(whole ? 256 : std::min<int64_t>(index_range(region, v), UINT32_MAX));
    const int64_t least = whole && type == DType::kI8 ? -128 : 0;
    for (int64_t k = 0; k < t->numel(); ++k) t->set_i64(k, least + static_cast<int64_t>(mixed(seed, k) * range >> 32));
  }
}
}  // namespace

float seeded_normal(uint64_t seed, int64_t at) { return normal_of(mixed(seed, at)); }

// Boxes from the first half to the second, and an eighth beyond at either side.
bool fill_regions(const ir::Value& v, const DimBinding& sizes, uint64_t seed, Tensor* t) {
  constexpr int64_t kColumns = 5;  // of a box: image, and two corners
  const std::vector<int64_t> ends = region_ends(v, sizes);
  if (ends.empty()) return false;
  for (int64_t k = 0; k < t->numel(); ++k) {
    const uint32_t z = mixed(seed, k);
    const int64_t column = k % kColumns;
    const double extent = static_cast<double>(ends[column % 2 == 1 ? 1 : 2]), share = z * 0x1p-32;
    if (column == 0)
      t->set_f64(k, static_cast<double>(z * static_cast<uint64_t>(ends[0]) >> 32));
    else
      t->set_f64(k, std::round(extent * (column < 3 ? 0.625 * share - 0.125 : 0.5 + 0.625 * share)));
  }
  return true;
}

Result<std::vector<Tensor>> make_arguments(const ir::Graph& region, uint64_t seed) {
  std::vector<Tensor> out;
  const uint64_t first = seed;
  for (const ir::Value* v : region.inputs) {
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, {}));
    PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
    fill(region, v, seed++, &t);
    out.push_back(std::move(t));
  }
  choose_categories(region, first, &out);
  return out;
}

}  // namespace peri::tune
