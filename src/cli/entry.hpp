// The interface of a subcommand: its name, one-line summary, flags, and the function that runs it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_uses.hpp"
#include "base/result.hpp"

namespace peri::cli {

// One flag. `value` empty: a switch; with FILE, ENGINE or MODEL in it, it names a file that is read, unless `writes`
// says what is written there; "a|b" are all there are. `repeated`: may stand several times.
struct Flag {
  std::string_view name;             // "--output"
  std::string_view short_name = "";  // "-o"
  std::string_view value = "";       // "FILE": what help shows
  std::string_view help = "";
  bool repeated = false;
  const FileKind* writes = nullptr;
  std::string_view also = "";  // other names it is known by, with spaces between: "--duration"
};

// What was typed, checked against the flags: unknown flags and missing values never reach the command.
struct Arguments {
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>, std::less<>> values;  // by long name
  std::map<std::string, std::string, std::less<>> typed;                // the same flags as they were spelled last
  bool has(std::string_view flag) const { return values.find(flag) != values.end(); }
  std::string get(std::string_view flag, std::string_view fallback = "") const;
  std::vector<std::string> all(std::string_view flag) const;
  // As it was typed, for messages.
  std::string spelled(std::string_view flag) const;
  // A decimal number; NaN is none.
  Result<double> real(std::string_view flag, double low, double high, double fallback) const;
  Result<int64_t> number(std::string_view flag, int64_t low, int64_t high, int64_t fallback) const;
};

// What a command leaves: a line for PASSED or FAILED, and the object for --json. A command that did its work and found
// something bad (unsupported nodes, an answer outside its budget) says so by `code`; one that could not work is an
// error.
struct Outcome {
  std::string summary;
  std::string json;
  int code = 0;
};

struct Command {
  std::string_view name;        // "build"
  std::string_view summary;     // one line
  std::string_view positional;  // "MODEL", "MODEL|ENGINE"
  int min_positional = 0, max_positional = 0;
  std::vector<Flag> flags;        // --json, --quiet and --help are everyone's
  std::string_view details = "";  // more text for help: examples
  Result<Outcome> (*run)(const Arguments& arguments) = nullptr;
  bool hidden = false;
  bool stops = false;              // on a signal it ends with what it has; the others end where it finds them
  bool runs_until_signal = false;  // with `stops`: a signal is its ordinary end
};

struct Entry {
  Command command;
};
std::span<const Entry* const> entries();
const Command* find(std::string_view name);

}  // namespace peri::cli
