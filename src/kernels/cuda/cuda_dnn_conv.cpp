// Kernel cuda_dnn_conv: convolutions by cuDNN in NHWC, with bias, residual and relu in one plan. Planning matches the
// convolution; the library is queried for engine and knobs, once when candidates are tried or when the step is created.
#include <algorithm>
#include <mutex>
#include <optional>

#include "device/cuda/cudnn.hpp"
#include "kernels/cuda/code/dnn_config.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {

namespace {
using cuda::LaunchArgument;
using cuda::LibraryCall;
using device::Address;
using device::cuda::Cudnn;
using device::cuda::DnnConv;
static_assert(cuda::kWorkspaceAlignment >= device::cuda::kDnnWorkspaceAlignment);

constexpr size_t kMaxWorkspace = size_t{64} << 20;  // of a run; with less fewer algorithms are open
constexpr int kMaxChoices = 6;                      // its first answers, of which each costs a trial

struct Conv {
  DnnConv conv;
  int x = -1, w = -1, bias = -1, residual = -1;  // graph inputs
  // Where a tap is one pixel, weights lie as the library reads them.
  bool packs() const { return conv.r * conv.s > 1; }
  // The library has no engine that is not compiled at run time for a residual or relu without a bias: it adds zeros.
  bool adds_zeros() const { return conv.bias && bias < 0; }
};

// relu(sum + residual + bias), the two in any order.
Status join(const Problem& p, const ir::Value* v, Conv* out) {
  const int at = input_index(*p.graph, v);
  if (at < 0) return refused("an operand that stands inside the region");
  if (v->type.dtype != out->conv.dtype)
    return refused("an operand of another type").but_found(std::string(dtype_name(v->type.dtype)));
  const std::vector<int64_t> dims = dims_of(*v);
  const bool constant = p.constant[static_cast<size_t>(at)];
  const bool channels = constant && dims.size() >= 3 && dims[dims.size() - 3] == out->conv.k &&
                        product(*v->type.shape).value() == out->conv.k;
  if (channels && out->bias < 0)
    out->bias = at;
  else if (!constant && dims == dims_of(*p.graph->outputs[0]) && out->residual < 0)
    out->residual = at;
  else
    return refused("an operand that is neither one bias nor one residual of the result's size")
        .but_found(ir::type_text(v->type));
  return Ok{};
}

Status read_chain(const Problem& p, const ir::Node& anchor, Conv* out) {
  const ir::Graph& g = *p.graph;
  const ir::Value* at = anchor.out();
  for (const ir::Node* n : g.nodes) {
    if (n == &anchor || ops::states_sizes(*n)) continue;
    if (out->conv.relu) return refused("%s behind the activation", n->op.c_str());
    if (at->users.size() != 1 || std::count(n->inputs.begin(), n->inputs.end(), at) != 1)
      return refused("%s is not part of a chain", n->op.c_str());
    if (n->out()->type.dtype != out->conv.dtype || !(n->out()->type.shape == anchor.out()->type.shape))
      return refused("%s changes type or shape", n->op.c_str());
    if (n->op == "add")
      PERI_TRY(join(p, n->in(0) == at ? n->in(1) : n->in(0), out));
    else if (n->op == "relu")
      out->conv.relu = true;
    else
      return refused("no plan of cuDNN's is made for %s here", n->op.c_str());
    at = n->out();
  }
  if (g.outputs.size() != 1 || at != g.outputs[0]) return refused("the chain does not end in the only output");
  return Ok{};
}

Result<Conv> read(const Problem& p) {
  PERI_ASSIGN(const MatchedConv m, read_conv(p));
  const ir::Node& n = p.anchor();
  Conv out;
  out.x = m.x;
  out.w = m.w;
  out.bias = m.bias;
  if (m.inline_bias) return refused("a bias that stands inside the region");
  if (p.constant[static_cast<size_t>(m.x)]) return refused("its image is a weight");
  DnnConv& c = out.conv;
  c.dtype = n.out()->type.dtype;
  if (c.dtype != DType::kF32 && c.dtype != DType::kF16 && c.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(c.dtype)));
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != c.dtype) return refused("operands of several types");
  const ConvShape& s = m.shape;
  c.n = s.n;
  c.c = s.ic;
  c.h = s.ih;
  c.w = s.iw;
  c.k = s.oc;
  c.r = s.kh;
  c.s = s.kw;
  c.oh = s.oh();
  c.ow = s.ow();
  c.groups = s.groups;
  c.stride = {s.sh, s.sw};
  c.dilation = {s.dh, s.dw};
  c.before = {s.top, s.left};
  c.after = {s.bottom, s.right};
  for (const int64_t size : {s.top, s.left, s.bottom, s.right})
    if (size < 0) return refused("it leaves out pixels at an edge");
  PERI_TRY(read_chain(p, n, &out));
  c.residual = out.residual >= 0;
  c.bias = out.bias >= 0 || c.residual || c.relu;
  return out;
}

