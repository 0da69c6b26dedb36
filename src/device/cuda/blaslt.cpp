// The library's objects, made for a call and released with it. The library is column-major: it is asked for the
// transposed product d' = b' a', whose rows are our columns, along which its bias runs.
#include "device/cuda/blaslt.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/fault.hpp"

namespace peri::device::cuda {

namespace {
constexpr std::array<std::string_view, 9> kNames = {"algo",   "tile",   "split", "reduction", "swizzle",
                                                    "custom", "stages", "inner", "cluster"};
// How each of LtChoice::numbers is called and how wide it is (cublasLtMatmulAlgoConfigAttributes_t).
constexpr struct {
  int attribute;
  size_t bytes;
} kConfig[] = {{kLtAlgoId, 4}, {kLtTile, 4},   {kLtSplit, 4}, {kLtReduction, 4}, {kLtSwizzle, 4},
               {kLtCustom, 4}, {kLtStages, 4}, {kLtInner, 2}, {kLtCluster, 2}};
static_assert(std::size(kConfig) == std::tuple_size_v<decltype(LtChoice::numbers)> &&
              std::size(kNames) == std::size(kConfig));

struct Table {
// A declaration has no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PERI_BLASLT(member, symbol, parameters) int(*member) parameters = nullptr;
#include "device/cuda/blaslt.def"
#undef PERI_BLASLT
  const char* (*status_name)(int) = nullptr;
};

// The error for a status other than 0.
Status check(const Table& t, int status, const char* call) {
  if (status == kLtSuccess) return Ok{};
  ErrorKind kind = ErrorKind::kIo;
  if (status == kLtNotSupported || status == kLtInvalidValue || status == kLtArchMismatch) kind = ErrorKind::kRefused;
  if (status == kLtNotInitialized) kind = ErrorKind::kUnsupported;
  if (status == kLtAllocFailed) kind = ErrorKind::kMemory;
  const char* const name = t.status_name(status);
  Error error(kind, format("cuBLASLt: %s (%d)", name ? name : "an unknown status", status));
  error.node = call;
  return error;
}

int type_of(DType dtype) {
  if (dtype == DType::kF16) return kLtF16;
  return dtype == DType::kBF16 ? kLtBF16 : kLtF32;
}
// Pedantic: products of float32 are made in float32, whatever the machine is told of TF32.
int compute_of(DType dtype) { return dtype == DType::kF32 ? kLtCompute32Pedantic : kLtCompute32; }

// An object of the library's.
template <class T>
class Owned {
 public:
  explicit Owned(int (*destroy)(T)) : destroy_(destroy) {}
  Owned(const Owned&) = delete;
  ~Owned() {
    if (at_) destroy_(at_);
  }
  T* to_set() { return &at_; }
  T get() const { return at_; }

 private:
  int (*destroy_)(T);
  T at_ = nullptr;
};

// A product in the library's words: its left side is our b, its right side our a.
struct Described {
  explicit Described(const Table& t)
      : table(t),
        product(t.product_destroy),
        left(t.layout_destroy),
        right(t.layout_destroy),
        result(t.layout_destroy) {}
  const Table& table;
  Owned<LtProduct> product;
  Owned<LtLayout> left, right, result;

  template <class T>
  Status set(int attribute, T value) {
    return check(table, table.product_set(product.get(), attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  Status describe(const LtMatmul& p, Address bias) {
    const int type = type_of(p.dtype);
    PERI_TRY(
        check(table, table.product_create(product.to_set(), compute_of(p.dtype), kLtF32), "cublasLtMatmulDescCreate"));
    PERI_TRY(set(kLtTransposeA, p.b_transposed ? kLtTransposed : kLtPlain));
    PERI_TRY(set(kLtTransposeB, p.a_transposed ? kLtTransposed : kLtPlain));
    int epilogue = p.bias ? kLtBias : 0;
    if (p.act == LtMatmul::Act::kRelu) epilogue |= kLtRelu;
    if (p.act == LtMatmul::Act::kGeluTanh) epilogue |= kLtGelu;
    PERI_TRY(set(kLtEpilogue, epilogue == 0 ? kLtNoEpilogue : epilogue));
    if (p.bias) {
      PERI_TRY(set(kLtBiasPointer, bias.value));
      PERI_TRY(set(kLtBiasType, type));
    }
    const auto b = p.b_transposed ? std::pair(p.k, p.n) : std::pair(p.n, p.k);
    const auto a = p.a_transposed ? std::pair(p.m, p.k) : std::pair(p.k, p.m);
    PERI_TRY(layout(p, left, b, p.b_stride));
    PERI_TRY(layout(p, right, a, p.a_stride));
    return layout(p, result, {p.n, p.m}, p.m * p.n);
  }

 private:
  Status layout(const LtMatmul& p, Owned<LtLayout>& to, std::pair<int64_t, int64_t> size, int64_t stride) {
    const auto [rows, columns] = size;
    PERI_TRY(check(table,
                   table.layout_create(to.to_set(), type_of(p.dtype), static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), rows),
                   "cublasLtMatrixLayoutCreate"));
    if (p.batch == 1) return Ok{};
    const int count = static_cast<int>(p.batch);
    const char* const call = "cublasLtMatrixLayoutSetAttribute";
    PERI_TRY(check(table, table.layout_set(to.get(), kLtBatchCount, &count, sizeof count), call));
    return check(table, table.layout_set(to.get(), kLtBatchStride, &stride, sizeof stride), call);
  }
};

Status check_product(const LtMatmul& p) {
  constexpr int64_t kMax = INT32_MAX;
  for (const int64_t size : {p.m, p.n, p.k, p.batch})
    if (size < 1 || size > kMax) return refused("a product of %lld", static_cast<long long>(size));
  if (p.dtype != DType::kF32 && p.dtype != DType::kF16 && p.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(p.dtype)));
  return Ok{};
}

// What the library keeps of a device, as long as a product of it lives.
class Session final : public BlasLt, public std::enable_shared_from_this<Session> {
 public:
  Session(CudaDevice& device, Library library) : device_(device), library_(std::move(library)) {}
  ~Session() override {
    if (handle_) (void)device_.within([&] { return check(table_, table_.destroy(handle_), "cublasLtDestroy"); }).ok();
  }
  Status start() {
#define PERI_BLASLT(member, symbol, parameters) PERI_TRY(library_.find(symbol, &table_.member));
#include "device/cuda/blaslt.def"
#undef PERI_BLASLT
    PERI_TRY(library_.find("cublasLtGetStatusName", &table_.status_name));
    return device_.within([&] { return check(table_, table_.create(&handle_), "cublasLtCreate"); });
  }

