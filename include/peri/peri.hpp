// Perihelion's C++ interface: header-only over the C interface, C++20, no exceptions of its own.
//
//   auto engine = peri::Engine::load("classifier.engine");
//   if (!engine) return complain(engine.error().text);
//   auto session = peri::Session::create(*engine);
//   auto outputs = session->run({{peri::View::of(std::span(pixels), {1, 3, 224, 224})}});
//
// An Engine is immutable and may be shared by threads; a Session runs one call at a time. Both are movable handles.
#pragma once

#include <peri/peri.h>
#include <peri/result.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace peri {
inline namespace v1 {

namespace detail {
// The names live in `dims`.
inline std::vector<peri_dim> raw_dims(const std::vector<std::pair<std::string, int64_t>>& dims) {
  std::vector<peri_dim> out;
  for (const auto& [name, value] : dims) out.push_back({name.c_str(), value});
  return out;
}

// A progress callback whose user is options with a function of that name.
template <class Options>
void tell(void* user, size_t done, size_t total, const char* what) {
  static_cast<Options*>(user)->progress(done, total, what);
}

template <class T>
constexpr peri_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return PERI_F32;
  else if constexpr (std::is_same_v<T, double>)
    return PERI_F64;
  else if constexpr (std::is_same_v<T, bool>)
    return PERI_BOOL;
  else if constexpr (std::is_same_v<T, int8_t>)
    return PERI_I8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return PERI_I16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return PERI_I32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return PERI_I64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return PERI_U8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return PERI_U16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return PERI_U32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return PERI_U64;
  else
    return PERI_DTYPE_INVALID;
}
}  // namespace detail

// Dense, row-major memory that somebody else owns.
struct View {
  peri_dtype dtype = PERI_DTYPE_INVALID;
  std::vector<int64_t> dims;
  void* data = nullptr;
  size_t bytes = 0;

  // Memory of the caller as an input or an output. As an output, `dims` may be left out.
  template <class T, size_t N>
  static View of(std::span<T, N> values, std::vector<int64_t> dims = {}) {
    using Element = std::remove_const_t<T>;
    static_assert(detail::dtype_of<Element>() != PERI_DTYPE_INVALID, "no dtype for this type: fill a View by hand");
    return {detail::dtype_of<Element>(), std::move(dims), const_cast<Element*>(values.data()), values.size_bytes()};
  }
  // Memory of another array library, which must outlive the run. Include <peri/dlpack.h> for the struct.
  static Result<View> from_dlpack(const DLManagedTensor& tensor) {
    return detail::guarded([&]() -> Result<View> {
      peri_tensor t = {};
      if (peri_error* e = peri_tensor_from_dlpack(&tensor, &t)) return detail::take(e);
      return View{t.dtype, {t.dims, t.dims + t.rank}, t.data, t.bytes};
    });
  }
  // The elements, or nothing if they are of another type.
  template <class T>
  std::span<const T> as() const {
    if (dtype != detail::dtype_of<T>()) return {};
    return {static_cast<const T*>(data), bytes / sizeof(T)};
  }
};

// An input or output of an engine. A size that is not fixed is -1 in `dims`; dim_texts says what it is: "batch".
struct Port {
  std::string name;
  peri_dtype dtype = PERI_DTYPE_INVALID;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_texts;
};

// Hooks of an engine, as in peri.h. What they point to outlives the engine, its sessions and their outputs.
struct Hooks {
  const peri_allocator* allocator = nullptr;
  peri_log_function log = nullptr;
  void* log_user = nullptr;
};

// Values of dimensions: by name, INPUT.AXIS, "batch" or "sequence".
using Dims = std::vector<std::pair<std::string, int64_t>>;

struct BuildOptions {
  int threads = 0;                // 0: the CPUs this process may use
  Dims dims, min_dims, max_dims;  // the shape to tune for (any runs); smallest and largest that every kernel must take
  std::string provider;           // "peri", "onednn", "reference"; empty: all
  bool tune = true;               // false: each kernel's first offer, nothing is measured
  bool verify = true;             // false: nothing is held against the reference, and the proof says so
  bool cache = true;              // false: the timing cache is neither read nor written
  std::string cache_folder;       // of the timing cache; empty: the environment's
  std::string backend, dtype;     // as --backend and --dtype; empty: not given
  std::vector<std::string> disabled_passes;
  std::string engine_path, lock_path, locked_path, dump_folder;  // as in peri_build_options; empty: none
  bool proof = false;                                            // make the proof though no engine is written
  std::function<void(size_t done, size_t total, const char* what)> progress;
  std::function<bool()> stop;  // once true the build ends with the best so far
  Hooks hooks;
};

