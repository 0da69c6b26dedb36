// A batch of the timing loop: runs between events, enqueued without waiting, then their times.
#include "bench/device_runs.hpp"

#include <algorithm>
#include <cmath>

#include "base/plural.hpp"

namespace peri::bench {

namespace {
struct Pair {
  std::unique_ptr<device::Event> from, to;
};

Result<std::vector<Pair>> event_pairs(device::Device* device) {
  std::vector<Pair> out(kResidentBatch);
  for (Pair& p : out) {
    PERI_ASSIGN(p.from, device->make_timed_event());
    PERI_ASSIGN(p.to, device->make_timed_event());
  }
  return out;
}

Status batch(runtime::Session* session, const std::vector<Pair>& pairs, std::vector<double>* into) {
  runtime::ResidentRun run;
  run.wait = false;
  for (const Pair& p : pairs) {
    PERI_TRY(session->stream()->record(*p.from));
    PERI_TRY(session->run_resident(run));
    PERI_TRY(session->stream()->record(*p.to));
  }
  PERI_TRY(session->finish());
  PERI_TRY(pairs.back().to->synchronize());
  for (const Pair& p : pairs) {
    PERI_ASSIGN(const double ms, session->resident_device()->milliseconds(*p.from, *p.to));
    into->push_back(ms);
  }
  return Ok{};
}
}  // namespace

Result<std::vector<double>> resident_samples(runtime::Session* session, const Schedule& schedule,
                                             const std::function<bool()>& stop) {
  device::Device* const device = session->resident_device();
  if (!device) PERI_TRY(session->run_resident({}));  // says which port lies on the host
  if (!device) return unsupported("nothing of it lies on a device");
  PERI_ASSIGN(const std::vector<Pair> pairs, event_pairs(device));
  Schedule whole = schedule;  // at least one batch
  whole.min_samples = std::max<int64_t>(whole.min_samples, 1);
  whole.max_samples = std::max<int64_t>(whole.max_samples, 1);
  return sample_batches(whole, [&](std::vector<double>* into) { return batch(session, pairs, into); }, stop);
}

namespace {
// Runs twice on memory that the session does not own.
Result<std::string> use_of_given(runtime::Session* session) {
  const plan::Program& p = session->engine().program();
  runtime::ResidentRun run;
  std::vector<device::Memory> memory;
  const auto take = [&](const Result<device::Argument>& own, std::vector<runtime::PortMemory>* list) -> Status {
    PERI_TRY(own);
    PERI_ASSIGN(device::Memory fresh, session->resident_device()->allocate(own->bytes));
    list->push_back({fresh.address(), {}});
    memory.push_back(std::move(fresh));
    return Ok{};
  };
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    PERI_TRY(take(session->input_memory(k), &run.inputs));
    const device::Argument own = *session->input_memory(k);
    PERI_TRY(session->stream()->copy(run.inputs.back().address, own.address, own.bytes));
  }
  for (size_t k = 0; k < p.outputs.size(); ++k) PERI_TRY(take(session->output_memory(k), &run.outputs));
  for (int again = 0; again < 2; ++again) PERI_TRY(session->run_resident(run));
  if (session->port_use() == runtime::PortUse::kInPlace) return std::string("in place");
  return std::string("copied: ") + session->why_copied();
}

const device::Device* first_device(const runtime::Engine& engine) {
  return engine.program().devices.size() > 1 ? engine.device(1) : nullptr;
}
}  // namespace

Result<DeviceReport> device_report(runtime::Session* session, const Schedule& schedule,
                                   const std::function<bool()>& stop) {
  DeviceReport out;
  const runtime::Engine& engine = session->engine();
  if (!first_device(engine)) return out;
  out.device = first_device(engine)->name();
  auto samples = resident_samples(session, schedule, stop);
  if (!samples.ok() && samples.error().kind != ErrorKind::kUnsupported) return std::move(samples).error();
  if (samples.ok())
    out.resident = summarize(*std::move(samples));
  else
    out.why_not_resident = samples.error().text();
  for (uint32_t d = 1; d < engine.program().devices.size(); ++d)
    out.device_bytes += engine.device(d)->counts().most_bytes;
  if (!out.resident) return out;
  auto given = use_of_given(session);
  if (!given.ok() && given.error().kind != ErrorKind::kUnsupported && given.error().kind != ErrorKind::kMemory)
    return std::move(given).error();
  out.given = given.ok() ? *std::move(given) : "not tried: " + given.error().text();
  return out;
}

namespace {
void write(const Measurement& m, JsonWriter* w) {
  w->begin_object()
      .field("median", m.median_ms)
      .field("mean", m.mean_ms)
      .field("min", m.min_ms)
      .field("p90", m.p90_ms)
      .field("p99", m.p99_ms);
  w->key("interval").begin_array().value(m.interval_ms.low).value(m.interval_ms.high).end_array();
  w->key("samples").begin_array();
  for (const double s : m.samples_ms) w->value(s);
  w->end_array().end_object();
}
}  // namespace

void write_report(const DeviceReport& r, JsonWriter* w) {
  if (r.device.empty()) return;
  w->field("device", r.device).key("resident_ms");
  if (r.resident)
    write(*r.resident, w);
  else
    w->null();
  w->key("with_copies_ms");
  write(r.with_copies, w);
  w->field("why_not_resident", r.why_not_resident).field("given_memory", r.given).field("device_bytes", r.device_bytes);
}

