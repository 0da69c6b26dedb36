// Starts, queries and replaces workers.
#include "tune/worker.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/knobs.hpp"
#include "base/this_program.hpp"
#include "kernels/outside/outside.hpp"
#include "tune/rejection.hpp"
#include "tune/trial_place.hpp"
#include "tune/wire.hpp"

namespace peri::tune {

namespace {
constexpr double kReferencePatienceS = 1800;  // expected answers of a large problem, before any candidate runs

bool address_space_is_limited() {
  rlimit limit = {};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// How a worker ended.
struct Death {
  std::string how;       // "died of SIGSEGV", "gave no answer for 120 s"
  bool ours = false;     // a fault of the code it ran: the same again next time
  bool killed = false;   // by others: worth another try
  bool limited = false;  // for want of memory, as far as one can tell: it says nothing about the code
  std::string told() const { return (limited ? std::string(kLacksMemory) : "") + "the worker " + how; }
};

struct Process {
  pid_t pid = -1;
  Fd socket;

  // Whether it ends by itself within a time that ends need.
  bool ends(int* status) const {
    constexpr double kEndPatienceS = 5;
    constexpr unsigned kSliceUs = 2000;
    const int64_t start = now_ns();  // Clock: a deadline
    while (true) {
      const pid_t ended = waitpid(pid, status, WNOHANG);
      if (ended == pid || (ended < 0 && errno != EINTR)) return true;
      if (seconds_since(start) > kEndPatienceS) return false;  // Clock: the same
      usleep(kSliceUs);
    }
  }

  // Ends it, if it still runs, and says how it ended.
  Death end(bool too_slow, double patience_s) {
    if (too_slow) kill(pid, SIGKILL);
    socket = {};
    int status = 0;
    const bool went_on = !ends(&status);
    if (went_on) {
      kill(pid, SIGKILL);
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    }
    pid = -1;
    if (went_on) return {"left the build and went on", false, false};
    if (too_slow) return {format("gave no answer for %.0f s", patience_s), false, false};
    if (!WIFSIGNALED(status)) return {format("ended with status %d", WEXITSTATUS(status)), false, false};
    const int n = WTERMSIG(status);
    const char* name = sigabbrev_np(n);
    const bool fault = n == SIGSEGV || n == SIGILL || n == SIGBUS || n == SIGFPE;
    // A library may not look whether it got the memory that it asked for.
    const bool limited = fault && address_space_is_limited();
    const std::string why = limited ? ", with its memory limited (ulimit -v)" : "";
    return {std::string("died of SIG") + (name ? name : std::to_string(n)) + why, fault && !limited,
            n == SIGKILL || n == SIGTERM || n == SIGINT, limited};
  }
};

// `program worker` with its end of a socket as descriptor 3, no other descriptor of ours, and Ctrl-C blocked.
Result<Process> spawn(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return os_error("make a socket", program);
  Process p;
  p.socket = Fd(ends[0]);
  const Fd theirs(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, theirs.get(), kWorkerSocket);
  // What it might print is no part of the build's output, which may be JSON.
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, kWorkerSocket + 1);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = program, word = "worker";
  char* arguments[] = {name.data(), word.data(), nullptr};
  const int code = posix_spawn(&p.pid, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  errno = code;
  if (code != 0) return os_error("start the worker", program);
  return p;
}
}  // namespace

std::string worker_program() {
  if (auto given = knob(Knob::kWorker)) return *given;
  const Result<std::string> running = program_path();
  const std::filesystem::path self = running.ok() ? *running : "";
  if (const auto path = self.parent_path() / "peri"; !self.empty() && access(path.c_str(), X_OK) == 0) return path;
  Dl_info here = {};
  if (!dladdr(reinterpret_cast<const void*>(&worker_program), &here) || !here.dli_fname) return "";
  std::error_code failed;
  const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, failed);
  const auto path = library.parent_path().parent_path() / "bin/peri";
  return !failed && library != self && access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

std::string why_no_worker() {
  if (knob(Knob::kWorker)) return "PERI_WORKER is empty, which asks for none";
  return "no program 'peri' is beside the running program, nor in bin beside the library's folder: PERI_WORKER names "
         "one";
}

namespace {
// The answer to a question, or how the worker ended over it.
struct Said {
  std::optional<Json> json;
  Death death;
};
}  // namespace

struct RemoteJudge::State {
  std::string program;
  std::string device;
  int threads = 1;
  double patience_s = kPatienceS, device_patience_s = kDevicePatienceS;
  Process process;
  int64_t deaths = 0;
  Spent spent;

