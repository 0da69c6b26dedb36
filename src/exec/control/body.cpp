// Running bodies of control steps, and the checks that their arguments share.
#include "exec/control/body.hpp"

#include <cstring>

namespace peri::exec {

Result<std::unique_ptr<Body>> Body::create(const plan::Program& program, const runtime::PrepareContext& context) {
  auto body = std::make_unique<Body>();
  plan::Program own = program;
  own.weights = context.program->weights;
  runtime::WeightSource source;
  if (context.source) source = *context.source;
  PERI_ASSIGN(body->engine_, runtime::Engine::create(std::move(own), std::move(source), *context.options));
  return body;
}

Result<Body::Lease> Body::lease(ThreadPool* pool) {
  std::unique_ptr<runtime::Session> session;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      session = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!session) {
    PERI_ASSIGN(session, runtime::Session::create_body(engine_));
  }
  session->use_pool(pool);
  return Lease(this, std::move(session));
}

Body::Lease::~Lease() {
  if (!session_) return;
  const std::lock_guard<std::mutex> lock(body_->mutex_);
  body_->idle_.push_back(std::move(session_));
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

Result<Tensor> argument(const ArgType& type, const void* data) {
  if (type.dtype == DType::kString)
    return Tensor::strings(type.dims, *static_cast<const std::vector<std::string>*>(data));
  PERI_ASSIGN(const int64_t n, checked_numel(type.dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(type.dtype, n));
  return Tensor::view(type.dtype, type.dims, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)},
                      nullptr);
}

Status give_result(const plan::Program& program, const plan::Step& step, size_t k, const std::vector<int64_t>& dims,
                   std::span<const Tensor> parts, const runtime::RunContext& context) {
  if (step.writes[k] < 0) return Ok{};
  const plan::Buffer& buffer = program.buffers[static_cast<size_t>(step.writes[k])];
  void* to = context.writes[k];
  if (!step.binds.empty()) {
    PERI_ASSIGN(to, context.binder->bind_output(k, dims));
  } else {
    PERI_ASSIGN(const std::vector<int64_t> want, eval(buffer.shape, *context.binding));
    if (want != dims)
      return invalid("result %zu of a control step has another shape", k)
          .at_node(step.name)
          .expecting(shape_text(Shape(want.begin(), want.end())))
          .but_found(shape_text(Shape(dims.begin(), dims.end())));
  }
  if (buffer.dtype == DType::kString) {
    auto& strings = *static_cast<std::vector<std::string>*>(to);
    strings.clear();
    for (const Tensor& t : parts) strings.insert(strings.end(), t.string_values().begin(), t.string_values().end());
    return Ok{};
  }
  auto* at = static_cast<std::byte*>(to);
  for (const Tensor& t : parts) {
    if (!t.bytes().empty()) std::memcpy(at, t.data(), t.bytes().size());
    at += t.bytes().size();
  }
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
