// Strips of two convolutions: their plans, weights per block, and one task.
#include "kernels/cpu/conv/pair.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace peri::kernels::cpu {
namespace {

int64_t rounded(int64_t floats) { return (floats + 15) / 16 * 16; }

ConvShape first_of_block(const PairShape& p, int64_t channels, int64_t rows) {
  ConvShape s = p.first;
  s.n = 1;
  s.ih = rows;
  s.oc = channels;
  return s;
}

// Rows of the middle that output rows [begin, end) read, and the second convolution over them alone.
struct Strip {
  int64_t begin = 0, end = 0;
  ConvShape second;
};
Strip strip_of(const PairShape& p, int64_t begin, int64_t end, int64_t channels) {
  const ConvShape& s = p.second;
  const int64_t top = begin * s.sh - s.top, bottom = (end - 1) * s.sh - s.top + s.dh * (s.kh - 1) + 1;
  Strip out{std::clamp<int64_t>(top, 0, s.ih), std::clamp<int64_t>(bottom, 0, s.ih), s};
  out.second.n = 1;
  out.second.ic = out.second.oc = out.second.groups = channels;
  out.second.ih = out.end - out.begin;
  out.second.top = out.begin - top;
  out.second.bottom = bottom - out.end;
  return out;
}

int64_t block_floats(const PairShape& p, int64_t channels, Isa isa) {
  return rounded(packed_conv_floats(first_of_block(p, channels, 1), isa)) +
         rounded(channels * p.second.kh * p.second.kw);
}

// The epilogue of channels [channel, ...).
Epilogue from_channel(Epilogue e, int64_t channel) {
  for (int k = 0; k < e.count; ++k)
    if (e.ops[k].data) e.ops[k].data += channel;
  return e;
}

}  // namespace

std::string refuse_pair(const PairShape& p) {
  const ConvShape &a = p.first, &b = p.second;
  if (const std::string why = refuse_conv(a); !why.empty()) return why;
  if (const std::string why = refuse_conv(b); !why.empty()) return why;
  if (a.kh * a.kw != 1 || a.sh * a.sw != 1 || a.top + a.left + a.bottom + a.right != 0 || a.groups != 1)
    return "the first convolution is not pointwise";
  if (b.groups != b.ic || b.oc != b.ic) return "the second convolution is not depthwise";
  if (b.ic % 8 != 0) return "its channels are not a multiple of 8";
  if (b.n != a.n || b.ic != a.oc || b.ih != a.ih || b.iw != a.iw)
    return "the second convolution does not read the first";
  if (b.top >= b.dh * (b.kh - 1) + 1 || b.bottom >= b.dh * (b.kh - 1) + 1)
    return "a row of windows that lies in the padding";
  return {};
}

PairPlan plan_pair(const PairShape& shape, int64_t block, int64_t strip_bytes, Isa isa, int threads) {
  PERI_CHECK(refuse_pair(shape).empty() && block >= 16 && block % 16 == 0, "not a pair");
  const ConvShape& s = shape.second;
  PairPlan p;
  p.shape = shape;
  p.block = std::min(block, s.oc);
  p.blocks = (s.oc + p.block - 1) / p.block;
  const int64_t fit = strip_bytes / (s.iw * p.block * static_cast<int64_t>(sizeof(float))), oh = s.oh();
  // Rows that a strip computes once for each that its neighbour computes as well.
  // Measured: benchmarks/results/2026-11-29_small_nets.md.
  constexpr int64_t kOnce = 4;
  const int64_t twice = s.dh * (s.kh - 1), least = std::max<int64_t>(1, kOnce * twice / s.sh);
  const int64_t wanted = (threads + s.n * p.blocks - 1) / (s.n * p.blocks);  // strips of an image and a block
  const int64_t shared = std::max((oh + wanted - 1) / wanted, least);
  const int64_t most = std::clamp<int64_t>((fit - twice - 1) / s.sh + 1, 1, std::min(oh, shared));
  p.rows = (oh + (oh + most - 1) / most - 1) / ((oh + most - 1) / most);
  p.strips = (oh + p.rows - 1) / p.rows;
  p.tasks = s.n * p.strips * p.blocks;
  int64_t inner = 0;
  for (const int64_t channels : {p.block, p.channels(p.blocks - 1)}) {
    for (int64_t k = 0; k < p.strips; ++k) {
      const Strip strip = strip_of(shape, k * p.rows, std::min(oh, (k + 1) * p.rows), channels);
      p.first.push_back(plan_conv(first_of_block(shape, channels, strip.end - strip.begin), isa));
      p.second.push_back(plan_conv(strip.second, isa));
      p.middle_floats = std::max(p.middle_floats, rounded((strip.end - strip.begin) * s.iw * channels));
      inner = std::max({inner, p.first.back().scratch_floats, p.second.back().scratch_floats});
    }
  }
  p.scratch_floats = p.middle_floats + inner;
  return p;
}

int64_t packed_pair_floats(const PairShape& shape, int64_t block, Isa isa) {
  int64_t floats = 0;
  for (int64_t c = 0; c < shape.first.oc; c += block)
    floats += block_floats(shape, std::min(block, shape.first.oc - c), isa);
  return floats;
}

void pack_pair_weights(const float* first, const float* second, const PairShape& shape, int64_t block, Isa isa,
                       float* packed) {
  const int64_t taps = shape.second.kh * shape.second.kw;
  for (int64_t c = 0; c < shape.first.oc; c += block) {
    const int64_t channels = std::min(block, shape.first.oc - c);
    const ConvShape a = first_of_block(shape, channels, 1);
    pack_conv_weights(first + c * shape.first.ic, a, isa, packed);
    pack_conv_weights(second + c * taps, strip_of(shape, 0, 1, channels).second, isa,
                      packed + rounded(packed_conv_floats(a, isa)));
    packed += block_floats(shape, channels, isa);
  }
}

void run_task(const PairPlan& plan, const PairArgs& args, int64_t task, float* scratch) {
  const ConvShape &a = plan.shape.first, &b = plan.shape.second;
  // Neighbouring tasks read the same rows of x.
  const int64_t block = task % plan.blocks, strip = task / plan.blocks % plan.strips,
                image = task / plan.blocks / plan.strips;
  const int64_t channel = block * plan.block, row = strip * plan.rows;
  const size_t which = plan.which(block, strip);
  const ConvPlan &first = plan.first[which], &second = plan.second[which];
  const Isa isa = first.isa;
  const Strip rows = strip_of(plan.shape, row, std::min(b.oh(), row + plan.rows), plan.channels(block));
  const float* packed = args.w + block * block_floats(plan.shape, plan.block, isa);
  ConvArgs one;
  one.x = args.x + (image * a.ih + rows.begin) * a.iw * a.ic;
  one.w = packed;
  one.y = scratch;
  one.epilogue = from_channel(args.first, channel);
  for (int64_t t = 0; t < first.tasks; ++t) run_task(first, one, t, scratch + plan.middle_floats);
  ConvArgs two;
  two.x = scratch;
  two.w = packed + rounded(packed_conv_floats(first.shape, isa));
  two.y = args.y + (image * b.oh() + row) * b.ow() * b.oc + channel;
  two.y_pixel = b.oc;
  two.epilogue = from_channel(args.second, channel);
  for (int64_t t = 0; t < second.tasks; ++t) run_task(second, two, t, scratch + plan.middle_floats);
}

}  // namespace peri::kernels::cpu
