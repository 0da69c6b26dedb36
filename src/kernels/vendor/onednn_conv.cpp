// Kernel onednn_conv: oneDNN's float32 convolution in NHWC, divided by images or output rows into tasks of
// single-threaded primitives. Weights are in the format that oneDNN prefers for the problem.
#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <unordered_map>

#include "kernels/match/conv_match.hpp"
#include "kernels/vendor/library.hpp"
#include "kernels/vendor/onednn.hpp"

namespace peri::kernels {
namespace {
using dnnl::memory;
using Desc = dnnl::convolution_forward::primitive_desc;
constexpr int64_t kMaxSlices = 64;

// How an image batch becomes tasks: `images` at a time, or one image in `slices` of its output rows.
struct Cut {
  int64_t images = 1, slices = 1;
};

// One task: which images and output rows, and the input rows they need with the padding at their ends.
struct Piece {
  int64_t image = 0, images = 1, row = 0, rows = 0, in_row = 0, in_rows = 0, pad_top = 0, pad_bottom = 0;
  auto shape() const { return std::tuple(images, rows, in_rows, pad_top, pad_bottom); }
};

std::vector<Piece> cut_pieces(const ConvShape& s, Cut cut) {
  std::vector<Piece> out;
  const int64_t slices = std::min(cut.slices, s.oh());
  for (int64_t image = 0; image < s.n; image += cut.images) {
    for (int64_t k = 0; k < slices; ++k) {
      Piece p;
      p.image = image;
      p.images = std::min(cut.images, s.n - image);
      p.row = s.oh() * k / slices;
      p.rows = s.oh() * (k + 1) / slices - p.row;
      const int64_t begin = p.row * s.sh - s.top, end = (p.row + p.rows - 1) * s.sh - s.top + s.dh * (s.kh - 1) + 1;
      p.pad_top = std::max<int64_t>(0, -begin);
      p.pad_bottom = std::max<int64_t>(0, end - s.ih);
      p.in_row = std::max<int64_t>(0, begin);
      p.in_rows = std::min(end, s.ih) - p.in_row;
      // Whole images stay whole, with input rows that no output reads.
      if (p.images > 1 && slices == 1) {
        p.in_rows = s.ih;
        p.pad_bottom = s.bottom;
      }
      out.push_back(p);
    }
  }
  return out;
}

memory::dims weight_dims(const ConvShape& s) {
  if (s.groups == 1) return {s.oc, s.ic, s.kh, s.kw};
  return {s.groups, s.oc / s.groups, s.ic / s.groups, s.kh, s.kw};
}
memory::desc plain_weights(const ConvShape& s) {
  return {weight_dims(s), memory::data_type::f32, s.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw};
}

Desc describe(const ConvShape& s, const Piece& p, bool bias, const dnnl::primitive_attr& attributes) {
  const auto f32 = memory::data_type::f32;
  const auto nhwc = memory::format_tag::nhwc;
  const memory::desc x({p.images, s.ic, p.in_rows, s.iw}, f32, nhwc), y({p.images, s.oc, p.rows, s.ow()}, f32, nhwc);
  const memory::desc w(weight_dims(s), f32, memory::format_tag::any);
  const memory::desc b = bias ? memory::desc({s.oc}, f32, memory::format_tag::x) : memory::desc();
  const memory::dims strides = {s.sh, s.sw}, dilations = {s.dh - 1, s.dw - 1}, first = {p.pad_top, s.left};
  // What remains on the right: oneDNN wants no more padding than the last output reads.
  const memory::dims last = {p.pad_bottom, (s.ow() - 1) * s.sw + s.dw * (s.kw - 1) + 1 - s.iw - s.left};
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {vendor::onednn_engine(), kind, algorithm, x, w, b, y, strides, dilations, first, last, attributes};
#else
  return {{kind, algorithm, x, w, b, y, strides, dilations, first, last}, attributes, vendor::onednn_engine()};
#endif
}

struct Part {
  Desc desc;
  dnnl::convolution_forward primitive;
  const Tensor* weights = nullptr;
};

class OnednnConv final : public Instance {
 public:
  static Result<std::unique_ptr<Instance>> make(MatchedConv m, vendor::OnednnEpilogue epilogue, Cut cut, int shared,
                                                const InstantiateContext& c) {
    std::vector<Piece> pieces = cut_pieces(m.shape, cut);
    std::vector<float> bias = vendor::onednn_bias(epilogue, c.constants);
    (void)vendor::onednn_stream();
    vendor::OnednnPacked* packed = vendor::onednn_packed(c.packed);
    const dnnl::primitive_attr attributes = vendor::onednn_attributes(epilogue);
    std::map<PieceShape, Part> parts;
    size_t scratch = 0;
    for (const Piece& p : pieces) {
      if (p.in_rows <= 0) return refused("a slice that sees padding only");
      if (parts.contains(p.shape())) continue;
      Desc desc = describe(m.shape, p, !bias.empty(), attributes);
      if (c.choosing) PERI_TRY(vendor::check_implementation(desc.impl_info_str()));
      const Tensor* weights = packed->get(c, desc.weights_desc(), plain_weights(m.shape), m.w);
      if (!weights) return Error(ErrorKind::kMemory, "no memory for packed weights");
      scratch = std::max(scratch, desc.scratchpad_desc().get_size());
      parts.emplace(p.shape(), Part{desc, dnnl::convolution_forward(desc), weights});
    }
    auto out = std::make_unique<OnednnConv>(needs_of_tasks(std::ssize(pieces), scratch));
    out->shared_ = shared;
    out->shape_ = m.shape;
    out->x_ = static_cast<size_t>(m.x);
    out->residual_ = epilogue.residual;
    out->bias_ = std::move(bias);
    out->packed_ = *c.packed;
    out->pieces_ = std::move(pieces);
    out->parts_ = std::move(parts);
    for (const Piece& p : out->pieces_) out->part_of_.push_back(&out->parts_.at(p.shape()));
    return std::unique_ptr<Instance>(std::move(out));
  }

