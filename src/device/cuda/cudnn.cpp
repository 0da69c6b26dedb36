// Engines of a graph as numbers, and plans of them.
#include "device/cuda/cudnn.hpp"

#include <algorithm>
#include <functional>
#include <limits>
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

// What the engine of a configuration rounds inside, or leaves to chance, is none of ours, nor is one that the library
// compiles for each new size where others are not: a second or more of the first run. Tensor cores take float32 as
// TF32, whether they note it or not.
struct Unwanted {
  explicit Unwanted(const DnnProblem& problem) {
    const auto* const conv = std::get_if<DnnConv>(&problem);
    tensor_cores = conv && conv->dtype == DType::kF32;
    compiled = conv != nullptr;
  }
  bool tensor_cores = false, compiled = false;
};

class Session final : public Cudnn, public std::enable_shared_from_this<Session> {
 public:
  // Null: for a GPU that is not here.
  Session(CudaDevice* device, Library library) : device_(device), library_(std::move(library)), properties_(table_) {}
  ~Session() override {
    if (handle_) (void)within([&] { return check_dnn(table_, table_.destroy(handle_), "cudnnDestroy"); }).ok();
  }
  Status start(std::string_view properties) {
#define PERI_CUDNN(member, symbol, parameters) PERI_TRY(library_.find(symbol, &table_.member));
#include "device/cuda/cudnn.def"
#undef PERI_CUDNN
    PERI_TRY(library_.find("cudnnGetErrorString", &table_.status_text));
    if (!library_.find("cudnnGetLastErrorString", &table_.last_error).ok()) table_.last_error = nullptr;
    if (device_) return within([&] { return check_dnn(table_, table_.create(&handle_), "cudnnCreate"); });
    PERI_ASSIGN(gpu_, properties_.make(kDnnProperties));
    PERI_TRY(properties_.set(gpu_, kDnnPropertiesJson, kDnnTypeChar, std::span<const char>(properties)));
    return properties_.finalize(gpu_);
  }
  const Version& version() const override { return library_.version(); }
  Result<std::string> properties() const override;
  Result<std::vector<DnnChoice>> choices(const DnnProblem& problem, int most) const override;
  Result<std::unique_ptr<const DnnReady>> make(const DnnProblem& problem, const DnnChoice* choice,
                                               size_t workspace) const override;
  Status enqueue(const DnnProblem& problem, const Plan& plan, const DnnAddresses& at, CuStream stream) const;

 private:
  // In use by as many as hold it.
  struct Kept {
    DnnProblem problem;
    DnnChoice choice;
    std::weak_ptr<const Plan> plan;
  };
  Status within(const std::function<Status()>& function) const {
    return device_ ? device_->within(function) : function();
  }
  // A plan goes with the device's context current, if that is still possible.
  void drop(std::unique_ptr<const Plan> plan) const {
    (void)within([&]() -> Status {
      plan.reset();
      return Ok{};
    }).ok();
  }
  Status ask(DnnPool& pool, DnnDescriptor graph, int mode, const Unwanted& none, size_t most,
             std::vector<DnnChoice>* out) const;
  Result<std::optional<DnnChoice>> read(DnnPool& pool, DnnDescriptor config, const Unwanted& none) const;
  Result<DnnDescriptor> graph(DnnPool& pool, const DnnProblem& problem) const;
  Result<std::vector<DnnChoice>> listed(const DnnProblem& problem, int mode, int most) const;
  Status plan(const DnnProblem& problem, const DnnChoice& choice, Plan* out) const;
  Result<std::shared_ptr<const Plan>> planned(const DnnProblem& problem, const DnnChoice& choice) const;

  CudaDevice* const device_;
  Library library_;
  DnnTable table_;
  DnnHandle handle_ = nullptr;
  DnnPool properties_;              // of a GPU that is not here
  DnnDescriptor gpu_ = nullptr;     // the one of properties_
  mutable std::mutex handle_lock_;  // one thread at a time asks, plans or enqueues with it
  mutable std::vector<Kept> kept_;
};

