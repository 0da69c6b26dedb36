// A few short runs are sent beyond the number of slots, so that the worker finds the next one before the server has
// processed the last answer; not behind a run that takes long, as they cannot run elsewhere there.
#include "serve/worker/remote.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace peri::serve {

namespace {
constexpr int64_t kAheadNs = 150000, kLongNs = 1000000;
constexpr int kMaxAhead = 31, kMaxAheadOfBatches = 1;
constexpr size_t kKeptSizes = 256;
}  // namespace

RemoteServable::RemoteServable(uint32_t id, LoadOrder order, LoadedThere there, int64_t patience_ns,
                               std::function<void()> gone)
    : id_(id),
      order_(std::move(order)),
      inputs_(std::move(there.inputs)),
      outputs_(std::move(there.outputs)),
      slots_(there.slots),
      most_ahead_(there.loaded.batch_sizes.empty() ? kMaxAhead : kMaxAheadOfBatches),
      canary_(std::move(there.loaded.canary)),
      patience_ns_(patience_ns),
      gone_(std::move(gone)) {}

RemoteServable::~RemoteServable() { gone_(); }

int RemoteServable::slots() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!fault_.empty()) return 1;
  if (!link_) return now_ns() - down_since_ns_ > patience_ns_ ? 1 : 0;
  const int64_t lately = lately_ns_.load(std::memory_order_relaxed);
  if (lately < 0 || (!tickets_.empty() && now_ns() - heard_ns_ > kLongNs)) return slots_;
  const int64_t ahead = std::min<int64_t>(kAheadNs / std::max<int64_t>(lately, 1), most_ahead_);
  return slots_ + static_cast<int>(ahead);
}

void RemoteServable::on_room(std::function<void()> called) {
  const std::lock_guard<std::mutex> lock(room_mutex_);
  room_ = std::move(called);
}

void RemoteServable::ring() {
  send_held();
  const std::lock_guard<std::mutex> lock(room_mutex_);
  if (room_) room_();
}

std::string RemoteServable::trouble() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!fault_.empty()) return fault_;
  if (!link_) return "its worker process is being started again";
  return still_ ? "its worker process stands still" : "";
}

std::string RemoteServable::fault() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fault_;
}

uint64_t RemoteServable::reply_bytes(uint64_t key) const {
  const auto it = replies_.find(key);
  return it == replies_.end() ? 0 : it->second;
}

void RemoteServable::submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) {
  std::shared_ptr<Link> link;
  Held request{ticket, std::move(tensors), std::move(sink)};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    link = link_;
  }
  if (link && send(request, link)) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.push_back(std::move(request));
  }
  send_held();  // the link may have been attached or given up meanwhile
}

// False: the link has ended, and the request is unchanged.
bool RemoteServable::send(const Held& request, const std::shared_ptr<Link>& link) {
  LinkRun run;
  run.model = id_;
  run.key = runtime::SeenCosts::key_of(request.tensors);
  run.outputs = outputs_.size();
  bool faulty = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    run.reply_bytes = reply_bytes(run.key);
    faulty = !fault_.empty();
    if (tickets_.empty()) heard_ns_ = now_ns();
    if (!faulty) tickets_[request.ticket] = 0;
  }
  if (faulty) {
    request.sink->answer(refused("the model cannot be run"), true);
    return true;
  }
  run.sink = request.sink;
  run.seen = [self = shared_from_this(), ticket = request.ticket](const RunSeen& seen) { self->forget(ticket, seen); };
  const uint64_t sent = link->run(request.tensors, run);
  const bool ended = sent == 0 && run.sink;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = tickets_.find(request.ticket); it != tickets_.end()) {
    if (sent == 0)
      tickets_.erase(it);
    else
      it->second = sent;
  }
  return !ended;
}

