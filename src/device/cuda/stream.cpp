// Streams, events and graphs. What the rules of device.hpp forbid is refused before the driver sees it, since a wrong
// call in a capture would spoil the capture: the order within captures is kept here beside the driver's.
#include <atomic>

#include "device/capturing.hpp"
#include "device/cuda/context.hpp"

namespace peri::device::cuda {

namespace {

// A capture under way, and streams that took part in it and went before it ended: they cannot be destroyed until then.
struct Capture {
  Capturing order;
  std::vector<CuStream> orphans;
  std::vector<std::string> names;  // of the last launches on all of its streams: whom a replay's error may come from
  std::mutex lock;                 // streams of one capture may be used by several threads
  void launched(const std::string& name) {
    if (names.size() == Health::kSuspects) names.erase(names.begin());
    names.push_back(name);
  }
};

class CudaEvent final : public Event {
 public:
  CudaEvent(const Device* owner, std::shared_ptr<Context> context, CuEvent event, bool timed)
      : Event(owner), native(event), timed(timed), context_(std::move(context)) {}
  ~CudaEvent() override {
    context_->dispose([&](const Driver& d) { return d.event_destroy(native); });
  }
  Status synchronize() override {
    PERI_TRY(context_->call());
    if (capture) return invalid("an event that was recorded in a capture is waited for outside it");
    if (!recorded) return invalid("an event that was never recorded is waited for");
    return context_->drive("cuEventSynchronize", [&](const Driver& d) { return d.event_synchronize(native); });
  }

  const CuEvent native;
  const bool timed;
  bool recorded = false;  // outside a capture
  std::shared_ptr<Capture> capture;
  size_t captured_point = 0;

 private:
  const std::shared_ptr<Context> context_;
};

class CudaCaptured final : public Captured {
 public:
  CudaCaptured(const Device* owner, std::shared_ptr<Context> context, CuGraph graph, CuGraphExec exec)
      : Captured(owner), graph(graph), exec(exec), context_(std::move(context)) {}
  ~CudaCaptured() override {
    context_->dispose([&](const Driver& d) { return d.graph_exec_destroy(exec); });
    context_->dispose([&](const Driver& d) { return d.graph_destroy(graph); });
  }
  size_t size() const override { return static_cast<size_t>(copies + launches); }

  CuGraph graph;
  CuGraphExec exec;
  int64_t copies = 0, launches = 0;
  std::vector<std::string> names;  // of the last launches

 private:
  const std::shared_ptr<Context> context_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(const Device* owner, std::shared_ptr<Context> context, CuStream stream, bool lent = false)
      : owner_(owner), context_(std::move(context)), stream_(stream), lent_(lent) {
    context_->add_stream(this);
  }
  ~CudaStream() override;
  Status copy_in(Address to, std::span<const std::byte> from) override;
  Status copy_out(std::span<std::byte> to, Address from) override;
  Status copy(Address to, Address from, size_t bytes) override;
  Status launch(Launch launch) override;
  Status record(Event& event) override;
  Status wait(const Event& event) override;
  Status begin_capture() override;
  Result<std::unique_ptr<Captured>> end_capture() override;
  bool capture_spoilt() const override { return spoilt_; }
  Status replay(const Captured& captured) override;
  Status synchronize() override;
  // From any thread.
  Status wait_outside_capture() {
    const std::lock_guard<std::mutex> lock(turn_);
    if (capturing_) return Ok{};
    return context_->drive("cuStreamSynchronize", [&](const Driver& d) { return d.stream_synchronize(stream_); });
  }

 private:
  Status enter_call();  // before all else of a call
  Status note(Item::Kind kind, const std::string& launch = "");
  void leave_capture();
  Result<std::unique_ptr<Captured>> instantiate(CuGraph graph, const Recorded& recorded,
                                                std::vector<std::string> names);
  Status end_native(Capture& capture, CuGraph* graph);