class Ready final : public DnnReady {
 public:
  Ready(std::shared_ptr<const Session> session, const DnnProblem& problem, std::shared_ptr<const Plan> plan)
      : session_(std::move(session)), problem_(problem), plan_(std::move(plan)) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(plan_->workspace); }
  Status enqueue(const DnnAddresses& at, CuStream stream) const override {
    return session_->enqueue(problem_, *plan_, at, stream);
  }

 private:
  const std::shared_ptr<const Session> session_;  // longer than the plan, which goes by it
  const DnnProblem problem_;
  const std::shared_ptr<const Plan> plan_;
};

Result<std::string> Session::properties() const {
  std::string out;
  PERI_TRY(within([&]() -> Status {
    const std::lock_guard<std::mutex> lock(handle_lock_);
    DnnPool pool(table_);
    DnnDescriptor gpu = gpu_;
    if (!gpu) {
      PERI_ASSIGN(gpu, pool.make(kDnnProperties));
      PERI_TRY(pool.set(gpu, kDnnPropertiesHandle, kDnnTypeHandle, handle_));
      PERI_TRY(pool.finalize(gpu));
    }
    PERI_ASSIGN(const int64_t size, pool.get(gpu, kDnnPropertiesJson, kDnnTypeChar, std::span<char>()));
    out.resize(static_cast<size_t>(size));
    PERI_TRY(pool.get(gpu, kDnnPropertiesJson, kDnnTypeChar, std::span<char>(out)));
    return Ok{};
  }));
  return out.substr(0, out.find('\0'));
}

Status check(const DnnProblem& problem) {
  return std::visit([](const auto& p) { return check_problem(p); }, problem);
}

Result<std::optional<DnnChoice>> Session::read(DnnPool& pool, DnnDescriptor config, const Unwanted& none) const {
  DnnChoice out;
  PERI_ASSIGN(DnnDescriptor engine, pool.make(kDnnEngine));
  PERI_ASSIGN(const int64_t engines,
              pool.get(config, kDnnConfigEngine, kDnnTypeDescriptor, std::span<DnnDescriptor>(&engine, 1)));
  if (engines != 1) return std::optional<DnnChoice>();
  PERI_ASSIGN(out.engine, pool.one<int64_t>(engine, kDnnEngineIndex, kDnnTypeInt64));
  std::array<int, kDnnNoteCount> notes = {};
  PERI_ASSIGN(const int64_t noted, pool.get(engine, kDnnEngineNotes, kDnnTypeNote, std::span<int>(notes)));
  for (size_t k = 0; k < notes.size() && k < static_cast<size_t>(noted); ++k)
    for (const int bad : {none.tensor_cores ? kDnnTensorCore : kDnnDownConverts, kDnnDownConverts, kDnnNarrowSums,
                          kDnnFft, kDnnNondeterministic, kDnnWinograd})
      if (notes[k] == bad) return std::optional<DnnChoice>();
  std::array<int, kDnnBehaviorCount> behavior = {};
  PERI_ASSIGN(const int64_t told, pool.get(engine, kDnnEngineBehavior, kDnnTypeBehavior, std::span<int>(behavior)));
  for (size_t k = 0; k < behavior.size() && k < static_cast<size_t>(told); ++k)
    if (none.compiled && behavior[k] == kDnnCompiles) return std::optional<DnnChoice>();
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

Status Session::ask(DnnPool& pool, DnnDescriptor graph, int mode, const Unwanted& none, size_t most,
                    std::vector<DnnChoice>* out) const {
  constexpr int64_t kMaxResults = 64;
  PERI_ASSIGN(const DnnDescriptor heuristic, pool.make(kDnnHeuristic));
  PERI_TRY(pool.set(heuristic, kDnnHeurGraph, kDnnTypeDescriptor, graph));
  PERI_TRY(pool.set(heuristic, kDnnHeurMode, kDnnTypeHeurMode, mode));
  if (gpu_) PERI_TRY(pool.set(heuristic, kDnnHeurProperties, kDnnTypeDescriptor, gpu_));
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
    PERI_ASSIGN(std::optional<DnnChoice> one, read(pool, config, none));
    if (one && std::find(out->begin(), out->end(), *one) == out->end()) out->push_back(*std::move(one));
  }
  return Ok{};
}

