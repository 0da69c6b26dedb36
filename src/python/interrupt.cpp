// The handler may run on any thread: the end of an Interruptible waits for it, so that it cancels no other run.
#include "python/interrupt.hpp"

#include <nanobind/nanobind.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace peri::python {

namespace nb = nanobind;

namespace {
std::atomic<Session*> running{nullptr};
std::atomic<int> inside{0};
struct sigaction before;  // Python's

void heard(int number, siginfo_t* info, void* context) {
  const int kept = errno;
  ++inside;
  if (Session* const session = running.load()) session->cancel();  // only exchanges an atomic value
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
  --inside;
  errno = kept;
}

bool raises_interrupt() {
  const auto of = [](const char* name) { return nb::object(nb::module_::import_("_signal").attr(name)).release(); };
  static const nb::handle ask = of("getsignal"), raises = of("default_int_handler");  // valid until the process ends
  return ask(SIGINT).is(raises);
}
}  // namespace

Interruptible::Interruptible(Session& session) {
  if (gettid() != getpid() || running.load() || !raises_interrupt()) return;
  if (sigaction(SIGINT, nullptr, &before) != 0) return;
  if (!(before.sa_flags & SA_SIGINFO) && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) return;
  running = &session;
  struct sigaction mine = before;
  mine.sa_flags |= SA_SIGINFO;
  mine.sa_sigaction = heard;
  on_ = sigaction(SIGINT, &mine, nullptr) == 0;
  if (!on_) running = nullptr;
}

Interruptible::~Interruptible() {
  if (!on_) return;
  running = nullptr;
  sigaction(SIGINT, &before, nullptr);
  while (inside > 0) usleep(100);
}

void Interruptible::check() const {
  if (on_ && PyErr_CheckSignals() != 0) nb::raise_python_error();
}

}  // namespace peri::python
