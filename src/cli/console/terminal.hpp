// Progress on standard error and interruption: one updating line on a terminal, else plain lines; Ctrl-C stops work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri::cli {

// The start of a line of UTF-8 that fits into so many columns, the last of them left free: a terminal that wraps a line
// keeps its first row when the line is drawn anew. Characters that may be two columns wide count as two.
std::string within(const std::string& line, size_t columns);

// Standard streams that came closed stay so: no file or socket that is opened later gets their number and their text.
void keep_streams();

// Columns of the terminal that standard output is; 0: it is none, and lines are as long as they are.
size_t output_columns();
// A row of help: `left`, then `text` from column `indent` on, on a line of its own where `left` is too long. Lines are
// broken at spaces to fit into so many columns (0: not at all).
std::string help_row(const std::string& left, std::string_view text, size_t indent, size_t columns);

// Standard output's terminal begins anew at its top.
void clear_screen();
// A line broken at spaces to fit into so many columns (0: not at all), what follows its first piece further in.
std::string wrapped(std::string_view line, size_t columns);

// A line on standard error, as printable() has it.
void say(std::string_view line);

// From now on each line of the work is told with the seconds since the start: on standard error where `verbose` says
// so, and in the file `path`, which is made anew, with what say() says; "": no file. Errors: kIo.
Status keep_log(bool verbose, const std::string& path, std::string_view command);
void log_line(std::string_view line);

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  // `total` 0: not known. Shows an estimate of what is left once a few steps are done.
  void show(size_t done, size_t total, const std::string& what);
  // The same, and the first time at once, also where lines are plain: what follows may take long and say nothing.
  void show_now(const std::string& what);
  void clear();

 private:
  bool quiet_, terminal_;
  bool drawn_ = false, shown_now_ = false;
  int64_t start_ns_ = 0, last_ns_ = 0;
};

// Ctrl-C and SIGTERM. A command that does not stop by itself ends at once, with exit code 130. For one that does,
// interrupted() becomes true, and it ends with what it has; at once, if it has not asked within two seconds, or at a
// second signal. `command` "" says nothing when it is ended.
void watch_interrupt(std::string_view command, bool stops);
bool interrupted();

}  // namespace peri::cli
