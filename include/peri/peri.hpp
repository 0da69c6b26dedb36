// Perihelion's C++ interface: header-only over the C interface, C++20, no exceptions of its own.
//
//   auto engine = peri::Engine::load("classifier.engine");
//   if (!engine) return complain(engine.error().text);
//   auto session = peri::Session::create(*engine);
//   auto outputs = session->run({{peri::View::of(std::span(pixels), {1, 3, 224, 224})}});
//
// An Engine is immutable and can be shared by threads; a Session runs one call at a time. Both are movable handles.
#pragma once

#include <peri/options.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace peri {
inline namespace v1 {

namespace detail {
// The JSON object of a report that `call` makes.
template <class F>
Result<std::string> json_of(F call) {
  peri_report* raw = nullptr;
  if (peri_error* e = call(&raw)) return take(e);
  const std::unique_ptr<peri_report, void (*)(peri_report*)> report(raw, peri_report_free);
  return std::string(peri_report_json(raw));
}
}  // namespace detail

class Engine {
 public:
  // Maps an engine file. `threads` 0: the CPUs available to this process.
  static Result<Engine> load(const std::string& path, int threads = 0, const Hooks& hooks = {}) {
    LoadOptions options;
    options.threads = threads;
    options.hooks = hooks;
    return load(path, options);
  }
  static Result<Engine> load(const std::string& path, const LoadOptions& options) {
    return detail::guarded([&]() -> Result<Engine> {
      peri_engine_options o = {};
      o.struct_size = sizeof(o);
      o.threads = options.threads;
      o.allocator = options.hooks.allocator;
      o.log = options.hooks.log;
      o.log_user = options.hooks.log_user;
      o.check_weights = options.check_weights;
      o.device = options.device.empty() ? nullptr : options.device.c_str();
      o.max_iterations = options.max_iterations;
      peri_engine* raw = nullptr;
      if (peri_error* e = peri_engine_load(path.c_str(), &o, &raw)) return detail::take(e);
      return Engine(raw);
    });
  }
  // Makes an engine from an ONNX file or a Hugging Face folder. Takes seconds.
  static Result<Engine> build(const std::string& model, const BuildOptions& options = {}) {
    return detail::guarded([&] { return build_model(model, options); });
  }

  // The result of `peri inspect MODEL` as a JSON object: whether a model runs here, and what it needs.
  static Result<std::string> inspect(const std::string& model, const BuildOptions& options = {}) {
    return detail::guarded([&] {
      const detail::RawBuild raw(options);
      return detail::json_of([&](peri_report** out) { return peri_model_inspect(model.c_str(), &raw.o, out); });
    });
  }

  std::vector<Port> inputs() const {
    std::vector<Port> out(peri_engine_input_count(handle()));
    for (size_t k = 0; k < out.size(); ++k) {
      out[k].name = peri_engine_input_name(handle(), k);
      out[k].dtype = peri_engine_input_dtype(handle(), k);
      for (size_t axis = 0; axis < peri_engine_input_rank(handle(), k); ++axis) {
        out[k].dims.push_back(peri_engine_input_dim(handle(), k, axis));
        out[k].dim_texts.emplace_back(peri_engine_input_dim_text(handle(), k, axis));
      }
    }
    return out;
  }
  std::vector<Port> outputs() const {
    std::vector<Port> out(peri_engine_output_count(handle()));
    for (size_t k = 0; k < out.size(); ++k) {
      out[k].name = peri_engine_output_name(handle(), k);
      out[k].dtype = peri_engine_output_dtype(handle(), k);
      for (size_t axis = 0; axis < peri_engine_output_rank(handle(), k); ++axis) {
        out[k].dims.push_back(peri_engine_output_dim(handle(), k, axis));
        out[k].dim_texts.emplace_back(peri_engine_output_dim_text(handle(), k, axis));
      }
    }
    return out;
  }
  // The proof as a JSON object: that of the build, or the one beside the engine's file.
  Result<std::string> proof() const {
    return detail::guarded([&]() -> Result<std::string> {
      const char* text = nullptr;
      if (peri_error* e = peri_engine_proof(handle(), &text)) return detail::take(e);
      return std::string(text);
    });
  }
  // A description of the engine, and the time of each step by its proof, as JSON objects. `compare`: also accept the
  // proof of another machine.
  Result<std::string> describe() const {
    return detail::guarded(
        [&] { return detail::json_of([&](peri_report** out) { return peri_engine_describe(handle(), out); }); });
  }
  Result<std::string> explain(bool compare = false) const {
    return detail::guarded([&] {
      peri_explain_options o = {};
      o.struct_size = sizeof(o);
      o.compare = compare;
      return detail::json_of([&](peri_report** out) { return peri_engine_explain(handle(), &o, out); });
    });
  }
  // The time of each step of an engine on a device within its runs, measured now, in about 2 seconds, at these sizes;
  // others are the tuned ones. Returns the JSON object of `peri explain --measured`. kRefused without such a step.
  Result<std::string> measure_steps(const Dims& dims = {}) const {
    return detail::guarded([&] {
      const std::vector<peri_dim> sizes = detail::raw_dims(dims);
      peri_explain_options o = {};
      o.struct_size = sizeof(o);
      o.measured = 1;
      o.dims = sizes.data();
      o.dim_count = sizes.size();
      return detail::json_of([&](peri_report** out) { return peri_engine_explain(handle(), &o, out); });
    });
  }
  // Compares outputs on seeded inputs with the float64 reference. An output outside its budget is not an error.
  Result<Report> verify(const VerifyOptions& options = {}) const {
    return detail::guarded([&] { return verify_engine(options); });
  }
  // Times runs on seeded inputs. Returns the JSON object of `peri bench`.
  Result<std::string> bench(const BenchOptions& options = {}) const {
    return detail::guarded([&] { return bench_engine(options); });
  }
  const peri_engine* handle() const { return raw_.get(); }

 private:
  explicit Engine(peri_engine* raw) : raw_(raw, peri_engine_free) {}
  static Result<Engine> build_model(const std::string& model, const BuildOptions& options) {
    const detail::RawBuild raw(options);
    peri_engine* made = nullptr;
    if (peri_error* e = peri_engine_build(model.c_str(), &raw.o, &made)) return detail::take(e);
    return Engine(made);
  }
  Result<Report> verify_engine(const VerifyOptions& options) const {
    const std::vector<peri_dim> dims = detail::raw_dims(options.dims);
    peri_verify_options o = {};
    o.struct_size = sizeof(o);
    o.threads = options.threads;
    o.seeds = options.seeds.data();
    o.seed_count = options.seeds.size();
    o.dims = dims.data();
    o.dim_count = dims.size();
    o.max_error = options.max_error;
    o.bisect = options.steps_only ? 2 : options.bisect;
    o.nan_equal = options.nan_equal;
    o.peer_model = options.peer_model.empty() ? nullptr : options.peer_model.c_str();
    o.user = const_cast<VerifyOptions*>(&options);
    if (options.progress) o.progress = detail::tell<VerifyOptions>;
    if (options.stop) o.stop = [](void* user) { return static_cast<int>(static_cast<VerifyOptions*>(user)->stop()); };
    o.min_cosine = options.min_cosine;
    o.max_change = options.max_change;
    o.rtol = options.rtol;
    o.atol = options.atol;
    const std::vector<peri_tensor> in = detail::raw_tensors(options.inputs);
    o.in = in.empty() ? nullptr : in.data();
    o.in_count = in.size();
    peri_report* raw = nullptr;
    peri_error* e = peri_engine_verify(handle(), &o, &raw);
    const std::unique_ptr<peri_report, void (*)(peri_report*)> report(raw, peri_report_free);
    if (e && !raw) return detail::take(e);
    return Report{!e, e ? detail::take(e).text : "", peri_report_json(raw)};
  }
  Result<std::string> bench_engine(const BenchOptions& options) const {
    const std::vector<peri_dim> dims = detail::raw_dims(options.dims);
    peri_bench_options o = {};
    o.struct_size = sizeof(o);
    o.threads = options.threads;
    o.seconds = options.seconds;
    o.max_runs = options.max_runs;
    o.dims = dims.data();
    o.dim_count = dims.size();
    o.layers = options.layers;
    o.processes = options.processes;
    o.user = const_cast<BenchOptions*>(&options);
    if (options.progress) o.progress = detail::tell<BenchOptions>;
    if (options.stop) o.stop = [](void* user) { return static_cast<int>(static_cast<BenchOptions*>(user)->stop()); };
    o.warm_up = options.warm_up;
    o.tolerance = options.tolerance;
    const std::vector<peri_tensor> in = detail::raw_tensors(options.inputs);
    o.in = in.empty() ? nullptr : in.data();
    o.in_count = in.size();
    return detail::json_of([&](peri_report** out) { return peri_engine_bench(handle(), &o, out); });
  }
  std::unique_ptr<peri_engine, void (*)(peri_engine*)> raw_;
};

// Adds a kernel from outside by its manifest, for everything this process builds, loads and runs afterwards. Must not
// be called while any thread builds, loads or runs an engine. Returns nothing on success.
inline std::optional<Error> add_kernel(const std::string& manifest) {
  return detail::guarded([&]() -> std::optional<Error> {
    if (peri_error* e = peri_kernel_add(manifest.c_str())) return detail::take(e);
    return std::nullopt;
  });
}

// `peri compare` of two objects of `peri bench`: not passed if the second regressed, or with too few processes.
inline Result<Report> compare_benches(const std::string& before, const std::string& after, double limit = 1.03) {
  return detail::guarded([&]() -> Result<Report> {
    peri_report* raw = nullptr;
    peri_error* e = peri_bench_compare(before.c_str(), after.c_str(), limit, &raw);
    const std::unique_ptr<peri_report, void (*)(peri_report*)> report(raw, peri_report_free);
    if (e && !raw) return detail::take(e);
    return Report{!e, e ? detail::take(e).text : "", peri_report_json(raw)};
  });
}

class Session {
 public:
  // `threads` 0: as in the engine's options. The engine may be destroyed before its sessions.
  static Result<Session> create(const Engine& engine, int threads = 0) {
    peri_session* raw = nullptr;
    return detail::guarded([&]() -> Result<Session> {
      if (peri_error* e = peri_session_create(engine.handle(), threads, &raw)) return detail::take(e);
      return Session(raw, peri_engine_input_count(engine.handle()), peri_engine_output_count(engine.handle()));
    });
  }

  // Runs the inputs, in the engine's order. The returned views are valid until the next run or the end of the session.
  // `outputs`, if not empty, has one for each output: memory of the caller to write to, or a View{} for memory of the
  // session (on the device that View::device names); a view that the last run returned counts as such. `stream`: see
  // peri_session_run(); wait() then returns the errors.
  Result<std::vector<View>> run(std::span<const View> inputs, std::span<const View> outputs = {},
                                void* stream = nullptr) {
    return detail::guarded([&]() -> Result<std::vector<View>> {
      const std::vector<peri_tensor> in = detail::raw_tensors(inputs);
      std::vector<peri_tensor> out = detail::raw_tensors(outputs);
      if (outputs.empty()) out.assign(output_count_, detail::raw_of({}));
      if (peri_error* e = peri_session_run(raw_.get(), in.data(), in.size(), out.data(), out.size(), stream))
        return detail::take(e);
      std::vector<View> made;
      for (const peri_tensor& t : out) made.push_back(view_of(t));
      return made;
    });
  }
  Result<std::vector<View>> run(std::initializer_list<View> inputs) {
    return run(std::span<const View>(inputs.begin(), inputs.size()));
  }

  // The device that holds all inputs and outputs, and its index among its kind; PERI_DEVICE_HOST: none.
  std::pair<peri_device, int32_t> device() const {
    int32_t index = 0;
    return {peri_session_device(raw_.get(), &index), index};
  }
  // Prepares runs of inputs of these types and dims. Returns nothing on success.
  std::optional<Error> prepare(std::span<const View> inputs) {
    return detail::guarded([&]() -> std::optional<Error> {
      const std::vector<peri_tensor> in = detail::raw_tensors(inputs);
      if (peri_error* e = peri_session_prepare(raw_.get(), in.data(), in.size())) return detail::take(e);
      return std::nullopt;
    });
  }
  Result<View> input_memory(size_t index) { return port_memory(peri_session_input_memory, index); }
  Result<View> output_memory(size_t index) { return port_memory(peri_session_output_memory, index); }
  // Ends a run in another thread with PERI_ERROR_CANCELLED.
  void cancel() { peri_session_cancel(raw_.get()); }
  // Waits for runs that were given a stream. Returns the first of their errors, if any.
  std::optional<Error> wait() {
    return detail::guarded([&]() -> std::optional<Error> {
      if (peri_error* e = peri_session_wait(raw_.get())) return detail::take(e);
      return std::nullopt;
    });
  }

  // Inputs of a text model, made from texts by its tokenizer; valid until the next call or the end of the session.
  Result<std::vector<View>> inputs_of(std::span<const std::string> texts) {
    return detail::guarded([&]() -> Result<std::vector<View>> {
      const std::vector<peri_string> raw = strings_of(texts);
      std::vector<peri_tensor> in(input_count_, detail::raw_of({}));
      if (peri_error* e = peri_session_texts_of(raw_.get(), raw.data(), raw.size(), in.data(), in.size()))
        return detail::take(e);
      std::vector<View> made;
      for (const peri_tensor& t : in) made.push_back(view_of(t));
      return made;
    });
  }

  // The output of a text model for texts, one row each, in memory of the session until the next run, or in `out`.
  Result<View> embed(std::span<const std::string> texts, const View& out = {}) {
    return detail::guarded([&]() -> Result<View> {
      const std::vector<peri_string> raw = strings_of(texts);
      peri_tensor t = detail::raw_of(out);
      if (peri_error* e = peri_session_embed_of(raw_.get(), raw.data(), raw.size(), &t)) return detail::take(e);
      return view_of(t);
    });
  }

  // What stands before each text of later calls: a text ("": nothing), or the model's prompt of a name; neither: the
  // model's default prompt. Returns nothing on success.
  std::optional<Error> set_prompt(const std::optional<std::string>& text, const std::optional<std::string>& name = {}) {
    return detail::guarded([&]() -> std::optional<Error> {
      const peri_string raw = text ? peri_string{text->data(), text->size()} : peri_string{};
      if (peri_error* e = peri_session_set_prompt(raw_.get(), text ? &raw : nullptr, name ? name->c_str() : nullptr))
        return detail::take(e);
      return std::nullopt;
    });
  }

  // Output `index` of the last run, sharing its memory; the caller must call its deleter.
  Result<DLManagedTensor*> output_to_dlpack(size_t index) const {
    DLManagedTensor* made = nullptr;
    if (peri_error* e = peri_session_output_to_dlpack(raw_.get(), index, &made)) return detail::take(e);
    return made;
  }

 private:
  Session(peri_session* raw, size_t inputs, size_t outputs)
      : raw_(raw, peri_session_free), input_count_(inputs), output_count_(outputs) {}
  static View view_of(const peri_tensor& t) {
    return {t.dtype, {t.dims, t.dims + t.rank}, t.data, t.bytes, t.device, t.device_index};
  }
  Result<View> port_memory(peri_error* (*of)(peri_session*, size_t, peri_tensor*), size_t index) {
    return detail::guarded([&]() -> Result<View> {
      peri_tensor t = detail::raw_of({});
      if (peri_error* e = of(raw_.get(), index, &t)) return detail::take(e);
      return view_of(t);
    });
  }
  std::unique_ptr<peri_session, void (*)(peri_session*)> raw_;
  size_t input_count_, output_count_;
};

}  // namespace v1
}  // namespace peri
