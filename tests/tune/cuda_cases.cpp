// Instances, memory between guards, comparison.
#include "tests/tune/cuda_cases.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/hash.hpp"
#include "exec/region/layouts.hpp"
#include "tests/places.hpp"
#include "tune/arguments.hpp"

namespace peri::tune {
namespace {
namespace fs = std::filesystem;
using kernels::cuda::KernelLaunch;
using kernels::cuda::LaunchArgument;
using kernels::cuda::LaunchInstance;

constexpr size_t kGuard = 256;
constexpr int kProblems = 3;        // for each configuration that is not the best guess
constexpr std::byte kPoison{0xcb};  // a NaN as float32, no 0 or 1 as bool

bool prepared(SampleProblem* p) {
  if (p->refused || p->expected) return !p->refused;
  auto arguments = make_arguments(p->region, 7);
  auto expected = arguments.ok() ? make_expected(p->region, *arguments, 1, 7) : Result<Expected>(arguments.error());
  p->refused = !expected.ok();
  if (p->refused) return false;
  auto given = Given::make(std::move(*arguments), p->constant);
  p->refused = !given.ok();
  if (p->refused) return false;
  p->given = std::move(*given);
  p->expected = std::move(*expected);
  return true;
}

}  // namespace

const device::Target& some_gpu() {
  static const device::Target kGpu = {device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {}};
  return kGpu;
}

const std::vector<KernelLaunch>& Case::launches() const {
  return dynamic_cast<const LaunchInstance&>(*instance).launches();
}
std::vector<Tensor> Case::packed() const {
  std::vector<Tensor> out;
  for (const kernels::cuda::PackedWeight& w : dynamic_cast<const LaunchInstance&>(*instance).packed())
    out.push_back(*w.made(problem->given->row_major()));
  return out;
}
std::string Case::name() const {
  return std::string(kernel->name) + " {" + config + "} on " + ir::print(problem->region);
}

std::vector<SampleProblem> narrow_problems(DType type) {
  std::vector<SampleProblem> out;
  size_t turn = 0;
  for (const SampleProblem& p : common_problems()) {
    if (p.region.nodes.size() > 1 && turn++ % 5 != 0) continue;
    if (std::optional<SampleProblem> q = in_type(p, type)) out.push_back(std::move(*q));
  }
  return out;
}

// Those of all ops, and the kernel's own; made once.
static std::vector<SampleProblem*> problems_of(const kernels::Kernel& kernel, std::vector<SampleProblem>& problems,
                                               bool with_own) {
  static std::map<const kernels::Kernel*, std::vector<SampleProblem>> own;
  std::vector<SampleProblem*> out;
  for (SampleProblem& p : problems) out.push_back(&p);
  if (!with_own) return out;
  const auto [it, fresh] = own.try_emplace(&kernel);
  if (fresh) it->second = own_problems(kernel);
  for (SampleProblem& p : it->second) out.push_back(&p);
  return out;
}

bool Share::has(std::string_view kernel) const {
  if (const char* only = std::getenv("TEST_KERNELS"))
    return (',' + std::string(only) + ',').find(',' + std::string(kernel) + ',') != std::string::npos;
  return hash_text(kernel, 0) % parts == part;
}

Share share_by_commit(uint64_t of, uint64_t ops) {
  Share out;
  out.of = of;
  out.ops = ops;
  out.seed = 1;
  if (const char* given = std::getenv("TEST_SEED")) {
    out.seed = std::strtoull(given, nullptr, 10);
  } else if (FILE* git =
                 popen((std::string("git -C '") + tests::kSourceDir + "' rev-parse HEAD 2> /dev/null").c_str(), "r")) {
    char word[16] = {};
    if (std::fread(word, 1, 8, git) == 8) out.seed = std::strtoull(word, nullptr, 16);
    pclose(git);
  }
  if (std::getenv("TEST_KERNELS")) out.of = out.ops = 1;  // all of those kernels
  std::printf("a part of the cases: TEST_SEED=%llu takes them again\n", static_cast<unsigned long long>(out.seed));
  return out;
}

namespace {
// What of one kernel is taken.
class Taken {
 public:
  Taken(std::string_view kernel, Share share) : kernel_(kernel), share_(share) {}

  int cases = 0;

