// Executor "if": runs one of two bodies. Reads: the condition (bool, one element), then captures; each body takes the
// captures as its inputs and gives the step's results. bodies[0] runs when the condition is true. The payload is empty.
#include "exec/control/body.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"

namespace peri::exec {

namespace {
// The arguments of one run of a body.
struct Arguments {
  std::vector<runtime::View> captures, given;
  std::vector<Tensor> others;  // results that are not written where they are to be
};

class IfPrepared;

class IfInstance final : public runtime::Instance {
 public:
  IfInstance(IfPrepared* owner, std::vector<ArgType> types, std::vector<ArgType> results)
      : owner_(owner), types_(std::move(types)), results_(std::move(results)) {}
  Status run(const runtime::RunContext& context) const override;

 private:
  IfPrepared* owner_;
  std::vector<ArgType> types_;
  std::vector<ArgType> results_;  // none where the step binds their sizes
};

class IfPrepared final : public runtime::Prepared {
 public:
  explicit IfPrepared(const runtime::PrepareContext& c)
      : step(*c.step), reads(*c.program, c.step->reads), writes(*c.program, c.step->writes) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(std::vector<ArgType> types, reads.at(binding));
    PERI_ASSIGN(std::vector<ArgType> results, result_types(step, writes, binding));
    return std::unique_ptr<runtime::Instance>(std::make_unique<IfInstance>(this, std::move(types), std::move(results)));
  }
  const plan::Step& step;
  ArgTypes reads, writes;
  Kept<Arguments> arguments;
  std::unique_ptr<Body> bodies[2];
};

Status IfInstance::run(const runtime::RunContext& context) const {
  const bool taken = *static_cast<const uint8_t*>(context.reads[0]) != 0;
  const Kept<Arguments>::Lease of = owner_->arguments.lease();
  of->captures.resize(types_.size() - 1);
  for (size_t k = 1; k < types_.size(); ++k) view_argument(types_[k], context.reads[k], &of->captures[k - 1]);
  of->given.resize(results_.size());  // results are written where they are to be, as far as sizes are known
  for (size_t k = 0; k < results_.size(); ++k) {
    const bool known = results_[k].dtype != DType::kInvalid && results_[k].dtype != DType::kString;
    view_argument(results_[k], known ? context.writes[k] : nullptr, &of->given[k]);
  }
  PERI_ASSIGN(const Body::Lease body, owner_->bodies[taken ? 0 : 1]->lease(context.pool));
  PERI_TRY(body->run_views(of->captures, of->given, &of->others));
  runtime::View whole;
  for (size_t k = 0; k < of->others.size(); ++k) {
    if (k < of->given.size() && of->given[k].data) continue;
    Tensor out = std::move(of->others[k]);
    view_tensor(&out, &whole);
    PERI_TRY(give_result(owner_->step, k, whole, results_, context));
  }
  return Ok{};
}

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& c) {
  PERI_TRY(refuse_sharing(*c.step));
  const plan::Step& step = *c.step;
  if (step.bodies.size() != 2 || step.reads.empty())
    return invalid("an if needs a condition and two bodies").at_node(step.name);
  for (int32_t b : step.reads)
    if (b < 0) return invalid("an argument of an if is left out").at_node(step.name);
  PERI_TRY(check_scalar(*c.program, step, 0, DType::kBool));
  auto prepared = std::make_unique<IfPrepared>(c);
  for (size_t k = 0; k < 2; ++k) {
    const plan::Program& body = *step.bodies[k];
    if (body.inputs.size() != step.reads.size() - 1 || body.outputs.size() != step.writes.size())
      return invalid("body %zu has %zu inputs and %zu outputs", k, body.inputs.size(), body.outputs.size())
          .at_node(step.name)
          .expecting(format("%zu and %zu", step.reads.size() - 1, step.writes.size()));
    for (size_t i = 0; i < body.inputs.size(); ++i)
      PERI_TRY(check_port(*c.program, step, step.reads[i + 1], body.inputs[i], 0));
    for (size_t i = 0; i < body.outputs.size(); ++i)
      PERI_TRY(check_port(*c.program, step, step.writes[i], body.outputs[i], 0));
    PERI_ASSIGN(prepared->bodies[k], Body::create(body, c));
  }
  return std::unique_ptr<runtime::Prepared>(std::move(prepared));
}
}  // namespace

extern const Entry if_entry;
const Entry if_entry{{"if", 1, prepare}};

}  // namespace peri::exec
