// Mutations of an engine that random bytes would rarely produce: types, attributes, layouts, nodes and arguments of a
// region with everything that depends on them, kernels and configurations, buffers, steps.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <tuple>

#include "base/rng.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"
#include "tests/fuzz/engine_draft.hpp"

namespace peri::fuzz {

class Mutation {
 public:
  explicit Mutation(uint64_t seed) : rng_(seed) {}

  void apply(Draft* d) {
    plan::Program* p = &d->program;
    for (int64_t times = 1 + rng_.below(3); times > 0; --times) {
      plan::Program* at = chosen_program(p);
      if (at->steps.empty() || chance(8))
        change_program(at);
      else
        change_step(at, &pick(at->steps));
    }
    if (!chance(12)) mend(d);
  }

 private:
  bool chance(int64_t one_in) { return rng_.below(one_in) == 0; }
  template <class T>
  auto pick(T& list) -> decltype(*std::begin(list)) {
    return list[static_cast<size_t>(rng_.below(static_cast<int64_t>(std::size(list))))];
  }
  int64_t number() {
    static constexpr int64_t kNumbers[] = {0,
                                           1,
                                           2,
                                           3,
                                           4,
                                           5,
                                           6,
                                           7,
                                           8,
                                           9,
                                           12,
                                           15,
                                           16,
                                           17,
                                           24,
                                           31,
                                           32,
                                           33,
                                           48,
                                           63,
                                           64,
                                           65,
                                           100,
                                           128,
                                           255,
                                           256,
                                           1000,
                                           1024,
                                           4096,
                                           -1,
                                           -2,
                                           -3,
                                           -8,
                                           INT32_MAX,
                                           int64_t{1} << 31,
                                           int64_t{1} << 32,
                                           int64_t{1} << 40,
                                           INT64_MAX,
                                           INT64_MIN,
                                           INT64_MIN + 1};
    return kNumbers[chance(4) ? rng_.below(std::size(kNumbers)) : rng_.below(20)];
  }
  Dim dim() {
    static constexpr const char* kDims[] = {
        "batch", "s", "2*batch", "batch + 1", "floordiv(s + 1, 2)", "batch*s", "max(1, s - 1)"};
    if (!chance(4)) return Dim(std::max<int64_t>(number(), 0));
    return Dim::parse(kDims[rng_.below(std::size(kDims))]).value();
  }
  plan::Program* chosen_program(plan::Program* p) {
    for (plan::Step& s : p->steps)
      if (!s.bodies.empty() && chance(2)) return chosen_program(pick(s.bodies).get());
    return p;
  }

