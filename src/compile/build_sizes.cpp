// Completes and checks the sizes given.
#include "compile/build_sizes.hpp"

namespace peri::compile {

namespace {
Error other_limits() {
  return refused("the lock was made for other smallest and largest shapes")
      .advise("leave --min-shapes and --max-shapes out, or build with --lock again");
}

Error crossed(const std::string& name, int64_t smallest, int64_t largest) {
  return usage("the smallest size of dimension '%s' is %lld, and its largest is %lld", name.c_str(),
               static_cast<long long>(smallest), static_cast<long long>(largest))
      .advise("give --max-shapes sizes that are not below those of --min-shapes");
}

// What is given, and what is not but would lie beyond the smallest and largest sizes, moved to the nearer of them.
Result<std::map<std::string, int64_t>> moved_within(const ir::Graph& graph, const Options& options,
                                                    const DimBinding& chosen) {
  std::map<std::string, int64_t> out = options.dims;
  PERI_ASSIGN(const DimBinding stated, stated_dims(graph, options.dims));
  PERI_ASSIGN(const DimBinding least, stated_dims(graph, options.min_dims));
  PERI_ASSIGN(const DimBinding most, stated_dims(graph, options.max_dims));
  for (const auto& [name, smallest] : least)
    if (const auto it = most.find(name); it != most.end() && it->second < smallest)
      return crossed(name, smallest, it->second);
  for (const auto& [name, value] : chosen) {
    if (stated.contains(name)) continue;
    if (const auto it = least.find(name); it != least.end() && value < it->second) out[name] = it->second;
    if (const auto it = most.find(name); it != most.end() && value > it->second) out[name] = it->second;
  }
  return out;
}

// The dims to build for: the lock's, if there is one.
Result<DimBinding> dims_of(const ir::Graph& graph, const Options& options) {
  if (options.lock && options.dims.empty()) {
    auto locked = resolve_dims(graph, options.lock->dims);
    if (locked.ok()) return locked;
    return refused("the lock was made for another model: %s", locked.error().message.c_str())
        .advise(locked.error().remedy + "; give the model that the lock was made of, or build with --lock again");
  }
  PERI_ASSIGN(DimBinding binding, possible_dims(graph, options.dims, options.at_hand));
  PERI_ASSIGN(const auto moved, moved_within(graph, options, binding));
  if (moved != options.dims) {
    PERI_ASSIGN(binding, possible_dims(graph, moved, options.at_hand));
  }
  if (options.lock)
    for (const auto& [name, value] : options.lock->dims)
      if (const auto it = binding.find(name); it == binding.end() || it->second != value)
        return refused("the lock was made for another size of dimension '%s'", name.c_str())
            .expecting(std::to_string(value))
            .but_found(it == binding.end() ? "no such dimension" : std::to_string(it->second))
            .advise("leave --dims out, or build with --lock again");
  return binding;
}

// The sizes beside the tuned ones at which every choice must hold: the smallest and the largest, where they were given,
// else the lock's.
Result<std::vector<DimBinding>> bounds_of(const ir::Graph& graph, const DimBinding& tuned_for, const Options& options) {
  std::vector<DimBinding> out;
  for (const bool largest : {false, true}) {
    const auto& given = largest ? options.max_dims : options.min_dims;
    if (given.empty()) continue;
    PERI_ASSIGN(DimBinding bound, resolve_dims(graph, given, tuned_for));
    for (const auto& [name, size] : bound)
      if (largest && !out.empty() && out[0].at(name) > size) return crossed(name, out[0].at(name), size);
    for (const auto& [name, value] : tuned_for)
      if (largest ? bound.at(name) < value : bound.at(name) > value)
        return usage("the %s size of dimension '%s' is %lld, and it is tuned for %lld",
                     largest ? "largest" : "smallest", name.c_str(), static_cast<long long>(bound.at(name)),
                     static_cast<long long>(value))
            .advise("give it a size between --min-shapes and --max-shapes");
    PERI_TRY(check_possible(graph, bound));
    out.push_back(std::move(bound));
  }
  if (!options.lock) return out;
  std::vector<DimBinding> locked;
  for (const auto& dims : options.lock->also) locked.emplace_back(dims.begin(), dims.end());
  if (!out.empty() && out != locked) return other_limits();
  return locked;
}

// The limits of an engine: what was given as its smallest and largest sizes, else the lock's.
Status set_limits(const ir::Graph& graph, const Options& options, DimBinding* at_least, DimBinding* at_most) {
  PERI_ASSIGN(*at_least, stated_dims(graph, options.min_dims));
  PERI_ASSIGN(*at_most, stated_dims(graph, options.max_dims));
  if (!options.lock) return Ok{};
  const DimBinding least(options.lock->at_least.begin(), options.lock->at_least.end());
  const DimBinding most(options.lock->at_most.begin(), options.lock->at_most.end());
  if ((!at_least->empty() || !at_most->empty()) && (*at_least != least || *at_most != most)) return other_limits();
  *at_least = least;
  *at_most = most;
  return Ok{};
}
}  // namespace

Result<BuildSizes> build_sizes(const ir::Graph& graph, const Options& options) {
  BuildSizes out;
  PERI_ASSIGN(out.tuned_for, dims_of(graph, options));
  PERI_ASSIGN(out.bounds, bounds_of(graph, out.tuned_for, options));
  PERI_TRY(set_limits(graph, options, &out.at_least, &out.at_most));
  return out;
}

}  // namespace peri::compile
