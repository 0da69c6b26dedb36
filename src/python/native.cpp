// The native part of the Python package peri: engines and sessions of the C++ interface, which run without the
// interpreter's lock. The Python files define the public interface.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/convert.hpp"
#include "python/interrupt.hpp"
#include "python/lock.hpp"

namespace peri::python {
namespace {

// An engine and its log function, which must live as long.
struct LoggedEngine {
  std::unique_ptr<Log> log;
  Engine engine;
};

using Outcome = std::tuple<bool, nb::object, nb::object>;  // passed, description of failures, JSON

// A path in the operating system's encoding: bytes, not necessarily UTF-8.
std::string path_of(nb::handle given) {
  const auto bytes = nb::cast<nb::bytes>(given);
  return {bytes.c_str(), bytes.size()};
}

void take_path(const nb::dict& given, const char* name, std::string* out) {
  if (given.contains(name)) *out = path_of(given[name]);
}

template <class T>
void take_option(const nb::dict& given, const char* name, T* out) {
  if (!given.contains(name)) return;
  try {
    *out = nb::cast<T>(given[name]);
  } catch (const std::bad_cast&) {
    nb::raise_type_error("'%s' is of another type, or beyond its range", name);
  }
}

BuildOptions build_options(const nb::dict& given, Callbacks* calls) {
  BuildOptions o;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::string*>>{{"cache_folder", &o.cache_folder},
                                                                   {"output", &o.engine_path},
                                                                   {"lock", &o.lock_path},
                                                                   {"locked", &o.locked_path},
                                                                   {"dump_folder", &o.dump_folder}})
    take_path(given, name, value);
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::string*>>{{"provider", &o.provider},
                                                                   {"backend", &o.backend},
                                                                   {"dtype", &o.dtype},
                                                                   {"io_dtype", &o.io_dtype},
                                                                   {"device", &o.device}})
    take_option(given, name, value);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, bool*>>{{"tune", &o.tune},
                                                                                        {"verify", &o.verify},
                                                                                        {"cache", &o.cache},
                                                                                        {"retune", &o.retune},
                                                                                        {"worker", &o.worker},
                                                                                        {"force", &o.force}})
    take_option(given, name, value);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, Dims*>>{
           {"dims", &o.dims}, {"min_dims", &o.min_dims}, {"max_dims", &o.max_dims}})
    take_option(given, name, value);
  take_option(given, "disabled_passes", &o.disabled_passes);
  take_option(given, "fixed", &o.fixed);
  take_option(given, "max_iterations", &o.max_iterations);
  take_option(given, "strict_placement", &o.strict_placement);
  take_option(given, "threads", &o.threads);
  take_option(given, "budget", &o.budget);
  take_option(given, "settings", &o.settings);
  o.proof = true;
  o.progress = [calls](size_t done, size_t total, const char* what) { calls->progress(done, total, what); };
  o.stop = [calls] { return calls->stop(); };
  return o;
}

LoggedEngine build(const nb::bytes& path, const nb::dict& given, nb::object progress, nb::object stop, nb::object log) {
  Callbacks calls(std::move(progress), std::move(stop));
  auto kept = std::make_unique<Log>(Log{std::move(log)});
  BuildOptions options = build_options(given, &calls);
  options.hooks = kept->hooks();
  const std::string model = path_of(path);
  Result<Engine> made = unlocked([&] { return Engine::build(model, options); });
  calls.check();
  return {std::move(kept), take(std::move(made))};
}

LoggedEngine load(const nb::bytes& path, int threads, const std::string& device, bool check, int64_t max_iterations,
                  nb::object log) {
  auto kept = std::make_unique<Log>(Log{std::move(log)});
  LoadOptions options;
  options.threads = threads;
  options.device = device;
  options.check_weights = check;
  options.max_iterations = max_iterations;
  options.hooks = kept->hooks();
  const std::string file = path_of(path);
  Result<Engine> made = unlocked([&] { return Engine::load(file, options); });
  return {std::move(kept), take(std::move(made))};
}

