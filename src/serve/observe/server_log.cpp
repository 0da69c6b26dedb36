// Unknown members are refused: a misspelt setting would otherwise appear to be in effect.
#include "serve/observe/server_log.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace peri::serve {

void ServerLog::say(const LogLine& line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool on[] = {settings_.verbose > 0, settings_.info, settings_.warning, settings_.error};
  const auto level = static_cast<size_t>(line.level);
  if (!on[level]) return;
  if (settings_.iso8601)
    write_(utc_text(wall_seconds()) + " " + "VIWE"[level] + " serve: " + line.text);
  else
    write_("serve: " + line.text);
}

std::string ServerLog::text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  JsonWriter w;
  w.begin_object().field("log_file", "").field("log_info", settings_.info).field("log_warning", settings_.warning);
  w.field("log_error", settings_.error).field("log_verbose_level", settings_.verbose);
  return w.field("log_format", settings_.iso8601 ? "ISO8601" : "default").end_object().take();
}

namespace {
Status take_flag(const Json& changes, std::string_view key, bool* to) {
  PERI_ASSIGN(*to, changes.get_bool(key));
  return Ok{};
}
}  // namespace

Status ServerLog::update(const Json& changes) {
  PERI_ASSIGN(const Json::Object* members, changes.as_object());
  const std::lock_guard<std::mutex> lock(mutex_);
  LogSettings s = settings_;
  for (const auto& [key, value] : *members) {
    if (key == "log_file") {
      return unsupported("log file location can not be updated through network protocol");
    } else if (key == "log_info") {
      PERI_TRY(take_flag(changes, key, &s.info));
    } else if (key == "log_warning") {
      PERI_TRY(take_flag(changes, key, &s.warning));
    } else if (key == "log_error") {
      PERI_TRY(take_flag(changes, key, &s.error));
    } else if (key == "log_verbose_level") {
      PERI_ASSIGN(s.verbose, changes.get_uint(key));
      s.verbose = std::min<uint64_t>(s.verbose, UINT32_MAX);
    } else if (key == "log_format") {
      PERI_ASSIGN(const std::string_view format, changes.get_string(key));
      if (format != "default" && format != "ISO8601")
        return invalid("invalid argument for log_format, got: %s", std::string(format.substr(0, 80)).c_str())
            .expecting("default or ISO8601");
      s.iso8601 = format == "ISO8601";
    } else {
      return invalid("'%s' is not a log setting", key.substr(0, 80).c_str())
          .expecting("log_info, log_warning, log_error, log_verbose_level or log_format");
    }
  }
  settings_ = s;
  verbose_ = s.verbose > 0;
  return Ok{};
}

}  // namespace peri::serve
