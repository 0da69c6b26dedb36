// Arguments and results of the C++ interface besides engines and sessions: memory, ports, and the options of a build, a
// load, a verification and a bench.
#pragma once

#include <peri/peri.h>
#include <peri/result.hpp>

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
// The names point into `dims`.
inline std::vector<peri_dim> raw_dims(const std::vector<std::pair<std::string, int64_t>>& dims) {
  std::vector<peri_dim> out;
  for (const auto& [name, value] : dims) out.push_back({name.c_str(), value});
  return out;
}

// A progress callback whose `user` is options with a member `progress`.
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
  else if constexpr (std::is_same_v<T, peri_string>)
    return PERI_STRING;
  else
    return PERI_DTYPE_INVALID;
}
}  // namespace detail

// Dense, row-major memory, not owned.
struct View {
  peri_dtype dtype = PERI_DTYPE_INVALID;
  std::vector<int64_t> dims;
  void* data = nullptr;
  size_t bytes = 0;
  peri_device device = PERI_DEVICE_HOST;
  int32_t device_index = 0;

  // Memory of the caller as an input or an output. As an output, `dims` may be left out.
  template <class T, size_t N>
  static View of(std::span<T, N> values, std::vector<int64_t> dims = {}) {
    using Element = std::remove_const_t<T>;
    static_assert(detail::dtype_of<Element>() != PERI_DTYPE_INVALID, "no dtype for this type: fill a View by hand");
    return {detail::dtype_of<Element>(), std::move(dims),  const_cast<Element*>(values.data()),
            values.size_bytes(),         PERI_DEVICE_HOST, 0};
  }
  // Memory of another array library, which must stay valid during the run. <peri/dlpack.h> defines the struct.
  static Result<View> from_dlpack(const DLManagedTensor& tensor) {
    return detail::guarded([&]() -> Result<View> {
      peri_tensor t = {};
      t.struct_size = sizeof(t);
      if (peri_error* e = peri_tensor_from_dlpack(&tensor, &t)) return detail::take(e);
      return View{t.dtype, {t.dims, t.dims + t.rank}, t.data, t.bytes, t.device, t.device_index};
    });
  }
  // The elements; empty if they are of another type or in device memory.
  template <class T>
  std::span<const T> as() const {
    if (dtype != detail::dtype_of<T>() || device != PERI_DEVICE_HOST) return {};
    return {static_cast<const T*>(data), bytes / sizeof(T)};
  }
};

// Texts as the elements of a tensor, for View::of(); valid as long as `texts` are unchanged.
inline std::vector<peri_string> strings_of(std::span<const std::string> texts) {
  std::vector<peri_string> out;
  for (const std::string& text : texts) out.push_back({text.data(), text.size()});
  return out;
}
// A copy of the texts of an input or output; empty if its elements are of another type.
inline std::vector<std::string> texts_of(const View& strings) {
  std::vector<std::string> out;
  for (const peri_string& s : strings.as<peri_string>()) out.emplace_back(s.data ? s.data : "", s.bytes);
  return out;
}

namespace detail {
// The dims and memory belong to the views.
inline peri_tensor raw_of(const View& v) {
  return {sizeof(peri_tensor), v.dtype, v.device, v.dims.data(), v.dims.size(), v.data, v.bytes, v.device_index};
}
inline std::vector<peri_tensor> raw_tensors(std::span<const View> views) {
  std::vector<peri_tensor> out;
  for (const View& v : views) out.push_back(raw_of(v));
  return out;
}
}  // namespace detail

// An input or output of an engine. A size that is not fixed is -1 in `dims`, and an expression in dim_texts: "batch".
struct Port {
  std::string name;
  peri_dtype dtype = PERI_DTYPE_INVALID;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_texts;
};

// Hooks of an engine, as in peri.h. What they point to must outlive the engine, its sessions and their outputs.
struct Hooks {
  const peri_allocator* allocator = nullptr;
  peri_log_function log = nullptr;
  void* log_user = nullptr;
};

// Values of dimensions, by name, INPUT.AXIS, "batch" or "sequence".
using Dims = std::vector<std::pair<std::string, int64_t>>;

struct BuildOptions {
  int threads = 0;                // 0: the CPUs available to this process
  Dims dims, min_dims, max_dims;  // the shape to tune for; limits of the shapes that run (default: none)
  std::string provider;           // "peri", "onednn", "reference"; empty: all
  bool tune = true;               // false: choose each kernel's first offer, measure nothing
  bool verify = true;             // false: compare nothing with the reference; the proof says so
  bool cache = true;              // false: neither read nor write the timing cache
  std::string cache_folder;       // of the timing cache; empty: the environment's
  std::string backend, dtype;     // as --backend and --dtype; empty: the default
  std::vector<std::string> disabled_passes;
  std::string engine_path, lock_path, locked_path, dump_folder;  // as in peri_build_options; empty: none
  bool proof = false;                                            // make the proof also if no engine is written
  std::function<void(size_t done, size_t total, const char* what)> progress;
  std::function<bool()> stop;  // true ends the build with the best engine so far
  Hooks hooks;
  std::string device;    // as in LoadOptions
  std::string io_dtype;  // as --io-dtype; empty: the model's
  double budget = 0;     // tuning time in seconds, from 0.001; 0: no limit
  int settings = 0;      // how many settings of a kernel's tunables to try besides its defaults
  bool retune = false;   // try all candidates again and update the timing cache
  bool worker = true;    // false: judge candidates in this process
  bool force = false;    // overwrite files of another kind at engine_path and lock_path
  std::vector<std::pair<std::string, std::string>> fixed;  // inputs to replace by constants: name and value
  int64_t max_iterations = 0;                              // as in LoadOptions, and kept in the engine
  bool strict_placement = false;                           // refuse a model if steps would have to run on the host
};

