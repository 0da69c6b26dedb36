// Kernel onednn_matmul: products with a constant right side as oneDNN's inner product, which is faster than its matmul
// on such shapes; rows are divided into tasks of single-threaded primitives.
#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>

#include "kernels/vendor/library.hpp"
#include "kernels/vendor/onednn.hpp"

namespace peri::kernels {
namespace {
using dnnl::memory;
using Desc = dnnl::inner_product_forward::primitive_desc;
constexpr int64_t kMaxSlices = 1024;

struct Product {
  int64_t m = 0, n = 0, k = 0;
  int a = -1, b = -1;
  bool transposed = false;  // the right side is [n, k]
  vendor::OnednnEpilogue epilogue;
  int shared = -1;  // graph input whose memory the result may take
};

// gemm's third input as bias, if it is one value a column.
Status read_third(const Problem& p, const ir::Node& n, MatchedEpilogue* epilogue) {
  const ir::Value* c = n.in(2);
  if (!c) return Ok{};
  if (n.f("beta", 1.0) != 1.0) return refused("beta is not 1");
  const std::vector<int64_t> dims = dims_of(*c);
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  if (dims.empty() || dims.back() != count || count != dims_of(*n.out()).back())
    return refused("its third input is not one value a column");
  MatchedOp bias;
  bias.op.kind = PostKind::kColAdd;
  bias.needs_data = true;
  bias.input = input_index(*p.graph, c);
  if (bias.input < 0)
    for (int64_t k = 0; k < c->constant->numel(); ++k) bias.values.push_back(static_cast<float>(c->constant->f64(k)));
  epilogue->ops.insert(epilogue->ops.begin(), std::move(bias));
  return Ok{};
}

Result<Product> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  if (n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  Product out;
  out.a = input_index(*p.graph, n.in(0));
  out.b = input_index(*p.graph, n.in(1));
  if (out.a < 0 || p.constant[static_cast<size_t>(out.a)]) return refused("a constant left side");
  if (out.b < 0 || !p.constant[static_cast<size_t>(out.b)]) return refused("its right side is not constant");
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() != 2) return refused("takes a right side of two dimensions only");
  if (n.i("transA") != 0 || n.f("alpha", 1.0) != 1.0) return refused("a transposed or scaled left side");
  out.transposed = n.i("transB") != 0;
  out.k = a.back();
  out.n = b[out.transposed ? 0 : 1];
  out.m = 1;
  for (size_t axis = 0; axis + 1 < a.size(); ++axis) out.m *= a[axis];
  if (out.m < 1 || out.n < 1 || out.k < 1) return refused("an empty product");
  PERI_ASSIGN(MatchedEpilogue matched, match_epilogue(p, n, n.out()->type.rank() - 1));
  if (n.op == "gemm") PERI_TRY(read_third(p, n, &matched));
  PERI_ASSIGN(out.epilogue, vendor::onednn_epilogue(p, matched));
  out.shared = only_residual(p, matched);
  return out;
}

Desc describe(const Product& s, int64_t rows, bool bias, const dnnl::primitive_attr& attributes,
              const memory::desc& w) {
  const auto f32 = memory::data_type::f32;
  const memory::desc x({rows, s.k}, f32, memory::format_tag::ab), y({rows, s.n}, f32, memory::format_tag::ab);
  const memory::desc b = bias ? memory::desc({s.n}, f32, memory::format_tag::a) : memory::desc();
  const auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {vendor::onednn_engine(), kind, x, w, b, y, attributes};
#else
  return {{kind, x, w, b, y}, attributes, vendor::onednn_engine()};
#endif
}

// oneDNN prefers another format of the weights for few rows than for many. The format packed by the step's first
// instance is used wherever the same implementation supports it, so that a new size does not pack again.
Desc describe_packed(const Product& s, int64_t rows, bool bias, const dnnl::primitive_attr& attributes,
                     vendor::OnednnPacked* packed) {
  const memory::desc any({s.n, s.k}, memory::data_type::f32, memory::format_tag::any);
  Desc own = describe(s, rows, bias, attributes, any);
  const auto first = packed->first();
  if (!first || *first == own.weights_desc()) return own;
  try {
    Desc same = describe(s, rows, bias, attributes, *first);
    if (std::string_view(same.impl_info_str()) == own.impl_info_str()) return same;
  } catch (const dnnl::error&) {  // not in that format
  }
  return own;
}

struct Part {
  Desc desc;
  dnnl::inner_product_forward primitive;
  const Tensor* weights = nullptr;
};

class OnednnProduct final : public Instance {
 public:
  static Result<std::unique_ptr<Instance>> make(Product s, int64_t slices, const InstantiateContext& c) {
    slices = std::min(slices, s.m);
    std::vector<float> bias = vendor::onednn_bias(s.epilogue, c.constants);
    (void)vendor::onednn_stream();
    vendor::OnednnPacked* packed = vendor::onednn_packed(c.packed);
    std::map<int64_t, Part> parts;
    size_t scratch = 0;
    const dnnl::primitive_attr attributes = vendor::onednn_attributes(s.epilogue);
    const memory::desc plain({s.n, s.k}, memory::data_type::f32,
                             s.transposed ? memory::format_tag::ab : memory::format_tag::ba);
    for (int64_t k = 0; k < slices; ++k) {
      const int64_t rows = first(s.m, slices, k + 1) - first(s.m, slices, k);
      if (parts.contains(rows)) continue;
      Desc desc = describe_packed(s, rows, !bias.empty(), attributes, packed);
      if (c.choosing) PERI_TRY(vendor::check_implementation(desc.impl_info_str()));
      const Tensor* weights = packed->get(c, desc.weights_desc(), plain, s.b);
      if (!weights) return Error(ErrorKind::kMemory, "no memory for packed weights");
      scratch = std::max(scratch, desc.scratchpad_desc().get_size());
      parts.emplace(rows, Part{desc, dnnl::inner_product_forward(desc), weights});
    }
    auto out = std::make_unique<OnednnProduct>(needs_of_tasks(slices, scratch));
    out->slices_ = slices;
    out->bias_ = std::move(bias);
    out->packed_ = *c.packed;
    out->parts_ = std::move(parts);
    out->product_ = std::move(s);
    return std::unique_ptr<Instance>(std::move(out));
  }