  const Version& version() const override { return library_.version(); }
  Result<std::vector<LtChoice>> choices(const LtMatmul& product, size_t workspace, int most) const override {
    PERI_ASSIGN(const std::vector<LtFound> found, ask(product, workspace, most));
    std::vector<LtChoice> out;
    for (const LtFound& f : found) {
      PERI_ASSIGN(const LtChoice one, numbers_of(f.algo));
      if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
    }
    return out;
  }
  Result<std::unique_ptr<const LtReady>> make(const LtMatmul& product, const LtChoice* choice,
                                              size_t workspace) const override;
  Status enqueue(const LtMatmul& product, const LtFound& found, const LtAddresses& at, CuStream stream) const;

 private:
  Result<std::vector<LtFound>> ask(const LtMatmul& product, size_t workspace, int most) const;
  Result<LtFound> again(const LtMatmul& product, const LtChoice& choice, size_t workspace) const;
  Result<LtChoice> numbers_of(const LtAlgo& algo) const;

  CudaDevice& device_;
  Library library_;
  Table table_;
  LtHandle handle_ = nullptr;
};

class Ready final : public LtReady {
 public:
  Ready(std::shared_ptr<const Session> session, LtMatmul product, LtFound found)
      : session_(std::move(session)), product_(product), found_(found) {}
  size_t workspace_bytes() const override { return found_.workspace_bytes; }
  Status enqueue(const LtAddresses& at, CuStream stream) const override {
    return session_->enqueue(product_, found_, at, stream);
  }

