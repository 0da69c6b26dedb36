// RemoteServable: a model run by a worker process, as a Servable. It outlives that process: requests go to the next
// process once the model is loaded there, and requests that were not sent wait for it.
#pragma once

#include "runtime/seen_costs.hpp"
#include "serve/worker/link.hpp"
#include "serve/worker/wire.hpp"

namespace peri::serve {

class RemoteServable final : public runtime::Servable, public std::enable_shared_from_this<RemoteServable> {
 public:
  // `gone` is called by the destructor.
  RemoteServable(uint32_t id, LoadOrder order, LoadedThere there, int64_t patience_ns, std::function<void()> gone);
  ~RemoteServable() override;

  std::span<const plan::Port> inputs() const override { return inputs_; }
  std::span<const plan::Port> outputs() const override { return outputs_; }
  int slots() const override;
  void on_room(std::function<void()> called) override;
  bool answers_later() const override { return true; }
  std::string trouble() const override;
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override;
  bool cancel(uint64_t ticket) override { return end(ticket, EntryKind::kCancel); }
  bool withdraw(uint64_t ticket) override { return end(ticket, EntryKind::kWithdraw); }
  runtime::Cost cost(std::span<const Tensor> tensors) const override;
  uint64_t progress() const override;

  uint32_t id() const { return id_; }
  const LoadOrder& order() const { return order_; }
  // A process has loaded the model and gives this answer to its canary; requests go there from now on.
  void attach(std::shared_ptr<Link> link, const Canary& canary);
  // The process has ended.
  void detach();
  // The model cannot be run any more: every request is refused with `why`.
  void set_fault(std::string why);
  std::string fault() const;
  // The process makes no progress, or does again.
  void set_still(bool still) { still_ = still; }
  // Makes waiting requests check again whether a worker will come.
  void ring();
  // Accessed by the worker's threads that load it again:
  std::atomic<int> loads_that_killed{0};
  std::atomic<bool> retry{false};  // loading failed with an error that may be temporary

 private:
  struct Held {
    uint64_t ticket = 0;
    std::vector<Tensor> tensors;
    std::shared_ptr<runtime::Sink> sink;
  };
  bool end(uint64_t ticket, EntryKind how);
  void forget(uint64_t ticket, const RunSeen& seen);
  bool send(const Held& request, const std::shared_ptr<Link>& link);
  void send_held();
  uint64_t reply_bytes(uint64_t key) const;

  const uint32_t id_;
  const LoadOrder order_;
  const std::vector<plan::Port> inputs_, outputs_;
  const int slots_, most_ahead_;
  const Canary canary_;
  const int64_t patience_ns_;
  const std::function<void()> gone_;
  runtime::SeenCosts costs_;
  std::atomic<int64_t> lately_ns_{-1};
  std::atomic<uint64_t> answered_{0};
  std::atomic<bool> still_{false};
  mutable std::mutex mutex_;  // protects all members below except `room_`
  std::shared_ptr<Link> link_;
  int64_t down_since_ns_ = 0;
  std::string fault_;
  std::vector<Held> held_;                          // until there is a link, or it is known that none will come
  std::unordered_map<uint64_t, uint64_t> tickets_;  // of requests in progress on the link
  int64_t heard_ns_ = 0;  // when the last of them was answered, or, if none was, the first was sent
  std::unordered_map<uint64_t, uint64_t> replies_;  // answer sizes by key
  std::mutex room_mutex_;
  std::function<void()> room_;
};

}  // namespace peri::serve
