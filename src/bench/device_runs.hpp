// Times of runs whose inputs and outputs stay in device memory: events around each run of a batch that is enqueued
// without waiting, by the device's own clock; and the device memory of such an engine.
#pragma once

#include <optional>
#include <span>

#include "base/json.hpp"
#include "bench/measure.hpp"
#include "runtime/engine.hpp"

namespace peri::bench {

// Runs enqueued together, each between two events.
constexpr int64_t kResidentBatch = 30;
// Warm-up after which a GPU at batch 1 becomes no faster: 3 runs alone measured 5 to 8 % slower.
constexpr double kResidentWarmUpSeconds = 0.5;

// Times in ms of runs of the shape prepared last, on the current inputs: after the warm-up whole batches until time or
// number is reached, at least one. Errors: kUnsupported where a port is on the host or the device has no clock, those
// of a run.
Result<std::vector<double>> resident_samples(runtime::Session* session, const Schedule& schedule,
                                             const std::function<bool()>& stop = {});

struct DeviceReport {
  std::string device;  // "cuda:0"; empty: the engine runs on the host alone
  std::optional<Measurement> resident;
  std::string why_not_resident;  // where it was not measured
  int64_t device_bytes = 0;      // the most allocated at once, on all devices together
  std::string given;             // use of a caller's memory on the device: "in place", or "copied: " and why
  Measurement with_copies = {};  // of runs from and to the caller's memory on the host
};
// REQUIRES: a previous run. device_bytes are those of the engine and this session so far.
Result<DeviceReport> device_report(runtime::Session* session, const Schedule& schedule,
                                   const std::function<bool()>& stop = {});

// Members of an object: nothing for the host alone; else "device", "resident_ms" and "with_copies_ms" (runs from and to
// memory of the host), each with quantiles, interval and samples, the first null where it was not measured,
// "why_not_resident", "given_memory", "device_bytes".
void write_report(const DeviceReport& report, JsonWriter* writer);
// Reads what write_report() wrote among the object's members; a report of the host alone where there is none.
Result<DeviceReport> read_report(const Json& object);
// Merges several processes: all their samples, the interval over whole processes, the most bytes. REQUIRES one or more.
DeviceReport merged(std::span<const DeviceReport> parts);
// "resident 0.412 ms [0.411, 0.413], 24.1 MiB on cuda:0, given memory in place"; empty: the host alone.
std::string report_text(const DeviceReport& report);

// Runs a round each time `next` returns true: `say` is called with {"round": K, "resident_ms": [...], "device_bytes":
// N} for each, which has its own warm-up. Where a port is on the host, copying it is part of a run: "resident_ms" is
// null, "with_copies_ms" has as many runs on `inputs` by the host's clock, "why_not_resident" the reason. For measuring
// alternately with another program: both processes exist during all rounds.
Status resident_rounds(runtime::Session* session, std::span<const Tensor> inputs, const Schedule& schedule,
                       const std::function<bool()>& next, const std::function<void(const std::string&)>& say);

}  // namespace peri::bench
