// Executor "loop": runs its body until the trip count is reached or the condition is false. Reads: trip count (i64, one
// element) and condition (bool, one element), each may be left out; the carried values; captures. The body takes
// iteration, condition, carried values and captures, and gives condition, carried values and one part of each scan
// output. Writes: carried values, then scan outputs stacked along a new axis 0. Payload: "carried=N".
#include "exec/control/body.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

namespace {
constexpr int64_t kMaxTrips = int64_t{1} << 31;

struct LoopPrepared;

class LoopInstance final : public runtime::Instance {
 public:
  LoopInstance(LoopPrepared* owner, std::vector<ArgType> types) : owner_(owner), types_(std::move(types)) {}
  Status run(const runtime::RunContext& context) const override;

 private:
  Status iterate(std::vector<Tensor>* inputs, int64_t trips, bool go, std::vector<std::vector<Tensor>>* scans,
                 const runtime::RunContext& context) const;
  Status give_scan(size_t s, const std::vector<Tensor>& parts, const runtime::RunContext& context) const;
  LoopPrepared* owner_;
  std::vector<ArgType> types_;
};

struct LoopPrepared final : runtime::Prepared {
  explicit LoopPrepared(const runtime::PrepareContext& c)
      : program(*c.program), step(*c.step), reads(*c.program, *c.step) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(std::vector<ArgType> types, reads.at(binding));
    return std::unique_ptr<runtime::Instance>(std::make_unique<LoopInstance>(this, std::move(types)));
  }
  const plan::Program& program;
  const plan::Step& step;
  ReadTypes reads;
  size_t carried = 0;
  std::unique_ptr<Body> body;
};

Tensor scalar(DType dtype, int64_t value) {
  Tensor t = std::move(Tensor::zeros(dtype, {})).value();
  t.set_i64(0, value);
  return t;
}

Status LoopInstance::iterate(std::vector<Tensor>* inputs, int64_t trips, bool go,
                             std::vector<std::vector<Tensor>>* scans, const runtime::RunContext& context) const {
  const size_t carried = owner_->carried;
  for (int64_t trip = 0; trip < trips && go; ++trip) {
    (*inputs)[0] = scalar(DType::kI64, trip);
    (*inputs)[1] = scalar(DType::kBool, 1);
    PERI_ASSIGN(std::vector<Tensor> out, owner_->body->run(*inputs, context.pool));
    go = out[0].i64(0) != 0;
    for (size_t k = 0; k < carried; ++k) {
      if (out[1 + k].dims() != types_[2 + k].dims)
        return invalid("a carried value changes its shape in iteration %lld", static_cast<long long>(trip))
            .at_node(owner_->step.name)
            .expecting(shape_text(Shape(types_[2 + k].dims.begin(), types_[2 + k].dims.end())))
            .but_found(tensor_type_text(out[1 + k]));
      (*inputs)[2 + k] = std::move(out[1 + k]);
    }
    for (size_t s = 0; s < scans->size(); ++s) {
      std::vector<Tensor>& parts = (*scans)[s];
      Tensor& part = out[1 + carried + s];
      if (!parts.empty() && parts.front().dims() != part.dims())
        return invalid("a scan output changes its shape in iteration %lld", static_cast<long long>(trip))
            .at_node(owner_->step.name)
            .expecting(tensor_type_text(parts.front()))
            .but_found(tensor_type_text(part));
      parts.push_back(std::move(part));
    }
  }
  return Ok{};
}

// Without an iteration the other dims of a scan output are those the program states, or 0 where they were never known.
Status LoopInstance::give_scan(size_t s, const std::vector<Tensor>& parts, const runtime::RunContext& context) const {
  const size_t k = owner_->carried + s;
  std::vector<int64_t> dims = {static_cast<int64_t>(parts.size())};
  if (!parts.empty()) {
    dims.insert(dims.end(), parts.front().dims().begin(), parts.front().dims().end());
  } else if (owner_->step.writes[k] >= 0) {
    const Shape& shape = owner_->program.buffers[static_cast<size_t>(owner_->step.writes[k])].shape;
    for (size_t axis = 1; axis < shape.size(); ++axis) {
      auto known = shape[axis].eval(*context.binding);
      dims.push_back(known.ok() ? *known : 0);
    }
  }
  return give_result(owner_->program, owner_->step, k, dims, parts, context);
}

