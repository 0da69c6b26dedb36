// Kernel onednn_matmul: products with a constant right side as oneDNN's inner product, which is faster than its matmul
// on such shapes; many rows are divided into tasks of single-threaded primitives, of few rows the columns, since
// reading the right side is then most of the work.
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
// Measured: benchmarks/results/2026-11-29_pasts.md.
constexpr int64_t kFewRows = 64;  // whose columns are divided
constexpr int64_t kMaxColumnTasks = 16;
constexpr int64_t kBlockColumns = 64;  // of a task, at least about
constexpr size_t kAlign = 64;

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
  } catch (const dnnl::error&) {
    return own;  // not in that format
  }
  return own;
}

struct Part {
  Desc desc;
  dnnl::inner_product_forward primitive;
  const Tensor* weights = nullptr;
};

// A task's block of the result.
struct Block {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const Part* part = nullptr;
  int64_t weights_at = 0;  // floats before its columns in the packed right side
};

// How a product becomes tasks. A block of columns that is not the whole of several rows is made in the scratch memory.
struct Division {
  std::map<std::pair<int64_t, int64_t>, Part> parts;  // by rows and columns
  std::vector<Block> blocks;
  size_t library_bytes = 0, result_bytes = 0;  // of the scratch memory of a task

  void add(Block block, const Desc& desc, const Tensor* weights, int64_t all_columns) {
    const auto [at, added] = parts.try_emplace({block.rows, block.columns});
    if (added) at->second = {desc, dnnl::inner_product_forward(desc), weights};
    block.part = &at->second;
    library_bytes = std::max(library_bytes, desc.scratchpad_desc().get_size());
    if (block.rows > 1 && block.columns < all_columns)
      result_bytes = std::max(result_bytes, static_cast<size_t>(block.rows * block.columns) * sizeof(float));
    blocks.push_back(block);
  }
};

// Floats before the part of a memory that a descriptor is of.
int64_t offset_of(const memory::desc& part) {
#if DNNL_VERSION_MAJOR >= 3
  return part.get_submemory_offset();
#else
  return part.data.offset0;
#endif
}

// Columns that parts of a packed format are made of: its blocks, some kBlockColumns of them. 0: it is not known.
int64_t unit_of(const memory::desc& format) {
  int64_t block = 1;
#if DNNL_VERSION_MAJOR >= 3
  if (format.get_format_kind() != memory::format_kind::blocked) return 0;
  const auto sizes = format.get_inner_blks(), axes = format.get_inner_idxs();
  for (size_t k = 0; k < sizes.size(); ++k)
    if (axes[k] == 0) block *= sizes[k];
#else
  block = kBlockColumns;
#endif
  return (kBlockColumns + block - 1) / block * block;
}

// Whether columns of `part` lie in memory as whole blocks of them do in `whole`.
bool same_blocks(const memory::desc& part, const memory::desc& whole) {
#if DNNL_VERSION_MAJOR >= 3
  return part.get_format_kind() == memory::format_kind::blocked && part.get_strides() == whole.get_strides() &&
         part.get_inner_blks() == whole.get_inner_blks() && part.get_inner_idxs() == whole.get_inner_idxs();
#else
  (void)part;
  (void)whole;
  return false;
#endif
}

int64_t first_of(int64_t rows, int64_t slices, int64_t slice) { return rows * slice / slices; }

class Divider {
 public:
  Divider(const Product& s, bool bias, const InstantiateContext& c)
      : s_(s),
        bias_(bias),
        c_(c),
        attributes_(vendor::onednn_attributes(s.epilogue)),
        packed_(vendor::onednn_packed(c.packed)) {}

  Result<Division> by_rows(int64_t slices) const {
    Division out;
    for (int64_t k = 0; k < slices; ++k) {
      const int64_t row = first_of(s_.m, slices, k), rows = first_of(s_.m, slices, k + 1) - row;
      if (const auto there = out.parts.find({rows, s_.n}); there != out.parts.end()) {
        out.add({row, rows, 0, s_.n}, there->second.desc, there->second.weights, s_.n);
        continue;
      }
      const Desc desc = describe_packed(s_, rows, bias_, attributes_, packed_);
      if (c_.choosing) PERI_TRY(vendor::check_implementation(desc.impl_info_str()));
      PERI_ASSIGN(const Tensor* weights, weights_as(desc));
      out.add({row, rows, 0, s_.n}, desc, weights, s_.n);
    }
    return out;
  }

  // Refuses if oneDNN cannot read part of the packed right side in place, or only with a slow implementation.
  Result<Division> by_columns() const {
    const Desc all = describe_packed(s_, s_.m, bias_, attributes_, packed_);
    const memory::desc format = all.weights_desc();
    PERI_ASSIGN(const Tensor* weights, weights_as(all));
    Division out;
    const int64_t unit = unit_of(format);
    if (unit <= 0) return refused("a format without blocks");
    const int64_t blocks = std::max<int64_t>(1, s_.n / unit);  // what is left belongs to the last
    const int64_t tasks = std::min(blocks, kMaxColumnTasks);
    for (int64_t k = 0; k < tasks; ++k) {
      const int64_t from = first_of(blocks, tasks, k) * unit;
      const int64_t columns = (k + 1 == tasks ? s_.n : first_of(blocks, tasks, k + 1) * unit) - from;
      PERI_ASSIGN(const Desc desc, describe_columns(columns, format, columns % unit == 0));
      PERI_TRY(vendor::check_implementation(desc.impl_info_str()));
      const memory::desc part = format.submemory_desc({columns, s_.k}, {from, 0});
      out.add({0, s_.m, from, columns, nullptr, offset_of(part)}, desc, weights, s_.n);
    }
    return out;
  }

