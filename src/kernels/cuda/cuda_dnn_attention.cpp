// Kernel cuda_dnn_attention: fused attention of float16 or bfloat16 by cuDNN, with additive mask or causal. Planning
// matches the attention; the library is queried once when candidates are tried, and compiles its plan for those sizes.
#include <algorithm>

#include "kernels/cuda/code/dnn_config.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "kernels/match/attention_match.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

namespace {
using cuda::LaunchArgument;
using cuda::LibraryCall;
using device::Address;
using device::cuda::Cudnn;
using device::cuda::DnnAttention;
static_assert(cuda::kWorkspaceAlignment >= device::cuda::kDnnWorkspaceAlignment);

constexpr size_t kMaxWorkspace = size_t{64} << 20;  // of a run
constexpr int64_t kMaxDepth = 128;                  // of a head: up to which one of our own takes every size
// Each of its engines is compiled before it is tried, for half a second; the library has two for most attentions.
constexpr int kMaxChoices = 2;

struct Attention {
  DnnAttention attention;
  int q = -1, k = -1, v = -1, mask = -1;  // graph inputs
};

Status read_mask(const MatchedAttention& m, DnnAttention* out) {
  if (m.mask == DType::kInvalid) return Ok{};
  if (m.mask == DType::kBool) return refused("takes masks that are added only").but_found("one of bool");
  if (m.zero_hidden) return refused("rows that a mask hides are not a number here");
  out->mask = m.mask;
  const std::array<int64_t, 4> whole = {m.batch, m.heads, m.queries, m.keys};
  for (size_t k = 0; k < whole.size(); ++k) out->mask_dims[k] = m.mask_strides[k] == 0 ? 1 : whole[k];
  return Ok{};
}

Status read_causal(const MatchedAttention& m, DnnAttention* out) {
  if (!m.causal || m.causal_offset >= m.keys - 1) return Ok{};  // the first query sees all keys
  if (m.keys != m.queries || m.causal_offset != 0)
    return refused("takes causal attention of as many keys as queries only");
  out->causal = true;
  return Ok{};
}

Result<Attention> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const MatchedAttention m, match_attention(n));
  for (const ir::Node* other : p.graph->nodes)
    if (other != &n && other->op != "dims_constant")
      return refused("no plan of cuDNN's is made for %s here", other->op.c_str());
  Attention out;
  DnnAttention& a = out.attention;
  a.dtype = n.out()->type.dtype;
  if (a.dtype != DType::kF16 && a.dtype != DType::kBF16)
    return refused("takes f16 and bf16 only").but_found(std::string(dtype_name(a.dtype)));
  for (const size_t k : {0, 1, 2})
    if (n.in(k)->type.dtype != a.dtype) return refused("operands of several types");
  out.q = input_index(*p.graph, n.in(0));
  out.k = input_index(*p.graph, n.in(1));
  out.v = input_index(*p.graph, n.in(2));
  if (n.in(3)) out.mask = input_index(*p.graph, n.in(3));
  if (out.q < 0 || out.k < 0 || out.v < 0 || (n.in(3) && out.mask < 0))
    return refused("an operand that stands inside the region");
  a.batch = m.batch;
  a.heads = m.heads;
  a.kv_heads = m.kv_heads;
  a.queries = m.queries;
  a.keys = m.keys;
  a.depth = m.depth;
  a.value_depth = m.value_depth;
  a.q = m.q.stride;
  a.k = m.k.stride;
  a.v = m.v.stride;
  a.y = m.y.stride;
  a.scale = m.scale;
  if (m.cap > 0) return refused("takes no soft cap");
  PERI_TRY(read_mask(m, &a));
  PERI_TRY(read_causal(m, &a));
  if (a.depth > kMaxDepth || a.value_depth > kMaxDepth) return refused("heads of more than %d", int{kMaxDepth});
  PERI_TRY(device::cuda::check_problem(a));
  return out;
}

std::string sizes_text(const DnnAttention& a) {
  return cuda::dnn_sizes(
      std::array<int64_t, 7>{a.batch, a.heads, a.kv_heads, a.queries, a.keys, a.depth, a.value_depth});
}

class Work final : public cuda::LibraryWork {
 public:
  explicit Work(std::unique_ptr<const device::cuda::DnnReady> ready) : ready_(std::move(ready)) {}
  size_t workspace_bytes() const override { return ready_->workspace_bytes(); }
  Status enqueue(std::span<const device::Argument> at, Address workspace, void* stream) const override {
    device::cuda::DnnAddresses to;
    to.q = at[0].address;
    to.k = at[1].address;
    to.v = at[2].address;
    to.y = at[3].address;
    if (at.size() > 4) to.mask = at[4].address;
    to.workspace = workspace;
    return ready_->enqueue(to, static_cast<device::cuda::CuStream>(stream));
  }

