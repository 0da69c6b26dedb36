// What a library chose for a candidate when it was asked (kernels::Kernel::resolve), passed from the process that asked
// it to the build and its cache; and the resulting candidates.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

struct Resolved {
  std::vector<std::string> configs;  // best estimate first
  std::string failed;                // why there are none; empty: the library answered
  bool lasting = true;               // false: temporary, not to be stored
  bool operator==(const Resolved&) const = default;
};

// The kernel's offers, where the target has the library that it needs.
Result<std::vector<kernels::Offer>> offers_of(const kernels::Kernel& kernel, const kernels::Problem& problem,
                                              const device::Target& target);

// Queries the library here, for this device (null: the host). An exception, or a configuration that cannot result from
// the offer, is a failure.
Resolved resolve_here(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate,
                      const device::Target& target, device::Device* device);

std::string resolved_text(const Resolved& resolved);
Result<Resolved> read_resolved(const Json& json);

class Cache;
class Judge;
class RemoteJudge;
// Sources of the answer: the cache under the problem's `key`, else the worker, else this process.
struct Askable {
  Cache* cache = nullptr;
  std::function<RemoteJudge*()> worker;  // null where there is none (any more)
  std::function<Judge&()> here;
};
// Appends the candidates that libraries chose to those of `all`, each once, and the failures to the refusals.
void add_resolved(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                  const Askable& askable, Candidates* all);

}  // namespace peri::tune
