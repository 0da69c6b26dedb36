// Threads that ask for the lock count themselves before they look whether the end has begun; the end begins before it
// looks at their number. So it lets in those that did not see it, and nobody is in between.
#include "python/lock.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace peri::python {

namespace {
std::atomic<bool> ending{false};
std::atomic<int> asking{0};
std::thread::id ender;  // set before `ending`
// A process is over by then. If not, somebody waits for the thread that waits here: a function that was registered with
// atexit before ours.
constexpr std::chrono::milliseconds kPatience{5000}, kLook{1};

void end_begins() {
  ender = std::this_thread::get_id();
  ending = true;
  PyThreadState* const state = PyEval_SaveThread();
  for (auto waited = kLook; asking > 0 && waited < kPatience; waited += kLook) std::this_thread::sleep_for(kLook);
  PyEval_RestoreThread(state);
}
}  // namespace

void watch_the_end() {
  pthread_atfork(nullptr, nullptr, [] { asking = 0; });  // those who asked are not in the child
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(end_begins));
}

void before_lock() {
  ++asking;
  if (!ending || std::this_thread::get_id() == ender) return;
  --asking;
  std::this_thread::sleep_for(kPatience);
  ++asking;
}

void after_lock() { --asking; }

}  // namespace peri::python
