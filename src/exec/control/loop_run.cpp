// The iterations, and what they leave.
#include "exec/control/loop_run.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "base/stop.hpp"
#include "device/growing.hpp"
#include "kernels/entry.hpp"
#include "ops/control/run.hpp"

namespace peri::exec {

namespace {
Result<std::vector<int64_t>> read_list(std::string_view payload, std::string_view key, size_t count) {
  std::vector<int64_t> out;
  const std::string start = " " + std::string(key) + "=";
  const size_t at = payload.find(start);
  if (at == std::string_view::npos) return std::vector<int64_t>(count, 0);
  std::string_view rest = payload.substr(at + start.size());
  rest = rest.substr(0, rest.find(' '));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    uint16_t axis = 0;
    const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), axis);
    if (code != std::errc() || stop != word.data() + word.size() || axis > 999)
      return invalid("the payload of a loop has a bad list '%s'", std::string(key).c_str());
    out.push_back(axis);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}
}  // namespace

Result<LoopPlan> read_loop_payload(std::string_view payload, size_t results) {
  LoopPlan plan;
  const std::string_view first = payload.substr(0, payload.find(' '));
  PERI_ASSIGN(const int64_t carried, kernels::config_int(first, "carried", 0, 1 << 16, 0));
  plan.carried = static_cast<size_t>(carried);
  const size_t scans = results - std::min(results, plan.carried);
  PERI_ASSIGN(plan.axes, read_list(payload, "axes", scans));
  PERI_ASSIGN(plan.reversed, read_list(payload, "reversed", scans));
  return plan;
}

std::string loop_payload(size_t carried, const std::vector<int64_t>& axes, const std::vector<int64_t>& reversed) {
  std::string out = "carried=" + std::to_string(carried);
  const auto list = [&](const char* key, const std::vector<int64_t>& values) {
    if (std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; })) return;
    out += std::string(" ") + key + "=";
    for (size_t k = 0; k < values.size(); ++k) out += (k ? "," : "") + std::to_string(values[k]);
  };
  list("axes", axes);
  list("reversed", reversed);
  return out;
}

Result<std::shared_ptr<const LoopSizes>> loop_sizes(const LoopPlan& plan, std::vector<ArgType> reads,
                                                    std::vector<ArgType> results) {
  const plan::Program& body = plan.body->program();
  std::vector<std::vector<int64_t>> dims = {{}, {}};
  for (size_t k = 2; k < reads.size(); ++k) dims.push_back(reads[k].dims);
  PERI_ASSIGN(DimBinding binding, plan::bind_dims(body, dims));
  for (size_t k = 0; k < plan.carried; ++k)
    for (size_t a = 0; a < reads[2 + k].dims.size(); ++a) {
      const Dim& d = body.inputs[2 + k].shape[a];
      if (!(d == body.outputs[1 + k].shape[a])) {
        std::set<std::string> changing;
        d.collect_symbols(changing);
        for (const std::string& name : changing) binding.erase(name);
      }
    }
  auto out = std::make_shared<LoopSizes>();
  for (const plan::Port& port : body.outputs) {
    auto size = eval(port.shape, binding);
    out->steady.emplace_back(size.ok() && port.dtype != DType::kString ? std::optional(*std::move(size))
                                                                       : std::nullopt);
  }
  out->reads = std::move(reads);
  out->results = std::move(results);
  return std::shared_ptr<const LoopSizes>(std::move(out));
}

namespace {
constexpr size_t kLine = 64;                            // bytes to which the body's memory is aligned
constexpr int64_t kReserved = int64_t{64} << 20;        // bytes: more is not taken before there are parts to fill it
constexpr int64_t kKeptBetweenRuns = int64_t{4} << 20;  // bytes of one scan output

Result<size_t> bytes_of(DType dtype, const std::vector<int64_t>& dims) {
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(dtype, n));
  return static_cast<size_t>(bytes);
}

int64_t bytes_of(const runtime::View& v) {
  const int64_t elements = std::accumulate(v.dims.begin(), v.dims.end(), int64_t{1}, std::multiplies<>());
  if (v.dtype == DType::kString) return elements * static_cast<int64_t>(sizeof(std::string));
  const auto bytes = dtype_bytes(v.dtype, elements);
  return bytes.ok() ? *bytes : 0;
}

class LoopRun {
 public:
  LoopRun(const LoopPlan& plan, const LoopSizes& sizes, const runtime::RunContext& context, LoopMemory* memory)
      : plan_(plan),
        sizes_(sizes),
        context_(context),
        m_(*memory),
        outputs_(plan.body->program().outputs),
        growing_(plan.memory_bytes) {}
  ~LoopRun() {
    for (Tensor& t : m_.others) t = Tensor();
    for (Tensor& t : m_.held) t = Tensor();
    for (Stack& stack : m_.stacks) {
      stack.strings.clear();
      if (stack.own.defined() && stack.own.numel() > kKeptBetweenRuns) stack.own = Tensor();
    }
  }
  LoopRun(const LoopRun&) = delete;
  LoopRun& operator=(const LoopRun&) = delete;

