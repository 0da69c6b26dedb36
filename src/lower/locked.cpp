// A choice of a lock, and the candidate that it names.
#include <algorithm>

#include "exec/region/region_payload.hpp"
#include "lower/cover.hpp"

namespace peri::lower {

std::string layouts_text(const kernels::Offer& offer) {
  std::string out;
  for (size_t k = 0; k < offer.inputs.size(); ++k) out += (k ? "," : "") + exec::layout_code(offer.inputs[k]);
  out += "->";
  for (size_t k = 0; k < offer.outputs.size(); ++k) out += (k ? "," : "") + exec::layout_code(offer.outputs[k]);
  return out;
}

std::string layouts_among(const tune::Candidate& c, std::span<const tune::Candidate> all) {
  const std::string id = c.id(), own = layouts_text(c.offer);
  const bool alone = std::none_of(
      all.begin(), all.end(), [&](const tune::Candidate& o) { return o.id() == id && layouts_text(o.offer) != own; });
  if (alone) return "";
  std::string out;
  for (const auto* list : {&c.offer.inputs, &c.offer.outputs}) {
    out += list == &c.offer.inputs ? "" : " to ";
    for (const ir::Layout& l : *list)
      out += (&l == list->data() ? "" : ",") + (l.row_major() ? std::string("row-major") : exec::layout_code(l));
  }
  return out;
}

namespace {
// Gives the candidate the settings that `id` has, where it is the same one without them.
void take_settings(const std::string& id, tune::Candidate* c) {
  const size_t open = id.find('{');
  if (open == std::string::npos || !id.ends_with('}')) return;
  const std::string config = id.substr(open + 1, id.size() - open - 2);
  tune::Candidate with = *c;
  with.offer.config = config;
  if (with.id() == id && kernels::derived_config(*c->kernel, config) == c->offer.config) c->offer.config = config;
}
constexpr const char* kAgain = "build with --lock again";
}  // namespace

Status keep_choice(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                   std::vector<tune::Candidate>* list) {
  if (!target.has(choice.requires_isa))
    return refused("the lock needs %s, which this machine does not have", choice.requires_isa.c_str())
        .at_node(node)
        .advise(kAgain);
  for (tune::Candidate& c : *list) take_settings(choice.candidate, &c);
  std::erase_if(*list, [&](const tune::Candidate& c) {
    return c.id() != choice.candidate || layouts_text(c.offer) != choice.layouts;
  });
  if (list->empty())
    return refused("the lock names candidate '%s', which this version or machine does not offer",
                   choice.candidate.c_str())
        .at_node(node)
        .advise(kAgain);
  list->resize(1);
  kernels::Offer& offer = list->front().offer;
  if (offer.library != choice.library)
    return refused("the lock was made with another version of a library")
        .at_node(node)
        .expecting(choice.library)
        .but_found(offer.library)
        .advise(kAgain);
  // A lesser machine chose it: the engine asks for no more than it did.
  offer.requires_isa = choice.requires_isa;
  return Ok{};
}

}  // namespace peri::lower
