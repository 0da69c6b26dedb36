// Engines of a graph as numbers, and plans of them.
#include "device/cuda/cudnn.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/fault.hpp"
#include "device/cuda/cudnn_graph.hpp"

namespace peri::device::cuda {

namespace {
// A plan with all that it was made of.
struct Plan {
  explicit Plan(const DnnTable& t) : pool(t) {}
  DnnPool pool;
  DnnDescriptor plan = nullptr;
  int64_t workspace = 0;
};

class Session final : public Cudnn, public std::enable_shared_from_this<Session> {
 public:
  Session(CudaDevice& device, Library library) : device_(device), library_(std::move(library)) {}
  ~Session() override {
    if (handle_) (void)device_.within([&] { return check_dnn(table_, table_.destroy(handle_), "cudnnDestroy"); }).ok();
  }
  Status start() {
#define PERI_CUDNN(member, symbol, parameters) PERI_TRY(library_.find(symbol, &table_.member));
#include "device/cuda/cudnn.def"
#undef PERI_CUDNN
    PERI_TRY(library_.find("cudnnGetErrorString", &table_.status_text));
    return device_.within([&] { return check_dnn(table_, table_.create(&handle_), "cudnnCreate"); });
  }
  const Version& version() const override { return library_.version(); }
  Result<std::vector<DnnChoice>> choices(const DnnConv& conv, int most) const override;
  Result<std::unique_ptr<const DnnReady>> make(const DnnConv& conv, const DnnChoice* choice,
                                               size_t workspace) const override;
  Status enqueue(const DnnConv& conv, const Plan& plan, const DnnAddresses& at, CuStream stream) const;
  // A plan goes with the device's context current.
  void drop(std::unique_ptr<Plan> plan) const {
    (void)device_
        .within([&]() -> Status {
          plan.reset();
          return Ok{};
        })
        .ok();
  }

 private:
  Status ask(DnnPool& pool, DnnDescriptor graph, int mode, bool wide, size_t most, std::vector<DnnChoice>* out) const;
  Result<std::optional<DnnChoice>> read(DnnPool& pool, DnnDescriptor config, bool wide) const;
  Result<std::vector<DnnChoice>> listed(const DnnConv& conv, int mode, int most) const;
  Status plan(const DnnConv& conv, const DnnChoice& choice, Plan* out) const;

  CudaDevice& device_;
  Library library_;
  DnnTable table_;
  DnnHandle handle_ = nullptr;
  mutable std::mutex handle_lock_;  // one thread at a time asks, plans or enqueues with it
};

class Ready final : public DnnReady {
 public:
  Ready(std::shared_ptr<const Session> session, const DnnConv& conv, std::unique_ptr<Plan> plan)
      : session_(std::move(session)), conv_(conv), plan_(std::move(plan)) {}
  ~Ready() override { session_->drop(std::move(plan_)); }
  size_t workspace_bytes() const override { return static_cast<size_t>(plan_->workspace); }
  Status enqueue(const DnnAddresses& at, CuStream stream) const override {
    return session_->enqueue(conv_, *plan_, at, stream);
  }

 private:
  const std::shared_ptr<const Session> session_;
  const DnnConv conv_;
  std::unique_ptr<Plan> plan_;
};

Status check_conv(const DnnConv& v) {
  for (const int64_t size : {v.n, v.c, v.h, v.w, v.k, v.r, v.s, v.oh, v.ow, v.groups})
    if (size < 1 || size > INT32_MAX) return refused("a convolution of %lld", static_cast<long long>(size));
  if (v.c % v.groups != 0 || v.k % v.groups != 0) return refused("channels that groups do not divide");
  if (v.dtype != DType::kF32 && v.dtype != DType::kF16 && v.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v.dtype)));
  return Ok{};
}