nb::object inspect(const nb::bytes& path, const nb::dict& given) {
  const std::string model = path_of(path);
  Callbacks calls(nb::none(), nb::none());
  const BuildOptions options = build_options(given, &calls);
  Result<std::string> made = unlocked([&] { return Engine::inspect(model, options); });
  calls.check();
  return text(take(std::move(made)));
}

// (name, dtype, dims, dimension names) of each port.
nb::list ports(const std::vector<Port>& ports) {
  nb::list out;
  for (const Port& p : ports) out.append(nb::make_tuple(text(p.name), peri_dtype_name(p.dtype), p.dims, p.dim_texts));
  return out;
}

Outcome outcome(Result<Report> made) {
  const Report report = take(std::move(made));
  return {report.passed, text(report.outside), text(report.json)};
}

Outcome verify(const LoggedEngine& e, const nb::dict& given, const nb::list& inputs, nb::object progress,
               nb::object stop) {
  Callbacks calls(std::move(progress), std::move(stop));
  VerifyOptions o;
  take_option(given, "threads", &o.threads);
  take_option(given, "seeds", &o.seeds);
  take_option(given, "dims", &o.dims);
  take_option(given, "bisect", &o.bisect);
  take_option(given, "steps_only", &o.steps_only);
  take_option(given, "nan_equal", &o.nan_equal);
  take_path(given, "against", &o.peer_model);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double*>>{{"max_error", &o.max_error},
                                                                                          {"min_cosine", &o.min_cosine},
                                                                                          {"max_change", &o.max_change},
                                                                                          {"rtol", &o.rtol},
                                                                                          {"atol", &o.atol}})
    take_option(given, name, value);
  const Views views(inputs);
  o.inputs = views.all;
  o.progress = [&calls](size_t done, size_t total, const char* what) { calls.progress(done, total, what); };
  o.stop = [&calls] { return calls.stop(); };
  Result<Report> made = unlocked([&] { return e.engine.verify(o); });
  calls.check();
  return outcome(std::move(made));
}

nb::object bench(const LoggedEngine& e, const nb::dict& given, const nb::list& inputs, nb::object progress,
                 nb::object stop) {
  Callbacks calls(std::move(progress), std::move(stop));
  BenchOptions o;
  take_option(given, "threads", &o.threads);
  take_option(given, "processes", &o.processes);
  take_option(given, "max_runs", &o.max_runs);
  take_option(given, "dims", &o.dims);
  take_option(given, "layers", &o.layers);
  take_option(given, "seconds", &o.seconds);
  take_option(given, "warm_up", &o.warm_up);
  take_option(given, "tolerance", &o.tolerance);
  const Views views(inputs);
  o.inputs = views.all;
  o.progress = [&calls](size_t done, size_t total, const char* what) { calls.progress(done, total, what); };
  o.stop = [&calls] { return calls.stop(); };
  Result<std::string> made = unlocked([&] { return e.engine.bench(o); });
  calls.check();
  return text(take(std::move(made)));
}

nb::object explain(const LoggedEngine& e, bool compare) {
  Result<std::string> made = unlocked([&] { return e.engine.explain(compare); });
  return text(take(std::move(made)));
}

nb::object measure_steps(const LoggedEngine& e, const Dims& dims) {
  Result<std::string> made = unlocked([&] { return e.engine.measure_steps(dims); });
  return text(take(std::move(made)));
}

// For the outputs for which `outputs` has None: NumPy arrays, or (shape, list of bytes) of texts; None for the others.
// Empty `outputs`: arrays for all.
nb::list run(Session& s, const nb::list& inputs, const nb::list& outputs) {
  const Views in(inputs), out(outputs);
  const Interruptible heard(s);
  Result<std::vector<View>> made = unlocked([&] { return s.run(in.all, out.all); });
  heard.check();
  const std::vector<View> views = take(std::move(made));
  nb::list arrays;
  for (size_t k = 0; k < views.size(); ++k)
    arrays.append(out.all.empty() || !out.all[k].data ? array_of(s, k, views[k]) : nb::object(nb::none()));
  return arrays;
}

