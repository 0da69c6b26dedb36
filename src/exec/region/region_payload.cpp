// Reading, checking and binding of region payloads.
#include "exec/region/region_payload.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/dim_division.hpp"
#include "exec/entry.hpp"
#include "kernels/vendor/library.hpp"
#include "kernels/weights/narrow.hpp"
#include "ops/entry.hpp"

namespace peri::exec {

const Entry* find(std::string_view name) {
  for (const Entry* e : entries())
    if (e->executor.name == name) return e;
  return nullptr;
}

std::vector<const runtime::Executor*> table() {
  std::vector<const runtime::Executor*> out;
  for (const Entry* e : entries()) out.push_back(&e->executor);
  return out;
}

std::vector<std::string> libraries() { return {kernels::vendor::onednn_library()}; }

std::string layout_code(const ir::Layout& layout) {
  if (layout.row_major()) return "";
  const std::string text = ir::type_text([&] {
    ir::Type t(DType::kF32, {});
    t.layout = layout;
    return t;
  }());
  return text.substr(text.find('@') + 1);
}

std::string write_payload(std::string_view kernel, int version, std::string_view config, const ir::Graph& region) {
  return "kernel " + std::string(kernel) + "@" + std::to_string(version) + " {" + std::string(config) + "}\n" +
         ir::print(region, {kMaxTextElements, false});
}

Result<RegionPayload> read_payload_head(std::string_view text) {
  RegionPayload p;
  const size_t line = text.find('\n');
  const std::string_view head = text.substr(0, line == std::string_view::npos ? 0 : line);
  const size_t at = head.find('@'), open = head.find(" {");
  if (!head.starts_with("kernel ") || at == std::string_view::npos || open == std::string_view::npos || open < at ||
      !head.ends_with("}") || at < 7)
    return invalid("the payload's first line is not 'kernel NAME@VERSION {CONFIG}'");
  p.kernel = head.substr(7, at - 7);
  const std::string_view version = head.substr(at + 1, open - at - 1);
  const auto [end, code] = std::from_chars(version.data(), version.data() + version.size(), p.version);
  if (code != std::errc() || end != version.data() + version.size())
    return invalid("the payload's kernel has no version").but_found(version.substr(0, 40));
  p.config = head.substr(open + 2, head.size() - open - 3);
  return p;
}

Result<RegionPayload> read_payload(std::string_view text) {
  PERI_ASSIGN(RegionPayload p, read_payload_head(text));
  PERI_ASSIGN(p.graph, ir::parse_graph(text.substr(text.find('\n') + 1)));
  PERI_TRY(p.graph.sort());
  return p;
}

namespace {
// A weight may be stored in 16 bits where the region reads float32: it is widened as it is packed or loaded.
bool stored_narrower(const ir::Type& type, const plan::Buffer& buffer) {
  return buffer.kind == plan::BufferKind::kWeight && type.dtype == DType::kF32 &&
         kernels::is_narrow_float(buffer.dtype);
}
}  // namespace

Status check_arguments(const ir::Graph& region, const plan::Program& program, const plan::Step& step,
                       bool narrow_weights) {
  auto check = [&](const std::vector<ir::Value*>& values, const std::vector<int32_t>& buffers,
                   const char* what) -> Status {
    if (values.size() != buffers.size())
      return invalid("the step has %zu %s, its region %zu", buffers.size(), what, values.size()).at_node(step.name);
    for (size_t k = 0; k < values.size(); ++k) {
      if (buffers[k] < 0) return invalid("an argument of a region is left out").at_node(step.name);
      const plan::Buffer& b = program.buffers[static_cast<size_t>(buffers[k])];
      const ir::Type& t = values[k]->type;
      if (!t.known() || !(t.dtype == b.dtype || (narrow_weights && stored_narrower(t, b))) || !(*t.shape == b.shape) ||
          layout_code(t.layout) != b.layout)
        return invalid("argument %zu of its %s has another type", k, what)
            .at_node(step.name)
            .expecting(ir::type_text(t))
            .but_found(std::string(dtype_name(b.dtype)) + shape_text(b.shape) +
                       (b.layout.empty() ? "" : "@" + b.layout));
    }
    return Ok{};
  };
  PERI_TRY(check(region.inputs, step.reads, "inputs"));
  return check(region.outputs, step.writes, "outputs");
}

namespace {
void collect_dims(const ir::Graph& g, std::set<std::string>* out) {
  const auto collect = [&](const std::vector<Dim>& dims) {
    for (const Dim& d : dims) d.collect_symbols(*out);
  };
  for (const auto& v : g.values()) {
    if (v->type.shape) collect(*v->type.shape);
    if (v->content) collect(*v->content);
  }
  for (const ir::Node* n : g.nodes)
    for (const auto& [key, attr] : n->attrs) {
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr)) collect(*dims);
      if (const auto* body = std::get_if<std::shared_ptr<ir::Graph>>(&attr); body && *body) collect_dims(**body, out);
      if (const auto* bodies = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&attr))
        for (const auto& b : *bodies) collect_dims(*b, out);
    }
}
}  // namespace