  explicit OnednnConv(Needs needs) : Instance(std::move(needs)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && shared_ >= 0 && input == static_cast<size_t>(shared_);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const Piece& p = pieces_[static_cast<size_t>(task)];
    const Part& part = *part_of_[static_cast<size_t>(task)];
    const ConvShape& s = shape_;
    const int64_t out_at = (p.image * s.oh() + p.row) * s.ow() * s.oc;
    const float* x = static_cast<const float*>(args.in[x_]) + (p.image * s.ih + p.in_row) * s.iw * s.ic;
    float* y = static_cast<float*>(args.out[0]) + out_at;
    if (residual_ >= 0) {
      const float* r = static_cast<const float*>(args.in[static_cast<size_t>(residual_)]) + out_at;
      if (r != y) __builtin_memcpy(y, r, static_cast<size_t>(p.images * p.rows * s.ow() * s.oc) * sizeof(float));
    }
    try {
      const dnnl::engine& engine = vendor::onednn_engine();
      std::unordered_map<int, memory> arguments = {
          {DNNL_ARG_SRC, memory(part.desc.src_desc(), engine, const_cast<float*>(x))},
          {DNNL_ARG_WEIGHTS, memory(part.desc.weights_desc(), engine, const_cast<void*>(part.weights->data()))},
          {DNNL_ARG_DST, memory(part.desc.dst_desc(), engine, y)},
          {DNNL_ARG_SCRATCHPAD, memory(part.desc.scratchpad_desc(), engine, args.scratch)}};
      if (!bias_.empty())
        arguments.emplace(DNNL_ARG_BIAS, memory(part.desc.bias_desc(), engine, const_cast<float*>(bias_.data())));
      part.primitive.execute(vendor::onednn_stream(), arguments);
      vendor::onednn_stream().wait();
    } catch (const dnnl::error&) {
      failed_ = true;
    }
  }
  Status finish(const Args&) const override {
    if (failed_) return internal_error("oneDNN failed to run a convolution");
    return Ok{};
  }