// What the engine of a configuration rounds inside, or leaves to chance, is none of ours, nor is one that the library
// compiles for each new size: a second or more of the first run. Tensor cores take float32 (`wide`) as TF32, whether
// they note it or not.
Result<std::optional<DnnChoice>> Session::read(DnnPool& pool, DnnDescriptor config, bool wide) const {
  DnnChoice out;
  PERI_ASSIGN(DnnDescriptor engine, pool.make(kDnnEngine));
  PERI_ASSIGN(const int64_t engines,
              pool.get(config, kDnnConfigEngine, kDnnTypeDescriptor, std::span<DnnDescriptor>(&engine, 1)));
  if (engines != 1) return std::optional<DnnChoice>();
  PERI_ASSIGN(out.engine, pool.one<int64_t>(engine, kDnnEngineIndex, kDnnTypeInt64));
  std::array<int, kDnnNoteCount> notes = {};
  PERI_ASSIGN(const int64_t noted, pool.get(engine, kDnnEngineNotes, kDnnTypeNote, std::span<int>(notes)));
  for (size_t k = 0; k < notes.size() && k < static_cast<size_t>(noted); ++k)
    for (const int bad : {wide ? kDnnTensorCore : kDnnDownConverts, kDnnDownConverts, kDnnNarrowSums, kDnnFft,
                          kDnnNondeterministic, kDnnWinograd})
      if (notes[k] == bad) return std::optional<DnnChoice>();
  std::array<int, kDnnBehaviorCount> behavior = {};
  PERI_ASSIGN(const int64_t told, pool.get(engine, kDnnEngineBehavior, kDnnTypeBehavior, std::span<int>(behavior)));
  for (size_t k = 0; k < behavior.size() && k < static_cast<size_t>(told); ++k)
    if (behavior[k] == kDnnCompiles) return std::optional<DnnChoice>();
  // Asked how many there are, with room for none, it says none: it fills what there is room for.
  std::array<DnnDescriptor, kDnnKnobCount> knobs = {};
  for (DnnDescriptor& knob : knobs) {
    PERI_ASSIGN(knob, pool.make(kDnnKnobChoice));
  }
  PERI_ASSIGN(const int64_t count,
              pool.get(config, kDnnConfigKnobs, kDnnTypeDescriptor, std::span<DnnDescriptor>(knobs)));
  if (count > kDnnKnobCount) return std::optional<DnnChoice>();  // some have no room: it would be another engine
  for (const DnnDescriptor knob : std::span(knobs).first(static_cast<size_t>(count))) {
    PERI_ASSIGN(const int type, pool.one<int>(knob, kDnnKnobType, kDnnTypeKnob));
    PERI_ASSIGN(const int64_t value, pool.one<int64_t>(knob, kDnnKnobValue, kDnnTypeInt64));
    out.knobs.emplace_back(type, value);
  }
  std::sort(out.knobs.begin(), out.knobs.end());
  return std::optional(std::move(out));
}

Status Session::ask(DnnPool& pool, DnnDescriptor graph, int mode, bool wide, size_t most,
                    std::vector<DnnChoice>* out) const {
  constexpr int64_t kMaxResults = 64;
  PERI_ASSIGN(const DnnDescriptor heuristic, pool.make(kDnnHeuristic));
  PERI_TRY(pool.set(heuristic, kDnnHeurGraph, kDnnTypeDescriptor, graph));
  PERI_TRY(pool.set(heuristic, kDnnHeurMode, kDnnTypeHeurMode, mode));
  if (const Status done = pool.finalize(heuristic); !done.ok())
    return done.error().kind == ErrorKind::kRefused ? Status(Ok{}) : done;  // it has nothing for this
  std::vector<DnnDescriptor> configs;
  PERI_ASSIGN(const int64_t there,
              pool.get(heuristic, kDnnHeurResults, kDnnTypeDescriptor, std::span<DnnDescriptor>(configs)));
  for (int64_t k = 0; k < std::min(there, kMaxResults); ++k) {
    PERI_ASSIGN(configs.emplace_back(), pool.make(kDnnEngineConfig));
  }
  if (configs.empty()) return Ok{};
  PERI_ASSIGN(const int64_t given,
              pool.get(heuristic, kDnnHeurResults, kDnnTypeDescriptor, std::span<DnnDescriptor>(configs)));
  configs.resize(static_cast<size_t>(std::min<int64_t>(given, static_cast<int64_t>(configs.size()))));
  for (const DnnDescriptor config : configs) {
    if (out->size() >= most) break;
    PERI_ASSIGN(std::optional<DnnChoice> one, read(pool, config, wide));
    if (one && std::find(out->begin(), out->end(), *one) == out->end()) out->push_back(*std::move(one));
  }
  return Ok{};
}