  Status begin(const std::shared_ptr<const LoopSizes>& sizes, int64_t trips) {
    if (m_.sizes != sizes) PERI_TRY(fit());
    m_.sizes = sizes;
    const runtime::View scalar;
    m_.inputs.resize(sizes_.reads.size(), scalar);
    m_.inputs[0].dtype = DType::kI64;
    m_.inputs[0].data = &m_.iteration;
    m_.inputs[1].dtype = DType::kBool;
    m_.inputs[1].data = &m_.go;
    for (size_t k = 2; k < sizes_.reads.size(); ++k) view_argument(sizes_.reads[k], context_.reads[k], &m_.inputs[k]);
    for (size_t s = 0; s < m_.stacks.size(); ++s) PERI_TRY(begin_stack(s, trips));
    return Ok{};
  }

  Status iterate(int64_t trips, bool go) {
    PERI_ASSIGN(const Body::Lease body, plan_.body->lease(context_.pool));
    for (int64_t trip = 0; trip < trips && go; ++trip) {
      if (trip >= plan_.max_iterations) return ops::endless_loop(plan_.max_iterations).at_node(plan_.step->name);
      if (stop_asked())  // a body may have no step that asks
        return Error(ErrorKind::kCancelled, "the run was cancelled").at_node(plan_.step->name);
      m_.iteration = trip;
      for (size_t k = 0; k < plan_.carried; ++k)
        if (steady(k)) m_.given[1 + k].data = m_.places[k][trip & 1].mutable_data();
      for (size_t s = 0; s < m_.stacks.size(); ++s)
        if (steady(plan_.carried + s)) {
          PERI_ASSIGN(m_.given[1 + plan_.carried + s].data, next(s));
        }
      PERI_TRY(body->run_views(m_.inputs, m_.given, &m_.others));
      go = m_.more != 0;
      int64_t before = 0, now = 0;  // bytes of the carried values that change their sizes
      for (size_t k = 0; k < plan_.carried; ++k) {
        if (!steady(k)) {
          before += bytes_of(m_.inputs[2 + k]);
          m_.held[k] = std::move(m_.others[1 + k]);
        }
        view_tensor(steady(k) ? &m_.places[k][trip & 1] : &m_.held[k], &m_.inputs[2 + k]);
        if (!steady(k)) now += bytes_of(m_.inputs[2 + k]);
      }
      for (size_t s = 0; s < m_.stacks.size(); ++s)
        PERI_TRY(steady(plan_.carried + s) ? push(s) : push_other(s, m_.others[1 + plan_.carried + s]));
      if (go && trip + 1 < trips)
        if (Status fits = growing_.allows(before, now, kept_); !fits.ok())
          return std::move(fits).error().at_node(plan_.step->name);
    }
    return Ok{};
  }

  Status finish() {
    for (size_t k = 0; k < plan_.carried; ++k)
      PERI_TRY(give_result(*plan_.step, k, m_.inputs[2 + k], sizes_.results, context_));
    for (size_t s = 0; s < m_.stacks.size(); ++s) PERI_TRY(give_scan(s));
    return Ok{};
  }

 private:
  // Of the body's output after the condition.
  bool steady(size_t k) const { return sizes_.steady[1 + k].has_value(); }

