// A kernel's functions are plain pointers without state: each manifest gets a slot, and functions instantiated for that
// slot.
#include "kernels/outside/outside.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "kernels/outside/manifest.hpp"
#include "kernels/outside/pattern.hpp"

namespace peri::kernels::outside {

namespace {
using cuda::KernelLaunch;
using cuda::LaunchArgument;
constexpr size_t kMaxManifest = size_t{1} << 20, kMaxSource = size_t{64} << 20;  // bounds what untrusted files take
constexpr std::string_view kFormat = "outside 1";  // raised where the same files would be launched in another way

struct Outside {
  std::string path, hash, source, text_of_takes;
  Manifest manifest;
  std::vector<std::string> samples;
  Kernel kernel;
  std::unique_ptr<AddedKernel> known;  // among all kernels
};
std::vector<std::unique_ptr<Outside>>& all() {
  static std::vector<std::unique_ptr<Outside>> list = [] {
    (void)kernels();  // what the kernels are added to is made before this list, and so outlives it
    return std::vector<std::unique_ptr<Outside>>();
  }();
  return list;
}

Status check_chip(const Manifest& m, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  std::string wants, has;
  for (const Chip& chip : m.chips) {
    const std::string name = "sm_" + std::to_string(chip.number);
    for (const std::string& isa : target.isas) {
      if (!isa.starts_with("sm_")) continue;
      int here = 0;
      const auto [end, code] = std::from_chars(isa.data() + 3, isa.data() + isa.size(), here);
      if (code != std::errc()) continue;
      has = isa;
      if (here == chip.number || (chip.newer && here > chip.number)) return Ok{};
    }
    wants += (wants.empty() ? "" : ", ") + name + (chip.newer ? "+" : "");
  }
  return refused("it is for other chips").expecting(wants).but_found(has);
}

// The value of a size, an extent or an argument, in [low, high].
Result<int64_t> evaluated(const Dim& d, const DimBinding& names, int64_t low, int64_t high, const char* what) {
  auto value = d.eval(names);
  if (value.ok() && *value >= low && *value <= high) return value;
  return refused("%s does not fit", what)
      .expecting(format("%lld to %lld", static_cast<long long>(low), static_cast<long long>(high)))
      .but_found(value.ok() ? std::to_string(*value) : d.text());
}

Status add_parameters(const Manifest& m, const Match& match, const DimBinding& names, KernelLaunch* l) {
  for (const Parameter& p : m.parameters) {
    if (p.kind == Parameter::Kind::kInput || p.kind == Parameter::Kind::kOutput) {
      const bool input = p.kind == Parameter::Kind::kInput;
      l->order.push_back(static_cast<int>(l->arguments.size()));
      l->arguments.push_back({input ? LaunchArgument::From::kInput : LaunchArgument::From::kOutput,
                              input ? match.inputs[p.index] : p.index});
      continue;
    }
    l->order.push_back(-1 - static_cast<int>(l->sizes.size()));
    int64_t bits = 0;
    if (p.kind == Parameter::Kind::kF32) bits = std::bit_cast<uint32_t>(p.number);
    if (p.kind == Parameter::Kind::kI32) {
      PERI_ASSIGN(bits, evaluated(p.size, names, INT32_MIN, INT32_MAX, "an argument of 32 bits"));
    } else if (p.kind == Parameter::Kind::kI64) {
      PERI_ASSIGN(bits, evaluated(p.size, names, INT64_MIN, INT64_MAX, "an argument"));
    }
    l->sizes.push_back(bits);
  }
  return Ok{};
}

// The launch, or why the kernel does not take the problem.
Result<KernelLaunch> planned(const Outside& o, const Problem& problem, std::string_view config, const Target& target) {
  const Manifest& m = o.manifest;
  PERI_TRY(check_chip(m, target));
  PERI_ASSIGN(const Match matched, match(m.pattern, problem));
  for (const auto& [name, rule] : m.sizes)
    if (const auto it = matched.sizes.find(name); it == matched.sizes.end() || !rule.allows(it->second))
      return refused("a size that the manifest does not allow")
          .at_node(name)
          .expecting(format("multiples of %lld from %lld to %lld", static_cast<long long>(rule.multiple_of),
                            static_cast<long long>(rule.from), static_cast<long long>(rule.to)))
          .but_found(it == matched.sizes.end() ? "none" : std::to_string(it->second));
  DimBinding names = matched.sizes;
  KernelLaunch l;
  for (const Choice& t : m.tunables) {
    PERI_ASSIGN(const int64_t set, setting(o.kernel, config, t.name));
    names[t.name] = set > 0 ? set : t.values.front();
    l.text += "#define " + t.name + " " + std::to_string(names[t.name]) + "\n";
  }
  l.text += o.source;
  l.form = m.form;
  l.entry = m.entry;
  PERI_ASSIGN(l.blocks, evaluated(m.grid[0], names, 1, INT32_MAX, "the grid"));
  for (size_t k = 1; k < m.grid.size(); ++k) {
    PERI_ASSIGN(l.more_blocks[k - 1], evaluated(m.grid[k], names, 1, kMaxOtherAxis, "the grid"));
  }
  PERI_ASSIGN(const int64_t threads, evaluated(m.threads, names, 1, kMaxThreads, "the number of threads"));
  l.threads = static_cast<int>(threads);
  PERI_ASSIGN(l.shared_bytes,
              evaluated(m.shared_bytes, names, 0, cuda::limits_of(target).shared_bytes, "the shared memory"));
  PERI_TRY(add_parameters(m, matched, names, &l));
  return l;
}

constexpr std::string_view kSource = "source=";
std::string source_word(const Outside& o) { return std::string(kSource) + o.hash; }

Status check_source_word(const Outside& o, std::string_view config) {
  const std::string word = source_word(o);
  if ((std::string(config) + " ").starts_with(word + " ")) return Ok{};
  return refused("kernel '%s' has another manifest or source than it was chosen with", o.manifest.name.c_str())
      .in_file(o.path)
      .expecting(config.substr(0, config.find(' ')))
      .but_found(word)
      .advise("give the manifest that it was chosen with by --kernel FILE, or build the engine again");
}

Result<std::vector<Offer>> offer(const Outside& o, const Problem& problem, const Target& target) {
  PERI_TRY(planned(o, problem, "", target));
  std::vector<Offer> out = cuda::plain_offer(problem);
  out[0].config = source_word(o);
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Outside& o, const Problem& problem, std::string_view config,
                                              const InstantiateContext& context) {
  if (Status same = check_source_word(o, config); !same.ok()) {
    Error other = std::move(same).error();
    other.kind = ErrorKind::kInvalid;  // another kernel may take what one refuses, and this is none of that
    return other;
  }
  PERI_ASSIGN(KernelLaunch l, planned(o, problem, config, *context.target));
  return cuda::LaunchInstance::make({std::move(l)});
}

struct Functions {
  decltype(Kernel::offer) offer;
  decltype(Kernel::instantiate) instantiate;
  decltype(Kernel::needs) needs;
};
template <size_t... kSlots>
constexpr std::array<Functions, sizeof...(kSlots)> functions_of(std::index_sequence<kSlots...>) {
  return {Functions{[](const Problem& p, const Target& target) { return offer(*all()[kSlots], p, target); },
                    [](const Problem& p, std::string_view config, const InstantiateContext& context) {
                      return instantiate(*all()[kSlots], p, config, context);
                    },
                    [](const Problem& p, std::string_view config, const Target& target) -> Result<Needs> {
                      PERI_ASSIGN(const auto made, instantiate(*all()[kSlots], p, config, {.target = &target}));
                      return made->needs();
                    }}...};
}
constexpr auto kFunctions = functions_of(std::make_index_sequence<kMaxKernels>());

// The pattern at sizes that the rules allow: small, uneven, and as large as a sample may be.
std::vector<std::string> samples_of(const Manifest& m) {
  constexpr int64_t kWanted[] = {1, 2, 5, 19, 67, 300, 1021};
  std::vector<std::string> out;
  for (const int64_t wanted : kWanted) {
    DimBinding sizes;
    int64_t more = 0;  // no two alike, where that is allowed
    for (const auto& [name, rule] : m.sizes) {
      // One size grows beyond the others, so that what is made stays a small problem.
      const int64_t here = sizes.size() + 1 == m.sizes.size() ? wanted : std::min<int64_t>(wanted, 7);
      sizes[name] = rule.at_least(here + 2 * more++);
    }
    ir::Graph g = m.pattern.clone();
    for (ir::Value* v : g.inputs) v->type.shape = substitute(*v->type.shape, sizes);
    if (!ops::infer_graph(g).ok()) continue;
    std::string text = ir::print(g, {.origins = false});
    const auto again = ir::parse_graph(text);
    if (again.ok() && std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
    if (m.sizes.empty()) break;
  }
  return out;
}

Result<std::string> source_of(const Manifest& m, const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const std::string name = folder + "/" + m.source;
  auto file = open_beneath(folder, m.source);
  if (!file.ok()) return std::move(file).error().in_file(path).at_node("source");
  PERI_ASSIGN(std::string source, read_file(*file, name, kMaxSource));
  PERI_TRY(check_source(m, source, name));
  return source;
}

void fill(Outside* o, size_t slot) {
  const Manifest& m = o->manifest;
  o->samples = samples_of(m);
  o->text_of_takes = m.takes.empty() ? "what its manifest says" : m.takes;
  Kernel& k = o->kernel;
  k.name = m.name;
  k.version = m.version;
  k.provider = kProvider;
  k.executor = "cuda";
  k.takes = o->text_of_takes;
  k.offer = kFunctions[slot].offer;
  k.instantiate = kFunctions[slot].instantiate;
  k.needs = kFunctions[slot].needs;
  for (const std::string& text : o->samples) k.samples.push_back(text);
  for (const Choice& t : m.tunables) k.tunables.push_back({t.name, "a macro of its source", t.values});
}
}  // namespace

Result<const Kernel*> add(const std::string& path) {
  auto o = std::make_unique<Outside>();
  PERI_ASSIGN(const std::string text, read_file(path, kMaxManifest));
  PERI_ASSIGN(o->manifest, parse_manifest(text, path));
  PERI_ASSIGN(o->source, source_of(o->manifest, path));
  Hasher hash;
  for (const std::string_view part : {kFormat, std::string_view(text), std::string_view(o->source)})
    hash.add_i64(static_cast<int64_t>(part.size())).add(part);
  o->hash = hex64(hash.digest());
  std::error_code unknown;
  o->path = std::filesystem::absolute(path, unknown).string();
  for (const auto& other : all())
    if (other->manifest.name == o->manifest.name && other->hash == o->hash) return &other->kernel;
  if (find(o->manifest.name))
    return invalid("another kernel has this name").in_file(path).at_node("name").but_found(o->manifest.name);
  if (all().size() == kMaxKernels) return invalid("more than %zu kernels from outside", kMaxKernels).in_file(path);
  fill(&*o, all().size());
  if (o->samples.empty()) return invalid("its pattern has no small sample").in_file(path).at_node("pattern");
  // What may lack memory comes first: a kernel is in both lists, where the same manifest finds it again, or in none.
  all().reserve(all().size() + 1);
  o->known = std::make_unique<AddedKernel>(o->kernel);
  return &all().emplace_back(std::move(o))->kernel;
}

Status add_all(std::string_view paths) {
  while (!paths.empty()) {
    const size_t end = std::min(paths.find(':'), paths.size());
    if (end > 0) PERI_TRY(add(std::string(paths.substr(0, end))));
    paths.remove_prefix(std::min(end + 1, paths.size()));
  }
  return Ok{};
}

std::vector<std::string> added() {
  std::vector<std::string> out;
  for (const auto& o : all()) out.push_back(o->path);
  return out;
}

namespace {
const Outside* outside_of(const Kernel& kernel) {
  for (const auto& o : all())
    if (&o->kernel == &kernel) return o.get();
  return nullptr;
}
}  // namespace

std::string hash_of(const Kernel& kernel) {
  const Outside* const o = outside_of(kernel);
  return o ? o->hash : "";
}

std::string path_of(const Kernel& kernel) {
  const Outside* const o = outside_of(kernel);
  return o ? o->path : "";
}

bool is_choice(std::string_view config) { return config.starts_with(kSource); }

Status check_choice(const Kernel& kernel, std::string_view config) {
  const Outside* const o = outside_of(kernel);
  return o ? check_source_word(*o, config) : Status(Ok{});
}

}  // namespace peri::kernels::outside
