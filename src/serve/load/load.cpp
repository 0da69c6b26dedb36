// The loop: sends due requests on free connections, sleeps until the next is due or a socket is ready, reads.
#include "serve/load/load.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "serve/load/window.hpp"

namespace peri::serve {
namespace {

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

constexpr int64_t kNoCount = -1;        // a window of time
constexpr int64_t kRetryNs = 10000000;  // after a refused connection
constexpr uint64_t kMaxRefused = 8;     // in a row
constexpr int64_t kEndNs = 1000000000;  // to end sequences after an interruption
constexpr int kMinTimeouts = 2;         // of a server that is gone: one request may be slow, or one connection dead

class Loop {
 public:
  Loop(const Endpoint& where, const WireMaker& maker, const LoadTerms& terms)
      : where_(where), terms_(terms), rng_(terms.seed), epoll_(epoll_create1(EPOLL_CLOEXEC)), room_(1 << 18) {
    const int64_t most = terms.rate > 0 ? terms.connections : terms.concurrency;
    for (int64_t k = 0; k < most; ++k) talks_.push_back({.wire = maker()});
    // Connections are used last in, first out: a low rate uses few connections.
    for (size_t k = talks_.size(); k > 0; --k) free_.push_back(k - 1);
  }
  Result<LoadResult> run();

 private:
  struct Talk {
    std::unique_ptr<Wire> wire;
    Fd fd = {};
    bool connecting = false, busy = false, counted = true;  // not counted: a request that only ends a sequence
    int64_t due_ns = 0, sent_ns = 0;
    std::string_view out = {};
    std::string held = {};  // unsent bytes when the next request was due, and that request
  };
  bool open_loop() const { return terms_.rate > 0; }
  void make_due(int64_t now);
  Status send_due(int64_t now);
  void ask(size_t k, int64_t now, int64_t due, bool counted = true);
  void end_open(int64_t now);
  Status end_sequences();
  Status open(size_t k);
  void push(size_t k);
  void hear(size_t k);
  void done(size_t k, int64_t now, const std::string& failure, std::optional<std::string> said);
  void drop(size_t k, const std::string& failure);
  void watch(size_t k, uint32_t events, int operation);
  bool check_timeouts(int64_t now);
  Status not_connected(size_t k, int64_t now, int failed);
  Status unheard(int64_t now) const;
  Status wait(int64_t now);
  Status window(int64_t length_ns, int64_t count = kNoCount);
  bool settled() const { return serve::settled(windows_, terms_); }
  LoadResult sum() const;

