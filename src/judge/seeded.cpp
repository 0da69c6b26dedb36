// Inputs by name, type and the ops that read them.
#include "judge/seeded.hpp"

#include <algorithm>
#include <set>

#include "base/rng.hpp"
#include "exec/control/loop_run.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/inputs.hpp"
#include "judge/sizes.hpp"
#include "judge/source.hpp"
#include "judge/told_sizes.hpp"
#include "ops/entry.hpp"
#include "tune/categories.hpp"

namespace peri::judge {

namespace {
constexpr int64_t kNumbers = 100;  // texts that are read as numbers are below this

// Follows a buffer of integers or strings through the steps of a program.
struct Follower {
  const plan::Program& program;
  const DimBinding& sizes;
  std::vector<int32_t> storage = plan::storages(program);
  std::set<int32_t> seen = {};
  std::vector<int32_t> work = {};
  std::optional<int64_t> least = {};
  bool numbers = false;  // strings are read as such

  void add(int32_t buffer) {
    if (buffer < 0) return;
    if (const int32_t s = storage[static_cast<size_t>(buffer)]; seen.insert(s).second) work.push_back(s);
  }

  // What `step` does with its argument `k`.
  void read(const plan::Step& step, size_t k) {
    if (step.executor == plan::kCopyExecutor && !step.writes.empty()) return add(step.writes[0]);
    if (!step.bodies.empty()) return enter(step, k);
    if (step.variants.empty()) return;
    auto payload = exec::read_payload(step.variants[0].payload);
    if (!payload.ok() || k >= payload->graph.inputs.size() || !ops::infer_graph(payload->graph).ok()) return;
    std::vector<const ir::Value*> moved;
    if (const auto rows = indexed_rows(payload->graph.inputs[k], sizes, &moved))
      least = std::min(least.value_or(*rows), *rows);
    numbers = numbers || are_numbers(moved);
    for (size_t n = 0; n < std::min(payload->graph.outputs.size(), step.writes.size()); ++n)
      if (std::find(moved.begin(), moved.end(), payload->graph.outputs[n]) != moved.end()) add(step.writes[n]);
  }

  // What bodies do with it: a branch takes what follows its condition; what a loop carries comes again.
  void enter(const plan::Step& step, size_t k) {
    const bool loop = step.bodies.size() == 1;
    size_t carried = 0;
    if (loop && !step.variants.empty())
      if (const auto plan = exec::read_loop_payload(step.variants[0].payload, step.writes.size()); plan.ok())
        carried = plan->carried;
    const size_t before = loop ? 0 : 1, after = loop ? 1 : 0;  // inputs that are no arguments; outputs, no results
    for (const auto& body : step.bodies) {
      if (k < before || k - before >= body->inputs.size()) continue;
      Follower inner{*body, sizes};
      inner.follow(body->inputs[k - before].buffer);
      for (size_t found = 0; found != inner.seen.size();) {
        found = inner.seen.size();
        for (size_t c = 0; c < carried && 2 + c < body->inputs.size(); ++c)
          if (inner.holds(body->outputs[1 + c].buffer)) inner.follow(body->inputs[2 + c].buffer);
      }
      if (inner.least) least = std::min(least.value_or(*inner.least), *inner.least);
      numbers = numbers || inner.numbers;
      for (size_t n = 0; n < step.writes.size() && n + after < body->outputs.size(); ++n)
        if (inner.holds(body->outputs[n + after].buffer)) add(step.writes[n]);
    }
  }

  bool holds(int32_t buffer) const { return buffer >= 0 && seen.contains(storage[static_cast<size_t>(buffer)]); }

  void follow(int32_t input) {
    for (add(input); !work.empty();) {
      const int32_t at = work.back();
      work.pop_back();
      for (const plan::Step& s : program.steps)
        for (size_t k = 0; k < s.reads.size(); ++k)
          if (s.reads[k] >= 0 && storage[static_cast<size_t>(s.reads[k])] == at) read(s, k);
    }
  }