  // ---- regions -----------------------------------------------------------------------------------------------------
  void change_step(plan::Program* p, plan::Step* s) {
    if (chance(8) || s->variants.empty()) return change_lists(p, s);
    plan::Variant& v = pick(s->variants);
    auto payload = exec::read_payload(v.payload);
    if (!payload.ok()) return change_text(&v.payload);
    const int64_t what = rng_.below(16);
    if (what == 0) return change_text(&v.payload);
    if (what == 1)
      change_kernel(&*payload, s);
    else if (what == 2)
      payload->config = config();
    else
      change_region(p, s, &payload->graph);
    v.payload = exec::write_payload(payload->kernel, payload->version, payload->config, payload->graph);
    if (!chance(16)) fit_buffers(p, *s, payload->graph);
  }
  void change_kernel(exec::RegionPayload* payload, plan::Step* s) {
    const auto all = kernels::entries();
    const kernels::Kernel& k = pick(all)->kernel;
    payload->kernel = k.name;
    payload->version = k.version;
    if (chance(4)) s->executor = s->executor == "cpu" ? "reference" : "cpu";
  }
  std::string config() {
    static constexpr const char* kConfigs[] = {
        "", "m=2", "m=4", "m=6", "x=nhwc", "x=nchw", "images=1 slices=4", "images=4 slices=1", "slices=2", "carried=1"};
    static constexpr const char* kKeys[] = {"m", "x", "images", "slices", "carried"};
    if (chance(2)) return kConfigs[rng_.below(std::size(kConfigs))];
    return std::string(kKeys[rng_.below(std::size(kKeys))]) + "=" + std::to_string(number());
  }
  void change_region(plan::Program* p, plan::Step* s, ir::Graph* g) {
    switch (rng_.below(7)) {
      case 0:
      case 1: change_shape(g); break;
      case 2: change_type(g); break;
      case 3: change_attribute(g); break;
      case 4: change_node(p, s, g); break;
      case 5: change_arguments(p, s, g); break;
      default:
        change_shape(g);
        change_attribute(g);
        break;
    }
    if (chance(8)) return;
    for (const ir::Node* n : g->nodes)
      for (ir::Value* v : n->outputs) {
        const ir::Layout layout = v->type.layout;
        v->type = {};
        v->type.layout = layout;
      }
    (void)ops::infer_graph(*g);
    for (const auto& v : g->values())  // a layout that no longer fits its rank would not print and parse
      if (!v->type.layout.row_major() && (!v->type.shape || v->type.layout.order.size() != v->type.shape->size()))
        v->type.layout = {};
  }
  void change_shape(ir::Graph* g) {
    if (g->inputs.empty()) return;
    ir::Type& t = pick(g->inputs)->type;
    if (!t.shape) return;
    Shape& shape = *t.shape;
    if (chance(8)) {
      t.layout = {};
      if (chance(2) || shape.empty())
        shape.push_back(dim());
      else
        shape.pop_back();
      return;
    }
    if (shape.empty()) return;
    Dim& d = pick(shape);
    const Dim before = d, after = chance(3) ? before + Dim(1) : dim();
    d = after;
    if (chance(3)) return;
    for (ir::Value* v : g->inputs)  // the same size wherever it occurs
      if (v->type.shape)
        for (Dim& x : *v->type.shape)
          if (x == before) x = after;
  }
  void change_type(ir::Graph* g) {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16, DType::kF64,   DType::kI32,
                                       DType::kI64, DType::kI8,  DType::kU8,  DType::kBool, DType::kString};
    std::vector<ir::Value*> all = g->inputs;
    all.insert(all.end(), g->outputs.begin(), g->outputs.end());
    if (all.empty()) return;
    ir::Type& t = pick(all)->type;
    if (chance(2)) {
      t.dtype = kTypes[rng_.below(std::size(kTypes))];
    } else if (t.shape && !t.shape->empty()) {
      t.layout = {};
      if (chance(4)) return;
      for (size_t k = 0; k < t.shape->size(); ++k) t.layout.order.push_back(static_cast<uint8_t>(k));
      if (chance(3))
        std::swap(pick(t.layout.order), pick(t.layout.order));
      else if (t.shape->size() == 4)
        t.layout = ir::nhwc();
      if (!chance(4)) return;
      t.layout.block_axis = static_cast<int>(rng_.below(static_cast<int64_t>(t.shape->size())));
      t.layout.block = static_cast<int>(std::clamp<int64_t>(number(), 1, 1024));
    }
  }
  void change_attribute(ir::Graph* g) {
    static constexpr const char* kWords[] = {
        "",           "bhsd",          "bshd",       "sbd",     "hds",   "SAME_UPPER", "SAME_LOWER",
        "VALID",      "NOTSET",        "linear",     "nearest", "cubic", "floor",      "ceil",
        "asymmetric", "align_corners", "half_pixel", "tanh",    "none",  "not_larger"};
    static constexpr double kFloats[] = {0, 1, -1, 0.5, 1e-5, 1e30, -1e30, 1e-40, HUGE_VAL, -HUGE_VAL, NAN};
    if (g->nodes.empty()) return;
    ir::Node* n = pick(g->nodes);
    const ops::OpDef* op = ops::find(n->op);
    if (!op || op->attrs.empty()) return;
    const ops::AttrSpec& spec = pick(op->attrs);
    if (chance(6)) return (void)n->attrs.erase(std::string(spec.name));
    ir::Attr& a = n->attrs[std::string(spec.name)];
    auto numbers = [&](auto list, auto make) {
      if (list.empty() || chance(8))
        list.push_back(make());
      else if (chance(8))
        list.pop_back();
      else
        pick(list) = make();
      return list;
    };
    auto as = [&]<class T>(T) { return std::holds_alternative<T>(a) ? std::get<T>(a) : T{}; };
    switch (spec.kind) {
      case ops::AttrKind::kInt:
      case ops::AttrKind::kType: a = number(); break;
      case ops::AttrKind::kFloat: a = kFloats[rng_.below(std::size(kFloats))]; break;
      case ops::AttrKind::kString: a = std::string(kWords[rng_.below(std::size(kWords))]); break;
      case ops::AttrKind::kInts: a = numbers(as(std::vector<int64_t>()), [&] { return number(); }); break;
      case ops::AttrKind::kFloats:
        a = numbers(as(std::vector<double>()), [&] { return kFloats[rng_.below(std::size(kFloats))]; });
        break;
      case ops::AttrKind::kDims: a = numbers(as(std::vector<Dim>()), [&] { return dim(); }); break;
      default: n->attrs.erase(std::string(spec.name)); break;
    }
  }
  // An additional node, a node of another kind, or another argument of a node.
  void change_node(plan::Program* p, plan::Step* s, ir::Graph* g) {
    static constexpr const char* kUnary[] = {"relu",     "sigmoid", "tanh", "neg",     "gelu",     "hard_swish",
                                             "identity", "clip",    "not",  "softmax", "transpose"};
    static constexpr const char* kBinary[] = {"add", "mul", "sub", "div", "max", "less", "pow", "matmul", "gather"};
    std::vector<ir::Value*> values;
    for (const auto& v : g->values()) values.push_back(v.get());
    if (values.empty()) return;
    if (chance(2) && !g->nodes.empty()) {
      ir::Node* n = pick(g->nodes);
      if (chance(3))
        n->op = chance(2) ? pick(kUnary) : pick(kBinary);
      else if (chance(4) && !n->inputs.empty())
        g->set_input(n, static_cast<size_t>(rng_.below(static_cast<int64_t>(n->inputs.size()))), nullptr);
      else if (n->inputs.size() > 1)
        std::swap(n->inputs.front(), n->inputs.back());
      return;
    }
    ir::Value* x = g->outputs.empty() || chance(4) ? pick(values) : g->outputs[0];
    std::vector<ir::Value*> in = {x};
    if (chance(2))
      in.push_back(chance(2) ? pick(values)
                             : g->add_constant("", chance(2) ? Tensor::of_f32({}, std::vector<float>{0.5f})
                                                             : Tensor::of_f32({2}, std::vector<float>{1, 2})));
    ir::Value* y = g->add(in.size() == 1 ? pick(kUnary) : pick(kBinary), in)->out();
    y->type = x->type;
    if (!g->outputs.empty() && !chance(8))
      g->outputs[0] = y;
    else
      add_output(p, s, g, y);
  }
  void add_output(plan::Program* p, plan::Step* s, ir::Graph* g, ir::Value* v) {
    plan::Buffer b;
    if (!v->type.known()) return;
    b.dtype = v->type.dtype;
    b.shape = *v->type.shape;
    b.kind = chance(2) ? plan::BufferKind::kScratch : plan::BufferKind::kOutput;
    p->buffers.push_back(b);
    s->writes.push_back(static_cast<int32_t>(p->buffers.size()) - 1);
    g->mark_output(v, "");
  }
  void change_arguments(plan::Program* p, plan::Step* s, ir::Graph* g) {
    const int64_t what = rng_.below(5);
    if (what == 0 && !g->values().empty()) return add_output(p, s, g, pick(g->values()).get());
    if (what == 1 && g->outputs.size() > 1) {
      g->outputs.pop_back();
      g->output_names.pop_back();
      if (!s->writes.empty()) s->writes.pop_back();
      return;
    }
    if (what == 2 && g->inputs.size() > 1) return std::swap(pick(g->inputs), pick(g->inputs));
    if (what == 3 && !s->reads.empty()) {  // a weight becomes an input of the program, an input a state
      const int32_t at = pick(s->reads);
      if (at < 0 || static_cast<size_t>(at) >= p->buffers.size()) return;
      plan::Buffer& b = p->buffers[static_cast<size_t>(at)];
      const bool weight = b.kind == plan::BufferKind::kWeight;
      b.kind = weight ? plan::BufferKind::kState : b.kind;
      b.weight = weight ? -1 : b.weight;
      return;
    }
    g->add_input("", ir::Type(DType::kF32, {dim()}));
    s->reads.push_back(s->reads.empty() ? 0 : pick(s->reads));
  }