  const Device* const owner_;
  const std::shared_ptr<Context> context_;
  const CuStream stream_;
  const bool lent_;
  std::shared_ptr<Capture> capture_;
  size_t lane_ = 0;
  bool began_ = false, spoilt_ = false;
  std::atomic<bool> capturing_ = false;
  // Held where the stream enters or ends a capture and while another thread waits for it: to wait for a stream in a
  // capture spoils the capture.
  std::mutex turn_;
};

Status CudaStream::enter_call() {
  leave_capture();
  return context_->call();
}

void CudaStream::leave_capture() {
  if (!capture_) return;
  const std::lock_guard<std::mutex> lock(capture_->lock);
  if (!capture_->order.over()) return;
  began_ = capturing_ = false;
}

// The work that the driver has taken, into the capture or the counts.
Status CudaStream::note(Item::Kind kind, const std::string& launch) {
  if (capturing_) {
    const std::lock_guard<std::mutex> lock(capture_->lock);
    if (kind == Item::Kind::kLaunch) capture_->launched(launch);
    Item item;
    item.kind = kind;
    capture_->order.add(lane_, std::move(item));
  } else {
    context_->add_work(kind != Item::Kind::kLaunch, kind == Item::Kind::kLaunch, 0);
  }
  return Ok{};
}

// A capture in which it takes part ends with it or is spoilt, whoever owns the stream; a lent one is left as it came.
CudaStream::~CudaStream() {
  context_->remove_stream(this);
  leave_capture();
  if (capturing_ && began_) {
    const std::lock_guard<std::mutex> lock(capture_->lock);
    CuGraph graph = nullptr;
    capture_->order.end_broken();
    (void)end_native(*capture_, &graph);
    if (graph) context_->dispose([&](const Driver& d) { return d.graph_destroy(graph); });
  } else if (capturing_) {
    const std::lock_guard<std::mutex> lock(capture_->lock);
    capture_->order.lose_stream();
    if (!lent_) capture_->orphans.push_back(stream_);
    return;
  }
  if (lent_) return;
  context_->dispose([&](const Driver& d) { return d.stream_synchronize(stream_); });
  context_->dispose([&](const Driver& d) { return d.stream_destroy(stream_); });
}

Status CudaStream::copy_in(Address to, std::span<const std::byte> from) {
  PERI_TRY(enter_call());
  PERI_TRY(context_->check_range(to, from.size()));
  if (!from.empty())
    PERI_TRY(context_->drive("cuMemcpyHtoDAsync",
                             [&](const Driver& d) { return d.copy_in(to.value, from.data(), from.size(), stream_); }));
  return note(Item::Kind::kCopyIn);
}

Status CudaStream::copy_out(std::span<std::byte> to, Address from) {
  PERI_TRY(enter_call());
  PERI_TRY(context_->check_range(from, to.size()));
  if (!to.empty())
    PERI_TRY(context_->drive("cuMemcpyDtoHAsync",
                             [&](const Driver& d) { return d.copy_out(to.data(), from.value, to.size(), stream_); }));
  return note(Item::Kind::kCopyOut);
}

Status CudaStream::copy(Address to, Address from, size_t bytes) {
  PERI_TRY(enter_call());
  PERI_TRY(context_->check_range(to, bytes));
  PERI_TRY(context_->check_range(from, bytes));
  if (from.value < to.value + bytes && to.value < from.value + bytes)
    return invalid("a copy between ranges that overlap").at_node("copy within the device");
  if (bytes > 0)
    PERI_TRY(context_->drive("cuMemcpyDtoDAsync",
                             [&](const Driver& d) { return d.copy(to.value, from.value, bytes, stream_); }));
  return note(Item::Kind::kCopy);
}

Status CudaStream::launch(Launch launch) {
  PERI_TRY(enter_call());
  const std::string node = "launch '" + launch.name + "'";
  if (!launch.enqueue && !launch.function) return invalid("a launch of nothing").at_node(launch.name);
  if (!launch.enqueue)
    return unsupported("it runs on the host only")
        .at_node(node)
        .advise("give it a form for this device, or another place");
  for (const Argument& a : launch.arguments)
    if (Status there = context_->check_range(a.address, a.bytes); !there.ok())
      return std::move(there).error().at_node(node);
  context_->health.enqueued(launch.name);
  Status done = launch.enqueue({stream_, launch.arguments});
  if (!done.ok()) {
    Error error = std::move(done).error();
    error.node = node + (error.node.empty() ? "" : ", " + error.node);
    return error;
  }
  return note(Item::Kind::kLaunch, launch.name);
}

Status CudaStream::record(Event& event) {
  PERI_TRY(enter_call());
  if (event.owner() != owner_) return invalid("an event of another device");
  auto& e = static_cast<CudaEvent&>(event);
  PERI_TRY(context_->drive("cuEventRecord", [&](const Driver& d) { return d.event_record(e.native, stream_); }));
  e.capture = capturing_ ? capture_ : nullptr;
  e.recorded = !capturing_;
  if (capturing_) {
    const std::lock_guard<std::mutex> lock(capture_->lock);
    e.captured_point = capture_->order.record(lane_);
  }
  return Ok{};
}

Status CudaStream::wait(const Event& event) {
  PERI_TRY(enter_call());
  if (event.owner() != owner_) return invalid("an event of another device");
  const auto& e = static_cast<const CudaEvent&>(event);
  if (!e.recorded && !e.capture) return invalid("an event that was never recorded is waited for");
  const auto native_wait = [&] {
    return context_->drive("cuStreamWaitEvent", [&](const Driver& d) { return d.stream_wait(stream_, e.native, 0); });
  };
  if (!e.capture) {
    if (capturing_) return invalid("an event that was recorded outside the capture is waited for in it");
    return native_wait();
  }
  const std::lock_guard<std::mutex> lock(e.capture->lock);
  const std::lock_guard<std::mutex> turn(turn_);
  if (e.capture->order.over()) return invalid("an event that was recorded in a capture is waited for outside it");
  if (capturing_ && capture_ != e.capture) return invalid("an event of another capture is waited for");
  PERI_TRY(native_wait());
  if (!capturing_) {
    capture_ = e.capture;
    lane_ = capture_->order.join();
    capturing_ = true;
  }
  capture_->order.wait(lane_, e.captured_point);
  return Ok{};
}

// Relaxed: a library may allocate meanwhile, and another thread may end what this one began.
Status CudaStream::begin_capture() {
  PERI_TRY(enter_call());
  if (capturing_) return invalid("the stream is in a capture already");
  const std::lock_guard<std::mutex> turn(turn_);
  PERI_TRY(context_->drive("cuStreamBeginCapture",
                           [&](const Driver& d) { return d.capture_begin(stream_, kCuCaptureRelaxed); }));
  capture_ = std::make_shared<Capture>();
  lane_ = capture_->order.join();
  began_ = capturing_ = true;
  spoilt_ = false;
  return Ok{};
}

Status CudaStream::end_native(Capture& capture, CuGraph* graph) {
  const CuResult code = context_->dispose([&](const Driver& d) { return d.capture_end(stream_, graph); });
  spoilt_ = code == kCuCaptureInvalidated;
  Status ended = context_->health.check(code, "cuStreamEndCapture");
  for (const CuStream orphan : capture.orphans)
    context_->dispose([&](const Driver& d) { return d.stream_destroy(orphan); });
  capture.orphans.clear();
  return ended;
}

Result<std::unique_ptr<Captured>> CudaStream::end_capture() {
  const Status called = enter_call();
  if (!capturing_ || !began_) {
    PERI_TRY(called);
    return invalid("the stream began no capture");
  }
  const std::shared_ptr<Capture> capture = std::exchange(capture_, nullptr);
  const std::lock_guard<std::mutex> lock(capture->lock);
  auto recorded = capture->order.end();
  CuGraph graph = nullptr;
  const Status ended = [&] {
    const std::lock_guard<std::mutex> turn(turn_);
    began_ = capturing_ = false;
    return end_native(*capture, &graph);
  }();
  if (called.ok() && ended.ok() && recorded.ok()) return instantiate(graph, **recorded, capture->names);
  if (graph) context_->dispose([&](const Driver& d) { return d.graph_destroy(graph); });
  PERI_TRY(called);
  if (!recorded.ok()) return std::move(recorded).error();
  return ended.error();
}

Result<std::unique_ptr<Captured>> CudaStream::instantiate(CuGraph graph, const Recorded& recorded,
                                                          std::vector<std::string> names) {
  CuGraphExec exec = nullptr;
  const Status made =
      context_->drive("cuGraphInstantiate", [&](const Driver& d) { return d.graph_instantiate(&exec, graph, 0); });
  if (!made.ok()) {
    context_->dispose([&](const Driver& d) { return d.graph_destroy(graph); });
    return made.error();
  }
  auto out = std::make_unique<CudaCaptured>(owner_, context_, graph, exec);
  // Else its first launch brings it to the device, within the run that a caller waits for.
  PERI_TRY(context_->drive("cuGraphUpload", [&](const Driver& d) { return d.graph_upload(exec, stream_); }));
  for (const auto& lane : recorded.lanes)
    for (const Item& item : lane)
      if (item.is_work()) ++(item.kind == Item::Kind::kLaunch ? out->launches : out->copies);
  out->names = std::move(names);
  return std::unique_ptr<Captured>(std::move(out));
}

Status CudaStream::replay(const Captured& captured) {
  PERI_TRY(enter_call());
  if (captured.owner() != owner_) return invalid("a capture of another device");
  if (capturing_) return invalid("a replay within a capture");
  const auto& c = static_cast<const CudaCaptured&>(captured);
  for (const std::string& name : c.names) context_->health.enqueued(name);
  PERI_TRY(context_->drive("cuGraphLaunch", [&](const Driver& d) { return d.graph_launch(c.exec, stream_); }));
  context_->add_work(c.copies, c.launches, 1);
  return Ok{};
}

Status CudaStream::synchronize() {
  PERI_TRY(enter_call());
  if (capturing_) return invalid("a stream that captures is synchronized");
  return wait_outside_capture();
}
}  // namespace

Result<std::unique_ptr<Stream>> make_cuda_stream(const Device* owner, std::shared_ptr<Context> context) {
  CuStream stream = nullptr;
  PERI_TRY(context->drive("cuStreamCreate", [&](const Driver& d) { return d.stream_create(&stream, kCuNonBlocking); }));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(owner, std::move(context), stream));
}