Result<DnnDescriptor> Session::graph(DnnPool& pool, const DnnProblem& problem) const {
  return std::visit([&](const auto& p) { return dnn_graph(pool, handle_, p); }, problem);
}

Result<std::vector<DnnChoice>> Session::listed(const DnnProblem& problem, int mode, int most) const {
  std::vector<DnnChoice> out;
  PERI_TRY(within([&]() -> Status {
    const std::lock_guard<std::mutex> lock(handle_lock_);
    DnnPool pool(table_);
    PERI_ASSIGN(const DnnDescriptor described, graph(pool, problem));
    return ask(pool, described, mode, Unwanted(problem), static_cast<size_t>(most), &out);
  }));
  return out;
}

// The second list takes fifty times as long to ask for, and its engines are the slowest.
constexpr std::array<int, 2> kLists = {kDnnHeurA, kDnnHeurFallback};

Result<std::vector<DnnChoice>> Session::choices(const DnnProblem& problem, int most) const {
  PERI_TRY(check(problem));
  for (const int mode : kLists) {
    PERI_ASSIGN(std::vector<DnnChoice> out, listed(problem, mode, most));
    if (!out.empty()) return out;
  }
  return refused("cuDNN has no engine for it");
}

Status Session::plan(const DnnProblem& problem, const DnnChoice& choice, Plan* out) const {
  DnnPool& pool = out->pool;
  PERI_ASSIGN(const DnnDescriptor described, graph(pool, problem));
  PERI_ASSIGN(const DnnDescriptor engine, pool.make(kDnnEngine));
  PERI_TRY(pool.set(engine, kDnnEngineGraph, kDnnTypeDescriptor, described));
  PERI_TRY(pool.set(engine, kDnnEngineIndex, kDnnTypeInt64, choice.engine));
  if (gpu_) PERI_TRY(pool.set(engine, kDnnEngineProperties, kDnnTypeDescriptor, gpu_));
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
  if (handle_) PERI_TRY(pool.set(out->plan, kDnnPlanHandle, kDnnTypeHandle, handle_));
  PERI_TRY(pool.set(out->plan, kDnnPlanConfig, kDnnTypeDescriptor, config));
  PERI_TRY(pool.finalize(out->plan));
  PERI_ASSIGN(out->workspace, pool.one<int64_t>(out->plan, kDnnPlanWorkspace, kDnnTypeInt64));
  return Ok{};
}

Result<std::shared_ptr<const Plan>> Session::planned(const DnnProblem& problem, const DnnChoice& choice) const {
  std::shared_ptr<const Plan> out;
  PERI_TRY(within([&]() -> Status {
    const std::lock_guard<std::mutex> lock(handle_lock_);
    std::erase_if(kept_, [](const Kept& k) { return k.plan.expired(); });
    for (const Kept& k : kept_)
      if (k.choice == choice && k.problem == problem) out = k.plan.lock();
    if (out) return Ok{};
    std::shared_ptr<Plan> made(new Plan(table_), [this](const Plan* p) { drop(std::unique_ptr<const Plan>(p)); });
    PERI_TRY(plan(problem, choice, made.get()));
    kept_.push_back({problem, choice, made});
    out = std::move(made);
    return Ok{};
  }));
  return out;
}