  Status start() {
    PERI_ASSIGN(process, spawn(program));
    JsonWriter w;
    w.begin_object().field("threads", threads).field("device", device);
    w.field("parent", static_cast<int64_t>(getpid())).key("kernels").begin_array();
    for (const std::string& manifest : kernels::outside::added()) w.value(manifest);
    w.end_array().end_object();
    // Another program may never speak; a worker of another version answers without a greeting.
    double patience = kGreetingPatienceS;
    auto hello = send_text(process.socket.get(), w.take()).ok() ? receive(process.socket.get(), patience)
                                                                : Result<Json>(io_error("closed"));
    if (hello.ok() && hello->find(kGreeting)) {
      patience = kStartPatienceS;
      hello = receive(process.socket.get(), patience);
    }
    if (hello.ok()) {
      auto theirs = hello->get_string("signature");
      if (theirs.ok() && *theirs == signature()) return Ok{};
      stop();
      return refused("the worker is another version, or has other kernels or libraries").in_file(program);
    }
    const ErrorKind kind = hello.error().kind;
    if (kind != ErrorKind::kIo && kind != ErrorKind::kCancelled) {
      stop();
      return refused("what the worker says is no answer of a worker: it is another program").in_file(program);
    }
    const Death d = process.end(kind == ErrorKind::kCancelled, patience);
    return refused("the worker %s before it was ready", d.how.c_str()).in_file(program);
  }
  void stop() {
    if (process.pid < 0) return;
    kill(process.pid, SIGKILL);
    process.end(false, 0);
  }
  // Buries a worker that gave `error` for an answer, and starts another.
  Result<Death> replace(const Error& error, double waited_s) {
    ++deaths;
    Death d = process.end(error.kind != ErrorKind::kIo, waited_s);
    PERI_TRY(start());
    return d;
  }
  // Sends a question to a running worker; one that died since its last answer is replaced first.
  Status ask(const std::string& text) {
    if (process.pid < 0) PERI_TRY(start());
    if (send_text(process.socket.get(), text).ok()) return Ok{};
    PERI_ASSIGN(const Death d, replace(io_error("closed"), patience_s));
    return send_text(process.socket.get(), text);
  }
  // Asks for one answer. A worker that others killed meanwhile gets a second try. Errors: no worker could be had;
  // kCancelled where `stop` said so first, and the next question starts another.
  Result<Said> answer(const std::string& text, const std::function<bool()>& stop_asked = {}) {
    for (int tries = 0;; ++tries) {
      PERI_TRY(ask(text));
      auto said = receive(process.socket.get(), patience_s, stop_asked);
      while (said.ok() && said->find("goes_on")) said = receive(process.socket.get(), patience_s, stop_asked);
      if (!said.ok() && stop_asked && stop_asked()) {
        stop();
        return Error(ErrorKind::kCancelled, "the build was stopped");
      }
      if (said.ok()) return Said{*std::move(said), {}};
      PERI_ASSIGN(Death d, replace(said.error(), patience_s));
      if (!d.killed || tries > 0) return Said{std::nullopt, std::move(d)};
    }
  }
};

RemoteJudge::RemoteJudge() : state_(std::make_unique<State>()) {}
RemoteJudge::~RemoteJudge() { state_->stop(); }
int64_t RemoteJudge::deaths() const { return state_->deaths; }
Spent RemoteJudge::take_spent() { return std::exchange(state_->spent, {}); }

Result<std::unique_ptr<RemoteJudge>> RemoteJudge::start(const std::string& program, int threads, double patience_s,
                                                        const std::string& device, double device_patience_s) {
  std::unique_ptr<RemoteJudge> out(new RemoteJudge());
  State& s = *out->state_;
  s.program = program;
  s.threads = threads;
  s.device = device;
  s.patience_s = patience_s;
  s.device_patience_s = device_patience_s;
  PERI_TRY(s.start());
  return out;
}

namespace {
// One question to one worker, until it is answered or the worker is gone.
struct Round {
  std::vector<size_t> asked, left;  // candidates; `left` have no verdict yet
  std::optional<size_t> at;         // the one it is trying
  std::vector<bool> ready;          // those that it has told of twice: they run
  bool done = false, told_any = false;
  Spent* spent = nullptr;

