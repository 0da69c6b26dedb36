// A request's block is written outside the lock; only requests registered under the lock are sent. An answer's block is
// released with its last view.
#include "serve/worker/link.hpp"

#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "serve/worker/tensor_block.hpp"
#include "serve/worker/wire.hpp"

namespace peri::serve {

constexpr int kLookMs = 4;  // answers that a watching thread has not taken for this long are taken by this thread
constexpr uint64_t kMinReply = 2048;  // enough for an error

// The memory of an answer, kept by its views.
struct Link::Block {
  Block(std::shared_ptr<Link> l, uint64_t at) : link(std::move(l)), offset(at) {}
  ~Block() { link->give_back(offset); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  const std::shared_ptr<Link> link;
  const uint64_t offset;
};

Link::Link(std::shared_ptr<Region> region) : region_(std::move(region)), arena_(region_->begin(), region_->end()) {}

std::shared_ptr<Link> Link::begin(std::shared_ptr<Region> region) {
  std::shared_ptr<Link> out(new Link(std::move(region)));
  out->thread_ = std::thread([link = out.get()] { link->receive(); });
  return out;
}

Link::~Link() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

namespace {
// The error of a request that does not fit at present, or at all (`ever`).
Error no_room(const char* what, uint64_t bytes, uint64_t all, bool ever) {
  if (ever)
    return Error(ErrorKind::kMemory,
                 format("no room for %s among those under way: the request may be sent again", what));
  return invalid(
      "%s take %llu bytes, more than the worker's memory of %llu has beside the rest of it; send fewer rows at once, "
      "or start the server with a larger --worker-memory-mib",
      what, static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(all));
}
}  // namespace

void Link::give_back(uint64_t offset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arena_.give(offset);
}

uint64_t Link::run(std::span<const Tensor> inputs, LinkRun& run) {
  RingEntry entry;
  entry.model = run.model;
  entry.bytes = block_bytes(inputs);
  entry.reply_bytes = std::max(run.reply_bytes, kMinReply);
  bool full = false, ever = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return 0;
    const auto at = pending_.size() >= kRingEntries / 2 ? std::nullopt : arena_.take(entry.bytes);
    const auto reply = at ? arena_.take(entry.reply_bytes) : std::nullopt;
    if (at && !reply) arena_.give(*at);
    if (reply) {
      entry.offset = *at;
      entry.reply_offset = *reply;
      entry.ticket = next_ticket_++;
      pending_.emplace(entry.ticket, Pending{std::move(run), *at, *reply, entry.reply_bytes, entry.bytes});
    } else {
      full = true;
      ever = entry.bytes + entry.reply_bytes <= arena_.size();
    }
  }
  if (full) {  // it was not moved: NOLINTBEGIN(bugprone-use-after-move)
    run.sink->answer(no_room("the request's tensors", entry.bytes + entry.reply_bytes, arena_.size(), ever), true);
    run.sink = nullptr;
    return 0;  // NOLINTEND(bugprone-use-after-move)
  }
  write_block(inputs, region_->block(entry.offset, entry.bytes));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ended_) region_->head().to_worker.push(entry);
  return entry.ticket;
}

void Link::cancel(uint32_t model, uint64_t ticket, EntryKind how) {
  RingEntry entry;
  entry.kind = how;
  entry.model = model;
  entry.ticket = ticket;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ended_ && pending_.count(ticket) > 0) region_->head().cancels.push(entry);
}

size_t Link::end(const Error& why) {
  std::unordered_map<uint64_t, Pending> lost;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    lost.swap(pending_);
  }
  stopping_ = true;
  region_->head().to_server.wake_all();
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  size_t clients = 0;
  for (auto& [ticket, pending] : lost) {
    clients += pending.run.sink->clients();
    if (pending.run.seen) pending.run.seen({pending.run.key, -1, 0});
    pending.run.sink->answer(why, true);
  }
  return clients;
}

