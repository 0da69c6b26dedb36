// The calls of a device over queues: each is checked, counted, and protected by the device's lock.
#include "device/queue_device.hpp"

#include <algorithm>
#include <cstdlib>

namespace peri::device {

namespace {
constexpr size_t kPinnedAlign = 64;
}

Result<Pinned> Device::pinned(size_t bytes) {
  const size_t room = bytes / kPinnedAlign * kPinnedAlign + kPinnedAlign;
  void* const at = room < bytes ? nullptr : std::aligned_alloc(kPinnedAlign, room);
  if (!at) return Error(ErrorKind::kMemory, format("the host has no %zu bytes", bytes)).at_node("pinned");
  return Pinned({static_cast<std::byte*>(at), bytes}, [at] { std::free(at); });
}
Result<std::unique_ptr<Event>> Device::make_timed_event() {
  return unsupported("device '%s' has no clock", name().c_str());
}
Result<double> Device::milliseconds(const Event&, const Event&) {
  return unsupported("device '%s' has no clock", name().c_str());
}
Result<Memory> Device::lend(Address, size_t) {
  return unsupported("device '%s' takes no memory of others", name().c_str());
}
Result<std::unique_ptr<Stream>> Device::lend_stream(void*) {
  return unsupported("device '%s' has no streams that others could have made", name().c_str())
      .advise("pass no stream: the call returns when the outputs are written");
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
Memory::~Memory() {
  if (device_) device_->release(address_);
}

namespace {

class QueueDevice;

class QueueEvent final : public Event {
 public:
  explicit QueueEvent(QueueDevice* device, bool timed);
  Status synchronize() override;

  // Of the last record: outside a capture the point, inside one the capture and its index.
  std::shared_ptr<Point> point;
  std::shared_ptr<Capturing> capture;
  size_t captured_point = 0;
  const bool timed;

 private:
  QueueDevice* device_;
};

class QueueCaptured final : public Captured {
 public:
  QueueCaptured(const Device* owner, std::shared_ptr<const Recorded> r) : Captured(owner), recording(std::move(r)) {}
  size_t size() const override {
    size_t n = 0;
    for (const auto& lane : recording->lanes)
      n += static_cast<size_t>(std::count_if(lane.begin(), lane.end(), [](const Item& i) { return i.is_work(); }));
    return n;
  }
  const std::shared_ptr<const Recorded> recording;
};

class QueueStream final : public Stream {
 public:
  QueueStream(QueueDevice* device, uint64_t id);
  ~QueueStream() override;
  Status copy_in(Address to, std::span<const std::byte> from) override;
  Status copy_out(std::span<std::byte> to, Address from) override;
  Status copy(Address to, Address from, size_t bytes) override;
  Status launch(Launch launch) override;
  Status record(Event& event) override;
  Status wait(const Event& event) override;
  Status begin_capture() override;
  Result<std::unique_ptr<Captured>> end_capture() override;
  Status replay(const Captured& captured) override;
  Status synchronize() override;

 private:
  Status enqueue(Item item);
  void put(Item item, std::unique_lock<std::mutex>* lock);
  void leave_capture();

  QueueDevice* device_;
  Queue queue_;
};

class QueueDevice final : public Device {
 public:
  QueueDevice(QueueOptions options, std::unique_ptr<Store> store)
      : options_(std::move(options)), store_(std::move(store)), schedule_(store_.get(), options_.order) {}
  std::string name() const override { return options_.name; }
  const Target& target() const override { return options_.target; }
  MemoryInfo memory() const override { return store_->info(); }
  Counts counts() const override {
    const std::lock_guard<std::mutex> lock(lock_);
    Counts c = counts_;
    c.copies = schedule_.copies;
    c.launches = schedule_.launches;
    c.replays = schedule_.replays;
    return c;
  }
  Result<Memory> allocate(size_t bytes) override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("allocate", ErrorKind::kMemory));
    PERI_ASSIGN(const Address at, store_->take(bytes));
    ++counts_.allocations;
    ++counts_.live;
    counts_.live_bytes += static_cast<int64_t>(bytes);
    counts_.most_bytes = std::max(counts_.most_bytes, counts_.live_bytes);
    return Memory(this, at, bytes);
  }
  Result<std::unique_ptr<Stream>> make_stream() override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("make_stream"));
    return std::unique_ptr<Stream>(std::make_unique<QueueStream>(this, ++streams_));
  }
  Result<std::unique_ptr<Event>> make_event() override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("make_event"));
    return std::unique_ptr<Event>(std::make_unique<QueueEvent>(this, false));
  }
  Result<std::unique_ptr<Event>> make_timed_event() override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("make_event"));
    return std::unique_ptr<Event>(std::make_unique<QueueEvent>(this, true));
  }
  Result<double> milliseconds(const Event& from, const Event& to) override;
  Result<Pinned> pinned(size_t bytes) override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("pinned", ErrorKind::kMemory));
    return Device::pinned(bytes);
  }
  Result<Memory> lend(Address address, size_t bytes) override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("lend"));
    PERI_TRY(store_->at(address, bytes));
    return Memory(nullptr, address, bytes);
  }
  Status synchronize() override {
    const std::lock_guard<std::mutex> lock(lock_);
    PERI_TRY(call("synchronize"));
    std::optional<Error> first;
    for (Queue* q : schedule_.queues()) schedule_.drain(q);
    for (Queue* q : schedule_.queues()) {
      if (!first) first = std::move(q->error);
      q->error.reset();
    }
    return first ? Status(*std::move(first)) : Status(Ok{});
  }
  std::byte* host_pointer(Address address) const override { return store_->host_pointer(address); }

  // Counts a call that may fail. The lock is held.
  Status call(const std::string& what, ErrorKind kind = ErrorKind::kIo) {
    if (++counts_.calls != options_.failing_call) return Ok{};
    return Error(kind, format("call %lld of the device fails as was asked for", static_cast<long long>(counts_.calls)))
        .at_node(what);
  }

  mutable std::mutex lock_;
  Schedule& schedule() { return schedule_; }
  const Store& store() const { return *store_; }

 private:
  void release(Address address) override {
    const std::lock_guard<std::mutex> lock(lock_);
    counts_.live_bytes -= static_cast<int64_t>(store_->give_back(address));
    --counts_.live;
  }

  const QueueOptions options_;
  const std::unique_ptr<Store> store_;
  Schedule schedule_;
  Counts counts_;
  uint64_t streams_ = 0;
};