  // Whether the next of its problems is taken, whatever its configurations.
  bool problem(const ir::Graph& region) {
    const uint64_t turn = turns_++;
    const std::string& op = region.nodes.front()->op;
    const bool fresh = ops_.insert(op).second && drawn(op, share_.ops);
    return share_.of == 1 || fresh || cases < 2 || drawn(std::to_string(turn), share_.of);
  }
  // Whether an offer is, of a problem that is taken or not.
  bool offer(bool whole, bool first, bool plain, const std::string& way) {
    bool taken = whole && first;
    if (!taken && plain) taken = whole ? ++tried_[way] <= (share_.of == 1 ? kProblems : 1) : !seen_.contains(way);
    if (taken) seen_.insert(way);
    return taken;
  }

 private:
  bool drawn(const std::string& what, uint64_t of) const { return hash_text(kernel_ + what, share_.seed) % of == 0; }

  std::string kernel_;
  Share share_;
  uint64_t turns_ = 0;
  std::set<std::string> ops_, seen_;
  std::map<std::string, int> tried_;
};

std::optional<Case> case_of(const kernels::Kernel& kernel, SampleProblem& p, const kernels::Offer& o) {
  kernels::Packed packed;
  ir::Graph region = p.region.clone();
  for (size_t k = 0; k < o.inputs.size(); ++k) region.inputs[k]->type.layout = o.inputs[k];
  for (size_t k = 0; k < o.outputs.size(); ++k) region.outputs[k]->type.layout = o.outputs[k];
  const std::vector<Tensor> constants(p.region.inputs.size());  // a plan is made without weights
  auto made = kernel.instantiate({&region, p.constant}, o.config, {constants, &packed, &some_gpu(), nullptr});
  EXPECT_TRUE(made.ok()) << made.error().text() << "\n" << ir::print(region);
  if (!made.ok()) return std::nullopt;
  return Case{&kernel, &p, o.config, std::move(region), std::move(*made)};
}
}  // namespace

std::vector<Case> cuda_cases(std::vector<SampleProblem>& problems, bool own, Share share) {
  std::vector<Case> out;
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cuda" || !e->kernel.library.empty()) continue;  // a library's work is no text
    if (!share.has(e->kernel.name)) continue;
    Taken taken(e->kernel.name, share);
    const std::vector<SampleProblem*> all = problems_of(e->kernel, problems, own);
    for (size_t k = 0; k < all.size(); ++k) {
      SampleProblem& p = *all[k];
      const bool plain = p.region.nodes.size() == 1 || k >= problems.size();  // the kernel's own are what it is for
      auto offers = e->kernel.offer({&p.region, p.constant}, some_gpu());
      if (!offers.ok()) continue;
      const bool whole = taken.problem(p.region);
      for (const kernels::Offer& o : *offers) {
        // Chains are the same text whatever the configuration: they are tried with the first of each layout.
        const std::string way = o.config + (o.outputs[0].row_major() ? "" : " last");
        const bool first = &o == &offers->front() || !(o.outputs == (&o - 1)->outputs);
        if (!taken.offer(whole, first, plain, way)) continue;
        if (share.run && !prepared(&p)) break;
        auto made = case_of(e->kernel, p, o);
        if (!made) continue;
        out.push_back(std::move(*made));
        ++taken.cases;
      }
    }
  }
  return out;
}

std::vector<Case> cases_of_settings(const kernels::Kernel& kernel, SampleProblem& problem, size_t most) {
  std::vector<Case> out;
  auto offers = kernel.offer({&problem.region, problem.constant}, some_gpu());
  if (!offers.ok() || !prepared(&problem)) return out;
  kernels::Offer offer = offers->front();
  std::vector<std::string> configs = {offer.config};
  for (std::string& config : kernels::settings_of(kernel, offer.config, most)) configs.push_back(std::move(config));
  for (std::string& config : configs) {
    offer.config = std::move(config);
    if (auto made = case_of(kernel, problem, offer)) out.push_back(std::move(*made));
  }
  return out;
}

void expect_cases(const std::vector<Case>& cases, bool own, int least, const Share& share) {
  std::map<std::string_view, int> count;
  for (const Case& c : cases) ++count[c.kernel->name];
  for (const kernels::Entry* e : kernels::entries())
    if (e->kernel.executor == "cuda" && e->kernel.library.empty() && (own || e->kernel.samples.empty()) &&
        share.has(e->kernel.name))
      EXPECT_GE(count[e->kernel.name], least) << e->kernel.name;
}

