// Servable: a server's view of a model, independent of what runs it. Requests are submitted, each gets one or more
// responses; the expected cost and the progress can be queried at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "device/memory_info.hpp"
#include "plan/program.hpp"

namespace peri::runtime {

// Receives the answers to one request, from any thread, with `last` set for the final one. An error is final.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void answer(Result<std::vector<Tensor>> outputs, bool last) = 0;
  // How many requests of clients the answer is for: those of a batch are one request here.
  virtual size_t clients() const { return 1; }
  // In place of the answer: the request was taken back before it began.
  virtual void withdrawn() { answer(Error(ErrorKind::kCancelled, "the request was taken back"), true); }
};

struct Cost {
  int64_t expected_ns = -1;  // of a recent run of these sizes; -1: none
  int64_t bytes = 0;         // of the inputs
};

// All functions may be called from any thread concurrently.
class Servable {
 public:
  virtual ~Servable() = default;
  virtual std::span<const plan::Port> inputs() const = 0;
  virtual std::span<const plan::Port> outputs() const = 0;
  // How many requests may be in progress at once; 0: none now. REQUIRES of callers: no more than that, except during a
  // change of the number.
  virtual int slots() const = 0;
  // Called, from any thread, when slots() may have grown; a null function ends it. It must not call this object.
  virtual void on_room(std::function<void()>) {}
  // Whether submit() returns before the work is done, so that any thread may call it.
  virtual bool answers_later() const { return false; }
  // Its current fault, in words for operators; empty: none.
  virtual std::string trouble() const { return {}; }
  // Of the device that it runs on, now; 0, 0: the host, or unknown.
  virtual device::MemoryInfo device_memory() const { return {}; }
  // Tensors by port. The sink gets its answers before this returns or later, depending on the model.
  virtual void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<Sink> sink) = 0;
  // Requests the end of a request in progress; true if it will be answered early. A request that cannot be interrupted
  // runs to its end.
  virtual bool cancel(uint64_t ticket) = 0;
  // Takes back a request that was submitted and has not begun, whose sink is told so; one that has goes on. False: such
  // a request is not known, or always begins at once.
  virtual bool withdraw(uint64_t) { return false; }
  virtual Cost cost(std::span<const Tensor> tensors) const = 0;
  // Grows with all completed work: if requests are in progress and it does not change, the model is stuck.
  virtual uint64_t progress() const = 0;
};

}  // namespace peri::runtime
