// Emission of the program: buffers for values, views as aliases, conversions where layouts meet, one step for each
// region.
#include "lower/lower.hpp"

#include <algorithm>
#include <set>

#include "base/fault.hpp"
#include "exec/region/region_payload.hpp"
#include "ir/bodies.hpp"
#include "lower/accepts.hpp"
#include "lower/control.hpp"
#include "lower/data_sizes.hpp"
#include "lower/described.hpp"
#include "lower/least_bytes.hpp"
#include "lower/sides.hpp"
#include "ops/entry.hpp"
#include "problem/problem.hpp"

namespace peri::lower {

namespace {
struct Emitter {
  const ir::Graph& graph;
  const Backend& backend;
  tune::Tuner& tuner;
  const Options& options;
  Lowered out;
  std::unordered_map<const ir::Value*, int32_t> buffer_of;  // in the layout it was made in
  std::unordered_map<const ir::Value*, ir::Layout> layout_of;
  std::map<std::pair<const ir::Value*, std::string>, int32_t> converted;
  std::set<std::string> bound;
  Whole& whole;

  int32_t add_buffer(const std::string& name, plan::BufferKind kind, const ir::Type& type, const ir::Layout& layout) {
    plan::Buffer b;
    b.name = name;
    b.kind = kind;
    b.dtype = type.dtype;
    b.shape = *type.shape;
    b.layout = exec::layout_code(layout);
    Shape dims = *type.shape;
    if (layout.block_axis >= 0) {
      Dim& d = dims[static_cast<size_t>(layout.block_axis)];
      d = ceildiv(d, layout.block) * Dim(layout.block);
    }
    b.bytes = ceildiv(product(dims) * Dim(dtype_bits(type.dtype)), 8);
    out.program.buffers.push_back(std::move(b));
    return static_cast<int32_t>(out.program.buffers.size()) - 1;
  }

  int32_t constant_buffer(const ir::Value* v) {
    if (auto it = buffer_of.find(v); it != buffer_of.end()) return it->second;
    const int32_t b = add_buffer(v->name, plan::BufferKind::kWeight, v->type, {});
    out.program.buffers[static_cast<size_t>(b)].weight = whole.weights.add(v->name, *v->constant);
    return buffer_of[v] = b;
  }

  // The buffer of a value in its own layout; views become aliases of what they rename.
  Result<int32_t> buffer(const ir::Value* v) {
    if (auto it = buffer_of.find(v); it != buffer_of.end()) return it->second;
    if (v->constant) return constant_buffer(v);
    if (const ir::Value* narrow = stored_narrow(v)) return constant_buffer(narrow);
    if (v->producer && is_view(*v->producer)) {
      PERI_ASSIGN(const int32_t base, buffer_in(v->producer->in(0), {}));
      const int32_t b = add_buffer(v->name, plan::BufferKind::kScratch, v->type, {});
      std::vector<plan::Buffer>& all = out.program.buffers;
      all[static_cast<size_t>(b)].alias_of = base;
      // Where a run's sizes give it another number of elements, it lies nowhere: plan::place_aliases() refuses it.
      const Dim more = all[static_cast<size_t>(b)].bytes - all[static_cast<size_t>(base)].bytes;
      if (!more.is_const(0)) all[static_cast<size_t>(b)].alias_offset = min(more, Dim(0) - more);
      layout_of[v] = {};
      return buffer_of[v] = b;
    }
    return internal_error("value '%s' has no buffer", v->name.c_str());
  }

  Result<int32_t> buffer_in(const ir::Value* v, const ir::Layout& want) {
    PERI_ASSIGN(const int32_t own, buffer(v));
    if (is_weight(v) || layout_of[v] == want) return own;
    const auto key = std::pair(v, exec::layout_code(want));
    if (auto it = converted.find(key); it != converted.end()) return it->second;
    const int32_t to = add_buffer(v->name + "@" + key.second, plan::BufferKind::kScratch, v->type, want);
    if (same_memory(v->type, layout_of[v], want)) {
      out.program.buffers[static_cast<size_t>(to)].alias_of = own;
      return converted[key] = to;
    }
    PERI_TRY(emit_conversion(v, own, to, want));
    return converted[key] = to;
  }

