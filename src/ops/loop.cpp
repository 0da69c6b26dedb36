// Loop: a body runs until its trip count is reached or its condition is false. Scan is a loop at import.
#include <algorithm>
#include <cmath>

#include "base/stop.hpp"
#include "device/growing.hpp"
#include "ir/bodies.hpp"
#include "ops/control/bodies.hpp"
#include "ops/control/run.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) { return infer_loop(c, infer_graph); }

RefTensor integer(DType dtype, int64_t value) {
  RefTensor t = make_ref(dtype, {});
  t.i[0] = value;
  return t;
}

// Puts part `at` of `count` into a stacked output.
template <class T>
void put(const std::vector<T>& part, int64_t outer, int64_t at, int64_t count, std::vector<T>* to) {
  const int64_t inner = outer ? static_cast<int64_t>(part.size()) / outer : 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < inner; ++k)
      (*to)[static_cast<size_t>((o * count + at) * inner + k)] = part[static_cast<size_t>(o * inner + k)];
}

// The parts along a new axis. Without any the sizes are those that inference states, 0 where it knows none.
Result<RefTensor> stacked(const std::vector<RefTensor>& parts, const RefTensor& stated, int64_t axis, bool reversed,
                          int64_t most) {
  const auto count = static_cast<int64_t>(parts.size());
  std::vector<int64_t> dims = parts.empty() ? stated.dims : parts[0].dims;
  const auto rank = static_cast<int64_t>(dims.size()) + (parts.empty() ? 0 : 1);
  if (axis < 0) axis += rank;
  if (parts.empty())
    dims[static_cast<size_t>(axis)] = 0;
  else
    dims.insert(dims.begin() + axis, count);
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  if (n > most) return Error(ErrorKind::kMemory, "a scan output grows beyond the memory that it may take");
  RefTensor out = make_ref(stated.dtype, dims);
  out.radius.assign(out.f.size(), 0.0);
  int64_t outer = 1;
  for (int64_t a = 0; a < axis; ++a) outer *= dims[static_cast<size_t>(a)];
  for (int64_t t = 0; t < count; ++t) {
    const RefTensor& part = parts[static_cast<size_t>(t)];
    const int64_t at = reversed ? count - 1 - t : t;
    if (part.dims != parts[0].dims)
      return invalid("a scan output changes its shape in iteration %lld", static_cast<long long>(t))
          .expecting(shape_text(Shape(parts[0].dims.begin(), parts[0].dims.end())))
          .but_found(shape_text(Shape(part.dims.begin(), part.dims.end())));
    put(part.f, outer, at, count, &out.f);
    put(part.i, outer, at, count, &out.i);
    put(part.s, outer, at, count, &out.s);
    if (!part.radius.empty()) put(part.radius, outer, at, count, &out.radius);
  }
  return out;
}

constexpr int64_t kElementBytes = 2 * sizeof(double);  // a value and its radius

struct Run {
  RefCall& call;
  const ir::Graph& body;
  const RefOptions options;
  const size_t carried;
  std::vector<RefTensor> inputs;
  std::vector<std::vector<RefTensor>> scans;
  device::Growing growing = device::Growing(options.most_elements * kElementBytes);
  int64_t elements = 0;  // of the scan outputs

  Status iterate(int64_t trips, bool go) {
    for (int64_t trip = 0; trip < trips && go; ++trip) {
      if (trip >= options.most_iterations) return endless_loop(options.most_iterations);
      if (stop_asked()) return Error(ErrorKind::kCancelled, "the reference was stopped");
      inputs[0] = integer(DType::kI64, trip);
      inputs[1] = integer(DType::kBool, 1);
      PERI_ASSIGN(std::vector<RefTensor> out, run_reference(body, inputs, options));
      go = out[0].i[0] != 0;
      int64_t before = 0, now = 0;  // elements of the carried values
      for (size_t k = 0; k < carried; ++k) {
        before += inputs[2 + k].numel();
        inputs[2 + k] = std::move(out[1 + k]);
        now += inputs[2 + k].numel();
      }
      for (size_t s = 0; s < scans.size(); ++s) {
        elements += out[1 + carried + s].numel() + 1;
        if (elements > options.most_elements)
          return Error(ErrorKind::kMemory, "the scan outputs of a loop grow beyond the memory that they may take")
              .expecting(format("at most %lld elements", static_cast<long long>(options.most_elements)));
        scans[s].push_back(std::move(out[1 + carried + s]));
      }
      if (go && trip + 1 < trips)
        PERI_TRY(growing.allows(before * kElementBytes, now * kElementBytes, elements * kElementBytes));
    }
    return Ok{};
  }
};

