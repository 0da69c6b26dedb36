// Machine code that this process has or will need, once per source: concurrent requests for the same code compile it
// once, and code needed later is compiled by separate threads while other work continues.
#pragma once

#include <functional>
#include <thread>

#include "device/cuda/compiler.hpp"

namespace peri::device::cuda {

class CodeShelf {
 public:
  // Starts its threads: throws where none is available. For tests.
  using Begin = std::function<std::thread(std::function<void()>)>;
  // Limit in bytes of unused code that is kept, the newest: the rest is in the compiler's cache.
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  explicit CodeShelf(std::unique_ptr<Compiler> compiler, size_t most_bytes = kMaxBytes, Begin begin = {});
  // Discards compilations that were not started.
  ~CodeShelf();
  const Compiler& compiler() const;
  // The total time in seconds that callers of get() have waited for code.
  double waited_seconds() const;
  // Thread-safe. Waits if another thread compiles it; compiles it here if none does. Errors, which are not cached:
  // those of Compiler::compile().
  Result<std::shared_ptr<const Code>> get(const Source& source);
  // Compiled in advance, in this order, urgent ones first, on all cores but one; an error is returned by the get() of
  // it. If no thread is available nothing is done: get() compiles it.
  void foresee(Source source, bool urgent = false);
  // The instance of this process, with its cache; NVRTC is searched for again if it was missing. It is destroyed at
  // exit.
  static Result<CodeShelf*> of_process();
  // Numbers of finished, current and waiting ones, and the bytes of the finished.
  struct Held {
    size_t entries = 0, bytes = 0;
  };
  Held held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::device::cuda
