// Machine code that this process has or will need, once per source: concurrent requests for the same code compile it
// once, and code needed later is compiled by threads of its own while other work continues.
#pragma once

#include <functional>
#include <thread>

#include "device/cuda/compiler.hpp"

namespace peri::device::cuda {

class CodeShelf {
 public:
  // How its threads begin: throws where there are no more. For tests.
  using Begin = std::function<std::thread(std::function<void()>)>;
  // Of code that nobody holds it keeps so many bytes, the newest: the cache of the compiler has the rest.
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  explicit CodeShelf(std::unique_ptr<Compiler> compiler, size_t most_bytes = kMaxBytes, Begin begin = {});
  // Leaves out what was not begun.
  ~CodeShelf();
  const Compiler& compiler() const;
  // What callers of get() have waited in all, for code that was not there yet; seconds.
  double waited_seconds() const;
  // Any thread. Waits where another compiles it; compiles it here where nobody has begun. Errors, which are not kept:
  // those of Compiler::compile().
  Result<std::shared_ptr<const Code>> get(const Source& source);
  // Compiled before anyone asks, in this order, what is urgent first, on all cores but one; what does not compile, or
  // throws, is told who asks for it. Where no thread can be had nothing is done: who asks compiles it.
  void foresee(Source source, bool urgent = false);
  // The one of this process, over its cache; NVRTC is looked for again where it was not there. It goes with the
  // process.
  static Result<CodeShelf*> of_process();
  // What is there, under way or waiting, and the bytes of what is there.
  struct Held {
    size_t entries = 0, bytes = 0;
  };
  Held held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::device::cuda
