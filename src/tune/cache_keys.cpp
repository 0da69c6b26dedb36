// Keys composed of texts and hashes.
#include "tune/cache_keys.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "base/hash.hpp"
#include "base/this_program.hpp"
#include "device/target.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/outside/outside.hpp"
#include "kernels/source_key.hpp"
#include "ops/source_key.hpp"
#include "problem/problem.hpp"
#include "tune/judge.hpp"
#include "tune/judge_key.hpp"

namespace peri::tune {

namespace {
// A kernel or executor that the build did not gather has no key: the program stands for its sources. Those of a kernel
// from outside are its files, whatever program has added it.
std::string key_or_program(std::string_view key) {
  return key.empty() ? "of program " + hex64(hash_text(program_identity())) : std::string(key);
}
std::string sources_of(const kernels::Kernel& kernel) {
  const std::string outside = kernels::outside::hash_of(kernel);
  return " judge " + key_or_program(judge_key(kernel.executor)) + " sources " +
         (!outside.empty() ? "outside " + outside : key_or_program(kernels::source_key(kernel)));
}
}  // namespace

std::string candidate_key(const Candidate& c, const ir::Graph& region) {
  std::set<std::string_view> definitions;
  for (const ir::Node* n : region.nodes) definitions.insert(ops::source_key(n->op));
  Hasher ops;
  for (const std::string_view key : definitions) ops.add(key);
  std::string name = c.id() + sources_of(*c.kernel) + " ops " + hex64(ops.digest());
  for (const auto* layouts : {&c.offer.inputs, &c.offer.outputs})
    for (const ir::Layout& l : *layouts) name += " " + (l.row_major() ? std::string("-") : exec::layout_code(l));
  for (int k : c.offer.in_place) name += format(" %d", k);
  return name;
}

std::string samples_key(const kernels::Kernel& kernel, const std::string& library) {
  Hasher ops;
  for (const ops::OpDef* op : ops::all()) ops.add(ops::source_key(op->name));
  return format("%s@%d ", std::string(kernel.name).c_str(), kernel.version) + library + sources_of(kernel) + " ops " +
         hex64(ops.digest());
}

std::string timing_key(const ir::Graph& region, const std::vector<bool>& constant, const Options& options) {
  const bool weights = std::find(constant.begin(), constant.end(), true) != constant.end();
  std::string key = problem::identity(region, constant);
  if (!weights) return key;
  constexpr double kMaxTraffic = 1 << 30;  // no cache holds more; a device's last one is none of the host's
  const size_t traffic = options.own_executor.empty()
                             ? traffic_bytes(options.model_bytes, device::this_cpu(), options.threads)
                             : std::bit_ceil(static_cast<size_t>(std::min(options.model_bytes, kMaxTraffic)));
  return key + format(" after %zu", traffic);
}

}  // namespace peri::tune