  std::optional<int64_t> rows(int32_t input) {
    follow(input);
    return least;
  }
};

// A large input is not made where the run that it is for takes more memory than is free.
Status check_room(const plan::Program& program, const plan::Port& port, const DimBinding& dims) {
  constexpr int64_t kLarge = int64_t{16} << 20;  // elements: making fewer takes less than a second
  if (program.devices.size() > 1) return Ok{};   // much of it lies there
  PERI_ASSIGN(const std::vector<int64_t> concrete, eval(port.shape, dims));
  PERI_ASSIGN(const int64_t count, checked_numel(concrete));
  if (count < kLarge) return Ok{};
  const std::string lack = lacks_memory(program, dims, false);
  if (lack.empty()) return Ok{};
  return Error(ErrorKind::kMemory, lack)
      .advise(dims.empty() ? "give the process more memory" : "give smaller sizes, or the process more memory");
}

// The graph that the program was made from, with weights of any values; none where its text is not `wanted`.
template <class Wanted>
std::optional<ir::Graph> graph_of(const plan::Program& program, const Wanted& wanted) {
  const plan::Section* text = program.section("source");
  return text && wanted(text->bytes) ? source_shapes(program) : std::nullopt;
}

// Elements of this input become categories where an encoder compares them.
void choose_categories(const plan::Program& program, size_t index, const DimBinding& dims, uint64_t seed, Tensor* t) {
  const std::optional<ir::Graph> graph = graph_of(program, tune::names_categories);
  if (!graph || graph->inputs.size() != program.inputs.size()) return;
  std::vector<Tensor> inputs;
  for (const ir::Value* v : graph->inputs) {
    const auto sizes = eval(*v->type.shape, dims);
    auto zeros = sizes.ok() ? Tensor::zeros(v->type.dtype, *sizes) : Result<Tensor>(sizes.error());
    if (!zeros.ok()) return;
    inputs.push_back(std::move(*zeros));
  }
  inputs[index] = std::move(*t);
  tune::choose_categories(*graph, seed, &inputs);
  *t = std::move(inputs[index]);
}

// Of an input that tells a size or places in a cache; none of others.
Result<std::optional<Tensor>> told_input(const plan::Program& program, size_t index, const DimBinding& dims,
                                         uint64_t seed) {
  constexpr int64_t kPlaces = 2;  // 0 and 1: in range where any place is
  const plan::Port& port = program.inputs[index];
  if (!is_integer(port.dtype)) return std::optional<Tensor>();
  const bool one = std::all_of(port.shape.begin(), port.shape.end(), [](const Dim& d) { return d.is_const(1); });
  const auto graph = graph_of(program, [&](std::string_view text) { return one || has_places(text); });
  if (!graph || graph->inputs.size() != program.inputs.size()) return std::optional<Tensor>();
  const ir::Value* const input = graph->inputs[index];
  const Told told = told_sizes(*graph, dims);
  if (const auto value = told.values.find(input->name); value != told.values.end()) {
    PERI_ASSIGN(const std::vector<int64_t> sizes, eval(port.shape, dims));
    PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, sizes));
    t.set_i64(0, value->second);
    return std::optional(std::move(t));
  }
  if (const auto largest = told.largest.find(input->name); largest != told.largest.end()) {
    PERI_ASSIGN(const std::vector<int64_t> sizes, eval(port.shape, dims));
    PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, sizes));
    fill_lengths(largest->second, seed, &t);
    return std::optional(std::move(t));
  }
  // One counts all places, as a caller's do without padding, and others some.
  const auto count = counted_places(input, told);
  if (count && places_fit(*graph, input, told, 0) && places_fit(*graph, input, told, *count - 1)) {
    PERI_ASSIGN(Tensor t, random_input(port, dims, seed, count));
    if (t.numel() > 0) t.set_i64(0, *count - 1);
    return std::optional(std::move(t));
  }
  if (!tells_places(input)) return std::optional<Tensor>();
  PERI_ASSIGN(Tensor t, random_input(port, dims, seed, kPlaces));
  return std::optional(std::move(t));
}
}  // namespace

Result<Tensor> random_input(const plan::Program& program, size_t index, const DimBinding& dims, uint64_t seed) {
  const plan::Port& port = program.inputs[index];
  PERI_TRY(check_room(program, port, dims));
  std::optional<int64_t> rows;
  if (!is_float(port.dtype) && port.dtype != DType::kBool) {
    Follower reads{program, dims};
    rows = reads.rows(port.buffer);
    if (reads.numbers) rows = kNumbers;
  }
  if (!rows) {
    PERI_ASSIGN(std::optional<Tensor> told, told_input(program, index, dims, seed));
    if (told) return *std::move(told);
  }
  PERI_ASSIGN(Tensor t, random_input(port, dims, seed, rows));
  choose_categories(program, index, dims, seed, &t);
  return t;
}

Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed,
                            std::optional<int64_t> rows) {
  PERI_ASSIGN(const std::vector<int64_t> concrete, eval(port.shape, dims));
  PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, concrete));
  Rng rng(seed);
  const bool mask = port.name.find("mask") != std::string::npos;
  // Segment ids index a table of two rows in every encoder we know; other integers stay below what any vocabulary has.
  int64_t below = port.dtype == DType::kBool || port.name.find("type_id") != std::string::npos ? 2 : 100;
  if (rows) below = std::clamp<int64_t>(*rows, 1, below);
  if (port.dtype == DType::kString) {
    for (std::string& s : t.mutable_strings()) s = rows ? std::to_string(rng.below(*rows)) : random_text(rng);
    return t;
  }
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (is_float(port.dtype))
      t.set_f64(k, rng.normal());
    else
      t.set_i64(k, mask ? 1 : rng.below(below));
  }
  return t;
}

bool counts(DType t) { return is_integer(t) || t == DType::kBool; }

void set_integers(int64_t value, std::vector<Tensor>* inputs) {
  for (Tensor& t : *inputs)
    for (int64_t k = 0; k < t.numel() && counts(t.dtype()); ++k) t.set_i64(k, value);
}

Result<std::vector<Tensor>> random_inputs(const plan::Program& program, const DimBinding& dims, uint64_t seed) {
  std::vector<Tensor> out;
  while (out.size() < program.inputs.size()) {
    auto made = random_input(program, out.size(), dims, seed_of_part(seed, out.size()));
    if (!made.ok()) return std::move(made).error().at_node(program.inputs[out.size()].name);
    out.push_back(std::move(made).value());
  }
  return out;
}

}  // namespace peri::judge