// A session may have served another call before, with another prompt.
using Word = std::optional<std::string>;
void set_prompt(Session& s, const Word& text, const Word& name) {
  if (std::optional<Error> wrong = unlocked([&] { return s.set_prompt(text, name); })) take<bool>(std::move(*wrong));
}

nb::list tokenize(Session& s, const std::vector<std::string>& texts, const Word& prompt, const Word& prompt_name) {
  set_prompt(s, prompt, prompt_name);
  nb::list arrays;
  for (const View& v : take(unlocked([&] { return s.inputs_of(texts); }))) arrays.append(copy_of(v));
  return arrays;
}

nb::object embed(Session& s, const std::vector<std::string>& texts, const Word& prompt, const Word& prompt_name) {
  set_prompt(s, prompt, prompt_name);
  const Interruptible heard(s);
  Result<View> made = unlocked([&] { return s.embed(texts); });
  heard.check();
  return copy_of(take(std::move(made)));
}

Session session_of(const LoggedEngine& e, int threads) {
  return take(unlocked([&] { return Session::create(e.engine, threads); }));
}

void add_engines(nb::module_& m) {
  nb::class_<LoggedEngine>(m, "Engine")
      .def("inputs", [](const LoggedEngine& e) { return ports(e.engine.inputs()); })
      .def("outputs", [](const LoggedEngine& e) { return ports(e.engine.outputs()); })
      .def("describe", [](const LoggedEngine& e) { return text(take(unlocked([&] { return e.engine.describe(); }))); })
      .def("proof", [](const LoggedEngine& e) { return text(take(unlocked([&] { return e.engine.proof(); }))); })
      .def("explain", &explain, nb::arg("compare"))
      .def("measure_steps", &measure_steps, nb::arg("dims"))
      .def("verify", &verify, nb::arg("options"), nb::arg("inputs"), nb::arg("progress").none(), nb::arg("stop").none())
      .def("bench", &bench, nb::arg("options"), nb::arg("inputs"), nb::arg("progress").none(), nb::arg("stop").none())
      .def("session", &session_of, nb::arg("threads"), nb::keep_alive<0, 1>());
  m.def("build", &build, nb::arg("model"), nb::arg("options"), nb::arg("progress").none(), nb::arg("stop").none(),
        nb::arg("log"));
  m.def("load", &load, nb::arg("path"), nb::arg("threads"), nb::arg("device"), nb::arg("check"),
        nb::arg("max_iterations"), nb::arg("log"));
  m.def("inspect", &inspect, nb::arg("model"), nb::arg("options"));
  m.def(
      "add_kernel",
      [](const nb::bytes& manifest) {
        // The interpreter's lock serialises concurrent additions.
        if (const std::optional<Error> e = peri::add_kernel(path_of(manifest))) raise(*e);
      },
      nb::arg("manifest"));
  m.def(
      "compare",
      [](const std::string& before, const std::string& after, double limit) {
        return outcome(unlocked([&] { return compare_benches(before, after, limit); }));
      },
      nb::arg("before"), nb::arg("after"), nb::arg("limit"));
}
}  // namespace
}  // namespace peri::python

NB_MODULE(_native, m) {
  // The bindings are global to the process and cannot belong to a subinterpreter.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    nanobind::raise("peri is imported by the main interpreter alone: not by a sub-interpreter");
  nanobind::set_leak_warnings(false);  // an engine alive at the end of a script is not a leak
  peri::python::watch_the_end();
  m.attr("version") = peri_version();
  peri::python::add_engines(m);
  nanobind::class_<peri::Session>(m, "Session")
      .def("run", &peri::python::run, nanobind::arg("inputs"), nanobind::arg("outputs"))
      .def("cancel", &peri::Session::cancel)
      .def("tokenize", &peri::python::tokenize, nanobind::arg("texts"), nanobind::arg("prompt").none(),
           nanobind::arg("prompt_name").none())
      .def("embed", &peri::python::embed, nanobind::arg("texts"), nanobind::arg("prompt").none(),
           nanobind::arg("prompt_name").none());
}