using Lock = std::unique_lock<std::mutex>;

Status told(std::optional<Error>* error) {
  if (!*error) return Ok{};
  Error out = **error;
  error->reset();
  return out;
}

Result<double> QueueDevice::milliseconds(const Event& from, const Event& to) {
  const std::lock_guard<std::mutex> lock(lock_);
  PERI_TRY(call("milliseconds"));
  if (from.owner() != this || to.owner() != this) return invalid("an event of another device");
  const auto &a = static_cast<const QueueEvent&>(from), &b = static_cast<const QueueEvent&>(to);
  for (const QueueEvent* e : {&a, &b})
    if (!e->timed || !e->point || !e->point->done)
      return invalid("the time between events that keep none, or were not reached");
  return static_cast<double>(b.point->at_ns - a.point->at_ns) * 1e-6;
}

QueueEvent::QueueEvent(QueueDevice* device, bool timed) : Event(device), timed(timed), device_(device) {}
Status QueueEvent::synchronize() {
  const Lock lock(device_->lock_);
  PERI_TRY(device_->call("synchronize"));
  if (capture) return invalid("an event that was recorded in a capture is waited for outside it");
  if (!point) return invalid("an event that was never recorded is waited for");
  const std::shared_ptr<Point> reached = point;
  device_->schedule().reach(*reached);
  if (reached->error) return *reached->error;
  return Ok{};
}

// The stream's queue is the device's from here on; REQUIRES the device's lock.
QueueStream::QueueStream(QueueDevice* device, uint64_t id) : device_(device) {
  queue_.id = id;
  device->schedule().add(&queue_);
}
QueueStream::~QueueStream() {
  const Lock lock(device_->lock_);
  if (queue_.capture && queue_.began) queue_.capture->end_broken();
  if (queue_.capture) queue_.capture->lose_stream();
  device_->schedule().drain(&queue_);
  device_->schedule().remove(&queue_);
}

// A capture that ended elsewhere is no more this stream's.
void QueueStream::leave_capture() {
  if (queue_.capture && queue_.capture->over()) {
    queue_.capture.reset();
    queue_.began = false;
  }
}

void QueueStream::put(Item item, Lock* lock) {
  if (queue_.capture)
    queue_.capture->add(queue_.lane, std::move(item));
  else if (device_->schedule().at_once())
    device_->schedule().run_now(&queue_, item, lock);
  else
    device_->schedule().push(&queue_, std::move(item));
}

Status QueueStream::enqueue(Item item) {
  Lock lock(device_->lock_);
  const std::string name = item_name(item);
  PERI_TRY(device_->call(name));
  leave_capture();
  const auto check = [&](Address at, size_t bytes) -> Status {
    auto there = device_->store().at(at, bytes);
    if (!there.ok()) return std::move(there).error().at_node(name);
    return Ok{};
  };
  if (item.kind == Item::Kind::kCopyOut || item.kind == Item::Kind::kCopy) PERI_TRY(check(item.from, item.bytes));
  if (item.kind == Item::Kind::kCopyIn || item.kind == Item::Kind::kCopy) PERI_TRY(check(item.to, item.bytes));
  if (item.launch)
    for (const Argument& a : item.launch->arguments) PERI_TRY(check(a.address, a.bytes));
  put(std::move(item), &lock);
  return Ok{};
}