  Status emit_conversion(const ir::Value* v, int32_t from, int32_t to, const ir::Layout& want) {
    ir::Graph g;
    ir::Value* x = g.add_input("x0", v->type);
    x->type.layout = layout_of[v];
    ir::Value* y = g.add("relayout", {x}, {}, "t1")->out();
    y->type = v->type;
    y->type.layout = want;
    g.mark_output(y, "t1");
    PERI_ASSIGN(const ir::Graph concrete, exec::bind_region(g, options.tuned_for));
    const tune::Candidates& known = tuner.candidates(concrete, {false});
    std::vector<tune::Candidate> list = known.list;
    const std::string key = problem::hash(g);
    if (whole.lock.locked()) {
      PERI_ASSIGN(const plan::LockedChoice* choice, whole.lock.conversion(key, v->name));
      PERI_TRY(keep_choice(*choice, tuner.target(), v->name, &list));
    }
    StepReport report;
    std::erase_if(list, [&](const tune::Candidate& c) {
      std::string why = why_not(c, key, options.refused, &tuner);
      if (why.empty()) return false;
      report.refusals.emplace_back(c.id(), std::move(why));
      return true;
    });
    if (list.empty()) return no_conversion(v->name, report.refusals);
    plan::Step step;
    step.name = "relayout " + v->name;
    step.executor = list[0].kernel->executor;
    step.reads = {from};
    step.writes = {to};
    step.depends_on = known_dims(g, step);
    step.variants.push_back(
        {list[0].offer.requires_isa, list[0].offer.library, list[0].offer.holds_for,
         exec::write_payload(list[0].kernel->name, list[0].kernel->version, list[0].offer.config, g)});
    out.program.steps.push_back(std::move(step));
    report.name = "relayout " + v->name;
    report.problem = problem::text(concrete, {false});
    report.key = key;
    report.conversion = true;
    describe_chosen(list[0], &concrete, {false}, tuner.target(), &report);
    for (size_t k = 1; k < list.size(); ++k) report.others.emplace_back(list[k].id(), list[k].evidence);
    for (const tune::Refusal& r : known.refusals) report.refusals.emplace_back(r.kernel, r.reason);
    report.work = tune::work_of(concrete, 0);
    out.steps.push_back(std::move(report));
    return Ok{};
  }

  StepReport report_of(const Region& r, const Choice& c) {
    StepReport report;
    report.name = region_name(r);
    for (const ir::Node* n : r.nodes) {
      const bool only_sizes = ops::states_sizes(*n) && r.nodes.size() > 1;
      for (const std::string& o : n->origins)
        if (!only_sizes) report.origins.push_back(o);
      for (const std::string& t : n->touched_by)
        if (std::find(report.touched_by.begin(), report.touched_by.end(), t) == report.touched_by.end())
          report.touched_by.push_back(t);
    }
    report.key = region_key(r);
    report.assumed_sizes = assumed_sizes(options.tuned_for, r);
    const auto concrete = exec::bind_region(region_graph(r), options.tuned_for, true);
    report.chosen = "reference";
    if (!c.reference)
      describe_chosen(c.candidate, concrete.ok() ? &*concrete : nullptr, constant_inputs(r), tuner.target(), &report);
    if (!c.reference && c.candidate.fallback) {
      report.fallback = c.candidate.fallback->id();
      report.fallback_isa = c.candidate.fallback->offer.requires_isa;
    }
    std::vector<tune::Candidate> all = c.others;
    if (!c.reference) all.push_back(c.candidate);
    for (const tune::Candidate& o : c.others) {
      report.others.emplace_back(o.id(), o.evidence);
      report.other_layouts.push_back(layouts_among(o, all));
    }
    if (!c.reference) report.own_layouts = layouts_among(c.candidate, all);
    for (const tune::Refusal& x : c.refusals) report.refusals.emplace_back(x.kernel, x.reason);
    if (!concrete.ok()) return report;
    report.problem = problem::text(*concrete, constant_inputs(r));
    report.work = tune::work_of(*concrete, c.reference ? 0 : c.candidate.offer.flops);
    return report;
  }

