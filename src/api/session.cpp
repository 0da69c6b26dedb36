// Sessions through the C interface: runs on memory of the caller.
#include <algorithm>

#include "api/session_device.hpp"
#include "api/strings.hpp"
#include "base/plural.hpp"
#include "build/open.hpp"
#include "build/request.hpp"
#include "exec/weights/packed_files.hpp"

namespace peri::api {

namespace {
// The caller's input as a tensor without a copy, or with one of texts and where it is not aligned to its elements.
Result<Tensor> input_of(const peri_tensor& t, const plan::Port& port) {
  const int number = dtype_number(t);
  if (number <= 0 || number >= kDTypeCount) return usage("dtype %d is none", number).at_node(port.name);
  const DType dtype = static_cast<DType>(number);
  if (dtype != port.dtype)
    return invalid("another element type")
        .at_node(port.name)
        .expecting(std::string(dtype_name(port.dtype)))
        .but_found(std::string(dtype_name(dtype)));
  if (t.rank > 64 || (t.rank && !t.dims)) return usage("a tensor of rank %zu without dims", t.rank).at_node(port.name);
  if (t.bytes && !t.data) return usage("a tensor of %zu bytes without data", t.bytes).at_node(port.name);
  std::vector<int64_t> dims(t.dims, t.dims + t.rank);
  if (dtype == DType::kString) {
    auto texts = strings_of(t, std::move(dims));
    if (!texts.ok()) return std::move(texts).error().at_node(port.name);
    return texts;
  }
  auto view = Tensor::view(dtype, dims, {static_cast<const std::byte*>(t.data), t.bytes}, nullptr);
  if (!view.ok()) return std::move(view).error().at_node(port.name);
  const size_t align = static_cast<size_t>(std::max(1, dtype_size(dtype)));
  if (reinterpret_cast<uintptr_t>(t.data) % align == 0) return view;
  PERI_ASSIGN(Tensor copy, Tensor::zeros(dtype, std::move(dims)));
  __builtin_memcpy(copy.mutable_data(), t.data, t.bytes);
  return copy;
}

// Where the caller wants output `k`: its dims follow from the inputs' unless they depend on data.
Result<runtime::View> output_of(const peri_tensor& t, const plan::Port& port, const DimBinding& binding) {
  if (!t.data) return runtime::View{};
  if (port.dtype == DType::kString)
    return usage("this output is of strings, which lie in memory of the session")
        .at_node(port.name)
        .advise("leave its data NULL");
  const int number = dtype_number(t);
  if (number != PERI_DTYPE_INVALID && number != static_cast<int>(port.dtype))
    return invalid("this output has another element type")
        .at_node(port.name)
        .expecting(std::string(dtype_name(port.dtype)))
        .but_found(number > 0 && number < kDTypeCount ? std::string(dtype_name(static_cast<DType>(number)))
                                                      : "dtype " + std::to_string(number));
  auto dims = eval(port.shape, binding);
  if (!dims.ok())
    return usage("the size of this output depends on the data").at_node(port.name).advise("leave its data NULL");
  PERI_ASSIGN(const int64_t count, checked_numel(*dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(port.dtype, count));
  if (static_cast<uint64_t>(bytes) != t.bytes)
    return usage("the memory of this output has another size")
        .at_node(port.name)
        .expecting(counted(bytes, "byte"))
        .but_found(format("%zu", t.bytes));
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<size_t>(std::max(1, dtype_size(port.dtype))))
    return usage("the memory of this output is not aligned to its elements").at_node(port.name);
  return runtime::View{port.dtype, std::move(dims).value(), t.data};
}

peri_tensor given(const Tensor& made, std::vector<peri_string>* strings, peri_tensor out) {
  out.dtype = static_cast<peri_dtype>(made.dtype());
  out.device = PERI_DEVICE_HOST;
  out.device_index = 0;
  out.dims = made.dims().data();
  out.rank = made.dims().size();
  if (made.dtype() == DType::kString) {
    *strings = described_strings(made);
    out.data = strings->data();
    out.bytes = strings->size() * sizeof(peri_string);
    return out;
  }
  if (!out.data) out.data = const_cast<void*>(made.data());
  out.bytes = made.bytes().size();
  return out;
}

// The numbers are compared before an array is read: what stands beyond it is no struct.
Status check_call(const plan::Program& program, size_t in_count, size_t out_count) {
  if (in_count != program.inputs.size())
    return usage("a run with another number of inputs")
        .expecting(std::to_string(program.inputs.size()))
        .but_found(std::to_string(in_count));
  if (out_count != program.outputs.size())
    return usage("a run with another number of outputs")
        .expecting(std::to_string(program.outputs.size()))
        .but_found(std::to_string(out_count));
  return Ok{};
}

// Told once for each size.
Status note_untuned(peri_session* s, const plan::Program& program, const DimBinding& binding) {
  if (!s->log.function || binding == s->last_dims) return Ok{};
  s->last_dims = binding;
  if (const std::optional<build::Untuned> untuned = build::untuned(program, binding); untuned && s->told->add(binding))
    return s->log.tell(PERI_LOG_INFO, "tuned for " + untuned->tuned + ", run at " + untuned->here +
                                          ": right, but perhaps not fastest; build with these dims to tune for them");
  return Ok{};
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

// An input that shares memory with an output is read from a copy: outputs are written while inputs are still read. Two
// outputs in one place have no right answer.
Status keep_apart(const plan::Program& program, std::span<const runtime::View> views, std::vector<Tensor>* inputs) {
  const auto bytes_of = [](const runtime::View& v) {
    const auto count = checked_numel(v.dims);
    const auto bytes = count.ok() ? dtype_bytes(v.dtype, *count) : Result<int64_t>(int64_t{0});
    return v.data && bytes.ok() ? static_cast<size_t>(*bytes) : 0;
  };
  for (size_t k = 0; k < views.size(); ++k) {
    for (size_t other = 0; other < k; ++other)
      if (overlap(views[k].data, bytes_of(views[k]), views[other].data, bytes_of(views[other])))
        return usage("the memory of this output overlaps that of '%s'", program.outputs[other].name.c_str())
            .at_node(program.outputs[k].name);
    for (Tensor& t : *inputs) {
      if (!overlap(views[k].data, bytes_of(views[k]), t.data(), t.bytes().size())) continue;
      PERI_ASSIGN(Tensor copy, Tensor::uninitialized(t.dtype(), t.dims()));
      __builtin_memcpy(copy.mutable_data(), t.data(), t.bytes().size());
      t = std::move(copy);
    }
  }
  return Ok{};
}

// What the caller has a pointer to of output `k`.
std::pair<const void*, size_t> seen_memory(const peri_last_run& last, size_t k) {
  const Tensor& t = last.outputs[k];
  if (t.dtype() != DType::kString) return {t.data(), t.bytes().size()};
  const std::vector<peri_string>& texts = last.strings[k];
  return {texts.data(), texts.size() * sizeof(peri_string)};
}

}  // namespace

Result<std::vector<Tensor>> inputs_of(const plan::Program& program, const TensorArray& given) {
  if (given.size() != program.inputs.size())
    return usage("another number of inputs")
        .expecting(std::to_string(program.inputs.size()))
        .but_found(std::to_string(given.size()));
  std::vector<Tensor> out;
  for (size_t k = 0; k < given.size(); ++k) {
    const plan::Port& port = program.inputs[k];
    const peri_tensor one = given[k];
    if (one.device != PERI_DEVICE_HOST)
      return usage("this input lies on a device").at_node(port.name).expecting("memory of the host");
    PERI_ASSIGN(out.emplace_back(), input_of(one, port));
  }
  return out;
}

Status check_file(const peri_session& session) { return session.file ? session.file->check() : Status(Ok{}); }

Result<std::vector<peri_tensor>> asked_outputs(const peri_session& s, const TensorArray& out) {
  const peri_last_run& last = s.last;
  std::vector<peri_tensor> asked;
  for (size_t k = 0; k < out.size(); ++k) {
    peri_tensor& t = asked.emplace_back(out[k]);
    if (t.device != PERI_DEVICE_HOST) {
      const peri_tensor* const left = left_on_device(s, k);
      if (left && last.lent[k] && left->data == t.data) t.data = nullptr;
      continue;
    }
    for (size_t other = 0; t.data && other < last.outputs.size(); ++other) {
      if (!last.lent[other] || !last.outputs[other].defined()) continue;
      const auto [data, bytes] = seen_memory(last, other);
      if (t.data == data)
        t.data = nullptr;
      else if (overlap(t.data, t.bytes, data, bytes))
        return usage("the memory of this output lies in what the last run gave, which is the session's")
            .at_node(s.engine->program().outputs[k].name)
            .advise("give it memory of your own, or leave its data NULL");
    }
  }
  return asked;
}

Status run_session(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream) {
  const plan::Program& program = s->session->engine().program();
  PERI_TRY(check_call(program, in.size(), out.size()));
  if (any_on_device(in) || any_on_device(out)) return run_on_device(s, in, out, stream);
  if (stream) return usage("a stream on the host").advise("pass NULL: the call returns when the outputs are written");
  PERI_ASSIGN(std::vector<Tensor> inputs, inputs_of(program, in));
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding binding, plan::bind_dims(program, dims));
  PERI_ASSIGN(const std::vector<peri_tensor> asked, asked_outputs(*s, out));
  std::vector<runtime::View> views;
  for (size_t k = 0; k < out.size(); ++k) {
    PERI_ASSIGN(views.emplace_back(), output_of(asked[k], program.outputs[k], binding));
  }
  PERI_TRY(keep_apart(program, views, &inputs));
  // What the run before gave lives until one succeeds: inputs may lie there, and outputs that are passed again say so.
  s->last.over = true;
  s->last.left.clear();
  auto made = s->session->run(inputs, views);
  if (s->log.function)
    for (const std::string& note : exec::take_packed_notes()) PERI_TRY(s->log.tell(PERI_LOG_WARNING, note));
  if (!made.ok()) return std::move(made).error();
  PERI_TRY(check_file(*s));
  peri_last_run now;
  now.outputs = std::move(made).value();
  now.strings.resize(out.size());
  std::vector<peri_tensor> told;
  for (size_t k = 0; k < out.size(); ++k) {
    now.lent.push_back(!asked[k].data);
    told.push_back(given(now.outputs[k], &now.strings[k], asked[k]));
  }
  s->last = std::move(now);  // its vectors move, what they hold stays in place
  for (size_t k = 0; k < out.size(); ++k) out.set(k, told[k]);
  return note_untuned(s, program, binding);
}

}  // namespace peri::api