 private:
  // The product with so many columns of the packed right side; what is no whole number of blocks has no descriptor but
  // its own.
  Result<Desc> describe_columns(int64_t columns, const memory::desc& format, bool whole_blocks) const {
    Product narrow = s_;
    narrow.n = columns;
    if (whole_blocks) return describe(narrow, s_.m, bias_, attributes_, format.submemory_desc({columns, s_.k}, {0, 0}));
    const memory::desc any({columns, s_.k}, memory::data_type::f32, memory::format_tag::any);
    Desc own = describe(narrow, s_.m, bias_, attributes_, any);
    if (!same_blocks(own.weights_desc(), format))
      return refused("another format for %lld columns", static_cast<long long>(columns));
    return own;
  }

  Result<const Tensor*> weights_as(const Desc& desc) const {
    const memory::desc plain({s_.n, s_.k}, memory::data_type::f32,
                             s_.transposed ? memory::format_tag::ab : memory::format_tag::ba);
    const Tensor* weights = packed_->get(c_, desc.weights_desc(), plain, s_.b);
    if (!weights) return Error(ErrorKind::kMemory, "no memory for packed weights");
    return weights;
  }

  const Product& s_;
  bool bias_;
  const InstantiateContext& c_;
  dnnl::primitive_attr attributes_;
  vendor::OnednnPacked* packed_;
};

Result<Division> divide(const Divider& divider, const Product& s, int64_t slices) {
  if (s.m <= kFewRows) {
    Result<Division> columns = vendor::onednn_guarded([&] { return divider.by_columns(); });
    if (columns.ok()) return columns;  // else part of that format has no implementation
  }
  return divider.by_rows(std::min(slices, s.m));
}

class OnednnProduct final : public Instance {
 public:
  static Result<std::unique_ptr<Instance>> make(Product s, int64_t slices, const InstantiateContext& c) {
    std::vector<float> bias = vendor::onednn_bias(s.epilogue, c.constants);
    (void)vendor::onednn_stream();
    PERI_ASSIGN(Division division, divide(Divider(s, !bias.empty(), c), s, slices));
    const size_t library = (division.library_bytes + kAlign - 1) / kAlign * kAlign;
    auto out = std::make_unique<OnednnProduct>(
        needs_of_tasks(static_cast<int64_t>(division.blocks.size()), library + division.result_bytes));
    out->result_at_ = library;
    out->bias_ = std::move(bias);
    out->packed_ = *c.packed;
    out->division_ = std::move(division);
    out->product_ = std::move(s);
    return std::unique_ptr<Instance>(std::move(out));
  }

  explicit OnednnProduct(Needs needs) : Instance(std::move(needs)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && product_.shared >= 0 && input == static_cast<size_t>(product_.shared);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const Product& s = product_;
    const Block& block = division_.blocks[static_cast<size_t>(task)];
    const float* x = static_cast<const float*>(args.in[static_cast<size_t>(s.a)]) + block.row * s.k;
    const int64_t at = block.row * s.n + block.column;
    float* y = static_cast<float*>(args.out[0]) + at;
    const bool apart = block.rows > 1 && block.columns < s.n;
    float* result = apart ? reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + result_at_) : y;
    const int64_t step = apart ? block.columns : s.n;
    if (s.epilogue.residual >= 0) {
      const float* r = static_cast<const float*>(args.in[static_cast<size_t>(s.epilogue.residual)]) + at;
      if (r != result) copy_block(r, s.n, result, step, block);
    }
    multiply(block, x, result, args.scratch);
    if (apart) copy_block(result, step, y, s.n, block);
  }
  Status finish(const Args&) const override {
    if (failed_) return internal_error("oneDNN failed to run a product");
    return Ok{};
  }

 private:
  static void copy_block(const float* from, int64_t from_step, float* to, int64_t to_step, const Block& block) {
    for (int64_t row = 0; row < block.rows; ++row)
      std::copy_n(from + row * from_step, block.columns, to + row * to_step);
  }

  void multiply(const Block& block, const float* x, float* y, void* scratch) const {
    const Part& part = *block.part;
    const float* weights = static_cast<const float*>(part.weights->data()) + block.weights_at;
    try {
      const dnnl::engine& engine = vendor::onednn_engine();
      std::unordered_map<int, memory> arguments = {
          {DNNL_ARG_SRC, memory(part.desc.src_desc(), engine, const_cast<float*>(x))},
          {DNNL_ARG_WEIGHTS, memory(part.desc.weights_desc(), engine, const_cast<float*>(weights))},
          {DNNL_ARG_DST, memory(part.desc.dst_desc(), engine, y)},
          {DNNL_ARG_SCRATCHPAD, memory(part.desc.scratchpad_desc(), engine, scratch)}};
      if (!bias_.empty())
        arguments.emplace(DNNL_ARG_BIAS,
                          memory(part.desc.bias_desc(), engine, const_cast<float*>(bias_.data() + block.column)));
      part.primitive.execute(vendor::onednn_stream(), arguments);
      vendor::onednn_stream().wait();
    } catch (const dnnl::error&) {
      failed_ = true;
    }
  }

  Product product_;
  Division division_;
  std::vector<float> bias_;
  size_t result_at_ = 0;  // bytes into the scratch memory
  Packed packed_;
  mutable std::atomic<bool> failed_ = false;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target&) {
  PERI_ASSIGN(const Product s, read(p));
  std::vector<Offer> out;
  for (const char* config : {"slices=4", "slices=2"}) {
    if (s.m <= kFewRows && !out.empty()) break;  // nothing but columns is divided
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