struct LoadOptions {
  int threads = 0;             // 0: the CPUs this process may use
  bool check_weights = false;  // recompute the hash of every weight first
  Hooks hooks;
};

struct VerifyOptions {
  int threads = 0;
  std::vector<uint64_t> seeds;  // of the inputs, one run each; empty: 1 and 2
  Dims dims;                    // the shape of the runs; what is not named is as it was tuned for
  double max_error = 0;         // as a share of an output's range; 0: 1e-4
  bool bisect = false;          // also judge every step of the last run
  std::string peer_model;       // as in peri_verify_options; empty: the float64 reference
  std::function<void(size_t done, size_t total, const char* what)> progress;
  bool nan_equal = false;  // NaN where NaN is wanted is agreement; else it proves nothing, and fails
};

// What a verification found: whether all lies within the budget, the first that does not in words, and a JSON object.
struct Report {
  bool passed = false;
  std::string outside, json;
};

class Engine {
 public:
  // Maps an engine file. `threads` 0: the CPUs this process may use.
  static Result<Engine> load(const std::string& path, int threads = 0, const Hooks& hooks = {}) {
    return load(path, LoadOptions{threads, false, hooks});
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
      peri_engine* raw = nullptr;
      if (peri_error* e = peri_engine_load(path.c_str(), &o, &raw)) return detail::take(e);
      return Engine(raw);
    });
  }
  // Makes an engine from an ONNX file or a Hugging Face folder. Takes seconds.
  static Result<Engine> build(const std::string& model, const BuildOptions& options = {}) {
    return detail::guarded([&] { return build_model(model, options); });
  }

  // What `peri inspect` says of a model, as a JSON object: whether it runs here, and what it needs.
  static Result<std::string> inspect(const std::string& model) {
    return detail::guarded([&]() -> Result<std::string> {
      peri_report* raw = nullptr;
      if (peri_error* e = peri_model_inspect(model.c_str(), nullptr, &raw)) return detail::take(e);
      const std::unique_ptr<peri_report, void (*)(peri_report*)> report(raw, peri_report_free);
      return std::string(peri_report_json(raw));
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
  // The proof as a JSON object: of the build that made it, or beside the engine's file.
  Result<std::string> proof() const {
    return detail::guarded([&]() -> Result<std::string> {
      const char* text = nullptr;
      if (peri_error* e = peri_engine_proof(handle(), &text)) return detail::take(e);
      return std::string(text);
    });
  }
  // Holds answers on seeded inputs against the float64 reference. An answer outside its budget is no error.
  Result<Report> verify(const VerifyOptions& options = {}) const {
    return detail::guarded([&] { return verify_engine(options); });
  }
  const peri_engine* handle() const { return raw_.get(); }

 private:
  explicit Engine(peri_engine* raw) : raw_(raw, peri_engine_free) {}
  static Result<Engine> build_model(const std::string& model, const BuildOptions& options) {
    const std::vector<peri_dim> dims = detail::raw_dims(options.dims), low = detail::raw_dims(options.min_dims),
                                high = detail::raw_dims(options.max_dims);
    std::vector<const char*> passes;
    for (const std::string& name : options.disabled_passes) passes.push_back(name.c_str());
    const auto text = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
    peri_build_options o = {};
    o.struct_size = sizeof(o);
    o.threads = options.threads;
    o.dims = dims.data();
    o.dim_count = dims.size();
    o.min_dims = low.data();
    o.min_dim_count = low.size();
    o.max_dims = high.data();
    o.max_dim_count = high.size();
    o.provider = text(options.provider);
    o.backend = text(options.backend);
    o.dtype = text(options.dtype);
    o.no_tune = !options.tune;
    o.no_verify = !options.verify;
    o.no_cache = !options.cache;
    o.cache_folder = text(options.cache_folder);
    o.disabled_passes = passes.data();
    o.disabled_pass_count = passes.size();
    o.engine_path = text(options.engine_path);
    o.lock_path = text(options.lock_path);
    o.locked_path = text(options.locked_path);
    o.dump_folder = text(options.dump_folder);
    o.proof = options.proof;
    o.user = const_cast<BuildOptions*>(&options);
    if (options.progress) o.progress = detail::tell<BuildOptions>;
    if (options.stop) o.stop = [](void* user) { return static_cast<int>(static_cast<BuildOptions*>(user)->stop()); };
    o.allocator = options.hooks.allocator;
    o.log = options.hooks.log;
    o.log_user = options.hooks.log_user;
    peri_engine* raw = nullptr;
    if (peri_error* e = peri_engine_build(model.c_str(), &o, &raw)) return detail::take(e);
    return Engine(raw);
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
    o.bisect = options.bisect;
    o.nan_equal = options.nan_equal;
    o.peer_model = options.peer_model.empty() ? nullptr : options.peer_model.c_str();
    o.user = const_cast<VerifyOptions*>(&options);
    if (options.progress) o.progress = detail::tell<VerifyOptions>;
    peri_report* raw = nullptr;
    peri_error* e = peri_engine_verify(handle(), &o, &raw);
    const std::unique_ptr<peri_report, void (*)(peri_report*)> report(raw, peri_report_free);
    if (e && !raw) return detail::take(e);
    return Report{!e, e ? detail::take(e).text : "", peri_report_json(raw)};
  }
  std::unique_ptr<peri_engine, void (*)(peri_engine*)> raw_;
};

class Session {
 public:
  // `threads` 0: as the engine was loaded for. The engine may go before its sessions.
  static Result<Session> create(const Engine& engine, int threads = 0) {
    peri_session* raw = nullptr;
    return detail::guarded([&]() -> Result<Session> {
      if (peri_error* e = peri_session_create(engine.handle(), threads, &raw)) return detail::take(e);
      return Session(raw, peri_engine_input_count(engine.handle()), peri_engine_output_count(engine.handle()));
    });
  }

  // Runs the inputs, in the engine's order. The views returned live until the next run or the session's end. `outputs`,
  // if not empty, one for each: memory of the caller to write to, or a View{} for memory of the session.
  Result<std::vector<View>> run(std::span<const View> inputs, std::span<const View> outputs = {}) {
    return detail::guarded([&]() -> Result<std::vector<View>> {
      std::vector<peri_tensor> in, out;
      for (const View& v : inputs) in.push_back(raw_of(v));
      for (const View& v : outputs) out.push_back(raw_of(v));
      if (outputs.empty()) out.assign(output_count_, raw_of({}));
      if (peri_error* e = peri_session_run(raw_.get(), in.data(), in.size(), out.data(), out.size(), nullptr))
        return detail::take(e);
      std::vector<View> made;
      for (const peri_tensor& t : out) made.push_back({t.dtype, {t.dims, t.dims + t.rank}, t.data, t.bytes});
      return made;
    });
  }
  Result<std::vector<View>> run(std::initializer_list<View> inputs) {
    return run(std::span<const View>(inputs.begin(), inputs.size()));
  }

  // Inputs of a text model, made of texts by its own tokenizer; they live until the next call or the session's end.
  Result<std::vector<View>> inputs_of(std::span<const std::string> texts) {
    return detail::guarded([&]() -> Result<std::vector<View>> {
      std::vector<const char*> raw;
      for (const std::string& text : texts) raw.push_back(text.c_str());
      std::vector<peri_tensor> in(input_count_, raw_of({}));
      if (peri_error* e = peri_session_texts(raw_.get(), raw.data(), raw.size(), in.data(), in.size()))
        return detail::take(e);
      std::vector<View> made;
      for (const peri_tensor& t : in) made.push_back({t.dtype, {t.dims, t.dims + t.rank}, t.data, t.bytes});
      return made;
    });
  }

  // Output `index` of the last run, sharing its memory; the caller calls its deleter.
  Result<DLManagedTensor*> output_to_dlpack(size_t index) const {
    DLManagedTensor* made = nullptr;
    if (peri_error* e = peri_session_output_to_dlpack(raw_.get(), index, &made)) return detail::take(e);
    return made;
  }

 private:
  Session(peri_session* raw, size_t inputs, size_t outputs)
      : raw_(raw, peri_session_free), input_count_(inputs), output_count_(outputs) {}
  static peri_tensor raw_of(const View& v) {
    return {sizeof(peri_tensor), v.dtype, PERI_DEVICE_HOST, v.dims.data(), v.dims.size(), v.data, v.bytes};
  }
  std::unique_ptr<peri_session, void (*)(peri_session*)> raw_;
  size_t input_count_, output_count_;
};

}  // namespace v1
}  // namespace peri