  // An if or a loop: its arguments are the node's, its bodies programs of their own.
  Status emit_control(const Region& r, const Choice& c) {
    const ir::Node& n = *r.nodes.front();
    plan::Step step;
    StepReport report = report_of(r, c);
    step.name = report.name;
    step.origins = report.origins;
    for (const ir::Value* v : n.inputs) {
      step.reads.push_back(-1);
      if (v) {
        PERI_ASSIGN(step.reads.back(), buffer_in(v, {}));
      }
    }
    for (const ir::Value* v : n.outputs) {
      step.writes.push_back(-1);
      if (std::find(r.outputs.begin(), r.outputs.end(), v) == r.outputs.end()) continue;
      const auto kind = graph.is_output(v) ? plan::BufferKind::kOutput : plan::BufferKind::kScratch;
      step.writes.back() = buffer_of[v] = add_buffer(v->name, kind, v->type, {});
      layout_of[v] = {};
    }
    const ir::Graph g = region_graph(r);
    PERI_TRY(bind_dims(g, &step));
    step.depends_on = known_dims(g, step);
    PERI_TRY(lower_bodies(n, backend, tuner, options, &whole, &step, &report));
    out.program.steps.push_back(std::move(step));
    out.steps.push_back(std::move(report));
    return Ok{};
  }

  Status emit_region(const Region& r, const Choice& c) {
    if (ir::has_bodies(*r.nodes.front())) return emit_control(r, c);
    plan::Step step;
    StepReport report = report_of(r, c);
    step.name = report.name;
    step.origins = report.origins;
    std::vector<ir::Layout> ins(r.inputs.size()), outs(r.outputs.size());
    if (!c.reference) {
      ins = c.candidate.offer.inputs;
      outs = c.candidate.offer.outputs;
    }
    for (size_t k = 0; k < r.inputs.size(); ++k) {
      PERI_ASSIGN(const int32_t b, buffer_in(r.inputs[k], ins[k]));
      step.reads.push_back(b);
    }
    for (size_t k = 0; k < r.outputs.size(); ++k) {
      ir::Value* v = r.outputs[k];
      const bool output = graph.is_output(v) && outs[k].row_major();
      const int32_t b =
          add_buffer(v->name, output ? plan::BufferKind::kOutput : plan::BufferKind::kScratch, v->type, outs[k]);
      buffer_of[v] = b;
      layout_of[v] = outs[k];
      step.writes.push_back(b);
      step.shares.push_back(share_memory(r, c, k, b));
    }
    if (std::all_of(step.shares.begin(), step.shares.end(), [](int32_t read) { return read < 0; })) step.shares.clear();
    const ir::Graph g = region_graph(r, ins, outs);
    PERI_TRY(bind_dims(g, &step));
    step.depends_on = known_dims(g, step);
    if (c.reference) {
      step.executor = sized_by_data(r, step, g, backend, tuner.options().provider) ? "sized" : "reference";
      report.chosen = step.executor;
      step.variants.push_back({"", "", {}, exec::write_payload(step.executor, 1, "", g)});
    } else {
      step.executor = c.candidate.kernel->executor;
      for (const tune::Candidate* x = &c.candidate; x; x = x->fallback.get())
        step.variants.push_back({x->offer.requires_isa, x->offer.library, x->offer.holds_for,
                                 exec::write_payload(x->kernel->name, x->kernel->version, x->offer.config, g)});
    }
    out.program.steps.push_back(std::move(step));
    out.steps.push_back(std::move(report));
    return Ok{};
  }