Status QueueStream::copy_in(Address to, std::span<const std::byte> from) {
  Item item;
  item.kind = Item::Kind::kCopyIn;
  item.to = to;
  item.host_from = from.data();
  item.bytes = from.size();
  return enqueue(std::move(item));
}
Status QueueStream::copy_out(std::span<std::byte> to, Address from) {
  Item item;
  item.kind = Item::Kind::kCopyOut;
  item.host_to = to.data();
  item.from = from;
  item.bytes = to.size();
  return enqueue(std::move(item));
}
Status QueueStream::copy(Address to, Address from, size_t bytes) {
  Item item;
  item.kind = Item::Kind::kCopy;
  item.to = to;
  item.from = from;
  item.bytes = bytes;
  return enqueue(std::move(item));
}
Status QueueStream::launch(Launch launch) {
  if (!launch.function) return invalid("a launch of nothing").at_node(launch.name);
  Item item;
  item.kind = Item::Kind::kLaunch;
  item.launch = std::make_shared<const Launch>(std::move(launch));
  return enqueue(std::move(item));
}

Status QueueStream::record(Event& event) {
  Lock lock(device_->lock_);
  PERI_TRY(device_->call("record"));
  if (event.owner() != device_) return invalid("an event of another device");
  leave_capture();
  auto& e = static_cast<QueueEvent&>(event);
  e.point.reset();
  e.capture = queue_.capture;
  if (e.capture) {
    e.captured_point = e.capture->record(queue_.lane);
    return Ok{};
  }
  Item item;
  item.kind = Item::Kind::kRecord;
  item.point = e.point = std::make_shared<Point>();
  put(std::move(item), &lock);
  return Ok{};
}

Status QueueStream::wait(const Event& event) {
  Lock lock(device_->lock_);
  PERI_TRY(device_->call("wait"));
  if (event.owner() != device_) return invalid("an event of another device");
  leave_capture();
  const auto& e = static_cast<const QueueEvent&>(event);
  if (!e.point && !e.capture) return invalid("an event that was never recorded is waited for");
  if (e.capture) {
    if (e.capture->over()) return invalid("an event that was recorded in a capture is waited for outside it");
    if (queue_.capture && queue_.capture != e.capture) return invalid("an event of another capture is waited for");
    if (!queue_.capture) {
      queue_.capture = e.capture;
      queue_.lane = e.capture->join();
    }
    queue_.capture->wait(queue_.lane, e.captured_point);
    return Ok{};
  }
  if (queue_.capture) return invalid("an event that was recorded outside the capture is waited for in it");
  Item item;
  item.kind = Item::Kind::kWait;
  item.point = e.point;
  put(std::move(item), &lock);
  return Ok{};
}

Status QueueStream::begin_capture() {
  const Lock lock(device_->lock_);
  PERI_TRY(device_->call("begin_capture"));
  leave_capture();
  if (queue_.capture) return invalid("the stream is in a capture already");
  queue_.capture = std::make_shared<Capturing>();
  queue_.lane = queue_.capture->join();
  queue_.began = true;
  return Ok{};
}

Result<std::unique_ptr<Captured>> QueueStream::end_capture() {
  const Lock lock(device_->lock_);
  const Status called = device_->call("end_capture");
  leave_capture();
  if (!queue_.capture || !queue_.began) return invalid("the stream began no capture");
  auto recording = std::exchange(queue_.capture, nullptr)->end();
  queue_.began = false;
  PERI_TRY(called);
  if (!recording.ok()) return std::move(recording).error();
  return std::unique_ptr<Captured>(std::make_unique<QueueCaptured>(device_, *std::move(recording)));
}

Status QueueStream::replay(const Captured& captured) {
  Lock lock(device_->lock_);
  PERI_TRY(device_->call("replay"));
  if (captured.owner() != device_) return invalid("a capture of another device");
  leave_capture();
  if (queue_.capture) return invalid("a replay within a capture");
  Item item;
  item.kind = Item::Kind::kReplay;
  item.recording = static_cast<const QueueCaptured&>(captured).recording;
  put(std::move(item), &lock);
  return Ok{};
}

Status QueueStream::synchronize() {
  const Lock lock(device_->lock_);
  PERI_TRY(device_->call("synchronize"));
  leave_capture();
  if (queue_.capture) return invalid("a stream that captures is synchronized");
  device_->schedule().drain(&queue_);
  return told(&queue_.error);
}
}  // namespace

std::unique_ptr<Device> make_queue_device(QueueOptions options, std::unique_ptr<Store> store) {
  return std::make_unique<QueueDevice>(std::move(options), std::move(store));
}

}  // namespace peri::device
