// The limit on the stack is also the size that glibc gives new threads.
#include "cli/console/stack.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <system_error>
#include <thread>

namespace peri::cli {

namespace {
constexpr rlim_t kMinBytes = 1 << 20;    // with less, a command does not run on the process's own stack
constexpr size_t kUsualBytes = 8 << 20;  // the default of Linux distributions
}  // namespace

int with_stack(FunctionRef<int()> work) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kMinBytes) return work();
  pthread_attr_t sizes;
  if (pthread_attr_init(&sizes) != 0) return work();
  const bool taken = pthread_attr_setstacksize(&sizes, kUsualBytes) == 0 && pthread_setattr_default_np(&sizes) == 0;
  pthread_attr_destroy(&sizes);
  if (!taken) return work();
  int code = 0;
  std::thread thread;
  try {
    thread = std::thread([&] { code = work(); });
  } catch (const std::system_error&) {  // no memory or no thread is left
    return work();
  }
  thread.join();
  return code;
}

}  // namespace peri::cli