size_t Link::take_answers() {
  Ring& ring = region_->head().to_server;
  RingEntry entry;
  size_t taken = 0;
  while (!ring.empty() && !broken_) {
    bool broken = false, found = false;
    {
      const std::lock_guard<std::mutex> lock(pop_mutex_);
      found = ring.pop(&entry, &broken);
    }
    if (broken) broken_ = true;
    if (!found) break;
    take(entry);
    ++taken;
  }
  return taken;
}

void Link::receive() {
  while (!stopping_ && !broken_)
    if (take_answers() == 0) region_->head().to_server.wait(kLookMs);
}

void Link::take(const RingEntry& entry) {
  Pending pending;
  Error why(ErrorKind::kInternal, "the worker's answer does not lie where it should");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = pending_.find(entry.ticket);
    if (it == pending_.end()) {
      broken_ = broken_ || !ended_;
      return;
    }
    if (entry.kind == EntryKind::kNeeds && grow(entry, &it->second, &why)) return;
    pending = std::move(it->second);
    pending_.erase(it);
    arena_.give(pending.offset);
  }
  const bool withdrawn = entry.kind == EntryKind::kWithdraw;
  if (!withdrawn) ++answered_;
  if (entry.kind == EntryKind::kAnswer) return take_answer(entry, std::move(pending));
  const auto block = std::make_shared<Block>(shared_from_this(), pending.reply);
  if (withdrawn) {
    if (pending.run.seen) pending.run.seen({pending.run.key, -1, 0, true});
    return pending.run.sink->withdrawn();
  }
  if (entry.kind == EntryKind::kError) {
    why = internal_error("the worker gave no reason");
    const auto bytes = region_->block(pending.reply, std::min(entry.bytes, pending.reply_bytes));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const auto json = parse_json(text, {8, 1 << 20, 1000}); json.ok() && json->find("error"))
      why = read_error(*json->find("error"));
  }
  if (pending.run.seen) pending.run.seen({pending.run.key, -1, 0});
  pending.run.sink->answer(std::move(why), true);
}

// A larger block for an answer. False: there is no memory for it.
bool Link::grow(const RingEntry& entry, Pending* pending, Error* why) {
  const auto reply = arena_.take(entry.bytes);
  if (!reply) {
    // The request and its first answer block are still held; blocks are slightly larger than their tensors.
    const uint64_t held = pending->bytes + pending->reply_bytes + 3 * kArenaStep, size = arena_.size();
    *why = no_room("the answer's tensors", entry.bytes, size, held <= size && entry.bytes <= size - held);
    RingEntry drop = entry;
    drop.kind = EntryKind::kCancel;
    region_->head().cancels.push(drop);
    return false;
  }
  arena_.give(pending->reply);
  pending->reply = *reply;
  pending->reply_bytes = entry.bytes;
  RingEntry fetch = entry;
  fetch.kind = EntryKind::kFetch;
  fetch.reply_offset = *reply;
  fetch.reply_bytes = entry.bytes;
  region_->head().to_worker.push(fetch);
  return true;
}

void Link::take_answer(const RingEntry& entry, Pending pending) {
  const auto block = std::make_shared<Block>(shared_from_this(), pending.reply);
  auto outputs = contained([&]() -> Result<std::vector<Tensor>> {
    if (entry.bytes > pending.reply_bytes) return internal_error("the worker's answer is larger than its room");
    return read_block(region_->block(pending.reply, entry.bytes), block);
  });
  if (outputs.ok() && outputs->size() != pending.run.outputs)
    outputs =
        internal_error("the worker's answer has %zu tensors for %zu outputs", outputs->size(), pending.run.outputs);
  if (pending.run.seen)
    pending.run.seen({pending.run.key, entry.reply_bytes > 0 ? static_cast<int64_t>(entry.reply_bytes) : -1,
                      outputs.ok() ? entry.bytes : 0});
  pending.run.sink->answer(std::move(outputs), true);
}

uint64_t Link::used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return arena_.used();
}

uint64_t Link::under_way() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pending_.size();
}

void Link::trim() {
  const std::lock_guard<std::mutex> lock(mutex_);  // prevents concurrent allocations from the arena
  const auto part = arena_.unused_top();
  if (part.second > part.first) region_->drop(part.first, part.second);
}

}  // namespace peri::serve