namespace detail {
// BuildOptions in the form of the C interface; the options must outlive it.
struct RawBuild {
  std::vector<peri_dim> dims, low, high;
  std::vector<peri_fixed> fixed;
  std::vector<const char*> passes;
  peri_build_options o = {};

  explicit RawBuild(const BuildOptions& options)
      : dims(raw_dims(options.dims)), low(raw_dims(options.min_dims)), high(raw_dims(options.max_dims)) {
    for (const std::string& name : options.disabled_passes) passes.push_back(name.c_str());
    o.struct_size = sizeof(o);
    o.dims = dims.data();
    o.dim_count = dims.size();
    o.min_dims = low.data();
    o.min_dim_count = low.size();
    o.max_dims = high.data();
    o.max_dim_count = high.size();
    o.disabled_passes = passes.data();
    o.disabled_pass_count = passes.size();
    for (const auto& [name, value] : options.fixed) fixed.push_back({name.c_str(), value.c_str()});
    o.fixed = fixed.data();
    o.fixed_count = fixed.size();
    take_words(options);
    take_numbers(options);
    o.user = const_cast<BuildOptions*>(&options);
    if (options.progress) o.progress = tell<BuildOptions>;
    if (options.stop) o.stop = [](void* user) { return static_cast<int>(static_cast<BuildOptions*>(user)->stop()); };
    o.allocator = options.hooks.allocator;
    o.log = options.hooks.log;
    o.log_user = options.hooks.log_user;
  }
  RawBuild(const RawBuild&) = delete;
  RawBuild& operator=(const RawBuild&) = delete;

 private:
  void take_words(const BuildOptions& options) {
    const auto text = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
    o.provider = text(options.provider);
    o.backend = text(options.backend);
    o.dtype = text(options.dtype);
    o.io_dtype = text(options.io_dtype);
    o.device = text(options.device);
    o.cache_folder = text(options.cache_folder);
    o.engine_path = text(options.engine_path);
    o.lock_path = text(options.lock_path);
    o.locked_path = text(options.locked_path);
    o.dump_folder = text(options.dump_folder);
  }
  void take_numbers(const BuildOptions& options) {
    o.threads = options.threads;
    o.no_tune = !options.tune;
    o.no_verify = !options.verify;
    o.no_cache = !options.cache;
    o.proof = options.proof;
    o.settings = options.settings;
    o.budget = options.budget;
    o.retune = options.retune;
    o.no_worker = !options.worker;
    o.force = options.force;
    o.max_iterations = options.max_iterations;
    o.strict_placement = options.strict_placement;
  }
};
}  // namespace detail

struct LoadOptions {
  int threads = 0;             // 0: the CPUs available to this process
  bool check_weights = false;  // verify the hash of every weight at load
  Hooks hooks;
  std::string device;          // the device to run on, e.g. "cuda:1"; empty: the first
  int64_t max_iterations = 0;  // limit for one loop in one run; 0: the one it was built with, else 2147483648
};

struct VerifyOptions {
  int threads = 0;
  std::vector<uint64_t> seeds;  // of the inputs, one run each; empty: 1 and 2
  Dims dims;                    // the shape of the runs; other dimensions have their tuned sizes
  double max_error = 0;         // as a share of an output's range; 0: 1e-4; DBL_TRUE_MIN: none
  bool bisect = false;          // also judge every step of the last run
  bool steps_only = false;      // judge every step of a run and no output, where the whole in float64 would take hours
  std::string peer_model;       // as in peri_verify_options; empty: the float64 reference
  std::function<void(size_t done, size_t total, const char* what)> progress;
  bool nan_equal = false;      // NaN where NaN is expected is agreement; false: it proves nothing, and fails
  std::function<bool()> stop;  // true ends the call with PERI_ERROR_CANCELLED
  double min_cosine = 0, max_change = 0, rtol = 0, atol = 0;  // as in peri_verify_options
  std::vector<View> inputs;                                   // one run on these; empty: seeded inputs
};

// The result of a verification: whether everything is within the budget, the first that is not, and a JSON object.
struct Report {
  bool passed = false;
  std::string outside, json;
};

struct BenchOptions {
  int threads = 0, processes = 0;  // as in peri_bench_options
  double seconds = 3;              // of sampling, in each process
  int64_t max_runs = 0;            // in each process; 0: 100000
  Dims dims;                       // the shape of the runs; other dimensions have their tuned sizes
  bool layers = false;             // also measure the time of every step
  std::function<void(size_t done, size_t total, const char* what)> progress;
  std::function<bool()> stop;         // true ends it with the samples so far
  double warm_up = 0, tolerance = 0;  // as in peri_bench_options
  std::vector<View> inputs;           // run on these, in this process; empty: seeded inputs
};

}  // namespace v1
}  // namespace peri
