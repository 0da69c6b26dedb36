// Progress lines and the Ctrl-C handler.
#include "cli/console/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/file_uses.hpp"
#include "base/knobs.hpp"
#include "base/result.hpp"
#include "base/utf8.hpp"
#include "base/version.hpp"

namespace peri::cli {

namespace {
constexpr int64_t kPlainLineEveryNs = 2'000'000'000;  // without a terminal
constexpr int64_t kFirstPlainLineNs = 500'000'000;    // so that a first sign of progress appears soon
constexpr unsigned kGraceSeconds = 2;                 // within which a command that stops must poll
constexpr int64_t kSameSignalNs = 300'000'000;        // timeout(1) sends a signal to the process and to its group
volatile std::sig_atomic_t g_interrupts = 0, g_seen = 0;
bool g_stops = false;
char g_last_line[160];  // printed when a signal ends the process
size_t g_last_size = 0;
std::atomic<int64_t> g_interrupted_ns = 0;  // time of the first signal

// The object of --json for a process that a signal ends; made before the handlers are.
struct LastAnswer {
  std::string text, file, beside;  // `file` empty: standard output; else written as `beside` and renamed
};
LastAnswer* g_answer = nullptr;  // never freed: a handler may be reading it

// Calls only what a signal handler may.
void write_answer() {
  const LastAnswer* a = std::exchange(g_answer, nullptr);
  if (!a) return;
  const int file = a->file.empty() ? 1 : open(a->beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return;
  const bool whole = write(file, a->text.data(), a->text.size()) == static_cast<ssize_t>(a->text.size());
  if (a->file.empty()) return;
  if (!whole || close(file) != 0 || rename(a->beside.c_str(), a->file.c_str()) != 0) (void)unlink(a->beside.c_str());
}

void end_now() {
  write_answer();
  (void)!write(2, g_last_line, g_last_size);
  _exit(exit_code(ErrorKind::kCancelled));
}
void on_interrupt(int) {
  const int64_t now = now_ns();
  if (!g_stops || (g_interrupts && now - g_interrupted_ns > kSameSignalNs)) end_now();
  if (g_interrupts) return;
  g_interrupted_ns = now;
  g_interrupts = 1;
  alarm(kGraceSeconds);
}
void on_alarm(int) {
  if (!g_seen) end_now();
}
constexpr size_t kMinColumns = 20;  // narrower terminals wrap by themselves

// A terminal that can move the cursor and erase.
bool redraws(int file) { return isatty(file) == 1 && !terminal_is_dumb(); }

// 80 for a terminal that does not report its width.
size_t terminal_columns(int file) {
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
}  // namespace

std::string within(const std::string& line, size_t columns) {
  size_t used = 0, end = 0;
  for (; end < line.size(); ++end) {
    const auto byte = static_cast<unsigned char>(line[end]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation byte of a UTF-8 character
    // From U+1000 on (three bytes, first byte above 0xe0) characters may be two columns wide.
    used += byte > 0xe0 ? 2 : 1;
    if (used >= columns) break;
  }
  return line.substr(0, end);
}

void keep_streams() {
  for (const int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != stream) return;  // writes to it fail, as before
}

size_t output_columns() { return isatty(1) == 1 ? std::max(terminal_columns(1), kMinColumns) : 0; }

size_t output_rows() {
  winsize size{};
  return isatty(1) == 1 && ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

std::string help_row(const std::string& left, std::string_view text, size_t indent, size_t columns) {
  if (columns && indent > columns / 2) indent = std::min(indent, size_t{8});
  std::string out = left, line;
  if (const size_t value = left.rfind(' '); columns && left.size() >= columns && left.find_first_not_of(' ') < value)
    out = left.substr(0, value) + "\n" + std::string(indent, ' ') + left.substr(value + 1);
  const auto begin_line = [&] {
    out += "\n" + std::string(indent, ' ');
    line.clear();
  };
  if (left.empty() || !columns || left.size() + 2 <= indent)
    out.resize(std::max(left.size() + (left.empty() ? 0 : 2), indent), ' ');
  else
    begin_line();
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (columns && !line.empty() && indent + line.size() + 1 + word.size() >= columns) begin_line();
    const std::string more = (line.empty() ? "" : " ") + std::string(word);
    line += more;
    out += more;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

std::string wrapped(std::string_view line, size_t columns) {
  const size_t begin = line.find_first_not_of(' ');
  if (columns == 0 || begin == std::string_view::npos) return std::string(line);
  const std::string indent(std::min(begin, columns / 3) + 2, ' ');
  std::string out, rest(line);
  for (size_t left = columns;; left = columns - indent.size()) {
    const size_t fits = within(rest, left + 1).size();
    if (fits == rest.size()) return out + rest;
    const size_t space = rest.rfind(' ', fits), end = rest.find_last_not_of(' ', space);
    if (space == std::string::npos || end == std::string::npos) return out + rest;  // one long word
    out += rest.substr(0, end + 1) + "\n" + indent;
    rest.erase(0, rest.find_first_not_of(' ', space));
  }
}

namespace {
bool g_verbose = false;
Fd g_log;
int64_t g_log_begun_ns = 0;
std::string g_log_path, g_log_head;

std::string timed(std::string_view line) {
  return format("%9.3f s  ", seconds_since(g_log_begun_ns)) + printable(line);
}
void to_file(std::string_view line) {
  if (g_log.valid()) (void)append(g_log, timed(line) + "\n");  // a full disk does not stop a build
}
}  // namespace

Status keep_log(bool verbose, const std::string& path, std::string_view command) {
  g_verbose = verbose;
  g_log_begun_ns = now_ns();
  if (path.empty()) return Ok{};
  PERI_ASSIGN(g_log, begin_named_file(path));
  g_log_path = path;
  g_log_head = "peri " + std::string(version()) + ": " + std::string(command) + "\n";
  Status begun = append(g_log, g_log_head);
  if (!begun.ok()) return std::move(begun).error().in_file(path);
  return begun;
}

Status reopen_log() {
  struct stat s = {};
  if (!g_log.valid() || fstat(g_log.get(), &s) != 0 || !S_ISREG(s.st_mode)) return Ok{};
  const Fd fresh(open(g_log_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!fresh.valid() || fstat(fresh.get(), &s) != 0) return os_error("open", g_log_path);
  if (s.st_size == 0) {
    Status begun = append(fresh, g_log_head);
    if (!begun.ok()) return std::move(begun).error().in_file(g_log_path);
  }
  // In place: other threads write to it.
  if (dup3(fresh.get(), g_log.get(), O_CLOEXEC) < 0) return os_error("open", g_log_path);
  return Ok{};
}

void log_line(std::string_view line) {
  if (g_verbose) std::fprintf(stderr, "%s\n", timed(line).c_str());
  to_file(line);
}

void clear_screen() {
  if (redraws(1)) std::fputs("\x1b[H\x1b[2J", stdout);
}

void say(std::string_view line) {
  std::fprintf(stderr, "%s\n", printable(line).c_str());
  to_file(line);
}

void say_wrapped(std::string_view line) {
  const size_t columns = isatty(2) == 1 ? std::max(terminal_columns(2), kMinColumns) : 0;
  std::fprintf(stderr, "%s\n", wrapped(printable(line), columns).c_str());
  to_file(line);
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(redraws(2)), start_ns_(now_ns()) {
  last_ns_ = start_ns_ - kPlainLineEveryNs + kFirstPlainLineNs;
}
Progress::~Progress() { clear(); }

void Progress::show(size_t done, size_t total, const std::string& what) {
  if (g_verbose || g_log.valid()) log_line((total ? format("[%zu/%zu] ", done, total) : "") + what);
  if (quiet_ || g_verbose) return;
  std::string left;
  const double spent = seconds_since(start_ns_);
  if (total && done >= 3 && spent > 1)
    left = ", about " +
           std::to_string(std::lround(spent / static_cast<double>(done) * static_cast<double>(total - done))) +
           " s left";
  const std::string count = total ? "[" + std::to_string(done) + "/" + std::to_string(total) + left + "] " : "";
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", within(printable(count + what), terminal_columns(2)).c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else if (now_ns() - last_ns_ >= kPlainLineEveryNs) {
    std::fprintf(stderr, "%s\n", printable(count + what).c_str());
    last_ns_ = now_ns();
  }
}

void Progress::show_now(const std::string& what) {
  if (!shown_now_) last_ns_ = std::min(last_ns_, now_ns() - kPlainLineEveryNs);
  shown_now_ = true;
  show(0, 0, what);
}

void Progress::clear() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

void watch_interrupt(std::string_view command, bool stops) {
  g_stops = stops;
  const std::string line = format("%sFAILED %s: interrupted%s\n", redraws(2) ? "\r\033[K" : "",
                                  std::string(command).c_str(), stops ? " before it could end in order" : "");
  g_last_size = command.empty() ? 0 : line.copy(g_last_line, sizeof g_last_line);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)  // nohup: continue without the terminal
    sigaction(SIGHUP, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit is a write error
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
}
void answer_interrupt(const std::string& path, const std::string& object) {
  auto a = std::make_unique<LastAnswer>(LastAnswer{object + "\n", path == "-" ? "" : behind_links(path), ""});
  std::error_code none;
  if (!a->file.empty() && std::filesystem::exists(a->file, none) && !std::filesystem::is_regular_file(a->file, none))
    return;  // a device
  a->beside = a->file + "." + std::to_string(getpid()) + ".cut";
  g_answer = a.release();
}
void forget_answer() { g_answer = nullptr; }

bool interrupted() {
  if (g_interrupts) g_seen = 1;
  return g_interrupts != 0;
}

}  // namespace peri::cli
