// The iterations, and what they leave.
#include "exec/control/loop_run.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "device/growing.hpp"
#include "kernels/entry.hpp"

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

namespace {
// The parts of a scan output.
struct Stack {
  std::vector<std::byte> bytes;
  std::vector<std::string> strings;
  std::vector<int64_t> dims;  // of a part
  size_t part = 0;            // bytes of one
  int64_t count = 0;
};

// The body's outputs whose sizes are the same in every iteration, with their dims; no dims: they may change.
struct Steady {
  std::vector<std::optional<std::vector<int64_t>>> outputs;
};

Result<Steady> steady_of(const plan::Program& body, size_t carried, const std::vector<ArgType>& types) {
  std::vector<std::vector<int64_t>> dims = {{}, {}};
  for (size_t k = 2; k < types.size(); ++k) dims.push_back(types[k].dims);
  PERI_ASSIGN(DimBinding binding, plan::bind_dims(body, dims, 0));
  for (size_t k = 0; k < carried; ++k)
    for (size_t a = 0; a < types[2 + k].dims.size(); ++a) {
      const Dim& d = body.inputs[2 + k].shape[a];
      if (!(d == body.outputs[1 + k].shape[a])) {
        std::set<std::string> changing;
        d.collect_symbols(changing);
        for (const std::string& name : changing) binding.erase(name);
      }
    }
  Steady out;
  for (const plan::Port& port : body.outputs) {
    auto size = eval(port.shape, binding);
    out.outputs.emplace_back(size.ok() && port.dtype != DType::kString ? std::optional(*std::move(size))
                                                                       : std::nullopt);
  }
  return out;
}

int64_t bytes_of(const Tensor& t) {
  return static_cast<int64_t>(t.dtype() == DType::kString ? t.string_values().size() * sizeof(std::string)
                                                          : t.bytes().size());
}

class LoopRun {
 public:
  LoopRun(const LoopPlan& plan, const runtime::RunContext& context)
      : plan_(plan), context_(context), scans_(plan.step->writes.size() - plan.carried), growing_(plan.memory_bytes) {}

  Status begin(const std::vector<ArgType>& types) {
    PERI_ASSIGN(steady_, steady_of(plan_.body->program(), plan_.carried, types));
    PERI_ASSIGN(Tensor iteration, Tensor::zeros(DType::kI64, {}));
    PERI_ASSIGN(Tensor go, Tensor::zeros(DType::kBool, {}));
    go.set_i64(0, 1);
    inputs_ = {std::move(iteration), std::move(go)};
    for (size_t k = 2; k < types.size(); ++k) {
      PERI_ASSIGN(Tensor t, argument(types[k], context_.reads[k]));
      inputs_.push_back(std::move(t));
    }
    given_.resize(steady_.outputs.size());
    places_.resize(plan_.carried);
    const auto& outputs = plan_.body->program().outputs;
    given_[0] = {DType::kBool, steady_.outputs[0].value_or(std::vector<int64_t>()), &more_};
    for (size_t k = 0; k < plan_.carried; ++k) {
      if (!steady_.outputs[1 + k]) continue;
      for (Tensor& place : places_[k]) {
        PERI_ASSIGN(place, Tensor::uninitialized(outputs[1 + k].dtype, *steady_.outputs[1 + k]));
      }
      given_[1 + k] = {outputs[1 + k].dtype, *steady_.outputs[1 + k], nullptr};
    }
    return Ok{};
  }

  Status iterate(int64_t trips, bool go) {
    PERI_ASSIGN(const Body::Lease body, plan_.body->lease(context_.pool));
    for (int64_t trip = 0; trip < trips && go; ++trip) {
      if (trip >= plan_.max_iterations)
        return invalid("a loop did not end within its limit of iterations")
            .at_node(plan_.step->name)
            .expecting(format("at most %lld", static_cast<long long>(plan_.max_iterations)))
            .advise("raise it with --max-iterations, or check the condition that ends the loop");
      inputs_[0].set_i64(0, trip);
      for (size_t k = 0; k < plan_.carried; ++k)
        if (steady_.outputs[1 + k]) given_[1 + k].data = places_[k][trip & 1].mutable_data();
      PERI_ASSIGN(std::vector<Tensor> out, body->run(inputs_, given_));
      go = more_ != 0;
      int64_t before = 0, now = 0;  // bytes of the carried values that change their sizes
      for (size_t k = 0; k < plan_.carried; ++k) {
        if (steady_.outputs[1 + k]) {
          inputs_[2 + k] = places_[k][trip & 1];
          continue;
        }
        before += bytes_of(inputs_[2 + k]);
        inputs_[2 + k] = std::move(out[1 + k]);
        now += bytes_of(inputs_[2 + k]);
      }
      for (size_t s = 0; s < scans_.size(); ++s) PERI_TRY(push(s, out[1 + plan_.carried + s], trip));
      if (go && trip + 1 < trips)
        if (Status fits = growing_.allows(before, now, kept_); !fits.ok())
          return std::move(fits).error().at_node(plan_.step->name);
    }
    return Ok{};
  }

