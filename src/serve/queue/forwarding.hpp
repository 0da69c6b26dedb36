// Forwarding: a servable that passes its requests to the queues of other models. Everything a request states besides
// its tensors is passed on, so that those queues treat it like the client's own.
#pragma once

#include "runtime/servable.hpp"
#include "serve/queue/sequences.hpp"

namespace peri::serve {

struct Manner {
  int priority = 0;         // 0: the default of the receiving queue
  int64_t deadline_ns = 0;  // 0: none
  uint32_t tenant = 0;
  SequenceStep step = {};  // no id: not part of a sequence
};

class Forwarding : public runtime::Servable {
 public:
  virtual void forward(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink,
                       const Manner& manner) = 0;
  // Which loads of models requests are passed to now: another number once one of them was replaced.
  virtual uint64_t passes_to() const = 0;
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    forward(ticket, std::move(tensors), std::move(sink), {});
  }
};

}  // namespace peri::serve