Status LoopInstance::run(const runtime::RunContext& context) const {
  int64_t trips = kMaxTrips;
  if (context.reads[0]) __builtin_memcpy(&trips, context.reads[0], sizeof trips);
  if (trips < 0 || trips > kMaxTrips)
    return invalid("a loop's trip count is %lld", static_cast<long long>(trips))
        .at_node(owner_->step.name)
        .expecting("0 to 2147483648");
  const bool go = !context.reads[1] || *static_cast<const uint8_t*>(context.reads[1]) != 0;
  std::vector<Tensor> inputs(2);
  for (size_t k = 2; k < types_.size(); ++k) {
    PERI_ASSIGN(Tensor t, argument(types_[k], context.reads[k]));
    inputs.push_back(std::move(t));
  }
  std::vector<std::vector<Tensor>> scans(owner_->step.writes.size() - owner_->carried);
  PERI_TRY(iterate(&inputs, trips, go, &scans, context));
  for (size_t k = 0; k < owner_->carried; ++k)
    PERI_TRY(give_result(owner_->program, owner_->step, k, inputs[2 + k].dims(), {&inputs[2 + k], 1}, context));
  for (size_t s = 0; s < scans.size(); ++s) PERI_TRY(give_scan(s, scans[s], context));
  return Ok{};
}

Status check_arguments(const runtime::PrepareContext& c, size_t carried) {
  const plan::Step& step = *c.step;
  const plan::Program& body = *step.bodies[0];
  if (step.reads.size() < 2 + carried || step.writes.size() < carried)
    return invalid("a loop has fewer arguments than carried values").at_node(step.name);
  if (body.inputs.size() != step.reads.size() || body.outputs.size() != step.writes.size() + 1)
    return invalid("a loop's body has %zu inputs and %zu outputs", body.inputs.size(), body.outputs.size())
        .at_node(step.name)
        .expecting(format("%zu and %zu", step.reads.size(), step.writes.size() + 1));
  if (step.reads[0] >= 0) PERI_TRY(check_scalar(*c.program, step, 0, DType::kI64));
  if (step.reads[1] >= 0) PERI_TRY(check_scalar(*c.program, step, 1, DType::kBool));
  if (body.inputs[0].dtype != DType::kI64 || !body.inputs[0].shape.empty() || body.inputs[1].dtype != DType::kBool ||
      !body.inputs[1].shape.empty() || body.outputs[0].dtype != DType::kBool || !body.outputs[0].shape.empty())
    return invalid("a loop's body does not take i64[] and bool[] and give bool[] first").at_node(step.name);
  for (size_t k = 2; k < step.reads.size(); ++k) {
    if (step.reads[k] < 0) return invalid("a carried value or capture of a loop is left out").at_node(step.name);
    PERI_TRY(check_port(*c.program, step, step.reads[k], body.inputs[k], 0));
  }
  for (size_t k = 0; k < carried; ++k)
    if (body.outputs[1 + k].dtype != body.inputs[2 + k].dtype)
      return invalid("a carried value changes its type").at_node(step.name);
  for (size_t k = 0; k < step.writes.size(); ++k)
    PERI_TRY(check_port(*c.program, step, step.writes[k], body.outputs[1 + k], k < carried ? 0 : 1));
  return Ok{};
}

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& c) {
  PERI_TRY(refuse_sharing(*c.step));
  if (c.step->bodies.size() != 1) return invalid("a loop needs one body").at_node(c.step->name);
  PERI_ASSIGN(const int64_t carried, kernels::config_int(c.variant->payload, "carried", 0, 1 << 16, 0));
  PERI_TRY(check_arguments(c, static_cast<size_t>(carried)));
  auto prepared = std::make_unique<LoopPrepared>(c);
  prepared->carried = static_cast<size_t>(carried);
  PERI_ASSIGN(prepared->body, Body::create(*c.step->bodies[0], *c.options));
  return std::unique_ptr<runtime::Prepared>(std::move(prepared));
}
}  // namespace

extern const Entry loop_entry;
const Entry loop_entry{{"loop", 1, prepare}};

}  // namespace peri::exec
