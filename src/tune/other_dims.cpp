// The same offer at other dims, and the effect of its verdict on the candidate.
#include "tune/other_dims.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "exec/region/region_payload.hpp"
#include "tune/trial_place.hpp"

namespace peri::tune {

namespace {
double flops_of(const ir::Graph& region) {
  double flops = 0;
  for (const ir::Node* n : region.nodes) flops += ops::cost_of(*n).flops;
  return flops;
}

double bytes_of(const ir::Graph& region) {
  double bytes = 0;
  for (const auto* list : {&region.inputs, &region.outputs})
    for (const ir::Value* v : *list) {
      double n = dtype_bits(v->type.dtype) / 8.0;
      for (int64_t d : kernels::dims_of(*v)) n *= static_cast<double>(d);
      bytes += n;
    }
  return bytes;
}

// The first argument that has other dims there: "x: f32[3,64,7,7]".
std::string place_text(const ir::Graph& here, const ir::Graph& there) {
  for (size_t k = 0; k < there.inputs.size() && k < here.inputs.size(); ++k)
    if (!(*here.inputs[k]->type.shape == *there.inputs[k]->type.shape))
      return there.inputs[k]->name + ": " + ir::type_text(there.inputs[k]->type);
  return there.outputs[0]->name + ": " + ir::type_text(there.outputs[0]->type);
}
}  // namespace

namespace {
bool same_size(const ir::Value& a, const ir::Value& b) {
  return a.type.dtype == b.type.dtype && product(*a.type.shape) == product(*b.type.shape);
}

// The sharing of memory that an engine does there for a candidate with `own`: none where sizes differ, since it goes by
// sizes that are equal at all dims. Nothing: there the kernel does not offer what the engine would do.
std::optional<std::vector<int>> sharing_there(const std::vector<int>& own, const std::vector<int>& offered,
                                              const ir::Graph& region) {
  std::vector<int> out = own;
  for (size_t k = 0; k < own.size(); ++k) {
    if (own[k] < 0 || (k < offered.size() && offered[k] == own[k])) continue;
    if (same_size(*region.inputs[static_cast<size_t>(own[k])], *region.outputs[k])) return std::nullopt;
    out[k] = -1;
  }
  return out;
}

// Whether the kernel does the sharing of `own` there too, though it offers the memory of another input: at these sizes
// two have the result's. An instance with weights of zeros is asked, where neither a library nor a device makes it.
bool shares_there(const kernels::Kernel& kernel, const kernels::Offer& there, const std::vector<int>& own,
                  const kernels::Problem& problem, const device::Target& target) {
  if (device_of(kernel) != "host" || !kernel.library.empty()) return false;
  const auto answer = contained([&]() -> Result<bool> {
    const ir::Graph region = kernels::placed(problem, there);
    std::vector<Tensor> weights(region.inputs.size());
    for (size_t k = 0; k < weights.size(); ++k) {
      if (!problem.constant[k]) continue;
      PERI_ASSIGN(weights[k], Tensor::zeros(region.inputs[k]->type.dtype, kernels::dims_of(*region.inputs[k])));
    }
    kernels::Packed packed;
    PERI_ASSIGN(const auto instance,
                kernel.instantiate({&region, problem.constant}, there.config, {weights, &packed, &target}));
    for (size_t k = 0; k < own.size(); ++k)
      if (own[k] >= 0 && same_size(*region.inputs[static_cast<size_t>(own[k])], *region.outputs[k]) &&
          !instance->may_take(k, static_cast<size_t>(own[k])))
        return false;
    return true;
  });
  return answer.ok() && *answer;
}
}  // namespace

std::optional<Candidate> offered_for(const Candidate& candidate, const ir::Graph& region,
                                     const std::vector<bool>& constant, const device::Target& target) {
  auto offers = contained([&] { return candidate.kernel->offer({&region, constant}, target); });
  if (!offers.ok()) return std::nullopt;
  for (kernels::Offer& o : *offers) {
    o.inputs.resize(region.inputs.size());
    o.outputs.resize(region.outputs.size());
    const kernels::Offer& own = candidate.offer;
    if (o.config != kernels::derived_config(*candidate.kernel, own.config) || o.inputs != own.inputs ||
        o.outputs != own.outputs)
      continue;
    auto shared = sharing_there(own.in_place, o.in_place, region);
    if (!shared && shares_there(*candidate.kernel, o, own.in_place, {&region, constant}, target))
      shared = sharing_there(own.in_place, own.in_place, region);
    if (!shared) continue;
    o.in_place = std::move(*shared);
    o.config = own.config;
    return Candidate{candidate.kernel, std::move(o)};
  }
  return std::nullopt;
}

Candidate without_sharing(Candidate candidate) {
  std::fill(candidate.offer.in_place.begin(), candidate.offer.in_place.end(), -1);
  return candidate;
}

std::vector<ir::Graph> bound_at(const ir::Graph& region, std::span<const DimBinding> also) {
  std::vector<ir::Graph> out;
  for (const DimBinding& dims : also)
    if (auto there = exec::bind_region(region, dims); there.ok()) out.push_back(std::move(*there));
  return out;
}

void judge_other_dims(const ir::Graph& here, const std::vector<bool>& constant, const ir::Graph& there,
                      const device::Target& target, std::span<Candidate* const> candidates, const Ask& ask) {
  std::vector<Candidate> offered;
  std::vector<Candidate*> owners, list;
  for (Candidate* c : candidates) {
    auto same = offered_for(*c, there, constant, target);
    if (!same) same = offered_for(without_sharing(*c), there, constant, target);
    if (!same) continue;  // the caller's: it holds at the tuned dims only
    offered.push_back(std::move(*same));
    owners.push_back(c);
  }
  const bool expensive = flops_of(there) > std::max(kMaxOtherFlops, flops_of(here)) || bytes_of(there) > kMaxOtherBytes;
  for (size_t k = 0; expensive && k < owners.size(); ++k) ++owners[k]->evidence.skipped;
  if (expensive || owners.empty()) return;
  for (Candidate& c : offered) list.push_back(&c);
  const std::vector<Verdict> verdicts = ask(there, list);
  for (size_t k = 0; k < owners.size(); ++k) {
    const Verdict& v = verdicts[k];
    Evidence& e = owners[k]->evidence;
    e.runs += v.evidence.runs;
    e.shared_runs += v.evidence.shared_runs;
    (v.tried ? e.shapes : e.skipped) += 1;
    if (v.tried && !v.evidence.rejected.empty())
      owners[k]->evidence.rejected = "at " + place_text(here, there) + ": " + v.evidence.rejected;
  }
}

}  // namespace peri::tune
