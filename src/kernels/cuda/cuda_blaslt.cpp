// Kernel cuda_blaslt: matrix products (matmul, gemm) by cuBLASLt, with bias, residual and an activation in its
// epilogue. Planning matches the product; the library is queried for the algorithm, once when candidates are tried or
// when the step is created.
#include <algorithm>

#include "device/cuda/blaslt.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

namespace {
using cuda::LaunchArgument;
using cuda::LibraryCall;
using device::Address;
using device::cuda::BlasLt;
using device::cuda::LtChoice;
using device::cuda::LtMatmul;
static_assert(cuda::kWorkspaceAlignment >= device::cuda::kLtWorkspaceAlignment);

// As NVIDIA's guide asks for on Hopper; what an algorithm really takes is less for most.
constexpr size_t kMaxWorkspace = size_t{32} << 20;
// The first of its algorithms are within a few per cent of the best of many (benchmarks of whole networks): only a few
// are worth trying.
constexpr int kMaxChoices = 6;
constexpr std::string_view kSizes = "sizes", kVersion = "version";

struct Product {
  LtMatmul matmul;
  int a = -1, b = -1, bias = -1, residual = -1;  // graph inputs
};

Status read_matmul(const ir::Node& n, LtMatmul* out) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() < 2) return refused("takes matrices only");
  out->m = a[a.size() - 2];
  out->k = a.back();
  out->n = b.back();
  const int64_t of_a = cuda::elements_of(a) / std::max<int64_t>(1, out->m * out->k),
                of_b = cuda::elements_of(b) / std::max<int64_t>(1, out->k * out->n);
  if (of_b == 1) {  // rows of all products are rows of one
    out->m *= of_a;
    return Ok{};
  }
  const std::vector<int64_t> outer_a(a.begin(), a.end() - 2), outer_b(b.begin(), b.end() - 2);
  if (of_a != 1 && outer_a != outer_b) return refused("operands that repeat along some of the outer axes");
  out->batch = of_b;
  out->a_stride = of_a == 1 ? 0 : out->m * out->k;
  out->b_stride = out->k * out->n;
  return Ok{};
}

// How an operand joins the sums: as a bias of the columns, or element by element.
Status join(const Problem& p, const ir::Value* v, float factor, Product* out) {
  const int at = input_index(*p.graph, v);
  if (at < 0) return refused("an operand that stands inside the region");
  if (v->type.dtype != out->matmul.dtype)
    return refused("an operand of another type").but_found(std::string(dtype_name(v->type.dtype)));
  const std::vector<int64_t> dims = dims_of(*v), want = dims_of(*p.graph->outputs[0]);
  const bool in_columns = !dims.empty() && dims.back() == out->matmul.n && cuda::elements_of(dims) == out->matmul.n;
  // A value made at run time that has the result's size now may be narrower at another: it is no bias.
  if (in_columns && factor == 1 && out->bias < 0 && (p.constant[static_cast<size_t>(at)] || dims.size() == 1)) {
    out->bias = at;
    out->matmul.bias = true;
  } else if (dims == want && out->residual < 0) {
    out->residual = at;
    out->matmul.beta = factor;
  } else {
    return refused("an operand that is neither one bias nor one residual of the result's size")
        .but_found(ir::type_text(v->type));
  }
  return Ok{};
}

Status read_gemm(const Problem& p, const ir::Node& n, Product* out) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), y = dims_of(*n.out());
  LtMatmul& m = out->matmul;
  m.a_transposed = n.i("transA") != 0;
  m.b_transposed = n.i("transB") != 0;
  m.m = y[0];
  m.n = y[1];
  m.k = m.a_transposed ? a[0] : a[1];
  m.alpha = static_cast<float>(n.f("alpha", 1.0));
  const auto beta = static_cast<float>(n.f("beta", 1.0));
  return n.in(2) && beta != 0 ? join(p, n.in(2), beta, out) : Status(Ok{});
}

