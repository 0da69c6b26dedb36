// Running bodies of control steps, and the checks that their arguments share.
#include "exec/control/body.hpp"

#include <cstring>

#include "base/clock.hpp"
#include "runtime/body_times.hpp"

namespace peri::exec {

Result<std::unique_ptr<Body>> Body::create(const plan::Program& program, const runtime::PrepareContext& context) {
  auto body = std::make_unique<Body>();
  body->named_ = &program;
  plan::Program own = program;
  own.weights = context.program->weights;
  runtime::WeightSource source;
  if (context.source) source = *context.source;
  runtime::EngineOptions options = *context.options;
  options.device.clear();  // the device is the whole engine's choice: bodies are on the host
  PERI_ASSIGN(body->engine_, runtime::Engine::create(std::move(own), std::move(source), std::move(options)));
  return body;
}

Result<std::unique_ptr<runtime::Session>> Body::make_session() const {
  PERI_ASSIGN(auto session, runtime::Session::create_body(engine_));
  if (const auto& times = engine_->options().body_times)
    session->set_step_hook([times, named = named_, began = int64_t{0}](size_t step, bool before) mutable {
      if (before)
        began = now_ns();  // Clock: only where somebody asks for the times
      else
        times->add(*named, step, now_ns() - began);  // Clock: the same
    });
  return session;
}

Result<Body::Lease> Body::lease(ThreadPool* pool) {
  PERI_ASSIGN(Lease session, sessions_.lease([&] { return make_session(); }));
  session->use_pool(pool);
  return session;
}

ArgTypes::ArgTypes(const plan::Program& program, const std::vector<int32_t>& buffers) {
  for (const int32_t b : buffers) {
    if (b < 0) {
      types_.emplace_back(DType::kInvalid, std::vector<int32_t>());
      continue;
    }
    const plan::Buffer& buffer = program.buffers[static_cast<size_t>(b)];
    types_.emplace_back(buffer.dtype, sizes_.add(buffer.shape));
  }
}

Result<std::vector<ArgType>> ArgTypes::at(const DimBinding& binding) const {
  const std::vector<int64_t> values = sizes_.values_of(binding);
  std::vector<ArgType> types;
  for (const auto& [dtype, shape] : types_) {
    PERI_ASSIGN(std::vector<int64_t> dims, sizes_.eval(shape, values));
    types.push_back({dtype, std::move(dims)});
  }
  return types;
}

void view_argument(const ArgType& type, const void* data, runtime::View* to) {
  to->dtype = type.dtype;
  to->dims.assign(type.dims.begin(), type.dims.end());
  to->data = const_cast<void*>(data);
}

void view_tensor(Tensor* t, runtime::View* to) {
  to->dtype = t->dtype();
  to->dims.assign(t->dims().begin(), t->dims().end());
  to->data = t->dtype() == DType::kString ? static_cast<void*>(&t->mutable_strings()) : t->mutable_data();
}

Result<std::vector<ArgType>> result_types(const plan::Step& step, const ArgTypes& writes, const DimBinding& binding) {
  if (!step.binds.empty()) return std::vector<ArgType>();
  return writes.at(binding);
}

Result<void*> result_memory(const plan::Step& step, size_t k, const std::vector<int64_t>& dims,
                            const std::vector<ArgType>& results, const runtime::RunContext& context) {
  if (step.writes[k] < 0) return nullptr;
  if (!step.binds.empty()) return context.binder->bind_output(k, dims);
  const std::vector<int64_t>& want = results[k].dims;
  if (want == dims) return context.writes[k];
  return invalid("result %zu of a control step has another shape", k)
      .at_node(step.name)
      .expecting(shape_text(Shape(want.begin(), want.end())))
      .but_found(shape_text(Shape(dims.begin(), dims.end())));
}

Status give_result(const plan::Step& step, size_t k, const runtime::View& whole, const std::vector<ArgType>& results,
                   const runtime::RunContext& context) {
  PERI_ASSIGN(void* const to, result_memory(step, k, whole.dims, results, context));
  if (step.writes[k] < 0) return Ok{};
  if (whole.dtype == DType::kString) {
    *static_cast<std::vector<std::string>*>(to) = *static_cast<const std::vector<std::string>*>(whole.data);
    return Ok{};
  }
  PERI_ASSIGN(const int64_t n, checked_numel(whole.dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(whole.dtype, n));
  if (bytes > 0) std::memcpy(to, whole.data, static_cast<size_t>(bytes));
  return Ok{};
}

Status check_scalar(const plan::Program& program, const plan::Step& step, size_t read, DType dtype) {
  const plan::Buffer& b = program.buffers[static_cast<size_t>(step.reads[read])];
  if (b.dtype != dtype || !product(b.shape).is_const(1) || !b.layout.empty())
    return invalid("argument %zu of a control step is not one element", read)
        .at_node(step.name)
        .expecting(std::string(dtype_name(dtype)) + "[]")
        .but_found(std::string(dtype_name(b.dtype)) + shape_text(b.shape));
  return Ok{};
}

Status check_port(const plan::Program& program, const plan::Step& step, int32_t buffer, const plan::Port& port,
                  size_t stacked_axes) {
  if (buffer < 0) return Ok{};
  const plan::Buffer& b = program.buffers[static_cast<size_t>(buffer)];
  if (b.dtype != port.dtype || b.shape.size() != port.shape.size() + stacked_axes || !b.layout.empty() ||
      (stacked_axes && dtype_bits(b.dtype) % 8))
    return invalid("'%s' of a body has another type than the step's argument", port.name.c_str())
        .at_node(step.name)
        .expecting(std::string(dtype_name(port.dtype)) + shape_text(port.shape))
        .but_found(std::string(dtype_name(b.dtype)) + shape_text(b.shape));
  return Ok{};
}

}  // namespace peri::exec
