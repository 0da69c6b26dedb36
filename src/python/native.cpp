// The native half of the Python package peri: engines and sessions of the C++ interface, which run without the
// interpreter's lock. The package's own files say what users see.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/convert.hpp"

namespace peri::python {
namespace {

// An engine and the log that it may tell as long as it lives.
struct LoggedEngine {
  std::unique_ptr<Log> log;
  Engine engine;
};

using Outcome = std::tuple<bool, nb::object, nb::object>;  // passed, what is outside, JSON

template <class T>
void take_option(const nb::dict& given, const char* name, T* out) {
  if (given.contains(name)) *out = nb::cast<T>(given[name]);
}

BuildOptions build_options(const nb::dict& given, Callbacks* calls) {
  BuildOptions o;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::string*>>{{"provider", &o.provider},
                                                                   {"cache_folder", &o.cache_folder},
                                                                   {"backend", &o.backend},
                                                                   {"dtype", &o.dtype},
                                                                   {"io_dtype", &o.io_dtype},
                                                                   {"device", &o.device},
                                                                   {"output", &o.engine_path},
                                                                   {"lock", &o.lock_path},
                                                                   {"locked", &o.locked_path},
                                                                   {"dump_folder", &o.dump_folder}})
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
  take_option(given, "threads", &o.threads);
  take_option(given, "budget", &o.budget);
  take_option(given, "settings", &o.settings);
  o.proof = true;
  o.progress = [calls](size_t done, size_t total, const char* what) { calls->progress(done, total, what); };
  o.stop = [calls] { return calls->stop(); };
  return o;
}

LoggedEngine build(const std::string& model, const nb::dict& given, nb::object progress, nb::object stop,
                   nb::object log) {
  Callbacks calls(std::move(progress), std::move(stop));
  auto kept = std::make_unique<Log>(Log{std::move(log)});
  BuildOptions options = build_options(given, &calls);
  options.hooks = kept->hooks();
  Result<Engine> made = [&] {
    const nb::gil_scoped_release unlocked;
    return Engine::build(model, options);
  }();
  calls.check();
  return {std::move(kept), take(std::move(made))};
}

LoggedEngine load(const std::string& path, int threads, const std::string& device, bool check, nb::object log) {
  auto kept = std::make_unique<Log>(Log{std::move(log)});
  LoadOptions options;
  options.threads = threads;
  options.device = device;
  options.check_weights = check;
  options.hooks = kept->hooks();
  Result<Engine> made = [&] {
    const nb::gil_scoped_release unlocked;
    return Engine::load(path, options);
  }();
  return {std::move(kept), take(std::move(made))};
}

nb::object inspect(const std::string& model, const nb::dict& given) {
  Callbacks calls(nb::none(), nb::none());
  const BuildOptions options = build_options(given, &calls);
  Result<std::string> made = [&] {
    const nb::gil_scoped_release unlocked;
    return Engine::inspect(model, options);
  }();
  calls.check();
  return text(take(std::move(made)));
}

// (name, dtype, dims, texts of dims) of each.
nb::list ports(const std::vector<Port>& ports) {
  nb::list out;
  for (const Port& p : ports) out.append(nb::make_tuple(text(p.name), peri_dtype_name(p.dtype), p.dims, p.dim_texts));
  return out;
}

Outcome outcome(Result<Report> made) {
  const Report report = take(std::move(made));
  return {report.passed, text(report.outside), text(report.json)};
}

Outcome verify(const LoggedEngine& e, int threads, std::vector<uint64_t> seeds, Dims dims, double max_error,
               bool bisect, bool nan_equal, std::string peer_model, nb::object progress) {
  Callbacks calls(std::move(progress), nb::none());
  VerifyOptions o;
  o.threads = threads;
  o.seeds = std::move(seeds);
  o.dims = std::move(dims);
  o.max_error = max_error;
  o.bisect = bisect;
  o.nan_equal = nan_equal;
  o.peer_model = std::move(peer_model);
  o.progress = [&calls](size_t done, size_t total, const char* what) { calls.progress(done, total, what); };
  Result<Report> made = [&] {
    const nb::gil_scoped_release unlocked;
    return e.engine.verify(o);
  }();
  calls.check();
  return outcome(std::move(made));
}

nb::object bench(const LoggedEngine& e, int threads, double seconds, int64_t max_runs, Dims dims, bool layers,
                 int processes, nb::object progress, nb::object stop) {
  Callbacks calls(std::move(progress), std::move(stop));
  BenchOptions o;
  o.threads = threads;
  o.seconds = seconds;
  o.max_runs = max_runs;
  o.dims = std::move(dims);
  o.layers = layers;
  o.processes = processes;
  o.progress = [&calls](size_t done, size_t total, const char* what) { calls.progress(done, total, what); };
  o.stop = [&calls] { return calls.stop(); };
  Result<std::string> made = [&] {
    const nb::gil_scoped_release unlocked;
    return e.engine.bench(o);
  }();
  calls.check();
  return text(take(std::move(made)));
}

nb::object explain(const LoggedEngine& e, bool compare) {
  Result<std::string> made = [&] {
    const nb::gil_scoped_release unlocked;
    return e.engine.explain(compare);
  }();
  return text(take(std::move(made)));
}

// Arrays of NumPy for the outputs that `outputs` has None for, else None. `outputs` empty: all of them.
nb::list run(Session& s, const nb::list& inputs, const nb::list& outputs) {
  std::vector<View> in, out;
  for (nb::handle array : inputs) in.push_back(view_of(array));
  for (nb::handle array : outputs) out.push_back(array.is_none() ? View{} : view_of(array));
  Result<std::vector<View>> made = [&] {
    const nb::gil_scoped_release unlocked;
    return s.run(in, out);
  }();
  const size_t count = take(std::move(made)).size();
  nb::list arrays;
  for (size_t k = 0; k < count; ++k)
    arrays.append(out.empty() || !out[k].data ? array_of(s, k) : nb::object(nb::none()));
  return arrays;
}

nb::list tokenize(Session& s, const std::vector<std::string>& texts) {
  nb::list arrays;
  for (const View& v : take(s.inputs_of(texts))) arrays.append(copy_of(v));
  return arrays;
}

nb::object embed(Session& s, const std::vector<std::string>& texts) {
  Result<View> made = [&] {
    const nb::gil_scoped_release unlocked;
    return s.embed(texts);
  }();
  return copy_of(take(std::move(made)));
}

Session session_of(const LoggedEngine& e, int threads) { return take(Session::create(e.engine, threads)); }

void add_engines(nb::module_& m) {
  nb::class_<LoggedEngine>(m, "Engine")
      .def("inputs", [](const LoggedEngine& e) { return ports(e.engine.inputs()); })
      .def("outputs", [](const LoggedEngine& e) { return ports(e.engine.outputs()); })
      .def("describe", [](const LoggedEngine& e) { return text(take(e.engine.describe())); })
      .def("proof", [](const LoggedEngine& e) { return text(take(e.engine.proof())); })
      .def("explain", &explain, nb::arg("compare"))
      .def("verify", &verify, nb::arg("threads"), nb::arg("seeds"), nb::arg("dims"), nb::arg("max_error"),
           nb::arg("bisect"), nb::arg("nan_equal"), nb::arg("peer_model"), nb::arg("progress").none())
      .def("bench", &bench, nb::arg("threads"), nb::arg("seconds"), nb::arg("max_runs"), nb::arg("dims"),
           nb::arg("layers"), nb::arg("processes"), nb::arg("progress").none(), nb::arg("stop").none())
      .def("session", &session_of, nb::arg("threads"), nb::keep_alive<0, 1>());
  m.def("build", &build, nb::arg("model"), nb::arg("options"), nb::arg("progress").none(), nb::arg("stop").none(),
        nb::arg("log"));
  m.def("load", &load, nb::arg("path"), nb::arg("threads"), nb::arg("device"), nb::arg("check"), nb::arg("log"));
  m.def("inspect", &inspect, nb::arg("model"), nb::arg("options"));
  m.def(
      "compare",
      [](const std::string& before, const std::string& after, double limit) {
        return outcome(compare_benches(before, after, limit));
      },
      nb::arg("before"), nb::arg("after"), nb::arg("limit"));
}
}  // namespace
}  // namespace peri::python

NB_MODULE(_native, m) {
  nanobind::set_leak_warnings(false);  // an engine that lives to the end of a script is none
  m.attr("version") = peri_version();
  peri::python::add_engines(m);
  nanobind::class_<peri::Session>(m, "Session")
      .def("run", &peri::python::run, nanobind::arg("inputs"), nanobind::arg("outputs"))
      .def("cancel", &peri::Session::cancel)
      .def("tokenize", &peri::python::tokenize, nanobind::arg("texts"))
      .def("embed", &peri::python::embed, nanobind::arg("texts"));
}