std::string sizes_text(const DnnConv& c) { return cuda::dnn_sizes(std::array<int64_t, 5>{c.n, c.c, c.h, c.w, c.k}); }

// ---- execution -----------------------------------------------------------------------------------------------------
// What a step keeps on the device for all its sizes: weights as [k, r, s, c / groups], or zeros for a bias.
struct Kept {
  DnnConv conv;
  Tensor weights;  // as the step was given them; undefined where only its code is asked for
  std::mutex lock;
  std::optional<device::Memory> filter, zeros;

  static Result<Address> once(device::cuda::CudaDevice& device, Result<Tensor> made,
                              std::optional<device::Memory>* up) {
    PERI_ASSIGN(const Tensor host, std::move(made));
    PERI_ASSIGN(device::Memory memory, device.allocate(host.bytes().size()));
    PERI_ASSIGN(const auto stream, device.make_stream());
    PERI_TRY(stream->copy_in(memory.address(), host.bytes()));
    PERI_TRY(stream->synchronize());
    *up = std::move(memory);
    return (*up)->address();
  }
  Result<Address> filter_on(device::cuda::CudaDevice& device) {
    const std::lock_guard<std::mutex> guard(lock);
    return filter ? filter->address() : once(device, packed(), &filter);
  }
  Result<Address> zeros_on(device::cuda::CudaDevice& device) {
    const std::lock_guard<std::mutex> guard(lock);
    return zeros ? zeros->address() : once(device, Tensor::zeros(conv.dtype, {conv.k}), &zeros);
  }
  Result<Tensor> packed() const {
    if (!weights.defined()) return invalid("weights that are not there");
    PERI_ASSIGN(Tensor out, Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(weights.bytes().size())}));
    const int64_t element = static_cast<int64_t>(weights.bytes().size()) / weights.numel(),
                  depth = conv.c / conv.groups, taps = conv.r * conv.s;
    std::byte* to = out.mutable_data();
    const std::byte* const at = weights.bytes().data();
    for (int64_t k = 0; k < conv.k; ++k)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t i = 0; i < depth; ++i, to += element)
          __builtin_memcpy(to, at + ((k * depth + i) * taps + tap) * element, static_cast<size_t>(element));
    return out;
  }
};

std::shared_ptr<Kept> kept_of(const Conv& v, const InstantiateContext& c) {
  if (!*c.packed) {
    auto kept = std::make_shared<Kept>();
    kept->conv = v.conv;
    kept->weights = c.constants[static_cast<size_t>(v.w)];
    *c.packed = std::move(kept);
  }
  return std::const_pointer_cast<Kept>(std::static_pointer_cast<const Kept>(*c.packed));
}

class Work final : public cuda::LibraryWork {
 public:
  // `weights`, `zeros`: of what is kept; none where the call's arguments have them.
  Work(std::unique_ptr<const device::cuda::DnnReady> ready, const DnnConv& conv, std::shared_ptr<Kept> kept,
       std::optional<Address> weights, std::optional<Address> zeros)
      : ready_(std::move(ready)), conv_(conv), kept_(std::move(kept)), weights_(weights), zeros_(zeros) {}
  size_t workspace_bytes() const override { return ready_->workspace_bytes(); }
  Status enqueue(std::span<const device::Argument> at, Address workspace, void* stream) const override {
    device::cuda::DnnAddresses to;
    size_t next = 0;
    to.x = at[next++].address;
    to.w = weights_ ? *weights_ : at[next++].address;
    to.y = at[next++].address;
    to.workspace = workspace;
    if (conv_.residual) to.residual = at[next].address;
    if (conv_.bias) to.bias = zeros_ ? *zeros_ : at.back().address;
    return ready_->enqueue(to, static_cast<device::cuda::CuStream>(stream));
  }

