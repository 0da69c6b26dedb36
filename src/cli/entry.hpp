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

// One flag. An empty `value` makes it a switch; a value with FILE, ENGINE or MODEL names an input file, unless `writes`
// describes an output; "a|b" lists all values. `repeated`: may occur several times.
struct Flag {
  std::string_view name;             // "--output"
  std::string_view short_name = "";  // "-o"
  std::string_view value = "";       // "FILE": what help shows
  std::string_view help = "";
  bool repeated = false;
  const FileKind* writes = nullptr;
  std::string_view also = "";  // further names, separated by spaces: "--duration"
};

// The parsed command line, checked against the flags: unknown flags and missing values are refused before the command.
struct Arguments {
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>, std::less<>> values;  // by long name
  std::map<std::string, std::string, std::less<>> typed;                // the same flags in the spelling used last
  bool has(std::string_view flag) const { return values.find(flag) != values.end(); }
  std::string get(std::string_view flag, std::string_view fallback = "") const;
  std::vector<std::string> all(std::string_view flag) const;
  // In the user's spelling, for messages.
  std::string spelled(std::string_view flag) const;
  // A decimal number; NaN is refused.
  Result<double> real(std::string_view flag, double low, double high, double fallback) const;
  Result<int64_t> number(std::string_view flag, int64_t low, int64_t high, int64_t fallback) const;
};

// The result of a command: the text of its PASSED or FAILED line, and the object for --json. A command that completed
// with a negative result (unsupported nodes, outputs outside the budget) sets `code`; one that could not complete
// returns an error, or, if a part of the result stands, sets `error`: its code, object and text are added.
struct Outcome {
  std::string summary;
  std::string json;
  int code = 0;
  std::optional<Error> error = {};
};

struct Command {
  std::string_view name;        // "build"
  std::string_view summary;     // one line
  std::string_view positional;  // "MODEL", "MODEL|ENGINE"
  int min_positional = 0, max_positional = 0;
  std::vector<Flag> flags;        // --json, --quiet and --help are added to every command
  std::string_view details = "";  // more text for help: examples
  Result<Outcome> (*run)(const Arguments& arguments) = nullptr;
  bool hidden = false;
  bool stops = false;              // on a signal it ends with a partial result; other commands end at once
  bool runs_until_signal = false;  // with `stops`: a signal is its normal end
};

struct Entry {
  Command command;
};
std::span<const Entry* const> entries();
const Command* find(std::string_view name);

}  // namespace peri::cli