std::unique_ptr<Stream> lend_cuda_stream(const Device* owner, std::shared_ptr<Context> context, void* queue) {
  return std::make_unique<CudaStream>(owner, std::move(context), static_cast<CuStream>(queue), true);
}

Result<std::unique_ptr<Event>> make_cuda_event(const Device* owner, std::shared_ptr<Context> context, bool timed) {
  CuEvent event = nullptr;
  const unsigned flags = timed ? kCuEventDefault : kCuEventDisableTiming;
  PERI_TRY(context->drive("cuEventCreate", [&](const Driver& d) { return d.event_create(&event, flags); }));
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(owner, std::move(context), event, timed));
}

Status wait_for_streams(Context& context) {
  return context.each_stream([](Stream& s) { return static_cast<CudaStream&>(s).wait_outside_capture(); });
}

Result<double> milliseconds_between(Context& context, const Event& from, const Event& to) {
  const auto& a = static_cast<const CudaEvent&>(from);
  const auto& b = static_cast<const CudaEvent&>(to);
  if (!a.timed || !b.timed || !a.recorded || !b.recorded)
    return invalid("the time between events that keep none, or were not recorded outside captures");
  float out = 0;
  PERI_TRY(
      context.drive("cuEventElapsedTime", [&](const Driver& d) { return d.event_elapsed(&out, a.native, b.native); }));
  return static_cast<double>(out);
}

Result<bool> update_captured(Context& context, Captured& kept, const Captured& newer) {
  auto& to = static_cast<CudaCaptured&>(kept);
  const auto& from = static_cast<const CudaCaptured&>(newer);
  CuUpdateResult why;
  bool in_place = true;
  PERI_TRY(context.drive("cuGraphExecUpdate", [&](const Driver& d) {
    const CuResult code = d.graph_update(to.exec, from.graph, &why);
    in_place = code != kCuGraphUpdateFailure;
    return in_place ? code : kCuSuccess;
  }));
  if (!in_place) {
    CuGraphExec exec = nullptr;
    PERI_TRY(context.drive("cuGraphInstantiate",
                           [&](const Driver& d) { return d.graph_instantiate(&exec, from.graph, 0); }));
    std::swap(to.exec, exec);
    context.dispose([&](const Driver& d) { return d.graph_exec_destroy(exec); });
  }
  to.copies = from.copies;
  to.launches = from.launches;
  to.names = from.names;
  return in_place;
}

}  // namespace peri::device::cuda