Result<std::vector<DnnChoice>> Session::listed(const DnnConv& conv, int mode, int most) const {
  std::vector<DnnChoice> out;
  PERI_TRY(device_.within([&]() -> Status {
    const std::lock_guard<std::mutex> lock(handle_lock_);
    DnnPool pool(table_);
    PERI_ASSIGN(const DnnDescriptor graph, dnn_graph(pool, handle_, conv));
    return ask(pool, graph, mode, conv.dtype == DType::kF32, static_cast<size_t>(most), &out);
  }));
  return out;
}

// The second list takes fifty times as long to ask for, and its engines are the slowest.
constexpr std::array<int, 2> kLists = {kDnnHeurA, kDnnHeurFallback};

Result<std::vector<DnnChoice>> Session::choices(const DnnConv& conv, int most) const {
  PERI_TRY(check_conv(conv));
  for (const int mode : kLists) {
    PERI_ASSIGN(std::vector<DnnChoice> out, listed(conv, mode, most));
    if (!out.empty()) return out;
  }
  return refused("cuDNN has no engine for it");
}

Status Session::plan(const DnnConv& conv, const DnnChoice& choice, Plan* out) const {
  const std::lock_guard<std::mutex> lock(handle_lock_);
  DnnPool& pool = out->pool;
  PERI_ASSIGN(const DnnDescriptor graph, dnn_graph(pool, handle_, conv));
  PERI_ASSIGN(const DnnDescriptor engine, pool.make(kDnnEngine));
  PERI_TRY(pool.set(engine, kDnnEngineGraph, kDnnTypeDescriptor, graph));
  PERI_TRY(pool.set(engine, kDnnEngineIndex, kDnnTypeInt64, choice.engine));
  PERI_TRY(pool.finalize(engine));
  std::vector<DnnDescriptor> knobs;
  for (const auto& [type, value] : choice.knobs) {
    PERI_ASSIGN(const DnnDescriptor knob, pool.make(kDnnKnobChoice));
    PERI_TRY(pool.set(knob, kDnnKnobType, kDnnTypeKnob, static_cast<int>(type)));
    PERI_TRY(pool.set(knob, kDnnKnobValue, kDnnTypeInt64, value));
    PERI_TRY(pool.finalize(knob));
    knobs.push_back(knob);
  }
  PERI_ASSIGN(const DnnDescriptor config, pool.make(kDnnEngineConfig));
  PERI_TRY(pool.set(config, kDnnConfigEngine, kDnnTypeDescriptor, engine));
  if (!knobs.empty())
    PERI_TRY(pool.set(config, kDnnConfigKnobs, kDnnTypeDescriptor, std::span<const DnnDescriptor>(knobs)));
  PERI_TRY(pool.finalize(config));
  PERI_ASSIGN(out->plan, pool.make(kDnnPlan));
  PERI_TRY(pool.set(out->plan, kDnnPlanHandle, kDnnTypeHandle, handle_));
  PERI_TRY(pool.set(out->plan, kDnnPlanConfig, kDnnTypeDescriptor, config));
  PERI_TRY(pool.finalize(out->plan));
  PERI_ASSIGN(out->workspace, pool.one<int64_t>(out->plan, kDnnPlanWorkspace, kDnnTypeInt64));
  return Ok{};
}