// act(sum + residual + bias), in any order except that the activation is last. GELU by the library in 16 bits only: its
// tanh is accurate to half a unit in the last place of float16, and unknown for float32.
Status read_chain(const Problem& p, const ir::Node& anchor, Product* out) {
  const ir::Graph& g = *p.graph;
  const ir::Value* at = anchor.out();
  for (const ir::Node* n : g.nodes) {
    if (n == &anchor || ops::states_sizes(*n)) continue;
    if (out->matmul.act != LtMatmul::Act::kNone) return refused("%s behind the activation", n->op.c_str());
    if (at->users.size() != 1 || std::count(n->inputs.begin(), n->inputs.end(), at) != 1)
      return refused("%s is not part of a chain", n->op.c_str());
    if (n->out()->type.dtype != out->matmul.dtype || !(n->out()->type.shape == anchor.out()->type.shape))
      return refused("%s changes type or shape", n->op.c_str());
    if (n->op == "add")
      PERI_TRY(join(p, n->in(0) == at ? n->in(1) : n->in(0), 1, out));
    else if (n->op == "relu")
      out->matmul.act = LtMatmul::Act::kRelu;
    else if (n->op == "gelu" && n->s("approximate", "none") == "tanh" && out->matmul.dtype != DType::kF32)
      out->matmul.act = LtMatmul::Act::kGeluTanh;
    else
      return refused("cuBLASLt has no epilogue for %s", n->op.c_str());
    at = n->out();
  }
  if (g.outputs.size() != 1 || at != g.outputs[0]) return refused("the chain does not end in the only output");
  return Ok{};
}

// Where a symbolic size matches only by coincidence at the current size, or sums would be rounded twice, the size is
// refused here, and the executor uses another kernel for it.
Result<Product> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major()) return refused("takes row-major tensors only");
  Product out;
  LtMatmul& m = out.matmul;
  m.dtype = n.out()->type.dtype;
  out.a = input_index(*p.graph, n.in(0));
  out.b = input_index(*p.graph, n.in(1));
  if (out.a < 0 || out.b < 0) return refused("an operand that stands inside the region");
  if (m.dtype != DType::kF32 && m.dtype != DType::kF16 && m.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(m.dtype)));
  for (const size_t k : {size_t{0}, size_t{1}})
    if (n.in(k)->type.dtype != m.dtype) return refused("operands of several types");
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &out) : read_matmul(n, &m));
  for (const int64_t size : {m.m, m.n, m.k, m.batch})
    if (size < 1 || size > INT32_MAX) return refused("an empty or too large product");
  PERI_TRY(read_chain(p, n, &out));
  if (!device::cuda::rounds_once(m))
    return refused("in 16 bits it rounds sums of rows that are not multiples of 16 bytes before its epilogue");
  return out;
}

// ---- configurations ------------------------------------------------------------------------------------------------
// "sizes=128x768x3072x1 version=130100 algo=66 tile=20 ...": the sizes of the query, the library's version, its choice.
std::string sizes_text(const LtMatmul& m) {
  return format("%lldx%lldx%lldx%lld", static_cast<long long>(m.m), static_cast<long long>(m.n),
                static_cast<long long>(m.k), static_cast<long long>(m.batch));
}
int64_t number_of(const device::cuda::Version& v) { return 10000 * v.major + 100 * v.minor + v.patch; }

std::string config_of(const LtMatmul& m, const device::cuda::Version& version, const LtChoice& choice) {
  std::string out = std::string(kSizes) + "=" + sizes_text(m) + " " + std::string(kVersion) + "=" +
                    std::to_string(number_of(version));
  const auto names = device::cuda::lt_choice_names();
  for (size_t k = 0; k < names.size(); ++k)
    out += " " + std::string(names[k]) + "=" + std::to_string(choice.numbers[k]);
  return out;
}

struct Config {
  bool resolved = false;
  std::string sizes;
  int64_t version = 0;
  LtChoice choice;
};
Result<Config> read_config(std::string_view config) {
  Config out;
  if (config == kHeuristic) return out;
  out.resolved = true;
  if (!config.starts_with(std::string(kSizes) + "="))
    return invalid("bad configuration").but_found(std::string(config));
  config.remove_prefix(kSizes.size() + 1);
  out.sizes = config.substr(0, config.find(' '));
  PERI_ASSIGN(out.version, config_int(config, kVersion, 0, INT32_MAX, 0));
  const auto names = device::cuda::lt_choice_names();
  for (size_t k = 0; k < names.size(); ++k) {
    PERI_ASSIGN(out.choice.numbers[k], config_int(config, names[k], 0, UINT32_MAX, -1));
    if (out.choice.numbers[k] < 0) return invalid("bad configuration").at_node(names[k]).but_found("nothing");
  }
  return out;
}

// ---- what runs -----------------------------------------------------------------------------------------------------
class Work final : public cuda::LibraryWork {
 public:
  Work(std::unique_ptr<const device::cuda::LtReady> ready, bool has_c, bool has_bias)
      : ready_(std::move(ready)), has_c_(has_c), has_bias_(has_bias) {}
  size_t workspace_bytes() const override { return ready_->workspace_bytes(); }
  Status enqueue(std::span<const device::Argument> at, Address workspace, void* stream) const override {
    device::cuda::LtAddresses to;
    to.a = at[0].address;
    to.b = at[1].address;
    to.d = at[2].address;
    to.workspace = workspace;
    if (has_c_) to.c = at[3].address;
    if (has_bias_) to.bias = at.back().address;
    return ready_->enqueue(to, static_cast<device::cuda::CuStream>(stream));
  }

