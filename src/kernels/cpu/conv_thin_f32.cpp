// Kernel conv_thin_f32: float32 convolution over two or three axes whose groups have few channels, row-major: a task
// copies the planes that one group reads, padded, into scratch, where every tap is a shifted row.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv/thin.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {
namespace conv = cpu::conv;
constexpr int64_t kMaxChannels = 8;  // of a group, read for each element
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kScratchFloats = 64 * 1024;  // what a task keeps: a part of L2
constexpr int64_t kMaxTaps = 1 << 16;

struct Plan {
  int64_t batch = 1, groups = 1, ic = 1, oc = 1;  // channels of a group
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};  // depth, height, width
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  // Scratch: [channel][tap of depth][row][column modulo the stride][column over it]
  int64_t rows = 1, row_blocks = 1;  // of the result, a task
  int64_t kept_rows = 1, phase = 1, pitch = 1;
  std::vector<int64_t> at;  // of each tap
  int64_t taps() const { return ic * kernel[0] * kernel[1] * kernel[2]; }
  int64_t plane() const { return kept_rows * pitch; }
  int64_t floats() const { return ic * kernel[0] * plane() + conv::kThinSlack; }
  int64_t tasks() const { return batch * groups * out[0] * row_blocks; }
};

Result<Plan> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (x.size() != 4 && x.size() != 5) return refused("takes two or three axes");
  Plan s;
  s.batch = x[0];
  s.groups = n.i("group", 1);
  s.ic = w[1];
  if (s.ic > kMaxChannels) return refused("more than %lld channels a group", static_cast<long long>(kMaxChannels));
  s.oc = w[0] / s.groups;
  const ops::Window v = ops::window_of(n);
  for (size_t k = 2; k < x.size(); ++k) {
    const size_t to = k + 3 - x.size(), from = k - 2;
    s.in[to] = x[k];
    s.out[to] = y[k];
    s.kernel[to] = v.kernel[from];
    s.stride[to] = v.stride[from];
    s.dilation[to] = v.dilation[from];
    s.pad[to] = v.pad_begin[from];
  }
  int64_t all = s.batch * s.groups * s.ic * s.oc;
  for (int k = 0; k < 3; ++k) all *= s.in[k] * s.out[k];
  if (all == 0) return refused("an empty tensor");
  if (s.taps() > kMaxTaps) return refused("more than %lld taps", static_cast<long long>(kMaxTaps));
  const auto reach = [&](int k, int64_t count) {
    return (count - 1) * s.stride[k] + (s.kernel[k] - 1) * s.dilation[k] + 1;
  };
  s.phase = (reach(2, s.out[2]) + s.stride[2] - 1) / s.stride[2];
  s.pitch = s.phase * s.stride[2];
  const int64_t each = s.ic * s.kernel[0] * s.pitch;
  s.rows = s.out[1];
  while (s.rows > 1 && each * reach(1, s.rows) > kScratchFloats) s.rows = (s.rows + 1) / 2;
  s.row_blocks = (s.out[1] + s.rows - 1) / s.rows;
  s.kept_rows = reach(1, s.rows);
  if (each * s.kept_rows > 16 * kScratchFloats) return refused("rows that are too long");
  for (int64_t c = 0; c < s.ic; ++c)
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
          const int64_t column = kx * s.dilation[2];
          s.at.push_back((c * s.kernel[0] + kz) * s.plane() + ky * s.dilation[1] * s.pitch +
                         column % s.stride[2] * s.phase + column / s.stride[2]);
        }
  return s;
}

// A row of the image, or of zeros where `x` is null, between its padding, columns by their place modulo the stride.
void keep_row(const Plan& s, const float* x, float* to) {
  if (!x) return static_cast<void>(std::fill_n(to, s.pitch, 0.0F));
  const int64_t step = s.stride[2];
  for (int64_t m = 0; m < step; ++m, to += s.phase) {
    // Column q * step + m of the padded row is column q * step + m - pad of the image.
    const int64_t first = m - s.pad[2], begin = std::min(s.phase, first < 0 ? (-first + step - 1) / step : 0),
                  end = std::clamp((s.in[2] - first + step - 1) / step, begin, s.phase);
    std::fill_n(to, begin, 0.0F);
    if (step == 1)
      std::memcpy(to + begin, x + begin + first, static_cast<size_t>(end - begin) * sizeof(float));
    else
      for (int64_t q = begin; q < end; ++q) to[q] = x[q * step + first];
    std::fill_n(to + end, s.phase - end, 0.0F);
  }
}