Result<std::unique_ptr<const DnnReady>> Session::make(const DnnConv& conv, const DnnChoice* choice,
                                                      size_t workspace) const {
  PERI_TRY(check_conv(conv));
  constexpr int kTries = 8;
  std::optional<Error> why;
  size_t tried = 0;
  for (const int mode : kLists) {
    std::vector<DnnChoice> list;
    if (choice) {
      list.push_back(*choice);
    } else {
      PERI_ASSIGN(list, listed(conv, mode, kTries));
    }
    for (const DnnChoice& one : list) {
      auto made = std::make_unique<Plan>(table_);
      Status done = device_.within([&] { return plan(conv, one, made.get()); });
      if (done.ok() && made->workspace <= static_cast<int64_t>(workspace))
        return std::unique_ptr<const DnnReady>(std::make_unique<Ready>(shared_from_this(), conv, std::move(made)));
      if (done.ok()) done = refused("it takes %lld bytes of workspace", static_cast<long long>(made->workspace));
      drop(std::move(made));
      // What does not compile is as good as none; another engine may.
      const bool next = done.error().kind == ErrorKind::kRefused || done.error().kind == ErrorKind::kIo;
      if (!next || choice) return std::move(done).error();
      ++tried;
      if (!why) why = std::move(done).error();
    }
  }
  if (!why) return refused("cuDNN has no engine for it");
  return refused("cuDNN has %zu engines for it, of which none can be made: %s", tried, why->text().c_str());
}

Status Session::enqueue(const DnnConv& conv, const Plan& plan, const DnnAddresses& at, CuStream stream) const {
  std::vector<int64_t> ids = {kDnnX, kDnnW, kDnnY};
  std::vector<Address> addresses = {at.x, at.w, at.y};
  if (conv.residual) {
    ids.push_back(kDnnResidual);
    addresses.push_back(at.residual);
  }
  if (conv.bias) {
    ids.push_back(kDnnBias);
    addresses.push_back(at.bias);
  }
  std::vector<void*> pointers;
  for (const Address a : addresses) {
    if (a.value % kDnnAlignment != 0) return invalid("an argument that is not aligned to %zu", kDnnAlignment);
    pointers.push_back(reinterpret_cast<void*>(a.value));
  }
  if (plan.workspace > 0 && at.workspace.value % kDnnWorkspaceAlignment != 0)
    return invalid("a workspace that is not aligned to %zu", kDnnWorkspaceAlignment);
  return device_.within([&]() -> Status {
    DnnPool pool(table_);
    PERI_ASSIGN(const DnnDescriptor pack, pool.make(kDnnPack));
    PERI_TRY(pool.set(pack, kDnnPackIds, kDnnTypeInt64, std::span<const int64_t>(ids)));
    PERI_TRY(pool.set(pack, kDnnPackPointers, kDnnTypePointer, std::span<void* const>(pointers)));
    PERI_TRY(pool.set(pack, kDnnPackWorkspace, kDnnTypePointer, reinterpret_cast<void*>(at.workspace.value)));
    PERI_TRY(pool.finalize(pack));
    const std::lock_guard<std::mutex> lock(handle_lock_);
    PERI_TRY(check_dnn(table_, table_.set_stream(handle_, stream), "cudnnSetStream"));
    Status done = check_dnn(table_, table_.execute(handle_, plan.plan, pack), "cudnnBackendExecute");
    const Status back = check_dnn(table_, table_.set_stream(handle_, nullptr), "cudnnSetStream");  // it may go before
    return done.ok() ? back : done;
  });
}
}  // namespace

Result<std::shared_ptr<const Cudnn>> Cudnn::of(CudaDevice& device) {
  static std::mutex lock;
  static std::map<const CudaDevice*, std::weak_ptr<const Cudnn>> opened;
  const std::lock_guard<std::mutex> guard(lock);
  if (auto kept = opened[&device].lock()) return kept;
  PERI_ASSIGN(Library library, open_library(Vendor::kCudnn));
  auto made = std::make_shared<Session>(device, std::move(library));
  PERI_TRY(made->start());
  opened[&device] = made;
  return std::shared_ptr<const Cudnn>(std::move(made));
}

}  // namespace peri::device::cuda