  // Those that a region names and that are bound before its step.
  std::vector<std::string> known_dims(const ir::Graph& region, const plan::Step& step) const {
    std::vector<std::string> dims = exec::dims_of(region);
    std::erase_if(dims, [&](const std::string& name) {
      return !bound.contains(name) || std::find(step.binds.begin(), step.binds.end(), name) != step.binds.end();
    });
    return dims;
  }

  // A step binds the dimensions that stand as such in its results; all others that it computes with are bound before.
  Status bind_dims(const ir::Graph& region, plan::Step* step) {
    for (const ir::Value* v : region.outputs)
      for (const Dim& d : *v->type.shape)
        if (d.is_symbol() && bound.insert(d.symbol_name()).second) step->binds.push_back(d.symbol_name());
    std::set<std::string> needed;
    for (const auto* list : {&region.inputs, &region.outputs})
      for (const ir::Value* v : *list)
        for (const Dim& d : *v->type.shape) d.collect_symbols(needed);
    for (const ir::Node* n : region.nodes)
      for (const auto& [key, attr] : n->attrs)
        if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
          for (const Dim& d : *dims) d.collect_symbols(needed);
    for (const std::string& s : needed)
      if (!bound.contains(s))
        return unsupported("dimension '%s' is known only when the model runs, and nothing computes it by then",
                           s.c_str())
            .at_node(step->name)
            .advise("export the model with this size fixed, or give the sizes of its inputs fewer names");
    return Ok{};
  }

  // In place where the kernel allows it and nobody reads the input afterwards: the input of the region whose memory
  // result `k`, buffer `b`, takes; -1: none.
  int32_t share_memory(const Region& r, const Choice& c, size_t k, int32_t b) {
    if (c.reference || k >= c.candidate.offer.in_place.size() || c.candidate.offer.in_place[k] < 0) return -1;
    const int32_t i = c.candidate.offer.in_place[k];
    if (static_cast<size_t>(i) >= r.inputs.size()) return -1;
    const ir::Value* v = r.inputs[static_cast<size_t>(i)];
    if (is_weight(v) || v->is_input || graph.is_output(v) || graph.is_output(r.outputs[k]) ||
        (v->producer && is_view(*v->producer)))
      return -1;
    for (const ir::Node* u : v->users)
      if (std::find(r.nodes.begin(), r.nodes.end(), u) == r.nodes.end()) return -1;
    plan::Buffer& own = out.program.buffers[static_cast<size_t>(b)];
    const auto it = buffer_of.find(v);
    if (it == buffer_of.end() || !(layout_of[v] == c.candidate.offer.inputs[static_cast<size_t>(i)])) return -1;
    const plan::Buffer& base = out.program.buffers[static_cast<size_t>(it->second)];
    if (!(base.bytes == own.bytes) || !(base.shape == own.shape) || base.dtype != own.dtype ||
        base.layout != own.layout || !is_float(own.dtype))  // integers may be indices, see check_sharing
      return -1;
    own.alias_of = it->second;
    return i;
  }