 private:
  std::unique_ptr<const device::cuda::LtReady> ready_;
  bool has_c_, has_bias_;
};

// The choice, where this library made it for these sizes and still accepts it; else the library's own. While the tuner
// chooses, any other algorithm than the named one is refused.
Result<std::unique_ptr<const device::cuda::LtReady>> ready(const BlasLt& library, const LtMatmul& m,
                                                           const Config& config, bool choosing) {
  if (config.resolved && config.sizes == sizes_text(m) && config.version == number_of(library.version())) {
    auto made = library.make(m, &config.choice, kMaxWorkspace);
    if (made.ok() || choosing || made.error().kind != ErrorKind::kRefused) return made;
  } else if (config.resolved && choosing && config.sizes == sizes_text(m)) {
    return refused("another version of cuBLASLt chose it").but_found(library.version().text());
  }
  return library.make(m, nullptr, kMaxWorkspace);
}

// A guess (see launch.hpp) of what its first answer takes.
double guess_ms(const LtMatmul& m, int multiprocessors) {
  constexpr double kLaunchNs = 3000, kNsAStep = 2, kMacsPerNs = 2600, kBytesPerNs = 2500;
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double results = size(m.batch) * size(m.m) * size(m.n);
  const double bytes = static_cast<double>(dtype_bits(m.dtype)) / 8 *
                       (results * (m.beta != 0 ? 2 : 1) + size(m.batch) * size(m.k) * (size(m.m) + size(m.n)));
  const double work = results * size(m.k) / (multiprocessors * kMacsPerNs) * (m.dtype == DType::kF32 ? 20 : 1);
  return (kLaunchNs + std::max({size(m.k) * kNsAStep, work, bytes / kBytesPerNs})) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Product product, read(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  out[0].config = kHeuristic;
  out[0].guess_ms = guess_ms(product.matmul, cuda::limits_of(target).multiprocessors);
  return out;
}

Result<std::vector<std::string>> resolve(const Problem& p, std::string_view, const Target&, device::Device* device) {
  PERI_ASSIGN(const Product product, read(p));
  auto* const gpu = dynamic_cast<device::cuda::CudaDevice*>(device);
  if (!gpu) return refused("cuBLASLt is asked for a GPU");
  PERI_ASSIGN(const auto library, BlasLt::of(*gpu));
  gpu->keep(library);  // to open it takes longer than an answer
  PERI_ASSIGN(const std::vector<LtChoice> choices, library->choices(product.matmul, kMaxWorkspace, kMaxChoices));
  std::vector<std::string> out;
  for (const LtChoice& c : choices) out.push_back(config_of(product.matmul, library->version(), c));
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view text, const InstantiateContext& c) {
  PERI_ASSIGN(const Product product, read(p));
  PERI_ASSIGN(const Config config, read_config(text));
  LibraryCall call;
  const auto input = [&](int k) {
    if (k >= 0) call.arguments.push_back({LaunchArgument::From::kInput, static_cast<size_t>(k)});
  };
  input(product.a);
  input(product.b);
  call.arguments.push_back({LaunchArgument::From::kOutput, 0});
  input(product.residual);
  input(product.bias);
  call.make = [product, config, choosing = c.choosing](
                  device::cuda::CudaDevice& device) -> Result<std::unique_ptr<const cuda::LibraryWork>> {
    PERI_ASSIGN(const auto library, BlasLt::of(device));
    PERI_ASSIGN(auto made, ready(*library, product.matmul, config, choosing));
    return std::unique_ptr<const cuda::LibraryWork>(
        std::make_unique<Work>(std::move(made), product.residual >= 0, product.bias >= 0));
  };
  return std::unique_ptr<Instance>(std::make_unique<cuda::LaunchInstance>(std::vector<LibraryCall>{std::move(call)}));
}
}  // namespace

extern const Entry cuda_blaslt_entry;
const Entry cuda_blaslt_entry{{
    .name = "cuda_blaslt",
    .version = 1,
    .provider = "cublaslt",
    .executor = "cuda",
    .takes = "matrix products on a GPU by cuBLASLt, with bias, residual, relu, in 16 bits tanh-gelu; sums in float32",
    .offer = offer,
    .instantiate = instantiate,
    .resolve = resolve,
    .resolved = {kSizes, kVersion, "algo", "tile", "split", "reduction", "swizzle", "custom", "stages", "inner",
                 "cluster"},
    .library = "cublaslt",
}};

}  // namespace peri::kernels