namespace {
// A result's memory between guards.
struct Guarded {
  std::vector<std::byte> memory;
  explicit Guarded(size_t bytes) : memory(bytes + 2 * kGuard, kPoison) {}
  std::byte* at() { return memory.data() + kGuard; }
  bool whole() const {
    const auto poison = [](std::byte b) { return b == kPoison; };
    return std::all_of(memory.begin(), memory.begin() + kGuard, poison) &&
           std::all_of(memory.end() - kGuard, memory.end(), poison);
  }
};

// The results.
std::vector<Tensor> check(const Case& c, const HostGpu& gpu) {
  SCOPED_TRACE(c.name());
  const ir::Graph& g = c.region;
  std::vector<Tensor> inputs, out;
  std::vector<Guarded> memory;
  for (size_t k = 0; k < g.inputs.size(); ++k)
    inputs.push_back(*c.problem->given->in_layout(k, g.inputs[k]->type.layout));
  for (const ir::Value* v : g.outputs) {
    out.push_back(*Tensor::zeros(v->type.dtype, exec::physical_dims(kernels::dims_of(*v), v->type.layout)));
    memory.emplace_back(out.back().bytes().size());
  }
  Guarded workspace(c.instance->workspace_bytes());
  int32_t fault = 0;
  const std::vector<Tensor> packed = c.packed();
  for (const KernelLaunch& l : c.launches()) {
    std::vector<void*> addresses;
    for (const LaunchArgument& a : l.arguments) {
      const auto given = [](const Tensor& t) { return const_cast<void*>(static_cast<const void*>(t.data())); };
      addresses.push_back(a.from == LaunchArgument::From::kInput    ? given(inputs[a.index])
                          : a.from == LaunchArgument::From::kPacked ? given(packed[a.index])
                          : a.from == LaunchArgument::From::kOutput ? memory[a.index].at()
                          : a.from == LaunchArgument::From::kFault  ? static_cast<void*>(&fault)
                                                                    : workspace.at());
    }
    gpu.run(l, addresses);
  }
  EXPECT_TRUE(workspace.whole());
  for (size_t k = 0; k < out.size(); ++k) {
    EXPECT_TRUE(memory[k].whole()) << "it writes beside result " << k;
    if (!out[k].bytes().empty())
      std::memcpy(const_cast<std::byte*>(out[k].bytes().data()), memory[k].at(), out[k].bytes().size());
  }
  EXPECT_EQ(fault, 0) << "it finds a fault in the arguments of a sample";
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = *exec::from_layout(out[k], g.outputs[k]->type.layout, kernels::dims_of(*g.outputs[k]));
  const auto error = compare(*c.problem->expected, out);
  EXPECT_TRUE(error.ok()) << error.error().text();
  return out;
}

void compile(const std::vector<Case>& cases, HostGpu* into) {
  HostGpu& gpu = *into;
  for (const Case& c : cases)
    for (const KernelLaunch& l : c.launches()) gpu.add(l.text, l.entry);
  static int runs = 0;  // a library of a name that is loaded already would be that one
  const std::string folder =
      fs::temp_directory_path() / ("peri_texts_" + std::to_string(getpid()) + "_" + std::to_string(runs++));
  fs::create_directory(folder);
  const Status compiled = gpu.compile(folder);
  fs::remove_all(folder);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
}
}  // namespace

void run_alike(const std::vector<Case>& cases) {
  HostGpu gpu;
  compile(cases, &gpu);
  if (::testing::Test::HasFatalFailure()) return;
  std::vector<Tensor> before;
  for (size_t k = 0; k < cases.size(); ++k) {
    std::vector<Tensor> now = check(cases[k], gpu);
    const bool alike = k > 0 && cases[k].problem == cases[k - 1].problem && cases[k].kernel == cases[k - 1].kernel;
    for (size_t r = 0; alike && r < now.size(); ++r) {
      const auto a = before[r].bytes(), b = now[r].bytes();
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << cases[k].name() << ": other bits";
    }
    before = std::move(now);
  }
}

void run_cases(const std::vector<Case>& cases) {
  HostGpu gpu;
  compile(cases, &gpu);
  if (::testing::Test::HasFatalFailure()) return;
  for (const Case& c : cases) (void)check(c, gpu);
  ::testing::Test::RecordProperty("cases", static_cast<int>(cases.size()));
  ::testing::Test::RecordProperty("texts", static_cast<int>(gpu.texts()));
}

}  // namespace peri::tune