  // ---- the rest of a program ---------------------------------------------------------------------------------------
  void change_text(std::string* text) {
    if (text->empty()) return (void)(*text = config());
    const size_t at = static_cast<size_t>(rng_.below(static_cast<int64_t>(text->size())));
    if (chance(3))
      text->erase(at, 1 + static_cast<size_t>(rng_.below(8)));
    else if (chance(2))
      text->insert(at, std::to_string(number()));
    else
      (*text)[at] = static_cast<char>(32 + rng_.below(95));
  }
  void change_lists(plan::Program* p, plan::Step* s) {
    const int32_t any = static_cast<int32_t>(rng_.below(static_cast<int64_t>(p->buffers.size()) + 2)) - 1;
    switch (rng_.below(12)) {
      case 8:
      case 9: share(p, *s); break;
      case 0:
        if (!s->reads.empty()) pick(s->reads) = any;
        break;
      case 1:
        if (!s->writes.empty()) pick(s->writes) = any;
        break;
      case 2:
        if (!s->variants.empty()) s->variants.push_back(pick(s->variants));
        break;
      case 3:
        if (!s->variants.empty()) pick(s->variants).holds_for.emplace_back(dim(), number());
        break;
      case 4:
        if (!p->dims.empty()) s->binds.push_back(pick(p->dims));
        break;
      case 5: s->binds.clear(); break;
      case 10:
        if (!p->dims.empty()) s->depends_on.push_back(pick(p->dims));
        break;
      case 6:
        if (!s->bodies.empty()) s->bodies.push_back(pick(s->bodies));
        break;
      case 7: change_place(p, s); break;
      default: s->lane = static_cast<uint32_t>(number()); break;
    }
  }
  void change_place(plan::Program* p, plan::Step* s) {
    const auto device = static_cast<uint32_t>(chance(8) ? number() : rng_.below(2));
    if (p->devices.size() < 2 || chance(8)) p->devices.push_back(chance(8) ? config() : "null");
    switch (rng_.below(7)) {
      case 0: s->device = device; break;
      case 1: s->lane = static_cast<uint32_t>(rng_.below(3)); break;
      case 2: s->waits_for.clear(); break;
      case 3: s->waits_for.push_back(static_cast<int32_t>(chance(8) ? number() : rng_.below(8))); break;
      case 4: s->executor = chance(2) ? "null" : "copy"; break;
      case 5:
        for (auto* list : {&s->reads, &s->writes})
          for (const int32_t b : *list)
            if (b >= 0 && static_cast<size_t>(b) < p->buffers.size())
              p->buffers[static_cast<size_t>(b)].device = device;
        s->device = device;
        break;
      default:
        if (!p->buffers.empty()) pick(p->buffers).device = device;
        break;
    }
  }
  // Makes a result overlap an argument of its step, or another result, as for a kernel that works in place.
  void share(plan::Program* p, const plan::Step& s) {
    if (s.writes.empty()) return;
    const int32_t to = pick(s.writes), over = s.reads.empty() || chance(4) ? pick(s.writes) : pick(s.reads);
    const int32_t count = static_cast<int32_t>(p->buffers.size());
    if (to < 0 || to >= count || over < 0 || over >= count || to == over) return;
    plan::Buffer& b = p->buffers[static_cast<size_t>(std::max(to, over))];
    const plan::Buffer& base = p->buffers[static_cast<size_t>(std::min(to, over))];
    b.alias_of = std::min(to, over);
    b.alias_offset = chance(4) ? Dim(64) : Dim(0);
    if (!chance(4)) b.kind = plan::BufferKind::kScratch;
    if (chance(2)) std::tie(b.shape, b.dtype, b.layout) = std::tie(base.shape, base.dtype, base.layout);
  }
  void change_program(plan::Program* p) {
    if (p->buffers.empty()) return;
    plan::Buffer& b = pick(p->buffers);
    switch (rng_.below(9)) {
      case 0: b.alias_of = static_cast<int32_t>(rng_.below(static_cast<int64_t>(p->buffers.size()) + 1)) - 1; break;
      case 1: b.alias_offset = Dim(64) * Dim(number()); break;
      case 2: b.kind = static_cast<plan::BufferKind>(rng_.below(5)); break;
      case 3: b.alignment = static_cast<uint32_t>(number()); break;
      case 4:
        if (!b.shape.empty()) pick(b.shape) = dim();
        break;
      case 5: b.bytes = dim(); break;
      case 6:
        if (p->steps.size() > 1) std::swap(pick(p->steps), pick(p->steps));
        break;
      case 7:
        if (!p->outputs.empty())
          pick(p->outputs).buffer = static_cast<int32_t>(rng_.below(static_cast<int64_t>(p->buffers.size())));
        break;
      default:
        if (!p->steps.empty()) p->steps.push_back(pick(p->steps));
        break;
    }
  }

  Rng rng_;
};

}  // namespace peri::fuzz