Result<std::unique_ptr<const DnnReady>> Session::make(const DnnProblem& problem, const DnnChoice* choice,
                                                      size_t workspace) const {
  PERI_TRY(check(problem));
  constexpr int kTries = 8;
  std::optional<Error> why;
  size_t tried = 0;
  for (const int mode : kLists) {
    std::vector<DnnChoice> list;
    if (choice) {
      list.push_back(*choice);
    } else {
      PERI_ASSIGN(list, listed(problem, mode, kTries));
    }
    for (const DnnChoice& one : list) {
      auto made = planned(problem, one);
      if (made.ok() && (*made)->workspace <= static_cast<int64_t>(workspace))
        return std::unique_ptr<const DnnReady>(std::make_unique<Ready>(shared_from_this(), problem, *std::move(made)));
      Error failed = made.ok() ? refused("it takes %lld bytes of workspace", static_cast<long long>((*made)->workspace))
                               : std::move(made).error();
      // What does not compile is as good as none; another engine may.
      const bool next = failed.kind == ErrorKind::kRefused || failed.kind == ErrorKind::kIo;
      if (!next || choice) return failed;
      ++tried;
      if (!why) why = std::move(failed);
    }
  }
  if (!why) return refused("cuDNN has no engine for it");
  return refused("cuDNN has %zu engines for it, of which none can be made: %s", tried, why->text().c_str());
}

// What a plan is given at a run: the operands by name, and where they are.
struct Operands {
  void on_device(DnnId id, Address at) {
    ids.push_back(id);
    addresses.push_back(at);
    pointers.push_back(reinterpret_cast<void*>(at.value));
  }
  void on_host(DnnId id, const float& value) {
    ids.push_back(id);
    pointers.push_back(const_cast<float*>(&value));
  }
  std::vector<int64_t> ids;
  std::vector<Address> addresses;
  std::vector<void*> pointers;
};
Operands operands_of(const DnnConv& conv, const DnnAddresses& at) {
  Operands out;
  out.on_device(kDnnX, at.x);
  out.on_device(kDnnW, at.w);
  out.on_device(kDnnY, at.y);
  if (conv.residual) out.on_device(kDnnResidual, at.residual);
  if (conv.bias) out.on_device(kDnnBias, at.bias);
  return out;
}
Operands operands_of(const DnnAttention& attention, const DnnAddresses& at) {
  static constexpr float kBehind = -std::numeric_limits<float>::infinity();
  Operands out;
  out.on_device(kDnnQ, at.q);
  out.on_device(kDnnK, at.k);
  out.on_device(kDnnV, at.v);
  out.on_device(kDnnY, at.y);
  out.on_host(kDnnScale, attention.scale);
  if (attention.mask != DType::kInvalid) out.on_device(kDnnMask, at.mask);
  if (attention.causal) out.on_host(kDnnHidden, kBehind);
  return out;
}

Status Session::enqueue(const DnnProblem& problem, const Plan& plan, const DnnAddresses& at, CuStream stream) const {
  if (!device_) return unsupported("it is planned for a GPU that is not here");
  const Operands given = std::visit([&](const auto& p) { return operands_of(p, at); }, problem);
  for (const Address a : given.addresses)
    if (a.value % kDnnAlignment != 0) return invalid("an argument that is not aligned to %zu", kDnnAlignment);
  if (plan.workspace > 0 && at.workspace.value % kDnnWorkspaceAlignment != 0)
    return invalid("a workspace that is not aligned to %zu", kDnnWorkspaceAlignment);
  return within([&]() -> Status {
    DnnPool pool(table_);
    PERI_ASSIGN(const DnnDescriptor pack, pool.make(kDnnPack));
    PERI_TRY(pool.set(pack, kDnnPackIds, kDnnTypeInt64, std::span<const int64_t>(given.ids)));
    PERI_TRY(pool.set(pack, kDnnPackPointers, kDnnTypePointer, std::span<void* const>(given.pointers)));
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
  auto made = std::make_shared<Session>(&device, std::move(library));
  PERI_TRY(made->start(""));
  opened[&device] = made;
  return std::shared_ptr<const Cudnn>(std::move(made));
}

Result<std::shared_ptr<const Cudnn>> Cudnn::planning_for(std::string_view properties) {
  PERI_ASSIGN(Library library, open_library(Vendor::kCudnn));
  auto made = std::make_shared<Session>(nullptr, std::move(library));
  if (const Status done = made->start(properties); !done.ok())
    return done.error().kind == ErrorKind::kRefused ? invalid("no properties of a GPU: %s", done.error().text().c_str())
                                                    : done.error();
  return std::shared_ptr<const Cudnn>(std::move(made));
}

}  // namespace peri::device::cuda