std::vector<std::string> dims_of(const ir::Graph& region) {
  std::set<std::string> out;
  collect_dims(region, &out);
  return {out.begin(), out.end()};
}

Status refuse_sharing(const plan::Step& step) {
  for (size_t j = 0; j < step.shares.size(); ++j)
    if (step.shares[j] >= 0)
      return invalid("result %zu takes the memory of argument %d, which executor '%s' does not allow", j,
                     step.shares[j], step.executor.c_str())
          .at_node(step.name)
          .advise("build the engine again with this version");
  return Ok{};
}

namespace {
void bind_attrs(ir::Node& n, const DimBinding& binding) {
  for (auto& [key, attr] : n.attrs)
    if (auto* dims = std::get_if<std::vector<Dim>>(&attr)) *dims = substitute(*dims, binding);
}

// A size that divides by one of 0 is told at the node that makes it, while it is still an expression.
Status check_divisors(const ir::Graph& region, const DimBinding& binding) {
  if (std::none_of(binding.begin(), binding.end(), [](const auto& size) { return size.second == 0; })) return Ok{};
  for (const ir::Node* n : region.nodes)
    for (const ir::Value* v : n->outputs)
      if (v && v->type.shape)
        for (const Dim& d : *v->type.shape)
          if (auto wrong = division_by_zero(d, binding)) return (*std::move(wrong)).at_node(n->name);
  return Ok{};
}
}  // namespace

Result<ir::Graph> bind_region(const ir::Graph& region, const DimBinding& binding, bool partial) {
  PERI_TRY(check_divisors(region, binding));
  ir::Graph g = region.clone();
  std::vector<ir::Type> wanted;
  for (const auto& v : g.values()) {
    if (v->type.shape) v->type.shape = substitute(*v->type.shape, binding);
    if (v->content) v->content = substitute(*v->content, binding);
  }
  for (const ir::Value* v : g.outputs) wanted.push_back(v->type);
  std::vector<std::pair<ir::Value*, ir::Type>> stated;  // of what inference may not find again: a run has told it
  for (const auto& v : g.values())
    if (partial && v->producer && v->type.shape && is_const(*v->type.shape)) stated.emplace_back(v.get(), v->type);
  for (ir::Node* n : g.nodes) bind_attrs(*n, binding);
  PERI_TRY(ops::infer_graph(g));
  for (const auto& [v, type] : stated)
    if (!v->type.shape || (!is_const(*v->type.shape) && v->type.rank() == type.rank())) v->type.shape = type.shape;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    ir::Type& have = g.outputs[k]->type;
    if (partial && have.dtype == wanted[k].dtype && have.rank() == wanted[k].rank() &&
        (!is_const(*have.shape) || !is_const(*wanted[k].shape))) {  // known while running
      have.shape = wanted[k].shape;
      continue;
    }
    if (have.dtype != wanted[k].dtype || !(*have.shape == *wanted[k].shape))
      return invalid(
                 "at these sizes '%s' has another shape than it is built for, as where a size that is broadcast is 1 "
                 "only here",
                 g.outputs[k]->name.c_str())
          .expecting(ir::type_text(wanted[k]))
          .but_found(ir::type_text(have));
    have.layout = wanted[k].layout;
  }
  if (!partial) {
    for (const auto& v : g.values())
      if (v->type.shape && !is_const(*v->type.shape))
        return invalid("'%s' has an unbound dimension", v->name.c_str()).but_found(ir::type_text(v->type));
    for (const auto& v : g.values()) {  // kernels multiply sizes without a check, those of an empty tensor too
      if (!v->type.shape) continue;
      PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, binding));
      PERI_TRY(checked_numel(dims));
    }
  }
  return g;
}

}  // namespace peri::exec