  Status interface_ports() {
    for (const ir::Value* v : graph.inputs) {
      const int32_t b = add_buffer(v->name, plan::BufferKind::kInput, v->type, {});
      buffer_of[v] = b;
      layout_of[v] = {};
      out.program.inputs.push_back({v->name, b, v->type.dtype, *v->type.shape});
      for (const Dim& d : *v->type.shape) d.collect_symbols(bound);
    }
    return Ok{};
  }
};

void dims_table(const ir::Graph& graph, const DimBinding& dims, plan::Program* program) {
  std::set<std::string> symbols;
  for (const auto& v : graph.values())
    for (const std::optional<std::vector<Dim>>* list : {&v->type.shape, &v->content})
      for (const Dim& d : list->value_or(std::vector<Dim>())) d.collect_symbols(symbols);
  program->dims.assign(symbols.begin(), symbols.end());
  program->assumed = assumed_sizes(dims);
}
}  // namespace

Result<Lowered> lower_part(const ir::Graph& original, const Backend& backend, tune::Tuner& tuner, const Options& given,
                           Whole* whole) {
  ir::Graph graph = original.clone();
  drop_known_shapes(graph);
  PERI_TRY(store_arguments(&graph));
  graph.erase_dead();
  const Options options = with_data_sizes(graph, backend, given);
  std::vector<DimBinding> also = options.also;
  also.push_back(fit_data_sizes(graph, other_dims(graph, options.tuned_for)));
  std::erase(also, options.tuned_for);  // a model of fixed sizes has no others
  plan::LockReader& lock = whole->lock;
  Emitter e{graph, backend, tuner, options, {}, {}, {}, {}, {}, *whole};
  const WideSizes wide(graph, options.tuned_for);
  const Terms terms{graph, backend, tuner, options.tuned_for, also, options.refused, &wide};
  Parts parts = parts_of(graph, cut_regions(graph, accepts_of(terms)),
                         lock.locked() ? locked_rules(lock) : measured_rules(terms));
  if (lock.locked()) parts = locked_parts(graph, lock, std::move(parts));
  const PartProgress progress = [&](size_t done, size_t total, const Region& r) {
    if (options.progress) options.progress(done, total, r.nodes[0]->op + " " + r.nodes[0]->name);
  };
  if (options.affords && backend.placement.device.empty())
    PERI_TRY(options.affords(given.tuned_for, least_bytes(graph, parts, given.tuned_for)));
  PERI_ASSIGN(const Cover cover, choose_cover(terms, std::move(parts), &lock, progress));
  e.out.program.name = graph.name;
  e.out.program.backend = backend.name;
  e.out.predicted_ms = cover.predicted_ms;
  e.out.conversion_ms = cover.conversion_ms;
  e.out.on_host = host_regions(terms, cover);
  for (const auto& [name, value] : given.tuned_for) e.out.program.tuned_for[name] = value;
  dims_table(graph, options.tuned_for, &e.out.program);
  PERI_TRY(e.interface_ports());
  for (size_t k = 0; k < cover.regions.size(); ++k) {
    Status emitted = contained([&] { return e.emit_region(cover.regions[k], cover.choices[k]); });
    if (!emitted.ok()) return std::move(emitted).error().at_node(region_name(cover.regions[k]));
  }
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const ir::Value* v = graph.outputs[k];
    PERI_ASSIGN(const int32_t b, e.buffer_in(v, {}));
    e.out.program.outputs.push_back({graph.output_names[k], b, v->type.dtype, *v->type.shape});
  }
  for (const plan::Buffer& b : e.out.program.buffers)
    if (b.bytes.is_poison() || std::any_of(b.shape.begin(), b.shape.end(), [](const Dim& d) { return d.is_poison(); }))
      return unsupported("the size of '%s' passes 64 bits, or is a product of too many sums", b.name.c_str())
          .advise("check the sizes that the model computes for it");
  if (!backend.placement.device.empty()) PERI_TRY(place_lowered(backend.placement, &e.out));
  add_host_conversions(backend, e.out.program, e.out.steps, &e.out.on_host);
  return std::move(e.out);
}

Result<Lowered> lower_graph(const ir::Graph& graph, const Backend& backend, tune::Tuner& tuner,
                            const Options& options) {
  tuner.set_model_bytes(weight_bytes_of(graph));
  Whole whole(options.lock);
  PERI_ASSIGN(Lowered out, lower_part(graph, backend, tuner, options, &whole));
  PERI_TRY(whole.lock.all_used());
  out.program.weights = std::move(whole.weights.table);
  out.weights = std::move(whole.weights.tensors);
  return out;
}

}  // namespace peri::lower