  Status take(const Json& said, const Told& told) {
    if (const Json* why = said.find("error"))
      return refused("the worker: %s", std::string(why->as_string().ok() ? *why->as_string() : "").c_str());
    if (const Json* sum = said.find("done")) {
      PERI_ASSIGN(const Spent now, read_spent(*sum));
      *spent += now;
      done = true;
      return Ok{};
    }
    PERI_ASSIGN(const int64_t index, said.get_int("candidate"));
    if (index < 0 || index >= static_cast<int64_t>(asked.size())) return invalid("the worker names no candidate");
    const size_t k = asked[static_cast<size_t>(index)];
    if (!said.find("evidence")) {
      ready[k] = ready[k] || at == k;
      at = k;
      told(k, nullptr);
      return Ok{};
    }
    PERI_ASSIGN(const Verdict v, read_verdict(said));
    told_any = true;
    std::erase(left, k);
    if (at == k) at.reset();
    told(k, &v);
    return Ok{};
  }
};
}  // namespace

Status RemoteJudge::judge(const ir::Graph& region, const std::vector<bool>& constant,
                          std::span<const Candidate* const> candidates, const Terms& terms, const Told& told) {
  State& s = *state_;
  Round r;
  r.spent = &s.spent;
  for (size_t k = 0; k < candidates.size(); ++k) r.left.push_back(k);
  std::vector<int> tries(candidates.size(), 0);
  int vain = 0;  // deaths while no candidate was tried
  while (!r.left.empty()) {
    std::vector<const Candidate*> list;
    for (size_t k : r.left) list.push_back(candidates[k]);
    PERI_TRY(s.ask(question_text(region, constant, list, terms)));
    r.asked = r.left;
    r.ready.assign(candidates.size(), false);
    r.at.reset();
    r.told_any = false;
    Result<Json> said = Json();
    const auto patience = [&] {
      if (!r.at) return kReferencePatienceS;
      const bool away = r.ready[*r.at] && device_of(*candidates[*r.at]->kernel) != "host";
      return away ? std::min(s.patience_s, s.device_patience_s) : s.patience_s;
    };
    while ((said = receive(s.process.socket.get(), patience(), terms.stop)).ok()) {
      PERI_TRY(r.take(*said, told));
      if (r.done) return Ok{};
    }
    if (terms.stop && terms.stop()) {
      s.stop();  // in the middle of something; the next question starts another
      return Ok{};
    }
    PERI_ASSIGN(const Death d, s.replace(said.error(), patience()));
    if (!r.at) {
      vain = r.told_any ? 0 : vain + 1;
      if (vain > 2) return refused("the worker %s before it tried a candidate", d.how.c_str());
      continue;
    }
    if (d.killed && tries[*r.at]++ == 0) continue;
    Verdict v;
    v.evidence.rejected = d.told();
    v.lasting = d.ours;
    std::erase(r.left, *r.at);
    told(*r.at, &v);
  }
  return Ok{};
}

Status RemoteJudge::foresee(const ir::Graph& region, const std::vector<bool>& constant,
                            std::span<const Candidate* const> candidates) {
  Terms terms;
  terms.ahead = true;
  return state_->ask(question_text(region, constant, candidates, terms));
}

Status RemoteJudge::open_ahead(std::string_view device) { return state_->ask(one_field("open_ahead", device)); }

Status RemoteJudge::foresee_samples(const kernels::Kernel& kernel) {
  return state_->ask(one_field("samples_ahead", kernel.name));
}

Result<SampleVerdict> RemoteJudge::samples(const kernels::Kernel& kernel, const std::function<bool()>& stop) {
  PERI_ASSIGN(const Said said, state_->answer(one_field("samples", kernel.name), stop));
  if (said.json) return read_samples(*said.json);
  return SampleVerdict{0, said.death.told() + " on a sample", said.death.ours};
}

Result<Resolved> RemoteJudge::resolve(const ir::Graph& region, const std::vector<bool>& constant,
                                      const Candidate& candidate) {
  const Candidate* const list[] = {&candidate};
  PERI_ASSIGN(const Said said, state_->answer(question_text(region, constant, list, {}, true)));
  if (said.json) return read_resolved(*said.json);
  return Resolved{{}, said.death.told(), said.death.ours};
}

Result<Crossing> RemoteJudge::crossing(std::string_view device) {
  PERI_ASSIGN(const Said said, state_->answer(one_field("crossing", device)));
  if (!said.json) return refused("the worker %s while it copied", said.death.how.c_str());
  if (const Json* why = said.json->find("error")) {
    PERI_ASSIGN(const std::string_view text, why->as_string());
    return refused("the worker: %s", std::string(text).c_str());
  }
  return read_crossing(*said.json);
}

}  // namespace peri::tune
