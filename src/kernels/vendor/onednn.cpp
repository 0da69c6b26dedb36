// The shared parts of the oneDNN kernels.
#include "kernels/vendor/onednn.hpp"

#include <cstring>

#include "base/hash.hpp"
#include "kernels/vendor/library.hpp"
#include "kernels/weights/packed.hpp"

// Of the OpenMP runtime that oneDNN brings; a header for it comes with GCC only.
extern "C" void omp_set_num_threads(int);

namespace peri::kernels::vendor {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

namespace {
// The post-op for an activation: its algorithm, alpha and beta.
struct Eltwise {
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float alpha = 0, beta = 0;
};
Eltwise eltwise_of(const PostStep& op) {
  switch (op.act) {
    case Activation::kRelu: return {dnnl::algorithm::eltwise_relu, 0, 0};
    case Activation::kLeakyRelu: return {dnnl::algorithm::eltwise_relu, op.a, 0};
    case Activation::kClip: return {dnnl::algorithm::eltwise_clip, op.a, op.b};
    case Activation::kSigmoid: return {dnnl::algorithm::eltwise_logistic, 0, 0};
    case Activation::kSilu: return {dnnl::algorithm::eltwise_swish, 1, 0};
    case Activation::kTanh: return {dnnl::algorithm::eltwise_tanh, 0, 0};
    // Not kGelu: the error function of eltwise_gelu_erf errs by 1.5e-7 absolutely, too much left of -3.
    case Activation::kGeluTanh: return {dnnl::algorithm::eltwise_gelu_tanh, 0, 0};
    default: return {};
  }
}
}  // namespace

Result<OnednnEpilogue> onednn_epilogue(const Problem& problem, const MatchedEpilogue& matched) {
  OnednnEpilogue out;
  for (size_t k = 0; k < matched.ops.size(); ++k) {
    const MatchedOp& m = matched.ops[k];
    if (k == 0 && m.op.kind == PostKind::kColAdd) {
      if (m.input >= 0 && !problem.constant[static_cast<size_t>(m.input)]) return refused("its bias is not constant");
      out.has_bias = true;
      out.bias = m.input;
      out.bias_values = m.values;
    } else if (m.op.kind == PostKind::kAdd && m.input >= 0 && m.input == matched.residual && out.residual < 0) {
      const ir::Graph& g = *problem.graph;
      if (!(g.inputs[static_cast<size_t>(m.input)]->type.shape == g.outputs[0]->type.shape) ||
          problem.constant[static_cast<size_t>(m.input)])
        return refused("an operand that is not a residual of the output's shape");
      out.residual = m.input;
      out.steps.push_back(m);
    } else if (m.op.kind == PostKind::kActivation && eltwise_of(m.op).algorithm != dnnl::algorithm::undef) {
      out.steps.push_back(m);
    } else {
      return refused("step %zu of the epilogue has no post-op in oneDNN", k);
    }
  }
  return out;
}

dnnl::primitive_attr onednn_attributes(const OnednnEpilogue& epilogue) {
  dnnl::post_ops ops;
  for (const MatchedOp& m : epilogue.steps) {
    if (m.op.kind == PostKind::kAdd) {
      ops.append_sum(1.0f);
      continue;
    }
    const Eltwise e = eltwise_of(m.op);
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(e.algorithm, e.alpha, e.beta);
#else
    ops.append_eltwise(1.0f, e.algorithm, e.alpha, e.beta);
#endif
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::vector<float> onednn_bias(const OnednnEpilogue& epilogue, const Constants& constants) {
  if (!epilogue.has_bias || epilogue.bias < 0) return epilogue.bias_values;
  const std::span<const float> values = constants[static_cast<size_t>(epilogue.bias)].as<float>();
  return {values.begin(), values.end()};
}

namespace {
// What a format is called between processes; empty: it has no name, and is not kept.
#if DNNL_VERSION_MAJOR >= 3
// Blocks of floats are all that a format is if they fill its memory: what oneDNN adds to weights of integers (sums,
// scales) and formats of its own (Winograd) cannot be read from a descriptor.
std::string name_of(const dnnl::memory::desc& wanted) {
  using DataType = dnnl::memory::data_type;
  const DataType type = wanted.get_data_type();
  if (wanted.get_format_kind() != dnnl::memory::format_kind::blocked || wanted.get_submemory_offset() != 0) return "";
  if (type != DataType::f32 && type != DataType::bf16 && type != DataType::f16) return "";
  size_t bytes = type == DataType::f32 ? 4 : 2;
  for (const dnnl::memory::dim d : wanted.get_padded_dims()) bytes *= static_cast<size_t>(d);
  if (bytes != wanted.get_size()) return "";
  std::string out = format("onednn blocked, type %d", static_cast<int>(type));
  for (const auto& [what, values] : {std::pair{"dims", wanted.get_dims()},
                                     {"padded", wanted.get_padded_dims()},
                                     {"offsets", wanted.get_padded_offsets()},
                                     {"strides", wanted.get_strides()},
                                     {"blocks", wanted.get_inner_blks()},
                                     {"of", wanted.get_inner_idxs()}}) {
    out += std::string(", ") + what;
    for (const dnnl::memory::dim v : values) out += " " + std::to_string(v);
  }
  return out;
}
#else
std::string name_of(const dnnl::memory::desc& format) {
  return onednn_library() + " " + hex64(hash_bytes(&format.data, sizeof format.data)) +
         hex64(hash_bytes(&format.data, sizeof format.data, 1));
}
#endif
}  // namespace

const Tensor* OnednnPacked::find(const dnnl::memory::desc& wanted) const {
  for (const auto& [format, tensor] : formats_)
    if (format == wanted) return tensor.get();
  return nullptr;
}

const Tensor* OnednnPacked::get(const InstantiateContext& c, const dnnl::memory::desc& wanted,
                                const dnnl::memory::desc& plain, int weight) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const Tensor* there = find(wanted)) return there;
  }
  InstantiateContext context = c;
  const std::string name = name_of(wanted);
  if (name.empty()) context.store = nullptr;
  const size_t bytes = wanted.get_size();
  auto made = pack_bytes(context, name, static_cast<int64_t>(bytes), [&](std::byte* memory) {
    std::memset(memory, 0, bytes);
    dnnl::memory from(plain, onednn_engine(), const_cast<void*>(c.constants[static_cast<size_t>(weight)].data())),
        to(wanted, onednn_engine(), memory);
    dnnl::reorder(from, to).execute(onednn_stream(), from, to);
    onednn_stream().wait();
  });
  if (!made.ok()) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const Tensor* there = find(wanted)) return there;  // made meanwhile
  formats_.emplace_back(wanted, std::make_unique<Tensor>(std::move(made).value()));
  return formats_.back().second.get();
}

std::optional<dnnl::memory::desc> OnednnPacked::first() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return formats_.empty() ? std::nullopt : std::optional(formats_.front().first);
}

OnednnPacked* onednn_packed(Packed* packed) {
  if (!*packed) *packed = std::make_shared<OnednnPacked>();
  return static_cast<OnednnPacked*>(const_cast<void*>(packed->get()));
}

Status check_implementation(const char* info) {
  const std::string_view name(info);
  if (name.find("ref") != name.npos) return refused("oneDNN has only its slow '%s' for this", info);
  return Ok{};
}

}  // namespace peri::kernels::vendor
