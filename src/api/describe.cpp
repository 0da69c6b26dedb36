// Descriptions and explanations of engines through the C interface.
#include <algorithm>

#include "api/handles.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "build/explain.hpp"
#include "build/measured.hpp"
#include "build/open.hpp"
#include "compile/own_names.hpp"
#include "plan/class_names.hpp"
#include "plan/engine_file.hpp"

namespace peri::api {
namespace {

void write_ports(JsonWriter& w, const char* key, const std::vector<plan::Port>& ports) {
  w.key(key).begin_array();
  for (const plan::Port& port : ports)
    w.begin_object()
        .field("name", port.name)
        .field("type", std::string(dtype_name(port.dtype)) + shape_text(port.shape))
        .end_object();
  w.end_array();
}

std::string description(const peri_engine& engine) {
  const plan::Program& p = engine.engine->program();
  const auto slow =
      std::count_if(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.executor == "reference"; });
  JsonWriter w;
  w.begin_object()
      .field(engine.file ? "engine" : "model", engine.path)
      .field("name", p.name)
      .field("builder", p.builder)
      .field("backend", p.backend)
      .field("precision", dtype_name(p.precision))
      .field("threads", static_cast<int64_t>(engine.engine->options().threads));
  if (engine.file) w.field("hash", hex64(plan::engine_hash(engine.file->bytes())));
  if (const std::string mark = build::interrupted_build(p); !mark.empty()) w.field("interrupted", mark);
  plan::write_class_names(p, &w);
  compile::write_own_names(p, &w);
  w.field("max_iterations", engine.engine->options().max_iterations);
  w.key("devices").begin_array();
  for (const std::string& d : p.devices) w.value(d);
  w.end_array();
  write_ports(w, "inputs", p.inputs);
  write_ports(w, "outputs", p.outputs);
  w.key("tuned_for").begin_object();
  for (const auto& [name, value] : p.tuned_for) w.field(name, value);
  for (const auto& [key, limits] : {std::pair{"at_least", &p.at_least}, std::pair{"at_most", &p.at_most}}) {
    w.end_object().key(key).begin_object();
    for (const auto& [name, value] : *limits) w.field(name, value);
  }
  w.end_object()
      .field("steps", static_cast<int64_t>(p.steps.size()))
      .field("steps_on_the_reference", static_cast<int64_t>(slow))
      .field("takes_texts", build::TextModel::of(p).ok())
      .end_object();
  return w.take();
}

Result<std::string> explanation(const peri_engine& engine, bool compare) {
  PERI_ASSIGN(const char* const text, proof_of(engine));
  PERI_ASSIGN(const Json proof, parse_json(text));
  auto explained = build::explain(proof, compare);
  if (!explained.ok()) return std::move(explained).error().in_file(engine.path);
  return build::explanation_json(engine.path, proof, *explained);
}

// Without a proof nothing is known of the steps' times alone.
Result<std::string> measured(const peri_engine& engine, const peri_explain_options& given) {
  if (given.compare)
    return usage("peri_explain_options.compare is for the times of a proof, and measured takes its own");
  PERI_ASSIGN(const auto sizes, named_dims(given.dims, given.dim_count, "dims"));
  PERI_ASSIGN(const DimBinding dims, build::program_dims(engine.engine->program(), sizes));
  std::vector<build::KnownStep> known;
  if (const auto text = proof_of(engine); text.ok()) {
    PERI_ASSIGN(const Json proof, parse_json(*text));
    known = build::known_steps(proof);
  }
  auto steps = build::measure_steps(engine.engine, dims, known);
  if (!steps.ok()) return std::move(steps).error().in_file(engine.path);
  return steps->json();
}
}  // namespace
}  // namespace peri::api

extern "C" {

peri_error* peri_engine_describe(const peri_engine* engine, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine || !report) return peri::usage("peri_engine_describe needs an engine and a place for the report");
    *report = std::make_unique<peri_report>(peri_report{peri::api::description(*engine)}).release();
    return peri::Ok{};
  });
}

peri_error* peri_engine_explain(const peri_engine* engine, const peri_explain_options* options, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine || !report) return peri::usage("peri_engine_explain needs an engine and a place for the report");
    PERI_ASSIGN(const peri_explain_options o, peri::api::known_part(options, "peri_explain_options"));
    if (!o.measured && o.dim_count)
      return peri::usage("peri_explain_options.dims are those of measured runs").advise("set measured");
    PERI_ASSIGN(std::string json,
                o.measured ? peri::api::measured(*engine, o) : peri::api::explanation(*engine, o.compare != 0));
    *report = std::make_unique<peri_report>(peri_report{std::move(json)}).release();
    return peri::Ok{};
  });
}

}  // extern "C"