  // Memory for values at these sizes.
  Status fit() {
    m_.sizes = nullptr;
    m_.given.assign(sizes_.steady.size(), {});
    m_.places.assign(plan_.carried, {});
    m_.held.assign(plan_.carried, {});
    m_.stacks.clear();
    m_.stacks.resize(plan_.step->writes.size() - plan_.carried);
    m_.given[0] = {DType::kBool, sizes_.steady[0].value_or(std::vector<int64_t>()), &m_.more};
    for (size_t k = 1; k < m_.given.size(); ++k)
      if (sizes_.steady[k]) m_.given[k] = {outputs_[k].dtype, *sizes_.steady[k], nullptr};
    for (size_t k = 0; k < plan_.carried; ++k)
      for (Tensor& place : m_.places[k])
        if (steady(k)) {
          PERI_ASSIGN(place, Tensor::uninitialized(outputs_[1 + k].dtype, *sizes_.steady[1 + k]));
        }
    for (size_t s = 0; s < m_.stacks.size(); ++s) {
      const size_t k = 1 + plan_.carried + s;
      Stack& stack = m_.stacks[s];
      if (!sizes_.steady[k]) continue;
      stack.dims = *sizes_.steady[k];
      PERI_ASSIGN(stack.part, bytes_of(outputs_[k].dtype, stack.dims));
      if (stack.part % kLine == 0 && stack.part > 0) continue;
      PERI_ASSIGN(stack.one, Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(stack.part) + 1}));
    }
    return Ok{};
  }

  // Elements before the axis of a part.
  int64_t outer(size_t s) const {
    int64_t n = 1;
    for (int64_t a = 0; a < plan_.axes[s]; ++a) n *= m_.stacks[s].dims[static_cast<size_t>(a)];
    return n;
  }

  // Parts go to the result itself where it has its size before the run and they lie in it one after the other.
  Status begin_stack(size_t s, int64_t trips) {
    Stack& stack = m_.stacks[s];
    const size_t k = plan_.carried + s;
    stack.count = 0;
    if (!steady(k)) stack.part = 0;
    if (stack.in_result) stack.room = 0;
    stack.in_result = false;
    if (steady(k) && stack.part > 0 && !sizes_.results.empty() && plan_.step->writes[k] >= 0 && outer(s) == 1) {
      stack.whole = sizes_.results[k].dims;
      const auto axis = stack.whole.begin() + plan_.axes[s];
      stack.room = *axis;
      stack.whole.erase(axis);
      stack.in_result = stack.whole == stack.dims;
      if (stack.in_result) {
        stack.at = static_cast<std::byte*>(context_.writes[k]);
        return Ok{};
      }
    }
    stack.at = stack.own.defined() ? stack.own.mutable_data() : nullptr;
    stack.room = stack.own.defined() && stack.part > 0 ? stack.own.numel() / static_cast<int64_t>(stack.part) : 0;
    const auto part = static_cast<int64_t>(stack.part);
    if (part > 0 && trips > stack.room && trips <= std::min(kReserved, plan_.memory_bytes) / part)
      return take_room(s, trips);
    return Ok{};
  }

  Status take_room(size_t s, int64_t parts) {
    Stack& stack = m_.stacks[s];
    PERI_ASSIGN(const int64_t bytes, checked_mul(parts, static_cast<int64_t>(stack.part), "scan output"));
    PERI_ASSIGN(Tensor larger, Tensor::uninitialized(DType::kU8, {bytes}));
    if (stack.count > 0) std::memcpy(larger.mutable_data(), stack.at, static_cast<size_t>(stack.count) * stack.part);
    stack.own = std::move(larger);
    stack.at = stack.own.mutable_data();
    stack.room = parts;
    return Ok{};
  }

  Status keep_within(int64_t bytes) {
    if (bytes <= plan_.memory_bytes - kept_) {
      kept_ += bytes;
      return Ok{};
    }
    return Error(ErrorKind::kMemory, "the scan outputs of a loop grow beyond the memory that they may take")
        .at_node(plan_.step->name)
        .expecting(format("at most %lld bytes", static_cast<long long>(plan_.memory_bytes)))
        .advise("lower --max-iterations, or check the condition that ends the loop");
  }

  std::byte* slot(size_t s) const {
    const Stack& stack = m_.stacks[s];
    const bool back = stack.in_result && plan_.reversed[s] != 0;
    return stack.at + static_cast<size_t>(back ? stack.room - 1 - stack.count : stack.count) * stack.part;
  }

  // Where the body writes the next part of a scan output of steady size.
  Result<void*> next(size_t s) {
    Stack& stack = m_.stacks[s];
    if (stack.part == 0) return stack.one.mutable_data();
    if (!stack.in_result) PERI_TRY(keep_within(static_cast<int64_t>(stack.part)));
    if (stack.count == stack.room) {
      if (stack.in_result)
        return invalid("result %zu of a control step has another shape", plan_.carried + s)
            .at_node(plan_.step->name)
            .expecting(format("%lld parts", static_cast<long long>(stack.room)))
            .but_found("more");
      PERI_TRY(take_room(s, std::max<int64_t>(2 * stack.room, 16)));
    }
    return stack.one.defined() ? stack.one.mutable_data() : slot(s);
  }

  Status push(size_t s) {
    Stack& stack = m_.stacks[s];
    if (stack.one.defined() && stack.part > 0) std::memcpy(slot(s), stack.one.data(), stack.part);
    ++stack.count;
    return Ok{};
  }

  Status push_other(size_t s, const Tensor& part) {
    Stack& stack = m_.stacks[s];
    if (stack.count == 0) {
      stack.dims = part.dims();
      stack.part = part.bytes().size();
      stack.room = stack.part > 0 && stack.own.defined() ? stack.own.numel() / static_cast<int64_t>(stack.part) : 0;
    } else if (stack.dims != part.dims()) {
      return invalid("a scan output changes its shape in iteration %lld", static_cast<long long>(m_.iteration))
          .at_node(plan_.step->name)
          .expecting(shape_text(Shape(stack.dims.begin(), stack.dims.end())))
          .but_found(tensor_type_text(part));
    }
    const bool strings = part.dtype() == DType::kString;
    PERI_TRY(keep_within(static_cast<int64_t>(stack.part) + (strings ? part.numel() * 32 : 0)));
    if (strings) stack.strings.insert(stack.strings.end(), part.string_values().begin(), part.string_values().end());
    if (stack.part > 0) {
      if (stack.count == stack.room) PERI_TRY(take_room(s, std::max<int64_t>(2 * stack.room, 1)));
      std::memcpy(slot(s), part.data(), stack.part);
    }
    ++stack.count;
    return Ok{};
  }

  // Dims of the result. Without an iteration the others of a scan output are those the program states, or 0 where they
  // were never known.
  void set_whole(size_t s) {
    Stack& stack = m_.stacks[s];
    const size_t k = plan_.carried + s;
    if (stack.count > 0) {
      stack.whole.assign(stack.dims.begin(), stack.dims.end());
    } else {
      stack.whole.clear();
      const Shape& shape = plan_.program->buffers[static_cast<size_t>(plan_.step->writes[k])].shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (static_cast<int64_t>(axis) == plan_.axes[s]) continue;
        const auto known = shape[axis].eval(*context_.binding);
        stack.whole.push_back(known.ok() ? *known : 0);
      }
    }
    stack.whole.insert(stack.whole.begin() + plan_.axes[s], stack.count);
  }

  // Calls copy(to, from) for blocks of a stack of `count` parts: block `to` of the result is block `from` of the stack.
  template <class Copy>
  static void in_order(int64_t count, int64_t outer, bool reversed, Copy copy) {
    for (int64_t t = 0; t < count; ++t)
      for (int64_t o = 0; o < outer; ++o)
        copy(static_cast<size_t>(o * count + (reversed ? count - 1 - t : t)), static_cast<size_t>(t * outer + o));
  }

  Status give_scan(size_t s) {
    Stack& stack = m_.stacks[s];
    const size_t k = plan_.carried + s;
    if (plan_.step->writes[k] < 0) return Ok{};
    set_whole(s);
    PERI_ASSIGN(void* const to, result_memory(*plan_.step, k, stack.whole, sizes_.results, context_));
    const bool strings = outputs_[1 + k].dtype == DType::kString, reversed = plan_.reversed[s] != 0;
    if (strings) static_cast<std::vector<std::string>*>(to)->clear();
    const int64_t blocks = stack.count > 0 ? outer(s) : 0;
    if (stack.in_result || blocks == 0) return Ok{};
    if (strings) {
      auto& all = *static_cast<std::vector<std::string>*>(to);
      all.resize(stack.strings.size());
      const size_t inner = all.size() / static_cast<size_t>(blocks * stack.count);
      in_order(stack.count, blocks, reversed, [&](size_t at, size_t from) {
        for (size_t i = 0; i < inner; ++i) all[at * inner + i] = std::move(stack.strings[from * inner + i]);
      });
    } else if (stack.part > 0 && blocks == 1 && !reversed) {
      std::memcpy(to, stack.at, static_cast<size_t>(stack.count) * stack.part);
    } else if (stack.part > 0) {
      const size_t inner = stack.part / static_cast<size_t>(blocks);
      in_order(stack.count, blocks, reversed, [&](size_t at, size_t from) {
        std::memcpy(static_cast<std::byte*>(to) + at * inner, stack.at + from * inner, inner);
      });
    }
    return Ok{};
  }

  const LoopPlan& plan_;
  const LoopSizes& sizes_;
  const runtime::RunContext& context_;
  LoopMemory& m_;
  const std::vector<plan::Port>& outputs_;  // of the body
  int64_t kept_ = 0;
  device::Growing growing_;
};
}  // namespace

Status run_loop(const LoopPlan& plan, const std::shared_ptr<const LoopSizes>& sizes,
                const runtime::RunContext& context) {
  int64_t trips = INT64_MAX;
  if (context.reads[0]) std::memcpy(&trips, context.reads[0], sizeof trips);
  const bool go = !context.reads[1] || *static_cast<const uint8_t*>(context.reads[1]) != 0;
  const Kept<LoopMemory>::Lease memory = plan.memories->lease();
  LoopRun run(plan, *sizes, context, &*memory);
  PERI_TRY(run.begin(sizes, go ? std::min(trips, plan.max_iterations) : 0));
  PERI_TRY(run.iterate(trips, go));
  return run.finish();
}

}  // namespace peri::exec
