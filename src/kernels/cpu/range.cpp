// Kernel range: numbers from a start by a step, as many as the result has elements; the limit, from which that number
// was computed, is not read. Used for positions of text models, whose number is a size.
#include <algorithm>
#include <variant>

#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {

// A scalar: a size, or what an argument or a constant holds.
struct Scalar {
  std::variant<int64_t, Source> from = int64_t{0};
  DType type = DType::kI64;

  template <class T>
  T read(const Args& args) const {
    if (const auto* known = std::get_if<int64_t>(&from)) return static_cast<T>(*known);
    const void* const at = std::get<Source>(from).data(args);
    if (type == DType::kI64) return static_cast<T>(*static_cast<const int64_t*>(at));
    if (type == DType::kI32) return static_cast<T>(*static_cast<const int32_t*>(at));
    return static_cast<T>(*static_cast<const float*>(at));
  }
};

Result<Scalar> scalar(const Problem& p, const ir::Value& v, const Constants& constants) {
  Scalar s;
  s.type = v.type.dtype;
  if (v.producer && ops::states_sizes(*v.producer)) {
    const std::vector<Dim> dims = v.content ? *v.content : std::vector<Dim>{};
    if (dims.size() != 1 || !dims[0].is_const()) return refused("a size that is not known");
    s.from = dims[0].value();
    return s;
  }
  Source source = Source::of(p, &v, constants);
  if (!source.known()) return refused("reads a value made inside the region");
  s.from = std::move(source);
  return s;
}

struct Shape {
  DType type;
  int64_t count;
};
Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "range") return refused("not a range");
  for (const ir::Node* other : p.graph->nodes)
    if (other != &n && !ops::states_sizes(*other)) return refused("takes a range alone");
  if (p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out()) return refused("takes a range alone");
  const Shape s = {n.out()->type.dtype, dims_of(*n.out())[0]};
  if (s.type != DType::kI64 && s.type != DType::kI32 && s.type != DType::kF32) return refused("takes f32, i32 and i64");
  if (s.count == 0) return refused("an empty result");
  return s;
}

// Numbers [begin, end); integers wrap, as the reference's do.
template <class T>
void fill(const Scalar& start, const Scalar& step, const Args& args, int64_t begin, int64_t end) {
  auto* const y = static_cast<T*>(args.out[0]);
  if constexpr (std::is_same_v<T, float>) {
    const auto first = start.read<double>(args), by = step.read<double>(args);
    for (int64_t k = begin; k < end; ++k) y[k] = static_cast<float>(first + static_cast<double>(k) * by);
  } else {
    const auto first = static_cast<uint64_t>(start.read<int64_t>(args)),
               by = static_cast<uint64_t>(step.read<int64_t>(args));
    for (int64_t k = begin; k < end; ++k) y[k] = static_cast<T>(first + static_cast<uint64_t>(k) * by);
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(scalar(p, *p.anchor().in(0), {}));
  PERI_TRY(scalar(p, *p.anchor().in(2), {}));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const Scalar start, scalar(p, *p.anchor().in(0), c.constants));
  PERI_ASSIGN(const Scalar step, scalar(p, *p.anchor().in(2), c.constants));
  const auto run = s.type == DType::kI64 ? fill<int64_t> : s.type == DType::kI32 ? fill<int32_t> : fill<float>;
  return TaskInstance::make((s.count + cpu::kTaskElements - 1) / cpu::kTaskElements, 0,
                            [=](int64_t task, const Args& args) {
                              const int64_t begin = task * cpu::kTaskElements;
                              run(start, step, args, begin, std::min(s.count, begin + cpu::kTaskElements));
                            });
}
}  // namespace

extern const Entry range_entry;
const Entry range_entry{{
    .name = "range",
    .version = 1,
    .provider = "peri",
    .takes = "numbers of f32, i32 and i64 from a start by a step, as many as are known",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { s = dims_constant() {scalar=1, value=dims[5]}; n = dims_constant() {scalar=1, value=dims[300]}; o "
         "= dims_constant() {scalar=1, value=dims[3]}; y = range(s, n, o); output y }",
         "graph { s = dims_constant() {scalar=1, value=dims[7]}; n = dims_constant() {scalar=1, "
         "value=dims[-70000]}; o = dims_constant() {scalar=1, value=dims[-2]}; y = range(s, n, o); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