 private:
  std::unique_ptr<const device::cuda::DnnReady> ready_;
};

// A guess (see launch.hpp) of what its first answer takes. Not measured: that of convolutions by cuDNN, a fifth faster,
// with a more expensive launch, so that an engine that nobody timed keeps a kernel of ours for small attentions.
double guess_ms(const DnnAttention& a, int multiprocessors) {
  constexpr double kLaunchNs = 5000, kMacsPerNs = 2400, kBytesPerNs = 2800;
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double depth = size(a.depth + a.value_depth),
               macs = size(a.batch) * size(a.heads) * size(a.queries) * size(a.keys) * depth,
               bytes = 2 * size(a.batch) * depth * (size(a.heads) * size(a.queries) + size(a.kv_heads) * size(a.keys));
  return (kLaunchNs + std::max(macs / (multiprocessors * kMacsPerNs), bytes / kBytesPerNs)) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Attention a, read(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  out[0].config = kHeuristic;
  out[0].guess_ms = guess_ms(a.attention, cuda::limits_of(target).multiprocessors);
  return out;
}

Result<std::vector<std::string>> resolve(const Problem& p, std::string_view, const Target&, device::Device* device) {
  PERI_ASSIGN(const Attention a, read(p));
  return cuda::dnn_configs(a.attention, sizes_text(a.attention), kMaxChoices, device);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view text, const InstantiateContext& c) {
  PERI_ASSIGN(const Attention a, read(p));
  PERI_ASSIGN(const cuda::DnnConfig config, cuda::read_dnn_config(text));
  const std::string sizes = sizes_text(a.attention);
  // To compile for each new size would make its first run wait: one of our own takes it.
  if (config.resolved && config.sizes != sizes)
    return refused("cuDNN compiled its plan for other sizes").expecting(config.sizes).but_found(sizes);
  LibraryCall call;
  for (const int k : {a.q, a.k, a.v}) call.arguments.push_back({LaunchArgument::From::kInput, static_cast<size_t>(k)});
  call.arguments.push_back({LaunchArgument::From::kOutput, 0});
  if (a.mask >= 0) call.arguments.push_back({LaunchArgument::From::kInput, static_cast<size_t>(a.mask)});
  call.make = [attention = a.attention, sizes, config, choosing = c.choosing](
                  device::cuda::CudaDevice& device) -> Result<std::unique_ptr<const cuda::LibraryWork>> {
    PERI_ASSIGN(const auto library, Cudnn::of(device));
    PERI_ASSIGN(auto made, cuda::dnn_ready(*library, attention, sizes, config, kMaxWorkspace, choosing));
    return std::unique_ptr<const cuda::LibraryWork>(std::make_unique<Work>(std::move(made)));
  };
  return std::unique_ptr<Instance>(std::make_unique<cuda::LaunchInstance>(std::vector<LibraryCall>{std::move(call)}));
}
}  // namespace

extern const Entry cuda_dnn_attention_entry;
const Entry cuda_dnn_attention_entry{{
    .name = "cuda_dnn_attention",
    .version = 1,
    .provider = "cudnn",
    .executor = "cuda",
    .takes = "fused attention of f16 and bf16 on a GPU by cuDNN, heads of 8 to 128, a mask that is added, causal",
    .offer = offer,
    .instantiate = instantiate,
    // Few: each is a plan that is compiled when the kernel is verified.
    .samples = {"graph { input q: f16[2,9,3,40]; input k: f16[2,12,3,40]; input v: f16[2,12,3,24]; input m: "
                "f16[2,1,1,12]; y = attention(q, k, v, m) {q_layout=\"bshd\", k_layout=\"bshd\", v_layout=\"bshd\", "
                "y_layout=\"bshd\"}; output y }",
                "graph { input q: f16[1,2,9,128]; input k: f16[1,2,9,128]; input v: f16[1,2,9,128]; input m: "
                "f32[1,2,9,9]; y = attention(q, k, v, m) {scale=0.5}; output y }",
                "graph { input q: bf16[2,4,33,64]; input k: bf16[2,2,33,64]; input v: bf16[2,2,33,64]; y = "
                "attention(q, k, v) {causal=1}; output y }"},
    .resolve = resolve,
    .resolved = cuda::dnn_words(),
    .library = "cudnn",
}};

}  // namespace peri::kernels