// What a task reads, from the group's first plane on.
void keep_planes(const Plan& s, const float* x, int64_t oz, int64_t oy, int64_t rows, float* to) {
  for (int64_t c = 0; c < s.ic; ++c)
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz, to += s.plane()) {
      const int64_t z = oz * s.stride[0] + kz * s.dilation[0] - s.pad[0];
      const bool inside = z >= 0 && z < s.in[0];
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t iy = oy * s.stride[1] + r - s.pad[1];
        const float* from = x + ((c * s.in[0] + z) * s.in[1] + iy) * s.in[2];
        keep_row(s, inside && iy >= 0 && iy < s.in[1] ? from : nullptr, to + r * s.pitch);
      }
    }
}

struct Operands {
  const float *x, *w, *bias;
  float* y;
};

void run_task(const Plan& s, void (*thin_row)(const conv::ThinRow&), const Operands& with, int64_t task, float* kept) {
  const int64_t block = task % s.row_blocks, oz = task / s.row_blocks % s.out[0],
                image = task / s.row_blocks / s.out[0], group = image % s.groups;
  const int64_t oy = block * s.rows, rows = std::min(s.rows, s.out[1] - oy);
  const int64_t read = (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
  keep_planes(s, with.x + image * s.ic * s.in[0] * s.in[1] * s.in[2], oz, oy, read, kept);
  conv::ThinRow r;
  r.at = s.at.data();
  r.taps = s.taps();
  r.n = s.out[2];
  r.y_step = s.out[0] * s.out[1] * s.out[2];
  for (int64_t o = 0; o < s.oc; o += r.outs) {
    r.outs = static_cast<int>(std::min<int64_t>(conv::kThinOuts, s.oc - o));
    const int64_t first = group * s.oc + o;
    r.w = with.w + first * r.taps;
    r.bias = with.bias ? with.bias + first : nullptr;
    r.y = with.y + (image * s.oc + o) * r.y_step + (oz * s.out[1] + oy) * s.out[2];
    for (int64_t k = 0; k < rows; ++k, r.y += s.out[2]) {
      r.x = kept + k * s.stride[1] * s.pitch;
      thin_row(r);
    }
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Plan made, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const auto row = isa == cpu::Isa::kAvx512 ? conv::avx512::thin_row : conv::avx2::thin_row;
  const ir::Node& n = p.anchor();
  const Source x = Source::of(p, n.in(0), c.constants), w = Source::of(p, n.in(1), c.constants),
               bias = Source::of(p, n.in(2), c.constants);
  if (!x.known() || !w.known() || (n.in(2) && !bias.known())) return refused("reads a value made inside the region");
  const auto plan = std::make_shared<const Plan>(std::move(made));
  return TaskInstance::make(
      plan->tasks(), static_cast<size_t>(plan->floats()) * sizeof(float), [=](int64_t task, const Args& args) {
        run_task(*plan, row, {x.f32(args), w.f32(args), bias.f32(args), static_cast<float*>(args.out[0])}, task,
                 reinterpret_cast<float*>(args.scratch));
      });
}
}  // namespace

extern const Entry conv_thin_f32_entry;
const Entry conv_thin_f32_entry{{
    .name = "conv_thin_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 convolution over two or three axes with up to 8 channels a group, row-major",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,6,5,9,37]; const w: f32[6,1,3,3,3] = seeded(0.2, 1); const b: f32[6] = seeded(0.5, "
         "2); "
         "y = conv(x, w, b) {group=6, pads=[1,1,1,1,1,1]}; output y }",
         "graph { input x: f32[1,6,7,8,21]; const w: f32[9,2,2,3,4] = seeded(0.2, 1); y = conv(x, w) {group=3, "
         "strides=[2,1,3], dilations=[1,2,2], pads=[1,0,2,0,3,1]}; output y }",
         "graph { input x: f32[2,12,11,70]; const w: f32[18,4,3,3] = seeded(0.2, 1); y = conv(x, w) {group=3, "
         "pads=[1,1,1,1], strides=[2,2]}; output y }",
         "graph { input x: f32[1,2,300,260]; const w: f32[5,2,5,5] = seeded(0.2, 1); y = conv(x, w) {pads=[2,2,2,2]}; "
         "output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
