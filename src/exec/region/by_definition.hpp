// Runs a region at one size by the definitions of its ops: for the executor `reference`, and for data-dependent sizes
// that no kernel supports.
#pragma once

#include "exec/region/region_template.hpp"
#include "runtime/executor.hpp"

namespace peri::exec {

// REQUIRES: arguments as the region states them. `binds`: sizes of results are passed to the binder. Arguments that are
// `weights` are read from there. Errors of its runs have the `names` of the model.
Result<std::unique_ptr<runtime::Instance>> by_definition(BoundRegion region, std::vector<Tensor> weights, bool binds,
                                                         int64_t most_elements, ModelNames names);
// The same at sizes at which a kernel failed with `why`: with blocked layouts only where the results are empty.
Result<std::unique_ptr<runtime::Instance>> reference_instance(RegionTemplate& region, const DimBinding& binding,
                                                              std::vector<Tensor> weights, int64_t most_elements,
                                                              const Error& why);

}  // namespace peri::exec
