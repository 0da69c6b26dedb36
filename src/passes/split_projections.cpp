// Pass split_projections: a packed product whose result is only split becomes one product for each part.
#include <algorithm>
#include <cstring>

#include "passes/entry.hpp"
#include "passes/rewrite/views.hpp"

namespace peri::passes {
namespace {

// matmul(x, weights) or that plus a bias over columns; nobody else reads either.
struct Packed {
  ir::Node *matmul = nullptr, *add = nullptr;
  const Tensor *weights = nullptr, *bias = nullptr;
};
std::optional<Packed> packed(const Rewriter& w, ir::Value* v) {
  Packed p;
  if (!w.used_once(v)) return std::nullopt;
  if (ir::Node* add = made_by(v, "add")) {
    for (size_t k : {0, 1})
      if (add->in(k)->constant && add->in(k)->type.rank() == 1 && made_by(add->in(1 - k), "matmul") &&
          w.used_once(add->in(1 - k)) && !p.add) {
        p.add = add;
        p.bias = &*add->in(k)->constant;
        v = add->in(1 - k);
      }
    if (!p.add) return std::nullopt;
  }
  p.matmul = made_by(v, "matmul");
  if (!p.matmul || !p.matmul->in(1)->constant || p.matmul->in(1)->type.rank() != 2) return std::nullopt;
  p.weights = &*p.matmul->in(1)->constant;
  if (p.bias && p.bias->numel() != p.weights->dims()[1]) return std::nullopt;
  return dtype_bits(p.weights->dtype()) % 8 == 0 && p.weights->numel() > 0 ? std::optional(p) : std::nullopt;
}

// Columns first .. first + count of the last axis.
std::optional<Tensor> columns(const Tensor& t, int64_t first, int64_t count) {
  std::vector<int64_t> dims = t.dims();
  const size_t size = static_cast<size_t>(dtype_bits(t.dtype()) / 8), n = static_cast<size_t>(dims.back());
  dims.back() = count;
  auto out = Tensor::zeros(t.dtype(), dims);
  if (!out.ok()) return std::nullopt;
  const size_t row = static_cast<size_t>(count) * size, rows = static_cast<size_t>(t.numel()) / n;
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(out->mutable_data() + r * row, t.bytes().data() + (r * n + static_cast<size_t>(first)) * size, row);
  return *std::move(out);
}

struct Part {
  ir::Value* y;
  int64_t first, count;
};

// Columns of the packed result that each output of `user` takes, where `unit` columns make one step along its axis.
bool read_parts(const ir::Node& user, int64_t axis, int64_t unit, std::vector<Part>* parts) {
  const int64_t own = wrap_axis(user.i("axis", 0), user.in(0)->type.rank());
  if (own != axis) return false;
  const int64_t extent = (*user.in(0)->type.shape)[static_cast<size_t>(axis)].value();
  if (user.op == "gather") {
    const auto pick = scalar_of(user.in(1));
    if (!pick || user.in(1)->type.rank() > 1) return false;
    const int64_t at = wrap_axis(static_cast<int64_t>(*pick), static_cast<size_t>(extent));
    parts->push_back({user.out(), at * unit, unit});
    return true;
  }
  if (user.op != "split") return false;
  int64_t first = 0;
  for (ir::Value* y : user.outputs) {
    const Dim& size = (*y->type.shape)[static_cast<size_t>(axis)];
    if (!size.is_const() || size.value() == 0) return false;
    parts->push_back({y, first * unit, size.value() * unit});
    first += size.value();
  }
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "split" && n->op != "gather") return false;
  ir::Value *cut = n->in(0), *result = cut;
  if (w.graph().is_output(cut)) return false;
  if (cut->producer && is_reshape_like(*cut->producer)) result = cut->producer->in(0);
  const auto p = packed(w, result);
  if (!p) return false;
  // The reshape keeps the leading axes and cuts the columns into groups, of which the first axis is chosen from.
  const Shape &from = *result->type.shape, &to = *cut->type.shape;
  const size_t lead = from.size() - 1;
  if (to.size() <= lead || !std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead), to.begin()))
    return false;
  const std::vector<Dim> groups(to.begin() + static_cast<std::ptrdiff_t>(lead), to.end());
  if (!is_const(groups) || !(product(groups) == from.back())) return false;
  const int64_t unit = from.back().value() / groups[0].value();
  std::vector<Part> parts;
  for (const ir::Node* u : cut->users)
    if (u->in(0) != cut || !read_parts(*u, static_cast<int64_t>(lead), unit, &parts)) return false;
  const std::vector<const ir::Node*> origins =
      p->add ? std::vector<const ir::Node*>{p->matmul, p->add} : std::vector<const ir::Node*>{p->matmul};
  const std::string weights_name = p->matmul->in(1)->name;
  ir::Value* x = p->matmul->in(0);
  const Tensor weights = *p->weights, bias = p->bias ? *p->bias : Tensor();
  for (const Part& part : parts) {
    if (part.y->users.empty() && !w.graph().is_output(part.y)) continue;
    w.standing_for(origins);
    auto some = columns(weights, part.first, part.count);
    if (!some) return invalid("no memory for a part of '%s'", weights_name.c_str());
    PERI_ASSIGN(ir::Value * y,
                w.make("matmul", {x, w.graph().add_constant(weights_name, *std::move(some))}, {}, part.y));
    // Products of one split's parts go by names of their own: a lock tells them apart by these.
    if (const auto& made = part.y->producer->outputs; made.size() > 1)
      y->producer->name += format("/%td", std::find(made.begin(), made.end(), part.y) - made.begin());
    if (bias.defined()) {
      auto shift = columns(bias, part.first, part.count);
      if (!shift) return invalid("no memory for a part of '%s'", weights_name.c_str());
      PERI_ASSIGN(y, w.make("add", {y, w.graph().add_constant("bias", *std::move(shift))}, {}, part.y));
    }
    PERI_ASSIGN(y, w.reshape(y, *part.y->type.shape, part.y));
    w.replace(part.y, y);
  }
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "split_projections", rule); }

}  // namespace

