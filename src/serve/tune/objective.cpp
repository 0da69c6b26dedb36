// Numbers in the file have the units of config.pbtxt, so that they can be copied there.
#include "serve/tune/objective.hpp"

#include <charconv>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/plural.hpp"

namespace peri::serve {

static constexpr std::string_view kFormat = "peri batching 3";

const FileKind kTuningFile{"a result of peri serve --tune",
                           [](std::string_view head) { return head.starts_with("{\n \"format\": \"peri batching "); }};

std::string Objective::text() const { return format("p%g=%gms", quantile * 100, static_cast<double>(ns) * 1e-6); }

Result<Objective> parse_objective(std::string_view text) {
  const auto wrong = [&] {
    return usage("'%s' is not an objective", std::string(text).c_str())
        .expecting("one like p99=20ms: p50 to p99.9, us, ms or s");
  };
  double percent = 0, time = 0;
  if (!text.starts_with('p')) return wrong();
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data() + 1, end, percent);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != '=' || !(percent >= 50 && percent <= 99.9))
    return wrong();
  read = std::from_chars(read.ptr + 1, end, time);
  const std::string_view unit(read.ptr, static_cast<size_t>(end - read.ptr));
  const double scale = unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
  if (read.ec != std::errc() || scale == 0 || !(time * scale >= 1e3 && time * scale <= 6e11)) return wrong();
  return Objective{percent / 100, static_cast<int64_t>(time * scale)};
}

static void write_point(JsonWriter& w, const TunedPoint& p) {
  w.field("max_batch_size", p.settings.most_rows).field("max_queue_delay_microseconds", p.settings.delay_ns / 1000);
  w.field("rows_per_second", p.per_second).field("quantile_ms", static_cast<double>(p.quantile_ns) * 1e-6);
}

std::string kept_tuning_json(const KeptTuning& t) {
  JsonWriter w(1);
  w.begin_object().field("format", kFormat).field("objective", t.objective).field("files", hex64(t.files));
  w.field("instances", t.slots).field("machine", t.machine);
  w.key("configuration").begin_object().field("max_batch_size", t.stated.most_rows);
  w.field("max_queue_delay_microseconds", t.stated.delay_us).key("preferred_batch_size").begin_array();
  for (const int64_t size : t.stated.preferred) w.value(size);
  w.end_array().end_object();
  write_point(w, t.best);
  w.key("tried").begin_array();
  for (const TunedPoint& p : t.tried) {
    w.begin_object();
    write_point(w, p);
    w.end_object();
  }
  return w.end_array().end_object().take() + "\n";
}

static Result<TunedPoint> read_point(const Json& json) {
  TunedPoint out;
  PERI_ASSIGN(out.settings.most_rows, json.get_int("max_batch_size"));
  PERI_ASSIGN(const int64_t delay_us, json.get_int("max_queue_delay_microseconds"));
  PERI_ASSIGN(out.per_second, json.get_double("rows_per_second"));
  PERI_ASSIGN(const double ms, json.get_double("quantile_ms"));
  if (out.settings.most_rows < 1 || out.settings.most_rows > 1 << 20 || delay_us < 0 || delay_us > 3600000000)
    return invalid("batches and delays out of range");
  out.settings.delay_ns = delay_us * 1000;
  out.quantile_ns = static_cast<int64_t>(ms * 1e6);
  return out;
}

static Result<StatedBatching> read_stated(const Json& json) {
  StatedBatching out;
  PERI_ASSIGN(out.most_rows, json.get_int("max_batch_size"));
  PERI_ASSIGN(out.delay_us, json.get_int("max_queue_delay_microseconds"));
  PERI_ASSIGN(const auto* preferred, json.get_array("preferred_batch_size"));
  for (const Json& size : *preferred) {
    PERI_ASSIGN(out.preferred.emplace_back(), size.as_int());
  }
  return out;
}

static Result<KeptTuning> parse_kept(std::string_view text) {
  PERI_ASSIGN(const Json json, parse_json(text, {8, 1 << 20, 10000}));
  PERI_ASSIGN(const std::string_view kind, json.get_string("format"));
  if (kind != kFormat) return invalid("not a file of peri serve --tune").expecting(kFormat).but_found(kind);
  KeptTuning out;
  PERI_ASSIGN(const std::string_view objective, json.get_string("objective"));
  PERI_ASSIGN(const std::string_view files, json.get_string("files"));
  PERI_ASSIGN(const std::string_view machine, json.get_string("machine"));
  out.objective = objective;
  out.machine = machine;
  if (std::from_chars(files.data(), files.data() + files.size(), out.files, 16).ec != std::errc())
    return invalid("'files' is not a number");
  PERI_ASSIGN(out.slots, json.get_int("instances"));
  const Json* const stated = json.find("configuration");
  if (!stated) return invalid("'configuration' is missing");
  PERI_ASSIGN(out.stated, read_stated(*stated));
  PERI_ASSIGN(out.best, read_point(json));
  PERI_ASSIGN(const auto* tried, json.get_array("tried"));
  for (const Json& p : *tried) {
    PERI_ASSIGN(TunedPoint point, read_point(p));
    out.tried.push_back(point);
  }
  return out;
}

Result<KeptTuning> read_kept_tuning(const std::string& path) {
  PERI_ASSIGN(const std::string text, read_file(path, 1 << 20));
  auto out = parse_kept(text);
  if (!out.ok()) return std::move(out).error().in_file(path);
  return out;
}

std::string tuning_text(const KeptTuning& t) {
  const double rate = t.best.per_second;  // whole numbers, where four digits are less
  return format("batches of up to %s, a delay of %g ms: %s rows a second for %s, at %.4g ms",
                counted(t.best.settings.most_rows, "row").c_str(), static_cast<double>(t.best.settings.delay_ns) * 1e-6,
                format(rate < 1000 ? "%.4g" : "%.0f", rate).c_str(), t.objective.c_str(),
                static_cast<double>(t.best.quantile_ns) * 1e-6);
}

}  // namespace peri::serve