namespace {
Result<Measurement> read_measurement(const Json& j) {
  std::vector<double> samples;
  PERI_ASSIGN(const Json::Array* list, j.get_array("samples"));
  for (const Json& s : *list) {
    PERI_ASSIGN(const double ms, s.as_double());
    if (!(ms >= 0) || !std::isfinite(ms)) return invalid("a sample of %g ms", ms);
    samples.push_back(ms);
  }
  if (samples.empty()) return invalid("a measurement without samples");
  Measurement m = summarize(std::move(samples));
  PERI_ASSIGN(m.median_ms, j.get_double("median"));
  PERI_ASSIGN(const Json::Array* interval, j.get_array("interval"));
  if (interval->size() != 2) return invalid("an interval of %zu ends", interval->size());
  PERI_ASSIGN(m.interval_ms.low, (*interval)[0].as_double());
  PERI_ASSIGN(m.interval_ms.high, (*interval)[1].as_double());
  return m;
}

Measurement merged_runs(const std::vector<std::vector<double>>& blocks) {
  std::vector<double> all;
  for (const auto& samples : blocks) all.insert(all.end(), samples.begin(), samples.end());
  Measurement m = summarize(std::move(all));
  if (blocks.size() < 2) return m;
  m.median_ms = stats::block_center(blocks);
  m.interval_ms = stats::block_interval(blocks);
  return m;
}
}  // namespace

Result<DeviceReport> read_report(const Json& object) {
  DeviceReport r;
  if (!object.find("device")) return r;
  PERI_ASSIGN(const std::string_view device, object.get_string("device"));
  PERI_ASSIGN(const std::string_view why, object.get_string("why_not_resident"));
  PERI_ASSIGN(const std::string_view given, object.get_string("given_memory"));
  PERI_ASSIGN(r.device_bytes, object.get_int("device_bytes"));
  r.device = device;
  r.why_not_resident = why;
  r.given = given;
  PERI_ASSIGN(const Json* with_copies, object.get("with_copies_ms"));
  PERI_ASSIGN(r.with_copies, read_measurement(*with_copies));
  if (const Json* resident = object.find("resident_ms"); resident && !resident->is_null()) {
    PERI_ASSIGN(r.resident, read_measurement(*resident));
  }
  return r;
}

DeviceReport merged(std::span<const DeviceReport> parts) {
  PERI_CHECK(!parts.empty());
  DeviceReport all = parts[0];
  std::vector<std::vector<double>> copies, resident;
  for (const DeviceReport& part : parts) {
    if (part.device.empty()) continue;  // it was cut short before
    if (all.device.empty()) all = part;
    all.device_bytes = std::max(all.device_bytes, part.device_bytes);
    copies.push_back(part.with_copies.samples_ms);
    if (part.resident) resident.push_back(part.resident->samples_ms);
  }
  if (!copies.empty()) all.with_copies = merged_runs(copies);
  if (!resident.empty()) all.resident = merged_runs(resident);
  return all;
}

std::string report_text(const DeviceReport& r) {
  if (r.device.empty()) return "";
  const std::string bytes = format("%.1f MiB on %s", static_cast<double>(r.device_bytes) / (1 << 20), r.device.c_str());
  if (!r.resident) return "not resident: " + r.why_not_resident + "; " + bytes;
  const Measurement& m = *r.resident;
  return format("resident %.4f ms [%.4f, %.4f], %s, %s, given memory %s", m.median_ms, m.interval_ms.low,
                m.interval_ms.high, counted(std::ssize(m.samples_ms), "sample").c_str(), bytes.c_str(),
                r.given.c_str());
}

namespace {
void write_samples(std::string_view key, const std::vector<double>& samples, JsonWriter* w) {
  w->key(key).begin_array();
  for (const double s : samples) w->value(s);
  w->end_array();
}

// As many as a batch of resident runs has.
Result<std::vector<double>> copied_samples(runtime::Session* session, std::span<const Tensor> inputs,
                                           Schedule schedule) {
  schedule.min_samples = std::max(schedule.min_samples, kResidentBatch);
  schedule.max_samples = std::max(schedule.max_samples, schedule.min_samples);
  return time_runs(schedule, [&]() -> Status {
    PERI_TRY(session->run(inputs));
    return Ok{};
  });
}
}  // namespace

Status resident_rounds(runtime::Session* session, std::span<const Tensor> inputs, const Schedule& schedule,
                       const std::function<bool()>& next, const std::function<void(const std::string&)>& say) {
  for (int64_t round = 0; next(); ++round) {
    const auto resident = resident_samples(session, schedule);
    if (!resident.ok() && resident.error().kind != ErrorKind::kUnsupported) return resident.error();
    JsonWriter w;
    w.begin_object().field("round", round);
    if (resident.ok()) {
      write_samples("resident_ms", *resident, &w);
    } else {
      PERI_ASSIGN(const std::vector<double> copied, copied_samples(session, inputs, schedule));
      w.key("resident_ms").null();
      write_samples("with_copies_ms", copied, &w);
      w.field("why_not_resident", resident.error().text());
    }
    int64_t bytes = 0;
    for (uint32_t d = 1; d < session->engine().program().devices.size(); ++d)
      bytes += session->engine().device(d)->counts().most_bytes;
    w.field("device_bytes", bytes).end_object();
    say(w.take());
  }
  return Ok{};
}

}  // namespace peri::bench