  const Endpoint where_;
  const LoadTerms terms_;
  Rng rng_;
  const Fd epoll_;
  std::vector<char> room_;
  std::vector<Talk> talks_;
  std::vector<size_t> free_;
  std::deque<int64_t> due_;  // of a rate: the due time of each waiting request
  int64_t next_ns_ = 0, checked_ns_ = 0, retry_ns_ = 0, refused_since_ns_ = 0;
  int64_t heard_ns_ = 0;  // when bytes of the server last came
  // `refused_`: connections in a row, without an answer or another connection between them. `timeouts_`: requests in a
  // row, without a byte of the server between them.
  uint64_t connected_ = 0, refused_ = 0, timeouts_ = 0, busy_ = 0;
  bool cut_ = false;  // the last window was interrupted
  std::optional<Error> lost_;
  int64_t left_ = kNoCount;  // requests to be sent in this window
  LoadWindow now_;
  std::vector<LoadWindow> windows_;
  std::map<std::string, std::string> said_;  // the server's words on the first failure of each class
  stats::Histogram late_;
  double cpu_begin_ = 0;
  int64_t wall_begin_ = 0;
};

void Loop::make_due(int64_t now) {
  if (!open_loop()) return;
  while (next_ns_ <= now) {
    due_.push_back(next_ns_);
    const double gap = 1e9 / terms_.rate * (terms_.poisson ? -std::log(1.0 - rng_.uniform()) : 1.0);
    next_ns_ += std::max<int64_t>(1, static_cast<int64_t>(gap));
  }
}

Status Loop::send_due(int64_t now) {
  while (left_ != 0 && !free_.empty() && (!open_loop() || !due_.empty())) {
    const size_t k = free_.back();
    if (!talks_[k].fd.valid() && now < retry_ns_) return Ok{};
    if (!talks_[k].fd.valid()) PERI_TRY(open(k));
    free_.pop_back();
    left_ -= left_ > 0 ? 1 : 0;
    int64_t due = now;
    if (open_loop()) {
      due = due_.front();
      due_.pop_front();
    }
    ask(k, now, due);
  }
  return Ok{};
}

void Loop::ask(size_t k, int64_t now, int64_t due, bool counted) {
  Talk& t = talks_[k];
  t.busy = true;
  t.counted = counted;
  ++busy_;
  t.due_ns = due;
  t.sent_ns = t.connecting ? 0 : now;
  if (t.out.empty()) {
    t.out = t.wire->ask();
  } else {
    std::string both(t.out);
    t.held = std::move(both += t.wire->ask());
    t.out = t.held;
  }
  if (!t.connecting) push(k);
}

void Loop::watch(size_t k, uint32_t events, int operation) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = k;
  epoll_ctl(epoll_.get(), operation, talks_[k].fd.get(), &e);
}

Status Loop::open(size_t k) {
  PERI_ASSIGN(talks_[k].fd, connect_to(where_));
  talks_[k].connecting = true;
  talks_[k].wire->begin();
  watch(k, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
  return Ok{};
}

void Loop::push(size_t k) {
  Talk& t = talks_[k];
  while (!t.out.empty() || !(t.out = t.wire->more()).empty()) {
    const ssize_t n = send(t.fd.get(), t.out.data(), t.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return watch(k, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    if (n <= 0) return drop(k, "connection lost");
    t.out.remove_prefix(static_cast<size_t>(n));
  }
}

// `said`: none if no answer came.
void Loop::done(size_t k, int64_t now, const std::string& failure, std::optional<std::string> said) {
  Talk& t = talks_[k];
  t.busy = false;
  --busy_;
  free_.insert(terms_.sequences ? free_.begin() : free_.end(), k);
  if (said) refused_ = 0;
  if (!t.counted) return;
  if (!failure.empty()) {
    ++now_.errors[failure];
    if (!said) return;
    now_.failed_times.add(now - t.sent_ns);
    said_.emplace(failure, std::move(*said));
    return;
  }
  const int64_t latency = now - t.due_ns;
  ++now_.ok;
  now_.good += terms_.threshold_ns == 0 || latency <= terms_.threshold_ns;
  now_.latency.add(latency);
  now_.service.add(now - t.sent_ns);
}

void Loop::drop(size_t k, const std::string& failure) {
  Talk& t = talks_[k];
  t.fd = Fd();
  t.connecting = false;
  t.out = {};
  if (t.busy) done(k, now_ns(), failure, std::nullopt);
}

void Loop::hear(size_t k) {
  Talk& t = talks_[k];
  while (t.fd.valid()) {
    const ssize_t n = recv(t.fd.get(), room_.data(), room_.size(), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return drop(k, n == 0 ? "connection closed" : "connection lost");
    heard_ns_ = now_ns();
    timeouts_ = 0;
    const Wire::Heard heard = t.wire->hear({room_.data(), static_cast<size_t>(n)});
    if (heard == Wire::Heard::kBad) return drop(k, t.wire->trouble());
    if (heard == Wire::Heard::kAnswer) {
      if (!t.busy) return drop(k, "");  // no request was sent
      const bool keep = t.wire->keep_open();
      const int64_t now = now_ns();
      std::string failure = t.wire->failure(), said;
      if (!failure.empty())
        said = t.wire->said();
      else if (said = t.wire->wrong(); !said.empty())
        failure = LoadResult::kWrong;
      done(k, now, failure, said);
      if (!keep) return drop(k, "");
    }
    if (t.out.empty()) push(k);
    if (heard == Wire::Heard::kAnswer) return;
    if (static_cast<size_t>(n) < room_.size()) return;
  }
}

// Whether a request timed out.
bool Loop::check_timeouts(int64_t now) {
  if (now - checked_ns_ < 50000000) return false;
  checked_ns_ = now;
  const uint64_t before = timeouts_;
  for (size_t k = 0; k < talks_.size(); ++k) {
    if (!talks_[k].busy || now - std::max(talks_[k].due_ns, talks_[k].sent_ns) <= terms_.timeout_ns) continue;
    drop(k, "timeout");
    ++timeouts_;
  }
  return timeouts_ > before;
}

// An error once a server that refuses nothing is taken to be gone: requests sent on new connections, too, time out.
Status Loop::unheard(int64_t now) const {
  const int64_t silent_ns = now - heard_ns_;
  if (timeouts_ < kMinTimeouts || silent_ns < std::max(terms_.patience_ns, kMinTimeouts * terms_.timeout_ns))
    return Ok{};
  return io_error("%s has sent nothing for %.3g s: %llu requests in a row timed out", where_.text().c_str(),
                  static_cast<double>(silent_ns) * 1e-9, static_cast<unsigned long long>(timeouts_))
      .advise("is the server gone, or does it need longer than --client-timeout?");
}

// An error once the server is taken to be gone.
Status Loop::not_connected(size_t k, int64_t now, int failed) {
  if (refused_++ == 0) refused_since_ns_ = now;
  retry_ns_ = now + kRetryNs;
  drop(k, std::string("cannot connect: ") + std::strerror(failed));
  if (refused_ <= kMaxRefused || (connected_ > 0 && now - refused_since_ns_ < terms_.patience_ns)) return Ok{};
  return io_error("cannot connect to %s: %s", where_.text().c_str(), std::strerror(failed))
      .advise(connected_ > 0 ? "the server was there before: has it ended?" : "is a server listening there?");
}

Status Loop::wait(int64_t now) {
  // The kernel wakes a sleeping thread late: if a request is due within 60 us, the loop polls.
  int64_t sleep_ns = 10000000;
  if (open_loop() && !free_.empty()) sleep_ns = std::min(sleep_ns, next_ns_ - now - 60000);
  const timespec t{0, std::max<int64_t>(sleep_ns, 0)};
  epoll_event events[256];
  int n = epoll_pwait2(epoll_.get(), events, 256, &t, nullptr);
  if (n < 0 && errno == ENOSYS) n = epoll_wait(epoll_.get(), events, 256, static_cast<int>(t.tv_nsec / 1000000));
  if (n < 0 && errno != EINTR) return io_error("cannot wait for sockets: %s", std::strerror(errno));
  for (int e = 0; e < n; ++e) {
    const size_t k = events[e].data.u64;
    Talk& talk = talks_[k];
    if (talk.connecting) {
      int failed = 0;
      socklen_t bytes = sizeof failed;
      getsockopt(talk.fd.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
      if (failed) {
        PERI_TRY(not_connected(k, now, failed));
        continue;
      }
      ++connected_;
      refused_ = 0;
      talk.connecting = false;
      talk.sent_ns = now_ns();
      push(k);
      if (talk.fd.valid() && talk.out.empty()) watch(k, EPOLLIN, EPOLL_CTL_MOD);
      continue;
    }
    if (events[e].events & EPOLLOUT && !talk.out.empty()) {
      push(k);
      if (talk.fd.valid() && talk.out.empty()) watch(k, EPOLLIN, EPOLL_CTL_MOD);
    }
    if (talk.fd.valid()) hear(k);
  }
  return Ok{};
}

// One window: the results of a time, or of `count` requests; 0: of those that are under way.
Status Loop::window(int64_t length_ns, int64_t count) {
  now_ = {};
  now_.begin_ns = now_ns();
  int64_t now = now_.begin_ns;
  left_ = count;
  while (count == kNoCount ? now < now_.begin_ns + length_ns : left_ > 0 || busy_ > 0) {
    cut_ = terms_.stop && terms_.stop();
    if (cut_) break;
    make_due(now);
    if (terms_.sequences && left_ == 0) end_open(now);  // others may wait for their places
    const bool free_before = !free_.empty();
    const size_t waiting = due_.size();
    if (open_loop() && free_before)
      for (size_t k = 0; k < std::min(waiting, free_.size()); ++k) late_.add(now - due_[k]);
    PERI_TRY(send_due(now));
    PERI_TRY(wait(now));
    now = now_ns();
    if (check_timeouts(now)) PERI_TRY(unheard(now));
  }
  now_.end_ns = now;
  return Ok{};
}

// One more request, not counted, for each open sequence that waits for no answer: it would keep its place otherwise.
void Loop::end_open(int64_t now) {
  for (size_t n = free_.size(); n > 0; --n) {
    const size_t k = free_[n - 1];
    if (!talks_[k].fd.valid() || !talks_[k].wire->in_sequence()) continue;
    free_.erase(free_.begin() + static_cast<ptrdiff_t>(n - 1));
    talks_[k].wire->end_sequence();
    ask(k, now, now, false);
  }
}

Status Loop::end_sequences() {
  const int64_t until = now_ns() + std::min(terms_.timeout_ns, cut_ ? kEndNs : INT64_MAX);
  for (end_open(now_ns()); busy_ > 0 && now_ns() < until; end_open(now_ns())) {  // Clock: it waits for answers
    PERI_TRY(wait(now_ns()));
    check_timeouts(now_ns());
  }
  return Ok{};
}

LoadResult Loop::sum() const {
  LoadResult out;
  out.interrupted = cut_;
  out.lost = lost_;
  out.stable = !cut_ && !lost_ && (terms_.count > 0 || settled());
  out.windows = static_cast<int>(windows_.size());
  const size_t first = out.stable && terms_.count == 0 ? windows_.size() - 3 : 0;
  for (size_t k = first; k < windows_.size(); ++k) {
    const LoadWindow& w = windows_[k];
    out.seconds += static_cast<double>(w.end_ns - w.begin_ns) * 1e-9;
    out.ok += w.ok;
    out.good += w.good;
    for (const auto& [name, n] : w.errors) out.errors[name] += n;
    out.latency.add(w.latency);
    out.service.add(w.service);
    out.failed_times.add(w.failed_times);
  }
  for (const auto& [name, words] : said_)
    if (out.errors.contains(name) && !words.empty()) out.said[name] = words;
  if (!open_loop() && out.ok > 0)
    out.latency = out.latency.corrected(static_cast<int64_t>(
        out.seconds * 1e9 * static_cast<double>(terms_.concurrency) / static_cast<double>(out.ok)));
  out.backlog = terms_.count > 0 ? 0 : due_.size();
  out.late_ns = late_.quantile(0.99);
  const double wall = static_cast<double>(now_ns() - wall_begin_) * 1e-9;
  out.client_cpu = wall > 0 ? (cpu_seconds() - cpu_begin_) / wall : 0;
  return out;
}

Result<LoadResult> Loop::run() {
  if (!epoll_.valid()) return io_error("cannot make a set of sockets: %s", std::strerror(errno));
  if (terms_.stability <= 0 || terms_.trials < 1 || talks_.empty()) return usage("a load without windows or requests");
  next_ns_ = heard_ns_ = now_ns();
  PERI_TRY(window(terms_.warm_up_ns, terms_.warm_up_count > 0 ? terms_.warm_up_count : kNoCount));
  if (terms_.count > 0) {  // of the requests before none is counted
    if (!cut_) PERI_TRY(window(0, 0));
    due_.clear();
    next_ns_ = now_ns();
  }
  late_ = {};
  cpu_begin_ = cpu_seconds();
  wall_begin_ = now_ns();
  const int windows = terms_.count > 0 ? 1 : terms_.trials;
  for (int k = 0; k < windows && !cut_ && !lost_ && !settled(); ++k) {
    if (Status done = window(terms_.interval_ns, terms_.count > 0 ? terms_.count : kNoCount); !done.ok()) {
      lost_ = std::move(done).error();
      now_.end_ns = std::max(now_.begin_ns, heard_ns_);  // the silence at the end is no time of the load
    }
    windows_.push_back(now_);
  }
  LoadResult all = sum();
  if (terms_.sequences && !lost_) PERI_TRY(end_sequences());
  if (lost_ && all.ok == 0) return *std::move(lost_);
  if (cut_ && all.ok == 0) return Error(ErrorKind::kCancelled, "interrupted");
  return all;
}
}  // namespace

Result<LoadResult> run_load(const Endpoint& where, const WireMaker& maker, const LoadTerms& terms) {
  return std::make_unique<Loop>(where, maker, terms)->run();
}

}  // namespace peri::serve
