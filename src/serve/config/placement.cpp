// Instance counts of groups are added. Contradictions are refused: an engine is built for one kind of device, and all
// its runs make the same claim.
#include "serve/config/placement.hpp"

#include <algorithm>

#include "serve/config/fields.hpp"

namespace peri::serve {

using keys::choice;
using keys::flag;
using keys::inner;
using keys::number;
using keys::numbers;
using keys::off;
using keys::one;
using keys::read_fields;
using keys::refuses;
using keys::text;

namespace {

constexpr int64_t kMaxCopies = 1000000;

Status read_resource(const TextMessage& m, std::vector<ResourceClaim>* out) {
  ResourceClaim claim;
  PERI_TRY(read_fields(
      m, "resources",
      {text("name", &claim.name), flag("global", &claim.global), number("count", &claim.count, 0, kMaxCopies)}));
  if (claim.name.empty()) return invalid("a resource of rate_limiter needs a name");
  for (const ResourceClaim& c : *out)
    if (c.name == claim.name) return invalid("rate_limiter names the resource '%s' twice", claim.name.c_str());
  if (claim.count > 0) out->push_back(std::move(claim));
  return Ok{};
}

Status read_rate_limiter(const TextMessage& m, RateLimit* out) {
  PERI_TRY(read_fields(m, "rate_limiter",
                       {inner("resources", [=](const TextMessage& v) { return read_resource(v, &out->claims); }),
                        number("priority", &out->priority, 0, 1000)}));
  out->priority = std::max<int64_t>(out->priority, 1);
  return Ok{};
}
}  // namespace

Status read_instances(const TextMessage& m, ModelConfig* out) {
  using Device = ModelConfig::Device;
  std::string name, policy;
  size_t kind = 0;
  InstanceGroup group;
  RateLimit limit;
  PERI_TRY(
      read_fields(m, "instance_group",
                  {text("name", &name), number("count", &group.count, 1, 1024),
                   choice("kind", {"KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"}, [&](size_t k) { kind = k; }),
                   numbers("gpus", &group.gpus, 0, 1000), off("passive", "take it out, or unload the model"),
                   one("rate_limiter", [&](const TextMessage& v) { return read_rate_limiter(v, &limit); }),
                   text("host_policy", &policy), refuses("profile", "take it out: an engine holds for all its sizes"),
                   refuses("secondary_devices", "take it out: an engine says itself where its steps run")}));
  if (kind >= 2 && !group.gpus.empty())
    return invalid("instance_group of %s names gpus", kind == 2 ? "KIND_CPU" : "KIND_MODEL").advise("take 'gpus' out");
  const Device device = kind == 2 ? Device::kCpu : kind == 1 || !group.gpus.empty() ? Device::kGpu : Device::kAny;
  if (!out->groups.empty() && device != out->device)
    return invalid("instance_group has groups of several kinds: an engine is made for one")
        .advise("give the model twice, in two folders, an engine each");
  if (!out->groups.empty() && !(limit == out->rate_limit))
    return invalid("instance_group has groups with unlike rate_limiters: all runs of a model make one claim")
        .advise("say the same rate_limiter in each group, or give the model twice, in two folders");
  if (!policy.empty())
    out->notes.push_back(
        format("host_policy '%s' changes nothing: --threads and numactl bound the server's threads", policy.c_str()));
  out->device = device;
  out->rate_limit = std::move(limit);
  out->groups.push_back(std::move(group));
  return Ok{};
}

// Hints that request what is done in any case are accepted, and others told of.
Status read_optimization(const TextMessage& m, ModelConfig* out) {
  OptimizationConfig& hints = out->optimization.emplace();
  const auto enabled = [](std::optional<bool>* to) {
    return [to](const TextMessage& v) {
      return read_fields(v, "a buffer's optimization", {flag("enable", &to->emplace(false))});
    };
  };
  const auto cuda = [&](const TextMessage& v) {
    return read_fields(
        v, "optimization's cuda",
        {flag("graphs", &hints.graphs.emplace(false)), off("busy_wait_events"),
         refuses("graph_spec", "take it out: steps are captured for the sizes that come"), off("output_copy_stream")});
  };
  const auto urgency = [=](size_t k) { out->urgency = static_cast<ModelConfig::Urgency>(k); };
  PERI_TRY(read_fields(
      m, "optimization",
      {choice("priority", {"PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"}, urgency), one("cuda", cuda),
       inner("input_pinned_memory", enabled(&hints.pinned_input)),
       inner("output_pinned_memory", enabled(&hints.pinned_output)),
       off("eager_batching", "take it out: a batch is put together when it can run"),
       refuses("graph", "take it out: 'peri build' optimizes, its flags say how far"),
       refuses("execution_accelerators", "take it out: 'peri build --dtype f16' makes an engine of another precision"),
       refuses("gather_kernel_buffer_threshold", "take it out")}));
  for (const auto& [hint, name] : {std::pair{hints.graphs, "cuda { graphs }"},
                                   {hints.pinned_input, "input_pinned_memory"},
                                   {hints.pinned_output, "output_pinned_memory"}})
    if (hint == false) out->notes.push_back(format("optimization's %s that is false changes nothing", name));
  return Ok{};
}

int64_t ModelConfig::instances() const {
  int64_t sum = 0;
  for (const InstanceGroup& g : groups) sum += g.count;
  return sum;
}

int64_t ModelConfig::instances_on(int64_t gpu) const {
  int64_t sum = 0;
  for (const InstanceGroup& g : groups)
    if (g.gpus.empty() || std::find(g.gpus.begin(), g.gpus.end(), gpu) != g.gpus.end()) sum += g.count;
  return sum;
}

std::vector<int64_t> ModelConfig::gpus() const {
  std::vector<int64_t> out;
  for (const InstanceGroup& g : groups) out.insert(out.end(), g.gpus.begin(), g.gpus.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double ModelConfig::weight() const {
  const double urgent = urgency == Urgency::kMost ? 0.5 : urgency == Urgency::kLeast ? 2 : 1;
  return urgent * static_cast<double>(rate_limit.priority);
}

}  // namespace peri::serve
