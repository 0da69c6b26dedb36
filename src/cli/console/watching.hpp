// Flags of `serve` for monitoring: its log and its traces.
#pragma once

#include "cli/entry.hpp"
#include "serve/observe/observer.hpp"

namespace peri::cli {

std::vector<Flag> watching_flags();
// What of the server's log is written at first: --log-verbose, --log-format, --quiet.
Result<serve::LogSettings> log_settings(const Arguments& arguments);
// `log` outlives it.
Result<std::unique_ptr<serve::Observer>> open_observer(const Arguments& arguments, serve::ServerLog& log);
// SIGHUP was sent since this was last asked. From the first call on it no longer ends the process.
bool hung_up();

}  // namespace peri::cli