  explicit OnednnProduct(Needs needs) : Instance(std::move(needs)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && product_.shared >= 0 && input == static_cast<size_t>(product_.shared);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const Product& s = product_;
    const int64_t row = first(s.m, slices_, task), rows = first(s.m, slices_, task + 1) - row;
    const Part& part = parts_.at(rows);
    const float* x = static_cast<const float*>(args.in[static_cast<size_t>(s.a)]) + row * s.k;
    float* y = static_cast<float*>(args.out[0]) + row * s.n;
    if (s.epilogue.residual >= 0) {
      const float* r = static_cast<const float*>(args.in[static_cast<size_t>(s.epilogue.residual)]) + row * s.n;
      if (r != y) __builtin_memcpy(y, r, static_cast<size_t>(rows * s.n) * sizeof(float));
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
    if (failed_) return internal_error("oneDNN failed to run a product");
    return Ok{};
  }

 private:
  static int64_t first(int64_t rows, int64_t slices, int64_t slice) { return rows * slice / slices; }

  Product product_;
  int64_t slices_ = 1;
  std::vector<float> bias_;
  std::map<int64_t, Part> parts_;  // by rows
  Packed packed_;
  mutable std::atomic<bool> failed_ = false;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target&) {
  PERI_ASSIGN(const Product s, read(p));
  std::vector<Offer> out;
  for (const char* config : {"slices=4", "slices=2"}) {
    Offer o;
    o.config = config;
    o.inputs.resize(p.graph->inputs.size());
    o.outputs.resize(1);
    o.in_place = {s.shared};
    o.library = vendor::onednn_library();
    out.push_back(std::move(o));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  for (const ir::Value* v : p.graph->inputs)
    if (!v->type.layout.row_major()) return invalid("takes row-major tensors only");
  PERI_ASSIGN(Product s, read(p));
  PERI_ASSIGN(const int64_t slices, config_int(config, "slices", 1, kMaxSlices, 1));
  return vendor::onednn_guarded([&] { return OnednnProduct::make(std::move(s), slices, c); });
}
}  // namespace

extern const Entry onednn_matmul_entry;
const Entry onednn_matmul_entry{{
    .name = "onednn_matmul",
    .version = 1,
    .provider = "onednn",
    .takes = "float32 products (matmul, gemm) with a constant right side, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .takes_constants = true,
}};

}  // namespace peri::kernels
