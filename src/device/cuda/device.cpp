// The device over one context: memory from its own pool, pinned memory by size classes, and access to streams, events,
// graphs and modules.
#include <algorithm>
#include <bit>

#include "base/bytes.hpp"
#include "device/cuda/context.hpp"

namespace peri::device::cuda {

namespace {
constexpr size_t kMinBytes = 256;  // so that no bytes have an address of their own, too
constexpr size_t kMinPinned = 4096;
constexpr size_t kMaxPinned = size_t{1} << 40;

class PinnedPool {
 public:
  explicit PinnedPool(Context* context) : context_(context) {}
  ~PinnedPool() {
    for (const auto& [bytes, at] : free_)
      context_->dispose([&, p = at](const Driver& d) { return d.pinned_give_back(p); });
  }
  Result<Pinned> take(size_t bytes) {
    if (bytes > kMaxPinned) return Error(ErrorKind::kMemory, format("%zu bytes of pinned memory", bytes));
    const size_t room = std::bit_ceil(std::max(bytes, kMinPinned));
    void* at = nullptr;
    {
      const std::lock_guard<std::mutex> lock(lock_);
      if (auto kept = free_.extract(room); !kept.empty()) at = kept.mapped();
    }
    if (!at)
      PERI_TRY(
          context_->drive("cuMemHostAlloc", [&](const Driver& d) { return d.pinned_take(&at, room, kCuPortable); }));
    return Pinned({static_cast<std::byte*>(at), bytes}, [this, at, room] {
      const std::lock_guard<std::mutex> lock(lock_);
      free_.emplace(room, at);
    });
  }

 private:
  Context* const context_;
  std::mutex lock_;
  std::multimap<size_t, void*> free_;
};

class Gpu final : public CudaDevice {
 public:
  Gpu(std::shared_ptr<Context> context, Target target)
      : context_(std::move(context)), target_(std::move(target)), pinned_(context_.get()) {}
  ~Gpu() override;
  Status start();

  std::string name() const override { return "cuda:" + std::to_string(context_->facts.ordinal); }
  const Target& target() const override { return target_; }
  MemoryInfo memory() const override;
  Counts counts() const override { return context_->counts(); }
  Result<Memory> allocate(size_t bytes) override;
  Result<std::unique_ptr<Stream>> make_stream() override {
    PERI_TRY(context_->call());
    return make_cuda_stream(this, context_);
  }
  Result<std::unique_ptr<Event>> make_event() override {
    PERI_TRY(context_->call());
    return make_cuda_event(this, context_, false);
  }
  Status synchronize() override;
  std::byte* host_pointer(Address) const override { return nullptr; }

  const GpuFacts& facts() const override { return context_->facts; }
  const Driver& driver() const override { return *context_->driver; }
  Result<std::unique_ptr<Module>> load(std::span<const std::byte> code) override {
    PERI_TRY(context_->call());
    return load_module(context_, code);
  }
  Launch launch_of(const Kernel& kernel, const Shape& shape, std::vector<Argument> arguments,
                   std::vector<Scalar> scalars, std::vector<int> order) override {
    return kernel_launch(context_, kernel, shape, std::move(arguments), {std::move(scalars), std::move(order)});
  }
  Status within(const std::function<Status()>& function) override { return context_->within(function); }
  Result<Pinned> pinned(size_t bytes) override {
    PERI_TRY(context_->call());
    return pinned_.take(bytes);
  }
  Result<std::unique_ptr<Event>> make_timed_event() override {
    PERI_TRY(context_->call());
    return make_cuda_event(this, context_, true);
  }
  Result<double> milliseconds(const Event& from, const Event& to) override {
    PERI_TRY(context_->call());
    if (from.owner() != this || to.owner() != this) return invalid("an event of another device");
    return milliseconds_between(*context_, from, to);
  }
  Result<Memory> lend(Address address, size_t bytes) override;
  Result<std::unique_ptr<Stream>> lend_stream(void* queue) override {
    PERI_TRY(context_->call());
    return lend_cuda_stream(this, context_, queue);
  }
  void keep(std::shared_ptr<const void> what) override {
    const std::lock_guard<std::mutex> lock(kept_lock_);
    if (std::find(kept_.begin(), kept_.end(), what) == kept_.end()) kept_.push_back(std::move(what));
  }
  Result<bool> update(Captured& kept, const Captured& newer) override {
    PERI_TRY(context_->call());
    if (kept.owner() != this || newer.owner() != this) return invalid("a capture of another device");
    return update_captured(*context_, kept, newer);
  }

