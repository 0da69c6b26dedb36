// Numbers are strings, as in Triton.
#include "serve/observe/trace_settings.hpp"

#include <charconv>

namespace peri::serve {

TraceSettings::TraceSettings(const TraceDefaults& defaults)
    : defaults_(defaults), all_{defaults.possible, defaults.one_in, defaults.count} {}

bool TraceSettings::take(std::string_view model, std::optional<bool> caller) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Own* own = &all_;
  if (!models_.empty())
    if (const auto it = models_.find(model); it != models_.end()) own = &it->second;
  if (!own->on.value_or(*all_.on)) return false;
  const bool drawn = caller ? *caller : own->seen++ % static_cast<uint64_t>(own->one_in.value_or(*all_.one_in)) == 0;
  int64_t& left = own->left ? *own->left : *all_.left;
  if (!drawn || left == 0) return false;
  if (left > 0) --left;
  return true;
}

std::string TraceSettings::text(std::string_view model) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = models_.find(model);
  const Own& own = it == models_.end() ? all_ : it->second;
  JsonWriter w;
  w.begin_object().key("trace_level").begin_array();
  w.value(own.on.value_or(*all_.on) ? "TIMESTAMPS" : "OFF").end_array();
  w.field("trace_rate", std::to_string(own.one_in.value_or(*all_.one_in)));
  w.field("trace_count", std::to_string(own.left.value_or(*all_.left)));
  w.field("log_frequency", "0").field("trace_file", "").field("trace_mode", "opentelemetry");
  return w.end_object().take();
}

static Result<int64_t> number_of(std::string_view key, const Json& changes, int64_t least) {
  PERI_ASSIGN(const std::string_view text, changes.get_string(key));
  int64_t n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string name(key), shown(text.substr(0, 80));
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    return invalid("Unable to parse '%s', got: %s", name.c_str(), shown.c_str());
  if (n < least)
    return invalid("Unable to parse '%s'. Expecting value >= %lld, got: %s", name.c_str(),
                   static_cast<long long>(least), shown.c_str());
  return n;
}

Status TraceSettings::change(std::string_view key, const Json& changes, Own* own) const {
  const Json& value = *changes.find(key);
  if (key == "trace_level") {
    own->on.reset();
    if (value.is_null()) return Ok{};
    PERI_ASSIGN(const Json::Array* levels, changes.get_array(key));
    bool on = false;
    for (const Json& level : *levels) {
      const auto read = level.as_string();
      if (!read.ok()) return Error(read.error()).at_node(key);
      const std::string_view name = *read;
      if (name != "OFF" && name != "TIMESTAMPS")
        return invalid("the trace level '%s' is not known here", std::string(name.substr(0, 80)).c_str())
            .expecting("OFF or TIMESTAMPS");
      on = on || name == "TIMESTAMPS";
    }
    if (on && !defaults_.possible)
      return invalid("there is nowhere to send traces: start the server with --otlp-endpoint");
    own->on = on;
  } else if (key == "trace_rate") {
    own->one_in.reset();
    if (value.is_null()) return Ok{};
    PERI_ASSIGN(own->one_in, number_of(key, changes, 1));
    own->seen = 0;
  } else if (key == "trace_count") {
    own->left.reset();
    if (value.is_null()) return Ok{};
    PERI_ASSIGN(own->left, number_of(key, changes, -1));
  } else if (key == "trace_file") {
    return unsupported("trace file location can not be updated through network protocol: traces go to --otlp-endpoint");
  } else if (key == "log_frequency") {
    if (value.is_null()) return Ok{};
    PERI_ASSIGN(const int64_t n, number_of(key, changes, 0));
    if (n != 0) return invalid("'log_frequency' is of trace files: traces go to --otlp-endpoint as they end");
  } else if (key == "trace_mode") {
    if (value.is_null()) return Ok{};
    PERI_ASSIGN(const std::string_view mode, changes.get_string(key));
    if (mode != "opentelemetry") return invalid("'trace_mode' is opentelemetry, and nothing else");
  } else {
    return invalid("'%s' is not a trace setting", std::string(key.substr(0, 80)).c_str())
        .expecting("trace_level, trace_rate, trace_count, log_frequency or trace_mode");
  }
  return Ok{};
}

Status TraceSettings::update(const std::string& model, const Json& changes) {
  PERI_ASSIGN(const Json::Object* members, changes.as_object());
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = models_.find(model);
  Own own = model.empty() ? all_ : it == models_.end() ? Own() : it->second;
  for (const Json::Member& m : *members) PERI_TRY(change(m.key, changes, &own));
  if (model.empty()) {
    if (!own.on) own.on = defaults_.possible;
    if (!own.one_in) own.one_in = defaults_.one_in;
    if (!own.left) own.left = defaults_.count;
    all_ = own;
  } else if (own.on || own.one_in || own.left) {
    models_[model] = own;
  } else {
    models_.erase(model);
  }
  return Ok{};
}

}  // namespace peri::serve
