// Descriptors are first moved to high numbers, so that placing one does not close the other.
#include "serve/worker/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "serve/worker/host.hpp"

namespace peri::serve {

constexpr int kHighFd = 64;

// The error of a descriptor above kHighFd that could not be made: usually there may be none.
static Error too_few_files(const std::string& program) {
  const int code = errno;
  Error e = os_error("start the worker", program);
  rlimit most{};
  if ((code != EINVAL && code != EMFILE) || getrlimit(RLIMIT_NOFILE, &most) != 0) return e;
  return Error(ErrorKind::kIo, "cannot start the worker: this process may have too few open files")
      .expecting(format("a limit of at least %d (RLIMIT_NOFILE)", 4 * kHighFd))
      .but_found(format("%llu", static_cast<unsigned long long>(most.rlim_cur)))
      .advise("raise it: ulimit -n 1024; LimitNOFILE=1024 of a systemd unit");
}

Result<WorkerProcess> start_process(const std::string& program, const std::vector<std::string>& arguments, int memory) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return os_error("make a socket", program);
  WorkerProcess out;
  out.socket = Fd(ends[0]);
  const Fd near(ends[1]);
  const Fd theirs(fcntl(near.get(), F_DUPFD_CLOEXEC, kHighFd)), shared(fcntl(memory, F_DUPFD_CLOEXEC, kHighFd));
  if (!theirs.valid() || !shared.valid()) return too_few_files(program);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, theirs.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(&files, shared.get(), kWorkerMemory);
  posix_spawn_file_actions_addclosefrom_np(&files, kWorkerMemory + 1);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&blocked, s);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = program;
  std::vector<std::string> words = arguments;
  std::vector<char*> argv = {name.data()};
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const int code = posix_spawn(&out.pid, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  errno = code;
  if (code != 0) return os_error("start the worker", program);
  out.ended = Fd(static_cast<int>(syscall(SYS_pidfd_open, out.pid, 0)));
  if (!out.ended.valid()) {
    Error e = os_error("watch the worker", program);
    kill(out.pid, SIGKILL);
    (void)bury(&out);
    return e;
  }
  return out;
}

std::string bury(WorkerProcess* process, bool* by_signal) {
  int status = 0;
  while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {}
  *process = {};
  if (by_signal) *by_signal = WIFSIGNALED(status);
  if (!WIFSIGNALED(status)) return format("ended with status %d", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return std::string("died of SIG") + (name ? name : std::to_string(WTERMSIG(status)));
}

}  // namespace peri::serve