Status reference(RefCall& call) {
  const size_t carried = static_cast<size_t>(call.node.i("carried"));
  Run run{call, *ir::bodies_of(call.node)[0].second, options_of_body(call), carried, {}, {}};
  run.inputs.resize(2);
  for (size_t k = 2; k < call.in.size(); ++k) run.inputs.push_back(*call.in[k]);
  run.scans.resize(call.out.size() - carried);
  const int64_t trips = call.in[0] ? call.in[0]->i[0] : INT64_MAX;
  PERI_TRY(run.iterate(trips, !call.in[1] || call.in[1]->i[0] != 0));
  for (size_t k = 0; k < carried; ++k) call.out[k] = std::move(run.inputs[2 + k]);
  const std::vector<int64_t> axes = call.node.ints("axes"), reversed = call.node.ints("reversed");
  for (size_t s = 0; s < run.scans.size(); ++s) {
    PERI_ASSIGN(call.out[carried + s], stacked(run.scans[s], call.out[carried + s], s < axes.size() ? axes[s] : 0,
                                               s < reversed.size() && reversed[s] != 0, run.options.most_elements));
  }
  return fill_radii(call);
}

// Where the data decide when it ends, more trips than these are a limit, as INT64_MAX is, and say nothing of its work.
constexpr int64_t kMaxCountedTrips = 1024;

std::optional<int64_t> counted_trips(const ir::Node& node) {
  const std::optional<int64_t> trips = node.in(0) ? known_element(*node.in(0)) : std::nullopt;
  if (!trips || *trips <= kMaxCountedTrips) return trips;
  const std::optional<int64_t> stays = known_element(*ir::bodies_of(node)[0].second->outputs[0]);
  return stays && *stays != 0 ? trips : std::nullopt;
}

// Without a known trip count it costs more than anyone pays before the model runs.
Cost cost(const ir::Node& node) {
  const std::optional<int64_t> trips = counted_trips(node);
  const Cost c = cost_of_body(*ir::bodies_of(node)[0].second);
  const double times = trips ? static_cast<double>(std::max<int64_t>(*trips, 0)) : HUGE_VAL;
  return {(c.flops + 1) * times, c.bytes_read * times, c.bytes_written * times};
}
}  // namespace

extern const Entry loop_entry;
const Entry loop_entry{{
    {.name = "loop",
     .onnx = "Loop",
     .versions = {1, 11, 13, 16, 19, 21, 23, 24, 25},
     .inputs = {{"trips", types({DType::kI64}), true}, {"cond", kBools, true}, {"values", kAnyType, true, true}},
     .outputs = {{"results", kAnyType, false, true}},
     .attrs = {{"body", AttrKind::kGraph, true},
               {"carried", AttrKind::kInt, false, "0: all inputs behind the first two are only read"},
               {"axes", AttrKind::kInts, false, "scan outputs are stacked along a new first axis"},
               {"reversed", AttrKind::kInts, false, "scan outputs stand in the order of the iterations"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .control = Control::kLoop,
     .samples =
         {"graph { const t: i64[] = [3]; input a: f32[2]; input b: f32[2]; y, z = loop(t, _, a, b) {carried=1, "
          "body=graph { input i: i64[]; input c: bool[]; input v: f32[2]; input w: f32[2]; s = add(v, w); output c; "
          "output s; output s as \"scan\" }}; output y; output z }",
          "graph { const t: i64[1] = [4]; input a: f32[1,2]; y = loop(t, _, a) {carried=1, body=graph { input i: "
          "i64[]; input c: bool[]; input v: f32[1,2]; const last: i64[] = [2]; s = concat(v, v) {axis=0}; more = "
          "less(i, last); output "
          "more; output s }}; output y }",
          "graph { const t: i64[] = [2]; input a: f32[3]; y = loop(t, _, a) {axes=[-1], reversed=[1], body=graph { "
          "input i: i64[]; input c: bool[]; input v: f32[3]; k = cast(i) {to=1}; s = add(v, k); output c; output s "
          "}}; output y }",
          "graph { const t: i64[] = [0]; input a: f32[2]; y, z = loop(t, _, a) {carried=1, body=graph { input i: "
          "i64[]; input c: bool[]; input v: f32[2]; s = neg(v); output c; output s; output v }}; output y; output z "
          "}",
          "graph { input c: bool[]; input a: i64[]; y = loop(_, c, a) {carried=1, body=graph { input i: i64[]; input "
          "g: "
          "bool[]; input v: i64[]; const m: i64[] = [5]; const one: i64[] = [1]; s = add(v, one); more = less(s, m); "
          "output more; output s }}; output y }"}},
}};
}  // namespace peri::ops
