// A thread that will take the lock increments a counter before it checks whether finalization has begun; finalization
// sets its flag before it reads the counter. It therefore waits for every thread that did not see the flag.
#include "python/lock.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace peri::python {

namespace {
std::atomic<bool> ending{false};
std::atomic<int> asking{0};
std::thread::id ender;  // set before `ending`
thread_local std::exception_ptr kept;
// Normally the process has ended by then. Otherwise an atexit function registered before ours waits for this thread.
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
  pthread_atfork(nullptr, nullptr, [] { asking = 0; });  // these threads do not exist in the child
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

void keep_raised(std::exception_ptr raised) {
  if (!kept) kept = std::move(raised);
}

void raise_kept() {
  if (const std::exception_ptr raised = std::exchange(kept, nullptr)) std::rethrow_exception(raised);
}

}  // namespace peri::python