 private:
  void release(Address address) override;
  int64_t idle_bytes() const;  // that the pool keeps and nobody uses
  Error no_memory(size_t bytes, std::string_view why) const;

  const std::shared_ptr<Context> context_;
  const Target target_;
  PinnedPool pinned_;
  std::mutex kept_lock_;
  std::vector<std::shared_ptr<const void>> kept_;
  CuPool pool_ = nullptr;
  CuStream memory_stream_ = nullptr;
};

Status Gpu::start() {
  CuPoolProps props;
  props.device = context_->device;
  PERI_TRY(context_->drive("cuMemPoolCreate", [&](const Driver& d) { return d.pool_create(&pool_, &props); }));
  // Memory stays with the pool, and where an allocation lies does not hang on how far streams have come.
  uint64_t all = ~uint64_t{0};
  int no = 0;
  for (const auto& [attribute, value] : {std::pair<int, void*>{kCuReleaseThreshold, &all},
                                         {kCuReuseOpportunistic, &no},
                                         {kCuReuseInternalDependencies, &no}})
    PERI_TRY(context_->drive("cuMemPoolSetAttribute",
                             [&, a = attribute, v = value](const Driver& d) { return d.pool_set(pool_, a, v); }));
  return context_->drive("cuStreamCreate",
                         [&](const Driver& d) { return d.stream_create(&memory_stream_, kCuNonBlocking); });
}

Gpu::~Gpu() {
  kept_.clear();  // they may still call this device
  if (memory_stream_) context_->dispose([&](const Driver& d) { return d.stream_destroy(memory_stream_); });
  if (pool_) context_->dispose([&](const Driver& d) { return d.pool_destroy(pool_); });
}

int64_t Gpu::idle_bytes() const {
  uint64_t reserved = 0, used = 0;
  for (const auto& [attribute, value] : {std::pair{kCuReservedCurrent, &reserved}, std::pair{kCuUsedCurrent, &used}})
    if (!context_
             ->drive("cuMemPoolGetAttribute",
                     [&, a = attribute, v = value](const Driver& d) { return d.pool_get(pool_, a, v); })
             .ok())
      return 0;
  return static_cast<int64_t>(reserved - std::min(reserved, used));
}

MemoryInfo Gpu::memory() const {
  // What was given back counts once its stream, which holds nothing else, has come to it.
  (void)context_->drive("cuStreamSynchronize", [&](const Driver& d) { return d.stream_synchronize(memory_stream_); });
  size_t available = 0, total = 0;
  const Status told =
      context_->drive("cuMemGetInfo", [&](const Driver& d) { return d.memory_info(&available, &total); });
  if (!told.ok()) return {context_->facts.memory_bytes, 0};
  return {static_cast<int64_t>(total), static_cast<int64_t>(available) + idle_bytes()};
}

Error Gpu::no_memory(size_t bytes, std::string_view why) const {
  const MemoryInfo there = memory();
  return Error(ErrorKind::kMemory, name() + " has no room: " + std::string(why))
      .at_node("allocate")
      .expecting(
          format("%s of %s free", mib_text(static_cast<int64_t>(bytes)).c_str(), mib_text(there.total_bytes).c_str()))
      .but_found(mib_text(there.available_bytes))
      .advise("end what else uses this GPU, or take a smaller batch");
}

// In stream order on a stream of its own, which is empty: the memory is there, for every stream, when this returns.
Result<Memory> Gpu::allocate(size_t bytes) {
  PERI_TRY(context_->call());
  if (bytes > static_cast<size_t>(context_->facts.memory_bytes)) return no_memory(bytes, "more than it has at all");
  CuAddress at = 0;
  Status taken = context_->drive("cuMemAllocFromPoolAsync", [&](const Driver& d) {
    return d.take(&at, std::max(bytes, kMinBytes), pool_, memory_stream_);
  });
  if (!taken.ok() && taken.error().kind == ErrorKind::kMemory) return no_memory(bytes, taken.error().message);
  PERI_TRY(std::move(taken));
  Status there =
      context_->drive("cuStreamSynchronize", [&](const Driver& d) { return d.stream_synchronize(memory_stream_); });
  if (!there.ok()) {
    context_->dispose([&](const Driver& d) { return d.give_back(at, memory_stream_); });
    return std::move(there).error();
  }
  context_->add_memory({at}, bytes);
  return Memory(this, {at}, bytes);
}

// The driver knows whose memory an address is, and of which device.
Result<Memory> Gpu::lend(Address address, size_t bytes) {
  PERI_TRY(context_->call());
  const auto ask = [&](int attribute, void* to) {
    return context_->driver->pointer_attribute(to, attribute, address.value) == kCuSuccess;
  };
  unsigned type = 0;
  int ordinal = -1;
  if (!ask(kCuPointerMemoryType, &type) || type != kCuMemoryOfDevice || !ask(kCuPointerOrdinal, &ordinal))
    return invalid("the address is not device memory").expecting("memory of " + name());
  if (ordinal != context_->facts.ordinal)
    return invalid("the memory lies on another device").expecting(name()).but_found("cuda:" + std::to_string(ordinal));
  CuAddress begin = 0;
  size_t size = 0;
  if (ask(kCuPointerRangeStart, &begin) && ask(kCuPointerRangeBytes, &size) &&
      (bytes > size || address.value - begin > size - bytes))
    return invalid("%zu bytes at offset %llu of an allocation of %zu", bytes,
                   static_cast<unsigned long long>(address.value - begin), size);
  return Memory(context_->add_lent(address, bytes) ? this : nullptr, address, bytes);
}

void Gpu::release(Address address) {
  if (context_->remove_lent(address)) return;
  context_->remove_memory(address);
  context_->dispose([&](const Driver& d) { return d.give_back(address.value, memory_stream_); });
}

Status Gpu::synchronize() {
  PERI_TRY(context_->call());
  PERI_TRY(wait_for_streams(*context_));
  context_->health.finished();
  return Ok{};
}

Result<std::shared_ptr<Context>> open_context(std::shared_ptr<const Driver> driver, const GpuFacts& facts) {
  auto context = std::make_shared<Context>(std::move(driver), facts);
  Context& c = *context;
  PERI_TRY(c.health.check(c.driver->device_get(&c.device, facts.ordinal), "cuDeviceGet"));
  PERI_TRY(c.health.check(c.driver->retain(&c.context, c.device), "cuDevicePrimaryCtxRetain"));
  return context;
}
}  // namespace

Target target_of(const GpuFacts& facts, const Driver& driver, std::vector<std::string> libraries) {
  Target out;
  out.kind = Kind::kCuda;
  out.chip = facts.name;
  out.isas = {facts.chip()};
  if (facts.chip_specific() != facts.chip()) out.isas.push_back(facts.chip_specific());
  out.threads = out.multiprocessors = facts.multiprocessors;
  out.caches = {{std::string(kSharedOfBlock), facts.shared_bytes},
                {"L2 unified", facts.l2_bytes},
                {"memory", facts.memory_bytes}};
  std::erase_if(out.caches, [](const Cache& c) { return c.bytes <= 0; });
  out.libraries = std::move(libraries);
  out.libraries.insert(out.libraries.begin(), "cuda driver " + driver.version.text());
  return out;
}

Status check_ordinal(int ordinal, size_t count) {
  if (ordinal >= 0 && static_cast<size_t>(ordinal) < count) return Ok{};
  return usage("there is no cuda:%d", ordinal)
      .expecting(count == 1 ? "cuda:0" : format("cuda:0 to cuda:%zu", count - 1))
      .advise("name one that is there: peri doctor lists them");
}

Result<std::unique_ptr<CudaDevice>> make_cuda_device(CudaOptions options) {
  PERI_ASSIGN(std::shared_ptr<const Driver> driver, open_driver());
  PERI_ASSIGN(const std::vector<GpuFacts> gpus, list_gpus(*driver));
  PERI_TRY(check_ordinal(options.ordinal, gpus.size()));
  const GpuFacts& facts = gpus[static_cast<size_t>(options.ordinal)];
  if (!facts.pools)
    return unsupported("%s has no memory pools (as a virtual GPU may)", facts.name.c_str()).in_file(driver->path);
  const Target target = target_of(facts, *driver, std::move(options.libraries));
  PERI_ASSIGN(std::shared_ptr<Context> context, open_context(std::move(driver), facts));
  auto gpu = std::make_unique<Gpu>(std::move(context), target);
  PERI_TRY(gpu->start());
  return std::unique_ptr<CudaDevice>(std::move(gpu));
}

}  // namespace peri::device::cuda