extern "C" {

peri_error* peri_session_create(const peri_engine* engine, int threads, peri_session** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine || !out) return peri::usage("peri_session_create needs an engine and a place for the session");
    if (threads != 0) PERI_TRY(peri::build::threads_of(threads));
    auto made = std::make_unique<peri_session>();
    PERI_ASSIGN(made->session, peri::runtime::Session::create(engine->engine, threads));
    made->session->stop_when([&work = made->work] { return work.load() == peri::api::Work::kCancelledCall; });
    made->engine = engine->engine;
    made->log = engine->log;
    made->told = engine->told;
    made->path = engine->path;
    made->file = engine->file;
    *out = made.release();
    return peri::Ok{};
  });
}

void peri_session_cancel(peri_session* session) {
  peri::api::Work call = peri::api::Work::kCall;
  if (session) session->work.compare_exchange_strong(call, peri::api::Work::kCancelledCall);
}

void peri_session_free(peri_session* session) { std::unique_ptr<peri_session>{session}.reset(); }

peri_error* peri_session_run(peri_session* session, const peri_tensor* in, size_t in_count, peri_tensor* out,
                             size_t out_count, void* stream) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session) return peri::usage("peri_session_run needs a session");
    return peri::api::alone(session, [&]() -> peri::Status {
      PERI_TRY(peri::api::check_call(session->engine->program(), in_count, out_count));
      PERI_ASSIGN(const auto inputs, peri::api::TensorArray::of(in, in_count));
      PERI_ASSIGN(const auto outputs, peri::api::TensorArray::of(out, out_count));
      return peri::api::run_session(session, inputs, outputs, stream);
    });
  });
}

}  // extern "C"