// Sends held requests, or refuses them if no worker will come.
void RemoteServable::send_held() {
  std::vector<Held> held;
  std::shared_ptr<Link> link;
  bool in_vain = false, faulty = false, again = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    link = link_;
    faulty = !fault_.empty();
    in_vain = faulty || (!link && now_ns() - down_since_ns_ > patience_ns_);
    if (link || in_vain) held.swap(held_);
  }
  for (Held& h : held) {
    if (in_vain) {
      h.sink->answer(refused("%s", faulty ? "the model cannot be run"
                                          : "the worker process of this model could not be started again: the request "
                                            "may be sent again"),
                     true);
    } else if (!send(h, link)) {  // that link has ended too
      const std::lock_guard<std::mutex> lock(mutex_);
      held_.push_back(std::move(h));
      again = again || (link_ && link_ != link);  // the thread that attached the next link may have run before
    }
  }
  if (again) send_held();
}

void RemoteServable::forget(uint64_t ticket, const RunSeen& seen) {
  if (seen.withdrawn) {  // the run before it goes on
    const std::lock_guard<std::mutex> lock(mutex_);
    tickets_.erase(ticket);
    return;
  }
  ++answered_;
  if (seen.took_ns >= 0) {
    costs_.note(seen.key, seen.took_ns);
    const int64_t before = lately_ns_.load(std::memory_order_relaxed);
    lately_ns_.store(before < 0 ? seen.took_ns : before + (seen.took_ns - before) / 8, std::memory_order_relaxed);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  tickets_.erase(ticket);
  heard_ns_ = now_ns();
  if (seen.bytes == 0) return;
  if (replies_.size() >= kKeptSizes && replies_.count(seen.key) == 0) replies_.clear();
  replies_[seen.key] = seen.bytes;
}

// `how`: kCancel or kWithdraw.
bool RemoteServable::end(uint64_t ticket, EntryKind how) {
  std::shared_ptr<Link> link;
  std::shared_ptr<runtime::Sink> dropped;
  uint64_t sent = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto h = held_.begin(); h != held_.end() && !dropped; ++h)
      if (h->ticket == ticket) {
        dropped = std::move(h->sink);
        held_.erase(h);
        break;
      }
    const auto it = tickets_.find(ticket);
    if (!dropped && (it == tickets_.end() || it->second == 0)) return false;
    if (!dropped) sent = it->second;
    link = link_;
  }
  if (dropped && how == EntryKind::kWithdraw) {
    dropped->withdrawn();
    return true;
  }
  if (dropped) {
    dropped->answer(Error(ErrorKind::kCancelled, "the client cancelled the request"), true);
    return true;
  }
  if (link) link->cancel(id_, sent, how);
  return link != nullptr;
}

runtime::Cost RemoteServable::cost(std::span<const Tensor> tensors) const {
  runtime::Cost out;
  for (const Tensor& t : tensors) out.bytes += static_cast<int64_t>(t.bytes().size());
  out.expected_ns = costs_.expected(runtime::SeenCosts::key_of(tensors));
  return out;
}

uint64_t RemoteServable::progress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t steps = link_ ? link_->region().head().steps[id_].load(std::memory_order_relaxed) : 0;
  return steps + answered_;
}

void RemoteServable::attach(std::shared_ptr<Link> link, const Canary& canary) {
  std::string other;
  for (size_t k = 0; k < canary.outputs.size() && k < canary_.outputs.size() && other.empty(); ++k)
    if (!canary.outputs[k].same_content(canary_.outputs[k]))
      other = "its output '" + outputs_[k].name + "' differs from the answer taken down when it was loaded";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    fault_ = other;
    link_ = std::move(link);
    still_ = false;
  }
  ring();
}

void RemoteServable::detach() {
  const std::lock_guard<std::mutex> lock(mutex_);
  link_.reset();
  down_since_ns_ = now_ns();
}

void RemoteServable::set_fault(std::string why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    fault_ = std::move(why);
  }
  ring();
}

}  // namespace peri::serve
