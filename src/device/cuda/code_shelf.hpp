// Machine code that this process has or will need, once for each source: what several ask for at the same time is
// compiled once, what is foreseen is compiled by threads of its own while other work goes on.
#pragma once

#include "device/cuda/compiler.hpp"

namespace peri::device::cuda {

class CodeShelf {
 public:
  explicit CodeShelf(std::unique_ptr<Compiler> compiler);
  // Leaves out what was not begun.
  ~CodeShelf();
  const Compiler& compiler() const;
  // Any thread. Waits where another compiles it; compiles it here where nobody has begun. Errors, which are not kept:
  // those of Compiler::compile().
  Result<std::shared_ptr<const Code>> get(const Source& source);
  // Compiled before anyone asks, in this order, on all cores but one; what does not compile is told who asks for it.
  void foresee(Source source);
  // The one of this process, over its cache; NVRTC is looked for again where it was not there. It goes with the
  // process.
  static Result<CodeShelf*> of_process();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::device::cuda