 private:
  using PieceShape = decltype(Piece().shape());
  ConvShape shape_;
  size_t x_ = 0;
  int residual_ = -1, shared_ = -1;
  std::vector<float> bias_;
  std::vector<Piece> pieces_;
  std::map<PieceShape, Part> parts_;
  std::vector<const Part*> part_of_;
  Packed packed_;
  mutable std::atomic<bool> failed_ = false;
};

// Our own convolution where oneDNN has no primitive for a size: slices that contain padding only, paddings that no
// implementation supports. A residual is read from a copy, since the result may share its memory.
class OwnConv final : public Instance {
 public:
  OwnConv(std::unique_ptr<Instance> inner, int residual, int shared, size_t residual_bytes)
      : Instance(needs_of(*inner, residual_bytes)),
        inner_(std::move(inner)),
        residual_(residual),
        shared_(shared),
        residual_bytes_(residual_bytes) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && shared_ >= 0 && input == static_cast<size_t>(shared_);
  }
  void run_task(int phase, int64_t task, const Args& args) const override {
    if (phase == 0) {
      if (residual_ >= 0) __builtin_memcpy(args.workspace, args.in[static_cast<size_t>(residual_)], residual_bytes_);
      return;
    }
    std::vector<const void*> in(args.in.begin(), args.in.end());
    if (residual_ >= 0) in[static_cast<size_t>(residual_)] = args.workspace;
    inner_->run_task(phase - 1, task, {in, args.out, args.workspace + rounded(residual_bytes_), args.scratch});
  }
  Status finish(const Args& args) const override { return inner_->finish(args); }

 private:
  static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  static Needs needs_of(const Instance& inner, size_t residual_bytes) {
    Needs out = inner.needs();
    out.workspace += rounded(residual_bytes);
    out.tasks.insert(out.tasks.begin(), 1);
    return out;
  }
  std::unique_ptr<Instance> inner_;
  int residual_, shared_;
  size_t residual_bytes_;
};

Result<std::unique_ptr<Instance>> own_convolution(const Problem& p, const MatchedConv& m, int shared,
                                                  const InstantiateContext& c) {
  Packed packed;  // not the step's, which holds oneDNN's formats
  InstantiateContext context = c;
  context.packed = &packed;
  PERI_ASSIGN(auto inner, find("conv_f32")->instantiate(p, "x=nhwc", context));
  const ConvShape& s = m.shape;
  const size_t bytes = m.epilogue.residual < 0 ? 0 : static_cast<size_t>(s.n * s.oh() * s.ow() * s.oc) * sizeof(float);
  return std::unique_ptr<Instance>(std::make_unique<OwnConv>(std::move(inner), m.epilogue.residual, shared, bytes));
}

Result<std::vector<Offer>> offer(const Problem& p, const Target&) {
  PERI_ASSIGN(const MatchedConv m, match_conv_any_layout(p));
  PERI_TRY(vendor::onednn_epilogue(p, m.epilogue));
  // Whole images only where that leaves tasks to share; instantiate() takes every cut for every batch.
  std::vector<Cut> cuts = {{1, 4}, {1, 2}};
  if (m.shape.n >= 8) cuts.push_back({4, 1});
  std::vector<Offer> out;
  for (const Cut& cut : cuts) {
    Offer o;
    o.config =
        format("images=%lld slices=%lld", static_cast<long long>(cut.images), static_cast<long long>(cut.slices));
    ask_for_nhwc(p, &o);
    o.in_place = {only_residual(p, m.epilogue)};
    o.library = vendor::onednn_library();
    out.push_back(std::move(o));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(MatchedConv m, match_conv(p));
  PERI_ASSIGN(vendor::OnednnEpilogue epilogue, vendor::onednn_epilogue(p, m.epilogue));
  Cut cut;
  PERI_ASSIGN(cut.images, config_int(config, "images", 1, 1 << 20, 1));
  PERI_ASSIGN(cut.slices, config_int(config, "slices", 1, kMaxSlices, 1));
  if (cut.images > 1 && cut.slices > 1) return invalid("several images in slices");
  if (!(p.graph->inputs[static_cast<size_t>(m.x)]->type.layout == ir::nhwc()) ||
      !(p.graph->outputs[0]->type.layout == ir::nhwc()))
    return invalid("the region's layouts are not NHWC");
  const int shared = only_residual(p, m.epilogue);
  auto made = vendor::onednn_guarded([&] { return OnednnConv::make(m, std::move(epilogue), cut, shared, c); });
  if (made.ok() || c.choosing || made.error().kind != ErrorKind::kRefused) return made;
  return own_convolution(p, m, shared, c);
}
}  // namespace

extern const Entry onednn_conv_entry;
const Entry onednn_conv_entry{{
    .name = "onednn_conv",
    .version = 1,
    .provider = "onednn",
    .takes = "float32 convolution in two dimensions, NHWC, constant weights, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .takes_constants = true,
}};

}  // namespace peri::kernels
