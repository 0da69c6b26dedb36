// Progress on standard error and interruption: one updating line on a terminal, else plain lines; Ctrl-C stops work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::cli {

// The beginning of a line of UTF-8 that fits into this many columns, leaving the last one free: a terminal that wraps a
// line does not redraw its first row. Characters that may be two columns wide count as two.
std::string within(const std::string& line, size_t columns);

// Keeps closed standard streams closed: no file or socket opened later gets their number and output.
void keep_streams();

// Columns of the terminal at standard output; 0: it is not a terminal, and lines are not wrapped.
size_t output_columns();
// Rows of it; 0: it is not a terminal, or has no size.
size_t output_rows();
// A row of help: `left`, then `text` from column `indent` on, on a new line if `left` is too long. Lines are wrapped at
// spaces to this many columns (0: not wrapped).
std::string help_row(const std::string& left, std::string_view text, size_t indent, size_t columns);

// Clears the terminal at standard output, if it is one that can be cleared.
void clear_screen();
// A line wrapped at spaces to this many columns (0: not wrapped); continuation lines are indented.
std::string wrapped(std::string_view line, size_t columns);

// Prints a line on standard error, escaped by printable(); say_wrapped(): wrapped on a terminal, if nobody is to copy a
// command from it.
void say(std::string_view line);
void say_wrapped(std::string_view line);

// From now on progress lines are logged with the seconds since the start: on standard error if `verbose`, and in the
// file `path`, which is replaced, together with the lines of say(); "": no file. Errors: kIo.
Status keep_log(bool verbose, const std::string& path, std::string_view command);
// After the file was renamed, for example: later lines go to the one that has its name now, or to a new one. Nothing
// without a file, and where it is none, as /dev/stderr. Errors: kIo; the log goes on where it was.
Status reopen_log();
void log_line(std::string_view line);

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  // `total` 0: unknown. Shows an estimate of the remaining time after a few steps.
  void show(size_t done, size_t total, const std::string& what);
  // As show(), but printed at once the first time even without a terminal: for long work without further progress.
  void show_now(const std::string& what);
  void clear();

 private:
  bool quiet_, terminal_;
  bool drawn_ = false, shown_now_ = false;
  int64_t start_ns_ = 0, last_ns_ = 0;
};

// Handles Ctrl-C and SIGTERM. A command without `stops` ends at once, with exit code 130. With `stops`, interrupted()
// becomes true, and the command ends with its partial result; it ends at once if it has not polled within two seconds,
// or on a second signal. An empty `command` prints nothing when it ends.
void watch_interrupt(std::string_view command, bool stops);
bool interrupted();
// After watch_interrupt(): a process that a signal ends at once also writes `object` where --json says, as a whole or
// not at all; "-" is standard output. forget_answer(): from now on it does not, since the answer is being written.
void answer_interrupt(const std::string& path, const std::string& object);
void forget_answer();

}  // namespace peri::cli
