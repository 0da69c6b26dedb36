// Starts a command, reads its output to the end, and parses it.
#include "bench/fresh.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace peri::bench {

namespace {
constexpr int kLookEveryMs = 100;                      // at `stop`
constexpr size_t kMaxOutputBytes = size_t{512} << 20;  // of a record: 20 million samples

struct Child {
  pid_t pid = -1;
  Fd output;
};

Result<Child> start(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return os_error("make a pipe", words[0]);
  Child child;
  child.output = Fd(ends[0]);
  const Fd theirs(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, theirs.get(), 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> own = words;
  std::vector<char*> arguments;
  for (std::string& word : own) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = posix_spawn(&child.pid, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    errno = code;
    return os_error("start", words[0]);
  }
  return child;
}

// What an error object of --json says; the text as it is where it is none.
Error error_in(const Json& json) {
  Error e(ErrorKind::kInternal, "a measuring process failed without a word");
  const Json* said = json.find("error");
  if (!said) return e;
  const auto part = [&](const char* key, std::string* out) {
    if (const auto v = said->get_string(key, ""); v.ok() && !v->empty()) *out = *v;
  };
  std::string kind;
  part("kind", &kind);
  for (int k = 0; k <= static_cast<int>(ErrorKind::kInternal); ++k)
    if (error_kind_name(static_cast<ErrorKind>(k)) == kind) e.kind = static_cast<ErrorKind>(k);
  part("message", &e.message);
  part("file", &e.file);
  part("node", &e.node);
  part("expected", &e.expected);
  part("found", &e.found);
  part("remedy", &e.remedy);
  return e;
}

Result<Record> record_of(const Answer& answer) {
  auto record = read_record(answer.output);
  if (record.ok()) return record;
  if (answer.code > 128) return internal_error("a measuring process was ended by signal %d", answer.code - 128);
  const auto json = parse_json(answer.output);
  if (json.ok() && json->find("error")) return error_in(*json);
  return std::move(record).error();
}
}  // namespace

Result<Answer> run_fresh(const std::vector<std::string>& words, const std::function<bool()>& stop) {
  PERI_ASSIGN(Child child, start(words));
  Answer answer;
  std::array<char, 1 << 16> part;
  bool told = false, full = false;
  for (;;) {
    if (!told && stop && stop()) {
      kill(child.pid, SIGTERM);
      told = true;
    }
    pollfd wait = {child.output.get(), POLLIN, 0};
    const int ready = poll(&wait, 1, kLookEveryMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t n = read(child.output.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    full = full || answer.output.size() + static_cast<size_t>(n) > kMaxOutputBytes;
    if (!full) answer.output.append(part.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
  answer.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (full)
    return Error(ErrorKind::kMemory, "a measuring process wrote more than 512 MiB").advise("take fewer samples");
  return answer;
}

Result<Record> time_fresh(const std::vector<std::string>& words, int64_t processes,
                          const std::function<void(const std::string& what)>& progress,
                          const std::function<bool()>& stop) {
  std::vector<Record> parts;
  for (int64_t k = 1; k <= processes; ++k) {
    const std::string which =
        format("process %lld of %lld", static_cast<long long>(k), static_cast<long long>(processes));
    if (progress) progress(which);
    const int64_t start = now_ns();  // Clock: shown to who waits
    double told = 0;                 // once a second: a line more often would take from what is measured
    const auto looked = [&] {
      const double seconds = seconds_since(start);  // Clock: the same
      if (progress && seconds >= told + 1) progress(which + format(", %.0f s since its start", told = seconds));
      return stop && stop();
    };
    PERI_ASSIGN(const Answer answer, run_fresh(words, looked));
    auto record = record_of(answer);
    if (record.ok() && processes > 1 && !record->unstable.empty())
      record->unstable = "in " + which + " " + record->unstable;
    const bool stopped = stop && stop();
    if (stopped && !record.ok() && answer.code > 128 && parts.empty())  // ended before it could measure anything
      return Error(ErrorKind::kCancelled, "interrupted before anything was measured");
    if (!record.ok() && !(stopped && !parts.empty())) return std::move(record).error();
    if (record.ok()) parts.push_back(std::move(record).value());
    if (stopped) break;
  }
  Record all = merged(std::move(parts));
  all.interrupted = all.interrupted || static_cast<int64_t>(all.processes.size()) < processes;
  return all;
}

}  // namespace peri::bench