 private:
  std::unique_ptr<const device::cuda::DnnReady> ready_;
  DnnConv conv_;
  std::shared_ptr<Kept> kept_;
  std::optional<Address> weights_, zeros_;
};

// A guess (see launch.hpp) of what its first answer takes.
double guess_ms(const DnnConv& c, int multiprocessors) {
  constexpr double kLaunchNs = 3000, kMacsPerNs = 2000, kBytesPerNs = 2500;
  // Few channels a group: 37 to 57 times the memory's time in MobileNetV3 at batch 128 on an H200.
  constexpr double kNarrowGroups = 40;
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double results = size(c.n) * size(c.k) * size(c.oh) * size(c.ow),
               depth = size(c.c / c.groups) * size(c.r * c.s);
  const double bytes = static_cast<double>(dtype_bits(c.dtype)) / 8 *
                       (size(c.n) * size(c.c) * size(c.h) * size(c.w) + results * (c.residual ? 2 : 1));
  const double work = results * depth / (multiprocessors * kMacsPerNs) * (c.dtype == DType::kF32 ? 20 : 1);
  const double slowed = c.c / c.groups < 8 && c.groups > 1 ? kNarrowGroups : 1;
  return (kLaunchNs + std::max({depth * 2, work, slowed * bytes / kBytesPerNs})) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Conv conv, read(p));
  Offer o;
  o.config = kHeuristic;
  o.guess_ms = guess_ms(conv.conv, cuda::limits_of(target).multiprocessors);
  ask_for_nhwc(p, &o);
  return std::vector<Offer>{std::move(o)};
}

Result<std::vector<std::string>> resolve(const Problem& p, std::string_view, const Target&, device::Device* device) {
  PERI_ASSIGN(const Conv conv, read(p));
  return cuda::dnn_configs(conv.conv, sizes_text(conv.conv), kMaxChoices, device);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view text, const InstantiateContext& c) {
  PERI_ASSIGN(const Conv conv, read(p));
  PERI_ASSIGN(const cuda::DnnConfig config, cuda::read_dnn_config(text));
  for (const int k : {conv.x, conv.residual})
    if (k >= 0 && !(p.graph->inputs[static_cast<size_t>(k)]->type.layout == ir::nhwc()))
      return invalid("takes images in NHWC only");
  if (!(p.graph->outputs[0]->type.layout == ir::nhwc())) return invalid("gives an image in NHWC only");
  const std::shared_ptr<Kept> kept = conv.packs() || conv.adds_zeros() ? kept_of(conv, c) : nullptr;
  LibraryCall call;
  const auto input = [&](int k) {
    if (k >= 0) call.arguments.push_back({LaunchArgument::From::kInput, static_cast<size_t>(k)});
  };
  input(conv.x);
  if (!conv.packs()) input(conv.w);
  call.arguments.push_back({LaunchArgument::From::kOutput, 0});
  input(conv.residual);
  input(conv.bias);
  call.make = [conv, config, kept, choosing = c.choosing](
                  device::cuda::CudaDevice& device) -> Result<std::unique_ptr<const cuda::LibraryWork>> {
    PERI_ASSIGN(const auto library, Cudnn::of(device));
    PERI_ASSIGN(auto made,
                cuda::dnn_ready(*library, conv.conv, sizes_text(conv.conv), config, kMaxWorkspace, choosing));
    std::optional<Address> weights, zeros;
    if (conv.packs()) {
      PERI_ASSIGN(weights, kept->filter_on(device));
    }
    if (conv.adds_zeros()) {
      PERI_ASSIGN(zeros, kept->zeros_on(device));
    }
    return std::unique_ptr<const cuda::LibraryWork>(
        std::make_unique<Work>(std::move(made), conv.conv, kept, weights, zeros));
  };
  return std::unique_ptr<Instance>(std::make_unique<cuda::LaunchInstance>(std::vector<LibraryCall>{std::move(call)}));
}
}  // namespace

extern const Entry cuda_dnn_conv_entry;
const Entry cuda_dnn_conv_entry{{
    .name = "cuda_dnn_conv",
    .version = 1,
    .provider = "cudnn",
    .executor = "cuda",
    .takes = "convolutions on a GPU by cuDNN, NHWC, constant weights, with bias, residual and relu; sums in float32",
    .offer = offer,
    .instantiate = instantiate,
    .resolve = resolve,
    .resolved = cuda::dnn_words(),
    .library = "cudnn",
}};

}  // namespace peri::kernels