  Status finish() {
    for (size_t k = 0; k < plan_.carried; ++k) {
      const Tensor& last = inputs_[2 + k];
      PERI_TRY(give_result(*plan_.program, *plan_.step, k, last.dims(), {&last, 1}, context_));
    }
    for (size_t s = 0; s < scans_.size(); ++s) PERI_TRY(give_scan(s));
    return Ok{};
  }

 private:
  Status push(size_t s, const Tensor& part, int64_t trip) {
    Stack& stack = scans_[s];
    if (stack.count == 0) {
      stack.dims = part.dims();
      stack.part = part.bytes().size();
    } else if (stack.dims != part.dims()) {
      return invalid("a scan output changes its shape in iteration %lld", static_cast<long long>(trip))
          .at_node(plan_.step->name)
          .expecting(shape_text(Shape(stack.dims.begin(), stack.dims.end())))
          .but_found(tensor_type_text(part));
    }
    ++stack.count;
    if (part.dtype() == DType::kString)
      stack.strings.insert(stack.strings.end(), part.string_values().begin(), part.string_values().end());
    else
      stack.bytes.insert(stack.bytes.end(), part.bytes().begin(), part.bytes().end());
    kept_ += static_cast<int64_t>(stack.part) + (part.dtype() == DType::kString ? part.numel() * 32 : 0);
    if (kept_ <= plan_.memory_bytes) return Ok{};
    return Error(ErrorKind::kMemory, "the scan outputs of a loop grow beyond the memory that they may take")
        .at_node(plan_.step->name)
        .expecting(format("at most %lld bytes", static_cast<long long>(plan_.memory_bytes)))
        .advise("lower --max-iterations, or check the condition that ends the loop");
  }

  // Without an iteration the other dims of a scan output are those the program states, or 0 where they were never
  // known.
  std::vector<int64_t> dims_of(size_t s) const {
    const size_t k = plan_.carried + s;
    std::vector<int64_t> dims = scans_[s].dims;
    if (scans_[s].count == 0 && plan_.step->writes[k] >= 0) {
      const Shape& shape = plan_.program->buffers[static_cast<size_t>(plan_.step->writes[k])].shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (static_cast<int64_t>(axis) == plan_.axes[s]) continue;
        const auto known = shape[axis].eval(*context_.binding);
        dims.push_back(known.ok() ? *known : 0);
      }
    }
    dims.insert(dims.begin() + plan_.axes[s], scans_[s].count);
    return dims;
  }

  template <class T>
  std::vector<T> ordered(const std::vector<T>& parts, int64_t outer, int64_t count, bool reversed) const {
    std::vector<T> out(parts.size());
    const size_t inner = parts.size() / static_cast<size_t>(outer * count);
    for (int64_t t = 0; t < count; ++t)
      for (int64_t o = 0; o < outer; ++o)
        std::copy_n(parts.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(t * outer + o) * inner), inner,
                    out.begin() + static_cast<std::ptrdiff_t>(
                                      static_cast<size_t>(o * count + (reversed ? count - 1 - t : t)) * inner));
    return out;
  }

  Status give_scan(size_t s) {
    Stack& stack = scans_[s];
    const size_t k = plan_.carried + s;
    const std::vector<int64_t> dims = dims_of(s);
    int64_t outer = 1;
    for (int64_t a = 0; a < plan_.axes[s]; ++a) outer *= dims[static_cast<size_t>(a)];
    if (stack.count > 0 && outer > 0 && (outer > 1 || plan_.reversed[s] != 0)) {
      stack.bytes = ordered(stack.bytes, outer, stack.count, plan_.reversed[s] != 0);
      stack.strings = ordered(stack.strings, outer, stack.count, plan_.reversed[s] != 0);
    }
    const DType dtype = plan_.body->program().outputs[1 + k].dtype;
    Tensor whole;
    if (dtype == DType::kString) {
      PERI_ASSIGN(whole, Tensor::strings(dims, std::move(stack.strings)));
    } else {
      PERI_ASSIGN(whole, Tensor::view(dtype, dims, stack.bytes, nullptr));
    }
    return give_result(*plan_.program, *plan_.step, k, dims, {&whole, 1}, context_);
  }

  const LoopPlan& plan_;
  const runtime::RunContext& context_;
  std::vector<Stack> scans_;
  Steady steady_;
  std::vector<Tensor> inputs_;
  std::vector<runtime::View> given_;
  std::vector<std::array<Tensor, 2>> places_;  // of carried values, written in turn
  uint8_t more_ = 0;
  int64_t kept_ = 0;
  device::Growing growing_;
};
}  // namespace

Status run_loop(const LoopPlan& plan, const std::vector<ArgType>& types, const runtime::RunContext& context) {
  int64_t trips = INT64_MAX;
  if (context.reads[0]) std::memcpy(&trips, context.reads[0], sizeof trips);
  const bool go = !context.reads[1] || *static_cast<const uint8_t*>(context.reads[1]) != 0;
  LoopRun run(plan, context);
  PERI_TRY(run.begin(types));
  PERI_TRY(run.iterate(trips, go));
  return run.finish();
}

}  // namespace peri::exec