 private:
  const std::shared_ptr<const Session> session_;
  const LtMatmul product_;
  const LtFound found_;
};

// Partial sums of a split product are added in float32 and in one order: other ways may give other bits in each run.
Result<std::vector<LtFound>> Session::ask(const LtMatmul& product, size_t workspace, int most) const {
  PERI_TRY(check_product(product));
  std::vector<LtFound> found(static_cast<size_t>(most));
  int count = 0;
  PERI_TRY(device_.within([&]() -> Status {
    Described d(table_);
    Owned<LtWishes> wishes(table_.wishes_destroy);
    PERI_TRY(d.describe(product, {kLtAlignment}));
    PERI_TRY(check(table_, table_.wishes_create(wishes.to_set()), "cublasLtMatmulPreferenceCreate"));
    const auto wish = [&](int attribute, auto value) {
      return check(table_, table_.wishes_set(wishes.get(), attribute, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    PERI_TRY(wish(kLtMostWorkspace, uint64_t{workspace}));
    PERI_TRY(wish(kLtReductions, kLtReduceInFloat32));
    for (int k = 0; k < 4; ++k) PERI_TRY(wish(kLtAlignmentA + k, static_cast<uint32_t>(kLtAlignment)));
    return check(table_,
                 table_.heuristic(handle_, d.product.get(), d.left.get(), d.right.get(), d.result.get(), d.result.get(),
                                  wishes.get(), most, found.data(), &count),
                 "cublasLtMatmulAlgoGetHeuristic");
  }));
  if (count < 0 || count > most) return internal_error("cuBLASLt gave %d algorithms of %d", count, most);
  std::vector<LtFound> out;
  for (size_t k = 0; k < static_cast<size_t>(count); ++k)
    if (found[k].state == kLtSuccess && found[k].workspace_bytes <= workspace) out.push_back(found[k]);
  if (out.empty()) return refused("cuBLASLt has no algorithm for it");
  return out;
}

Result<LtChoice> Session::numbers_of(const LtAlgo& algo) const {
  LtChoice out;
  for (size_t k = 0; k < std::size(kConfig); ++k) {
    uint32_t value = 0;  // the narrow ones are written to its lower half
    size_t written = 0;
    PERI_TRY(check(table_, table_.algo_get(&algo, kConfig[k].attribute, &value, kConfig[k].bytes, &written),
                   "cublasLtMatmulAlgoConfigGetAttribute"));
    out.numbers[k] = value;
  }
  return out;
}

Result<LtFound> Session::again(const LtMatmul& product, const LtChoice& choice, size_t workspace) const {
  PERI_TRY(check_product(product));
  const int type = type_of(product.dtype);
  LtAlgo algo;
  LtFound found;
  PERI_TRY(device_.within([&]() -> Status {
    Described d(table_);
    PERI_TRY(d.describe(product, {kLtAlignment}));
    PERI_TRY(check(table_,
                   table_.algo_init(handle_, compute_of(product.dtype), kLtF32, type, type, type, type,
                                    static_cast<int>(choice.numbers[0]), &algo),
                   "cublasLtMatmulAlgoInit"));
    for (size_t k = 1; k < std::size(kConfig); ++k) {
      const auto value = static_cast<uint32_t>(choice.numbers[k]);
      PERI_TRY(check(table_, table_.algo_set(&algo, kConfig[k].attribute, &value, kConfig[k].bytes),
                     "cublasLtMatmulAlgoConfigSetAttribute"));
    }
    return check(table_,
                 table_.algo_check(handle_, d.product.get(), d.left.get(), d.right.get(), d.result.get(),
                                   d.result.get(), &algo, &found),
                 "cublasLtMatmulAlgoCheck");
  }));
  found.algo = algo;
  if (found.workspace_bytes > workspace)
    return refused("it takes %zu bytes of workspace, and %zu may be used", found.workspace_bytes, workspace);
  return found;
}

Result<std::unique_ptr<const LtReady>> Session::make(const LtMatmul& product, const LtChoice* choice,
                                                     size_t workspace) const {
  LtFound found;
  if (choice) {
    PERI_ASSIGN(found, again(product, *choice, workspace));
  } else {
    PERI_ASSIGN(const std::vector<LtFound> all, ask(product, workspace, 1));
    found = all[0];
  }
  return std::unique_ptr<const LtReady>(std::make_unique<Ready>(shared_from_this(), product, found));
}

Status Session::enqueue(const LtMatmul& product, const LtFound& found, const LtAddresses& at, CuStream stream) const {
  const Address c = product.beta == 0 ? at.d : at.c;
  for (const Address address : {at.a, at.b, c, at.d})
    if (address.value % kLtAlignment != 0) return invalid("an argument that is not aligned to %zu", kLtAlignment);
  if (found.workspace_bytes > 0 && at.workspace.value % kLtWorkspaceAlignment != 0)
    return invalid("a workspace that is not aligned to %zu", kLtWorkspaceAlignment);
  const auto pointer = [](Address a) { return reinterpret_cast<void*>(a.value); };
  return device_.within([&]() -> Status {
    Described d(table_);
    PERI_TRY(d.describe(product, at.bias));
    return check(table_,
                 table_.matmul(handle_, d.product.get(), &product.alpha, pointer(at.b), d.left.get(), pointer(at.a),
                               d.right.get(), &product.beta, pointer(c), d.result.get(), pointer(at.d), d.result.get(),
                               &found.algo, pointer(at.workspace), found.workspace_bytes, stream),
                 "cublasLtMatmul");
  });
}
}  // namespace

std::span<const std::string_view> lt_choice_names() { return kNames; }

bool rounds_once(const LtMatmul& p) {
  constexpr int64_t kAligned = 8;  // elements of 16 bytes
  if (p.dtype == DType::kF32 || (!p.bias && p.act != LtMatmul::Act::kGeluTanh)) return true;
  return (p.a_transposed ? p.m : p.k) % kAligned == 0 && (p.b_transposed ? p.k : p.n) % kAligned == 0 &&
         p.n % kAligned == 0;
}

Result<std::shared_ptr<const BlasLt>> BlasLt::of(CudaDevice& device) {
  static std::mutex lock;
  static std::map<const CudaDevice*, std::weak_ptr<const BlasLt>> opened;
  const std::lock_guard<std::mutex> guard(lock);
  if (auto kept = opened[&device].lock()) return kept;
  PERI_ASSIGN(Library library, open_library(Vendor::kCublasLt));
  auto made = std::make_shared<Session>(device, std::move(library));
  PERI_TRY(made->start());
  opened[&device] = made;
  return std::shared_ptr<const BlasLt>(std::move(made));
}

}  // namespace peri::device::cuda
