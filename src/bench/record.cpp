// The record as JSON and back.
#include "bench/record.hpp"

#include <algorithm>
#include <cmath>

namespace peri::bench {

namespace {
constexpr int kForm = 2;  // raised when a member changes its name or meaning
constexpr JsonLimits kLimits = {.max_depth = 16, .max_bytes = size_t{512} << 20, .max_nodes = 32'000'000};
constexpr int64_t kMaxProcesses = 100000;  // a record is an untrusted file: no more is read
}  // namespace

size_t Record::samples() const {
  size_t n = 0;
  for (const ProcessRecord& p : processes) n += p.samples_ms.size();
  return n;
}

std::vector<double> Record::all_samples() const {
  std::vector<double> out;
  out.reserve(samples());
  for (const ProcessRecord& p : processes) out.insert(out.end(), p.samples_ms.begin(), p.samples_ms.end());
  return out;
}

std::vector<std::vector<double>> Record::per_process() const {
  std::vector<std::vector<double>> out;
  out.reserve(processes.size());
  for (const ProcessRecord& p : processes) out.push_back(p.samples_ms);
  return out;
}

double Record::runs_per_s() const {
  double wall = 0;
  for (const ProcessRecord& p : processes) wall += p.wall_s;
  return wall > 0 ? static_cast<double>(samples()) / wall : 0;
}

double Record::items_per_s() const { return runs_per_s() * static_cast<double>(items_per_run); }

double Record::median_ms() const { return stats::block_center(per_process()); }

int64_t items_of(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (inputs.empty()) return 1;
  int64_t items = -1;
  for (const std::span<const Tensor> side : {inputs, outputs})
    for (const Tensor& t : side) {
      if (t.rank() == 0) continue;
      if (items >= 0 && t.dims()[0] != items) return 1;
      items = t.dims()[0];
    }
  return std::max<int64_t>(1, items);
}

namespace {
void write_latency(JsonWriter& w, const Record& r) {
  const Measurement all = summarize(r.all_samples());
  const stats::Interval interval = stats::block_interval(r.per_process());
  w.key("latency_ms")
      .begin_object()
      .field("median", r.median_ms())
      .field("mean", all.mean_ms)
      .field("min", all.min_ms)
      .field("p90", all.p90_ms)
      .field("p99", all.p99_ms)
      .key("interval")
      .begin_array()
      .value(interval.low)
      .value(interval.high)
      .end_array()
      .end_object();
}

void write_processes(JsonWriter& w, const Record& r) {
  w.key("processes").begin_array();
  for (const ProcessRecord& p : r.processes) {
    w.begin_object()
        .field("samples", static_cast<int64_t>(p.samples_ms.size()))
        .field("median_ms", stats::median(p.samples_ms))
        .field("wall_s", p.wall_s)
        .field("load_ms", p.load_ms)
        .field("first_run_ms", p.first_run_ms)
        .key("conditions");
    write_conditions(w, p.conditions);
    w.end_object();
  }
  w.end_array();
}

void write_layers(JsonWriter& w, const Record& r) {
  double total = 0;
  for (const LayerTime& l : r.layers) total += l.ms;
  w.field("layer_runs", r.layer_runs).key("layers").begin_array();
  for (const LayerTime& l : r.layers)
    w.begin_object()
        .field("step", l.step)
        .field("ms", l.ms)
        .field("share", total > 0 ? l.ms / total : 0)
        .field("executor", l.executor)
        .field("kernel", l.kernel)
        .end_object();
  w.end_array();
}
}  // namespace

std::string record_json(const Record& r) {
  PERI_CHECK(!r.processes.empty());
  JsonWriter w;
  w.begin_object()
      .field("form", kForm)
      .field("model", r.model)
      .field("identity", r.identity)
      .field("threads", r.threads)
      .key("dims")
      .begin_object();
  for (const auto& [name, value] : r.dims) w.field(name, value);
  w.end_object().field("tuned_for_dims", r.tuned);
  write_latency(w, r);
  w.field("runs_per_s", r.runs_per_s())
      .field("items_per_s", r.items_per_s())
      .field("items_per_run", r.items_per_run)
      .field("arena_bytes", r.arena_bytes)
      .field("load_ms", r.processes[0].load_ms)
      .field("first_run_ms", r.processes[0].first_run_ms)
      .field("complete", !r.interrupted)
      .field("unstable", r.unstable)
      .key("disturbed")
      .begin_array();
  for (const std::string& why : r.disturbed) w.value(why);
  w.end_array();
  write_processes(w, r);
  if (!r.layers.empty()) write_layers(w, r);
  write_report(r.on_device, &w);
  w.key("samples").begin_array();
  for (const ProcessRecord& p : r.processes)
    for (const double ms : p.samples_ms) w.value(ms);
  w.end_array().end_object();
  return w.take();
}

namespace {
// No clock gives others, and their sums and ratios are finite.
constexpr double kMinSampleMs = 1e-9, kMaxSampleMs = 1e12;

Result<std::vector<double>> read_samples(const Json& json) {
  std::vector<double> out;
  PERI_ASSIGN(const Json::Array* samples, json.get_array("samples"));
  out.reserve(samples->size());
  for (const Json& s : *samples) {
    PERI_ASSIGN(const double ms, s.as_double());
    if (!(ms >= kMinSampleMs && ms <= kMaxSampleMs))
      return invalid("a sample of %g ms", ms).expecting(format("from %g to %g", kMinSampleMs, kMaxSampleMs));
    out.push_back(ms);
  }
  return out;
}

Status read_processes(const Json& json, Record* r) {
  PERI_ASSIGN(const std::vector<double> samples, read_samples(json));
  PERI_ASSIGN(const Json::Array* list, json.get_array("processes"));
  size_t at = 0;
  for (const Json& j : *list) {
    ProcessRecord p;
    PERI_ASSIGN(const int64_t count, j.get_int("samples"));
    if (count < 1 || static_cast<uint64_t>(count) > samples.size() - at)
      return invalid("a process of %lld samples", static_cast<long long>(count))
          .expecting(std::to_string(samples.size()) + " in all processes together");
    p.samples_ms.assign(samples.begin() + static_cast<std::ptrdiff_t>(at),
                        samples.begin() + static_cast<std::ptrdiff_t>(at) + count);
    at += static_cast<size_t>(count);
    PERI_ASSIGN(p.wall_s, j.get_double("wall_s"));
    PERI_ASSIGN(p.load_ms, j.get_double("load_ms"));
    PERI_ASSIGN(p.first_run_ms, j.get_double("first_run_ms"));
    PERI_ASSIGN(const Json* conditions, j.get("conditions"));
    PERI_ASSIGN(p.conditions, read_conditions(*conditions));
    r->processes.push_back(std::move(p));
  }
  if (r->processes.empty() || at != samples.size() || r->processes.size() > kMaxProcesses)
    return invalid("%zu samples of %zu processes do not fit together", samples.size(), r->processes.size());
  return Ok{};
}

Status read_layers(const Json& json, Record* r) {
  const Json* list = json.find("layers");
  if (!list) return Ok{};
  PERI_ASSIGN(r->layer_runs, json.get_int("layer_runs"));
  for (const Json& j : list->items()) {
    LayerTime l;
    PERI_ASSIGN(const std::string_view step, j.get_string("step"));
    PERI_ASSIGN(const std::string_view executor, j.get_string("executor"));
    PERI_ASSIGN(const std::string_view kernel, j.get_string("kernel"));
    PERI_ASSIGN(l.ms, j.get_double("ms"));
    l.step = step;
    l.executor = executor;
    l.kernel = kernel;
    r->layers.push_back(std::move(l));
  }
  return Ok{};
}
}  // namespace

Result<Record> read_record(std::string_view text) {
  PERI_ASSIGN(const Json json, parse_json(text, kLimits));
  if (const auto of = json.get_string("command", "bench"); of.ok() && *of != "bench")
    return invalid("not a measurement")
        .expecting("the result of a peri bench")
        .but_found("that of a peri " + std::string(*of));
  if (json.find("engine_hash") || json.find("peri_lock"))
    return invalid("not a measurement")
        .expecting("the result of a peri bench")
        .but_found(json.find("peri_lock") ? "a lock file" : "the proof of an engine");
  if (json.find("endpoint") && json.find("points"))
    return invalid("results of servers are not compared")
        .expecting("the result of a peri bench of a model or an engine")
        .but_found("that of a load of a server")
        .advise(
            "read the points of both side by side, or compare the engines: peri bench ENGINE --repeat 5 --json FILE");
  if (!json.find("form"))
    return invalid("not a measurement").expecting("the result of a peri bench").but_found("JSON of another kind");
  PERI_ASSIGN(const int64_t form, json.get_int("form"));
  if (form != kForm)
    return Error(ErrorKind::kUnsupported, "a measurement of another form")
        .expecting(std::to_string(kForm))
        .but_found(std::to_string(form))
        .advise("measure again with this version of peri");
  Record r;
  PERI_ASSIGN(const std::string_view model, json.get_string("model"));
  PERI_ASSIGN(const std::string_view identity, json.get_string("identity"));
  r.model = model;
  r.identity = identity;
  PERI_ASSIGN(const int64_t threads, json.get_int("threads"));
  if (threads < 1 || threads > INT32_MAX)
    return invalid("a measurement with %lld threads", static_cast<long long>(threads));
  r.threads = static_cast<int>(threads);
  PERI_ASSIGN(const Json::Object* dims, json.get_object("dims"));
  for (const Json::Member& d : *dims) {
    PERI_ASSIGN(const int64_t size, d.value.as_int());
    r.dims[d.key] = size;
  }
  PERI_ASSIGN(r.tuned, json.get_bool("tuned_for_dims"));
  PERI_ASSIGN(r.items_per_run, json.get_int("items_per_run"));
  PERI_ASSIGN(r.arena_bytes, json.get_int("arena_bytes"));
  PERI_ASSIGN(const bool complete, json.get_bool("complete"));
  r.interrupted = !complete;
  PERI_ASSIGN(const std::string_view unstable, json.get_string("unstable"));
  r.unstable = unstable;
  PERI_ASSIGN(const Json::Array* disturbed, json.get_array("disturbed"));
  for (const Json& j : *disturbed) {
    PERI_ASSIGN(const std::string_view why, j.as_string());
    r.disturbed.emplace_back(why);
  }
  PERI_TRY(read_processes(json, &r));
  PERI_TRY(read_layers(json, &r));
  PERI_ASSIGN(r.on_device, read_report(json));
  return r;
}

namespace {
// The same disturbance in other numbers.
bool same_kind(const std::string& a, const std::string& b) {
  constexpr const char* kDigits = "0123456789";
  return a.substr(0, a.find_first_of(kDigits)) == b.substr(0, b.find_first_of(kDigits));
}
}  // namespace

Record merged(std::vector<Record> parts) {
  PERI_CHECK(!parts.empty());
  std::vector<DeviceReport> reports;
  for (const Record& part : parts) reports.push_back(part.on_device);
  Record all = std::move(parts[0]);
  all.on_device = merged(reports);
  for (size_t k = 1; k < parts.size(); ++k) {
    Record& part = parts[k];
    all.interrupted = all.interrupted || part.interrupted;
    if (all.unstable.empty()) all.unstable = part.unstable;
    for (std::string& why : part.disturbed)
      if (std::none_of(all.disturbed.begin(), all.disturbed.end(),
                       [&](const auto& known) { return same_kind(known, why); }))
        all.disturbed.push_back(std::move(why));
    for (ProcessRecord& p : part.processes) all.processes.push_back(std::move(p));
  }
  return all;
}

}  // namespace peri::bench
