// Flags of `serve` for monitoring: its log and its traces.
#pragma once

#include "cli/entry.hpp"
#include "serve/observe/observer.hpp"

namespace peri::cli {

std::vector<Flag> watching_flags();
// Initial settings of the server's log: --log-verbose, --log-format, --quiet.
Result<serve::LogSettings> log_settings(const Arguments& arguments);
// `log` must outlive the result.
Result<std::unique_ptr<serve::Observer>> open_observer(const Arguments& arguments, serve::ServerLog& log);
// Whether SIGHUP was received since the last call. The first call installs the handler: the signal then no longer ends
// the process.
bool hung_up();

}  // namespace peri::cli