extern const Entry split_projections_entry;
const Entry split_projections_entry{{
    .name = "split_projections",
    .contract =
        "A product with constant weights (and bias) whose columns are only split or picked in blocks, as packed "
        "projections of q, k "
        "and v are, is one product for each block: the same arithmetic without a copy of the result. It stands after "
        "sink_transposes, which brings the cut next to the product.",
    .follows = {"sink_transposes"},
    .run = run,
    .examples =
        {{"split",
          "graph { input x: f32[batch,2]; const w: f32[2,4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]; const c: "
          "f32[4] = [1.0, 2.0, "
          "3.0, 4.0]; const s: i64[2] = [3, 1]; a = matmul(x, w); b = add(c, a); p, q = split(b, s) {axis=-1}; output "
          "p; output q }",
          "graph { input x: f32[batch,2]; const w: f32[2,3] = [1.0, 2.0, 3.0, 5.0, 6.0, 7.0]; const c: f32[3] = [1.0, "
          "2.0, 3.0]; const "
          "v: f32[2,1] = [4.0, 8.0]; const d: f32[1] = [4.0]; a = matmul(x, w); p = add(a, c); b = matmul(x, v); q = "
          "add(b, d); "
          "output p; output q }"},
         {"blocks picked one by one",
          "graph { input x: f32[batch,3,2]; const w: f32[2,4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]; const s: "
          "i64[4] = [-1, 3, 2, "
          "2]; const i: i64[] = [1]; a = matmul(x, w); b = reshape(a, s); y = gather(b, i) {axis=2}; output y }",
          "graph { input x: f32[batch,3,2]; const w: f32[2,2] = [3.0, 4.0, 7.0, 8.0]; y = matmul(x, w); output y }"},
         {"what is read as a whole stays whole",
          "graph { input x: f32[2,2]; const w: f32[2,4] = seeded(1.0, 1); a = matmul(x, w); p, q = split(a) {axis=1, "
          "num_outputs=2}; "
          "output a; output p; output q }",
          "graph { input x: f32[2,2]; const w: f32[2,4] = seeded(1.0, 1); a = matmul(x, w); p, q = split(a) {axis=1, "
          "num_outputs=2}; "
          "output a; output p; output q }"}},
}};

}  // namespace peri::passes
